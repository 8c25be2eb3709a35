"""Lists whose scores are screened: the bits of lists of all scores, whatever the numbers, on every path."""

import time

import numpy as np
import pytest

from halfstep import _core

DTYPES = [np.float32, np.float64]
KINDS = [
    "plain",
    "ties",
    "power law",
    "zeros",
    "equal",
    "below zero",
    "one long row",
    "no numbers",
    "subnormal",
    "tiny",
]
KINDS += ["huge"]
FAR = {np.float32: 1e-20, np.float64: 1e-155}  # products of lengths leave the range of the type


def sides(kind, n_left, n_right, d, dtype, seed=0):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((n_left, d)), rng.standard_normal((n_right, d))
    if kind == "ties":
        left, right = np.rint(left), np.rint(right)
    elif kind == "power law":
        right *= np.exp(2 * rng.standard_normal((n_right, 1)))
        left *= np.exp(2 * rng.standard_normal(d))
    elif kind == "zeros":
        right[rng.random(n_right) < 0.5] = 0
        left[::3] = 0
    elif kind == "equal":
        left, right = np.ones_like(left), np.ones_like(right)
    elif kind == "no numbers":
        for value, share in ((np.nan, 0.01), (np.inf, 0.01), (-np.inf, 0.01)):
            right[rng.random(n_right) < share, rng.integers(d)] = value
        left[7, 3], left[9] = np.inf, np.nan
    elif kind == "below zero":
        left, right = abs(left), -abs(right)
    elif kind == "one long row":
        right[n_right // 2] *= 1e6
    elif kind == "subnormal":
        right *= float(np.finfo(dtype).tiny) / 16
    elif kind == "tiny":
        left, right = left * FAR[dtype], right * FAR[dtype]
    elif kind == "huge":
        left, right = left / FAR[dtype], right / FAR[dtype]
    with np.errstate(over="ignore"):
        return left.astype(dtype), right.astype(dtype)


def of_all_scores(left, right, k, *seen):
    """Lists as long as there are rows are never screened."""
    places, scores = _core.top_k(left, right, len(right), None, *seen, n_threads=1)
    return places[:, :k], scores[:, :k]


def assert_same_bits(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.tobytes() == np.ascontiguousarray(theirs).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_screened_lists_have_the_bits_of_lists_of_all_scores(instruction_set, kind, dtype):
    for d, n_left, n_right, k in ((16, 200, 600, 5), (33, 385, 1025, 64), (64, 130, 3001, 20), (130, 193, 2000, 10)):
        left, right = sides(kind, n_left, n_right, d, dtype, seed=d)
        found = _core.top_k(left, right, k, n_threads=2)
        assert_same_bits(found, of_all_scores(left, right, k))
        assert_same_bits(found, _core.top_k(left, right, k, n_threads=1))


@pytest.mark.parametrize("share", [0.02, 0.98, 1.0])
def test_screened_lists_leave_seen_items_out(instruction_set, share):
    left, right = sides("power law", 300, 900, 40, np.float32)
    mask = np.random.default_rng(1).random((300, 900)) < share
    mask[5] = True
    seen = np.append(0, np.cumsum(mask.sum(axis=1))).astype(np.int64), np.nonzero(mask)[1].astype(np.int32)
    places, scores = found = _core.top_k(left, right, 12, None, *seen, n_threads=2)
    assert_same_bits(found, of_all_scores(left, right, 12, *seen))
    assert (places[5] == -1).all()
    assert np.isnan(scores[5]).all()
    assert not mask[np.nonzero(places >= 0)[0], places[places >= 0]].any()


def test_screened_lists_of_some_rows_in_any_order():
    left, right = sides("plain", 400, 1000, 24, np.float32)
    rows = np.random.default_rng(0).integers(0, 400, 500)
    everybody = of_all_scores(left, right, 10)
    assert_same_bits(_core.top_k(left, right, 10, rows, n_threads=2), [each[rows] for each in everybody])


def test_a_score_just_above_the_bar_is_never_screened_out(instruction_set):
    """Rows of equal length whose scores differ in the last bits, so that bounds decide nothing."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((256, 48)).astype(np.float32)
    right = np.repeat(rng.standard_normal((1, 48)), 2000, axis=0).astype(np.float32)
    right[np.arange(2000), rng.integers(0, 48, 2000)] *= np.float32(1 + 1e-6)
    assert_same_bits(_core.top_k(left, right, 10, n_threads=2), of_all_scores(left, right, 10))


def test_paths_with_fused_products_agree_in_every_bit():
    left, right = sides("power law", 300, 2000, 64, np.float32)
    before, lists = _core.instruction_set(), []
    for path in set(_core.instruction_sets()) - {"baseline"}:
        _core.use_instruction_set(path)
        lists.append(_core.top_k(left, right, 10, n_threads=2))
    _core.use_instruction_set(before)
    for each in lists[1:]:
        assert_same_bits(each, lists[0])


@pytest.mark.heavy
@pytest.mark.skipif(_core.instruction_set() == "baseline", reason="this CPU has no products of bytes")
@pytest.mark.parametrize("kind", ["plain", "power law"])
def test_screening_saves_processor_time(kind):
    """Fewer than 128 rows at a time are not screened."""
    left, right = sides(kind, 1270, 6000, 256, np.float32)

    def seconds(rows):
        begun = time.process_time()
        for first in range(0, len(left), rows):
            _core.top_k(left[first : first + rows], right, 10, n_threads=1)
        return time.process_time() - begun

    found = np.min([(seconds(127), seconds(len(left))) for _ in range(3)], axis=0)
    assert found[1] < 0.8 * found[0], found
