"""The compiled core's other functions: scores, grouping, rotation, instruction sets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from halfstep import _core

DTYPES = [np.float32, np.float64]


def brute_force(left, right, k, seen=None):
    """Best k by score, the lower index first among equals; -1 and NaN where nothing is left."""
    scores = left.astype(float) @ right.astype(float).T
    if seen is not None:
        scores[seen] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, order, axis=1)
    gone = np.isneginf(best)
    best, order = np.where(gone, np.nan, best), np.where(gone, -1, order)
    wide = ((0, 0), (0, k - order.shape[1]))
    return np.pad(order, wide, constant_values=-1), np.pad(best, wide, constant_values=np.nan)


def masked(seen):
    indptr = np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(seen)[1].astype(np.int32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 9, 16, 31, 33, 64, 70])
def test_top_k_equals_sorting(instruction_set, d, dtype):
    rng = np.random.default_rng(d)
    for n_left, n_right, k in ((1, 1, 1), (7, 5, 9), (3, 257, 10), (300, 131, 40), (5, 1025, 1025)):
        left = rng.integers(-3, 4, (n_left, d)).astype(dtype)  # small integers: scores are exact and ties abound
        right = rng.integers(-3, 4, (n_right, d)).astype(dtype)
        for density in (0.0, 0.3, 1.0):
            seen = rng.random((n_left, n_right)) < density
            places, scores = _core.top_k(left, right, k, None, *masked(seen), n_threads=2)
            expected = brute_force(left, right, k, seen)
            assert_array_equal(places, expected[0])
            assert_array_equal(scores, expected[1].astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k_of_real_numbers(dtype):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(40, 19)).astype(dtype), rng.normal(size=(777, 19)).astype(dtype)
    places, scores = _core.top_k(left, right, 15, n_threads=1)
    expected = brute_force(left, right, 15)
    assert_allclose(scores, expected[1], rtol=1e-4 if dtype == np.float32 else 1e-12)
    assert np.mean(places == expected[0]) > 0.99  # rounding may swap neighbours
    many = _core.top_k(left, right, 15, n_threads=3)
    assert_array_equal(many[0], places)


def test_top_k_of_some_rows():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(9, 4)), rng.normal(size=(20, 4))
    rows = np.array([8, 0, 8], np.int64)
    assert_array_equal(_core.top_k(left, right, 3, rows, n_threads=1)[0], brute_force(left[rows], right, 3)[0])


def test_top_k_without_anything_to_choose_from():
    places, scores = _core.top_k(np.ones((2, 3)), np.zeros((0, 3)), 2, n_threads=1)
    assert_array_equal(places, -np.ones((2, 2)))
    assert np.isnan(scores).all()
    assert _core.top_k(np.zeros((0, 3)), np.ones((4, 3)), 2, n_threads=1)[0].shape == (0, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 5, 8, 37])
def test_pair_scores(instruction_set, d, dtype):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(11, d)).astype(dtype), rng.normal(size=(13, d)).astype(dtype)
    rows, columns = rng.integers(0, 11, 100), rng.integers(0, 13, 100)
    found = _core.pair_scores(left, right, rows, columns, 2)
    assert_allclose(found, (left @ right.T)[rows, columns], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 6, 17, 40])
def test_gram_and_rotation(instruction_set, d, dtype):
    rng = np.random.default_rng(d)
    x = rng.normal(size=(5000, d)).astype(dtype)
    exact = x.astype(float).T @ x.astype(float)
    assert_allclose(_core.gram(x, 2), exact, rtol=1e-4, atol=5e-3 if dtype == np.float32 else 1e-8)
    start, f = d // 3, d - d // 2
    basis = np.linalg.qr(rng.normal(size=(f, f)))[0].astype(dtype)
    turned = x.copy()
    _core.rotate(turned, basis, start, 2)
    expected = x.copy()
    expected[:, start : start + f] = x[:, start : start + f] @ basis
    assert_allclose(turned, expected, atol=1e-5)


def test_grouping_keeps_the_order_of_equals():
    keys, indices = np.array([2, 0, 2, 2], np.int32), np.array([9, 8, 9, 7], np.int32)
    indptr, grouped, (values,) = _core.group_cells(keys, indices, 4, [np.array([1.0, 2, 3, 4])])
    assert_array_equal(indptr, [0, 1, 1, 4, 4])
    assert_array_equal(grouped, [8, 9, 9, 7])
    assert_array_equal(values, [2, 1, 3, 4])


def test_instruction_sets_end_with_the_baseline():
    names = _core.instruction_sets()
    assert names[-1] == "baseline"
    assert _core.instruction_set() in names
    with pytest.raises(ValueError, match="no such instruction set"):
        _core.use_instruction_set("avx1024")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("items", [1, 63, 129, 1000])
def test_the_best_are_found_among_ties_infinities_and_what_is_no_number(dtype, items, instruction_set):
    rng = np.random.default_rng(items)
    left, right = np.ones((300, 1), dtype), rng.integers(-40, 40, (items, 1)).astype(dtype)
    right[rng.random(items) < 0.02] = np.nan
    right[rng.random(items) < 0.02] = -np.inf
    right[rng.random(items) < 0.02] = np.inf
    left[::2] = -1
    indices, scores = _core.top_k(left, right, 7, n_threads=1)
    for sign, found, values in ((-1, indices[0], scores[0]), (1, indices[1], scores[1])):
        of = sign * right[:, 0]
        there = np.flatnonzero(of > -np.inf)
        best = there[np.argsort(-of[there], kind="stable")][:7]
        assert found.tolist() == [*best, *[-1] * (7 - len(best))]
        assert values[: len(best)].tolist() == of[best].tolist()
