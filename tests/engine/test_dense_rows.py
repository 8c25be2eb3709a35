"""Rows of a table are solved side by side, straight from the table; the answer is that of solving them one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from halfstep import _core
from halfstep.core import oracle as _reference
from halfstep.core.cells import DenseCells, Observations
from halfstep.core.losses import Huber, Squared
from halfstep.core.problem import Problem, Side, Solver
from halfstep.engine.local import LabelCell, evaluate_cells, normal_equations, solve_rows


def make_table(rng, n, m, dtype, *, per_cell=True, missing=0.0, by_column=False):
    """A table with zero weights among the others; `by_column` lays it out as the transpose of an array is."""
    targets = rng.normal(size=(n, m)).astype(dtype)
    targets[rng.random((n, m)) < missing] = np.nan
    weights = rng.uniform(0, 2, (n, m)).astype(dtype)
    weights[rng.random((n, m)) < 0.2] = 0
    if by_column:
        targets, weights = np.asfortranarray(targets), np.asfortranarray(weights)
    return DenseCells(targets, weights if per_cell else 1.5)


def sparse(table):
    """The same cells, listed."""
    rows, columns = np.nonzero(~np.isnan(table.targets))
    weights = table.weights
    flat = weights[rows, columns] if isinstance(weights, np.ndarray) else weights
    targets = table.targets[rows, columns]
    return Observations.from_cells(rows, columns, table.shape, targets, flat, dtype=targets.dtype)


def nothing(shape):
    return Observations(shape, np.zeros(shape[0] + 1, np.int64), np.zeros(0, np.int32))


def make_rows(rng, n, m, d, free, dtype, *, labelled=False, prior=False, reg=0.3):
    """Factors of both sides, the problem without its cells, and a label cell or None."""
    own, other = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)
    f = free[1] - free[0]
    side = Side(rng.uniform(reg, 2 * reg, n), free=free, prior=rng.normal(size=(n, f)) if prior else None)
    label = None
    if labelled:
        strength = np.where(rng.random(n) < 0.5, rng.uniform(0.1, 50, n), 0)
        label = LabelCell(rng.normal(size=d), (rng.random(n) < 0.5).astype(float), strength)
    return own, other, Problem(nothing((n, m)), (side, Side(1.0))), label


def solved(cells, own, other, problem, label=None, threads=1):
    own = own.copy()
    sums = solve_rows(
        problem, 0, own, other, Solver(), gram=None, evaluate=True, n_threads=threads, cells=cells, label=label
    )
    return own, sums


SHAPES = [
    (1, 1, 1, (0, 1)),
    (1, 40, 5, (1, 4)),
    (2, 1, 1, (0, 1)),
    (19, 7, 3, (0, 3)),
    (64, 130, 9, (1, 8)),
    (9, 20, 40, (3, 38)),
    (33, 64, 24, (0, 23)),
    (3, 5, 98, (1, 97)),
    (5, 900, 6, (0, 5)),
    (300, 65, 4, (1, 4)),
]


@pytest.mark.parametrize("isa", _core.instruction_sets())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "d", "free"), SHAPES)
@pytest.mark.parametrize("options", [0, 1, 2, 3])
def test_side_by_side_equals_one_by_one(isa, dtype, n, m, d, free, options):
    rng = np.random.default_rng(n + 10 * m)
    by_column, missing = options in (1, 2), 0.3 * (options in (2, 3))
    table = make_table(rng, n, m, dtype, per_cell=options != 2, missing=missing, by_column=by_column)
    case = make_rows(rng, n, m, d, free, dtype, labelled=bool(options & 1), prior=bool(options & 2))
    before = _core.instruction_set()
    try:
        _core.use_instruction_set(isa)
        (a, together), (b, apart) = (solved(cells, *case) for cells in (table, sparse(table)))
    finally:
        _core.use_instruction_set(before)
    close = 2e-3 if dtype is np.float32 else 1e-9
    assert_allclose(a, b, rtol=close, atol=close)
    for name in ("data", "squares", "scores", "shaken", "size", "change"):
        assert_allclose(together[name], apart[name], rtol=close, atol=1e-12)


@given(st.integers(1, 70), st.integers(1, 90), st.integers(1, 12), st.booleans(), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_row_is_that_of_the_reference(n, m, f, by_column, pinned, seed):
    """Against the NumPy oracle, row by row: weights of zero, missing cells, biases on either side, ranks up to m."""
    rng = np.random.default_rng(seed)
    f = min(f, m)
    d, free = (f + 2, (1, f + 1)) if pinned else (f, (0, f))
    table = make_table(rng, n, m, np.float64, missing=0.3, by_column=by_column)
    own, other, problem, _ = make_rows(rng, n, m, d, free, np.float64, prior=True)
    found, _ = solved(table, own, other, problem)
    for i in rng.permutation(n)[:5]:
        seen = ~np.isnan(table.targets[i])
        row = _reference.RowProblem(
            other[seen],
            table.targets[i, seen],
            table.weights[i, seen],
            Squared(),
            problem.sides[0].penalty[i],
            mu=problem.sides[0].prior[i],
            free=free,
            own=own[i],
        )
        assert_allclose(found[i, free[0] : free[1]], _reference.solve_row(row), rtol=1e-7, atol=1e-9)
        pinned_columns = np.r_[0 : free[0], free[1] : d]
        assert np.array_equal(found[i, pinned_columns], own[i, pinned_columns])


@given(st.integers(1, 400), st.integers(1, 700), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_threads_do_not_change_the_bits(n, m, by_column, seed):
    rng = np.random.default_rng(seed)
    table = make_table(rng, n, m, np.float32, missing=0.1, by_column=by_column)
    case = make_rows(rng, n, m, 6, (1, 5), np.float32, labelled=True)
    (one, sums), *others = (solved(table, *case, threads=t) for t in (1, 2, 5))
    for other, more in others:
        assert np.array_equal(one, other)
        assert sums == more


@pytest.mark.parametrize(("n", "m"), [(5, 900), (90, 40), (40, 1)])
def test_costs_and_quadratics_are_those_of_the_cells(n, m):
    rng = np.random.default_rng(0)
    table = make_table(rng, n, m, np.float64, missing=0.2)
    own, other, problem, _ = make_rows(rng, n, m, 7, (1, 6), np.float64)
    z = own @ other.T
    gap = np.where(np.isnan(table.targets), 0, table.targets - z)
    sums = evaluate_cells(problem, own, other, 2, table)
    assert_allclose(sums["data"], (table.weights * gap**2).sum())
    assert_allclose(sums["squares"], (gap**2).sum())
    assert_allclose(sums["scores"], (z**2)[~np.isnan(table.targets)].sum())
    for one, two in zip(*(normal_equations(c, own, other, (1, 6), 2) for c in (table, sparse(table))), strict=True):
        assert_allclose(one, two, rtol=1e-10, atol=1e-10)


def test_a_row_that_is_not_definite_is_repaired_or_named():
    """Two equal columns and no penalty to speak of: lanes fail and take the ordinary way, which repairs."""
    own, other = np.zeros((10, 2), np.float32), np.ones((5, 2), np.float32)
    problem = Problem(nothing((10, 5)), (Side(1e-12), Side(1.0)))
    found, sums = solved(DenseCells(np.ones((10, 5), np.float32)), own, other, problem)
    assert sums["repaired"] == 10
    assert_allclose(found.sum(axis=1), 1, rtol=1e-3)


def test_rows_without_cells_or_penalty_stay_finite():
    rng = np.random.default_rng(3)
    table = make_table(rng, 40, 12, np.float32)
    table.targets[7] = np.nan
    own, other, problem, _ = make_rows(rng, 40, 12, 3, (0, 3), np.float32)
    found, _ = solved(table, own, other, problem)
    assert np.array_equal(found[7], np.zeros(3))
    free = replace(problem, sides=(replace(problem.sides[0], penalty=0.0), problem.sides[1]))
    kept = ~np.isnan(table.targets).all(axis=1)
    found, _ = solved(DenseCells(table.targets[kept], table.weights[kept]), own[kept], other, free)
    alone, _ = solved(sparse(DenseCells(table.targets[kept], table.weights[kept])), own[kept], other, free)
    assert_allclose(found, alone, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda rows: rows.table(np.zeros((3, 5)), 1.0), "a row for each row of own"),
        (lambda rows: rows.table(np.zeros((6, 8))[::2, ::2], 1.0), "contiguous along its rows or its columns"),
        (lambda rows: rows.table(np.zeros((3, 4)), np.ones((4, 3)).T), "in the order of its targets"),
        (lambda rows: (rows.table(np.zeros((3, 4)), 1.0), rows.table(np.zeros((3, 4)), 1.0)), "given already"),
        (lambda rows: (rows.table(np.zeros((3, 4)), 1.0), rows.duals(np.zeros(12))), "one value for each cell"),
        (lambda rows: (rows.table(np.zeros((3, 4)), 1.0), rows.background(1.0, np.eye(2))), "without background"),
        (lambda rows: (rows.table(np.zeros((3, 4)), 1.0), Solver("cg").bind(rows)), "exact rows"),
        (lambda rows: (rows.table(np.zeros((3, 4)), 1.0), Huber().bind(rows)), "needs the squared loss"),
    ],
)
def test_what_a_table_cannot_be_is_named(fill, message):
    rows = _core.half_step(np.zeros((3, 2)), np.ones((4, 2)))
    rows.penalty(1.0)
    with pytest.raises(ValueError, match=message):
        (fill(rows), rows.solve(True, 1))
