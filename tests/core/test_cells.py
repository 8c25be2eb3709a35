"""Cells in both orientations, from any order, in linear time."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from halfstep.core.cells import MAX_INDEX, Observations, check_size


@st.composite
def cell_lists(draw):
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    count = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.integers(0, n, count), rng.integers(0, m, count), (n, m), rng.normal(size=count), rng.random(count)


def triples(cells):
    """Every cell as (row, column, target, weight), in the order they are kept."""
    rows = np.repeat(np.arange(cells.shape[0]), cells.counts)
    targets, weights = (np.broadcast_to(v, len(cells)) for v in (cells.targets, cells.weights))
    return list(zip(rows.tolist(), cells.indices.tolist(), targets.tolist(), weights.tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(cell_lists())
def test_cells_come_back_sorted_and_both_orientations_agree(given_cells):
    rows, columns, shape, targets, weights = given_cells
    cells = Observations.from_cells(rows, columns, shape, targets, weights, dtype=np.float64)
    expected = sorted(zip(rows.tolist(), columns.tolist(), range(len(rows)), strict=True))  # repeats keep their order
    order = [k for _, _, k in expected]
    assert triples(cells) == [(r, c, targets[k], weights[k]) for r, c, k in expected]
    assert cells.indptr.dtype == np.int64
    assert cells.indices.dtype == np.int32
    assert_array_equal(cells.counts, np.bincount(rows, minlength=shape[0]))
    turned = cells.T
    assert turned.shape == shape[::-1]
    assert sorted((c, r, t, w) for r, c, t, w in triples(cells)) == sorted(triples(turned))
    assert all(np.all(np.diff(part) >= 0) for part in np.split(turned.indices, turned.indptr[1:-1]))
    assert len(order) == len(cells)


def test_transposing_twice_is_the_same_object():
    cells = Observations.from_cells(np.array([0, 1]), np.array([1, 0]), (2, 2))
    assert cells.T is cells.T
    assert cells.T.T is cells


@settings(max_examples=40, deadline=None)
@given(cell_lists())
def test_repeated_cells_are_summed_where_asked(given_cells):
    rows, columns, shape, targets, weights = given_cells
    cells = Observations.from_cells(rows, columns, shape, targets, weights, duplicates="sum", dtype=np.float64)
    dense = np.zeros(shape)
    np.add.at(dense, (rows, columns), weights)
    assert_allclose(cells.to_csr().toarray(), dense)
    assert len(cells) == len(set(zip(rows.tolist(), columns.tolist(), strict=True)))
    plain = Observations.from_cells(rows, columns, shape, duplicates="sum")  # one number for all
    times = np.zeros(shape)
    np.add.at(times, (rows, columns), 1)
    assert_allclose(plain.to_csr().toarray(), times)


@settings(max_examples=40, deadline=None)
@given(cell_lists(), st.randoms())
def test_take_gives_rows_in_any_order_and_repeatedly(given_cells, random):
    rows, columns, shape, targets, weights = given_cells
    cells = Observations.from_cells(rows, columns, shape, targets, weights, dtype=np.float64)
    wanted = np.array([random.randrange(shape[0]) for _ in range(random.randrange(6))], np.int64)
    taken = cells.take(wanted)
    assert taken.shape == (len(wanted), shape[1])
    by_row = {r: [(c, t, w) for row, c, t, w in triples(cells) if row == r] for r in range(shape[0])}
    assert triples(taken) == [(k, *cell) for k, r in enumerate(wanted) for cell in by_row[r]]


def test_one_number_for_all_cells_stays_one_number():
    cells = Observations.from_cells(np.array([1, 0]), np.array([0, 0]), (2, 1), targets=1.0, weights=2.5)
    assert cells.weights == cells.T.weights == cells.take(np.array([1])).weights == 2.5
    assert cells.astype(np.float64).targets == 1.0


def test_astype_changes_both_orientations():
    cells = Observations.from_cells(np.array([1, 0]), np.array([0, 0]), (2, 1), weights=np.array([1.0, 2.0]))
    assert cells.T.weights.dtype == np.float32
    assert cells.astype(np.float64).T.weights.dtype == np.float64


def test_weights_from_a_canonical_float32_csr_are_not_copied():
    matrix = sp.csr_array(np.array([[1, 0, 2], [0, 3, 0]], np.float32))
    cells = Observations.from_weights(matrix)
    assert np.shares_memory(cells.weights, matrix.data)
    assert np.shares_memory(cells.indices, matrix.indices)


def test_from_weights_leaves_the_matrix_alone():
    matrix = sp.csr_array((np.array([1.0, 0.0, 2.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    cells = Observations.from_weights(matrix)
    assert triples(cells) == [(0, 2, 1.0, 3.0)]
    assert_array_equal(matrix.data, [1, 0, 2])
    assert_array_equal(matrix.indices, [2, 0, 2])


def test_csr_keeps_float64():
    value = 1 + 1e-12
    rows = np.arange(2)
    for weights in (np.array([value, 2.0]), value):
        cells = Observations.from_cells(rows, rows, (2, 2), weights=weights, dtype=np.float64)
        assert cells.to_csr()[0, 0] == value
    assert Observations.from_cells(rows, rows, (2, 2)).to_csr().dtype == np.float32


@pytest.mark.parametrize(("shape", "side"), [((MAX_INDEX + 1, 3), "rows"), ((3, MAX_INDEX + 1), "columns")])
def test_more_rows_than_int32_are_refused(shape, side):
    message = rf"the matrix has 2,147,483,648 {side}; at most 2,147,483,647 fit"
    with pytest.raises(ValueError, match=message):
        check_size(shape)
    with pytest.raises(ValueError, match=message):
        Observations.from_cells(np.zeros(1, np.int64), np.zeros(1, np.int64), shape)
    check_size((MAX_INDEX, MAX_INDEX))


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([0, 2], [0, 0], r"rows run from 0 to 2; a matrix of shape \(2, 3\) has rows 0 to 1"),
        ([-1], [0], "rows run from -1 to -1"),
        ([0], [3], "columns run from 3 to 3; .* has columns 0 to 2"),
        ([0], [2**32], "columns run from 4294967296"),
    ],
)
def test_coordinates_outside_the_shape_are_refused(rows, columns, message):
    with pytest.raises(ValueError, match=message):
        Observations.from_cells(np.array(rows), np.array(columns), (2, 3))


def test_a_rule_by_row_gets_the_counts():
    cells = Observations.from_cells(np.array([0, 0, 2]), np.array([0, 1, 1]), (3, 2))
    assert_array_equal(cells.per_row(lambda counts: counts * 2.0), [4, 0, 2])
