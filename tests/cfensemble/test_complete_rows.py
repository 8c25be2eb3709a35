"""Rows that have every cell are solved side by side; the answer is that of solving them one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep import _core
from halfstep.engine.local import LabelCell, solve_rows
from halfstep.engine.problem import Problem, Side, Solver
from halfstep.observations import Observations


def solved(n, m, d, free, dtype, *, labelled, prior, per_cell, complete, threads=1, reg=0.3):
    rng = np.random.default_rng(n + 10 * m)
    own, other = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)
    targets = rng.normal(size=(n, m)).astype(dtype)
    weights = rng.uniform(0, 2, (n, m)).astype(dtype)
    weights[rng.random((n, m)) < 0.2] = 0
    order = np.arange(m) if complete else np.arange(m)[::-1]  # cells in another order are not taken as complete
    cells = Observations(
        (n, m),
        np.arange(n + 1, dtype=np.int64) * m,
        np.tile(order.astype(np.int32), n),
        np.ascontiguousarray(targets[:, order]).ravel(),
        np.ascontiguousarray(weights[:, order]).ravel() if per_cell else 1.5,
    )
    f = free[1] - free[0]
    side = Side(rng.uniform(reg, 2 * reg, n), free=free, prior=rng.normal(size=(n, f)) if prior else None)
    label = None
    if labelled:
        strength = np.where(rng.random(n) < 0.5, rng.uniform(0.1, 50, n), 0)
        label = LabelCell(rng.normal(size=d), (rng.random(n) < 0.5).astype(float), strength)
    problem = Problem(cells, (side, Side(1.0)))
    sums = solve_rows(problem, 0, own, other, Solver(), gram=None, evaluate=True, n_threads=threads, label=label)
    return own, sums


@pytest.mark.parametrize("isa", _core.instruction_sets())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "m", "d", "free"),
    [
        (2, 1, 1, (0, 1)),
        (19, 7, 3, (0, 3)),
        (64, 130, 9, (1, 8)),
        (9, 20, 40, (3, 38)),
        (33, 64, 24, (0, 23)),
        (3, 5, 98, (1, 97)),
    ],
)
@pytest.mark.parametrize("options", [0, 1, 2, 3])
def test_side_by_side_equals_one_by_one(isa, dtype, n, m, d, free, options):
    kinds = {"labelled": bool(options & 1), "prior": bool(options & 2), "per_cell": options != 2}
    before = _core.instruction_set()
    try:
        _core.use_instruction_set(isa)
        (a, together), (b, apart) = (solved(n, m, d, free, dtype, complete=c, **kinds) for c in (True, False))
    finally:
        _core.use_instruction_set(before)
    close = 2e-3 if dtype is np.float32 else 1e-9
    assert_allclose(a, b, rtol=close, atol=close)
    for name in ("data", "squares", "scores", "size", "change"):
        assert_allclose(together[name], apart[name], rtol=close)


def test_threads_do_not_change_the_bits():
    kinds = {"labelled": True, "prior": False, "per_cell": True, "complete": True}
    one, other = (solved(203, 50, 12, (1, 11), np.float32, threads=t, **kinds)[0] for t in (1, 4))
    assert np.array_equal(one, other)


def test_a_row_that_is_not_definite_is_repaired_or_named():
    """Two equal columns and no penalty to speak of: lanes fail and take the ordinary way, which repairs."""
    own, other = np.zeros((10, 2), np.float32), np.ones((5, 2), np.float32)
    cells = Observations(
        (10, 5), np.arange(11, dtype=np.int64) * 5, np.tile(np.arange(5, dtype=np.int32), 10), 1.0, 1.0
    )
    problem = Problem(cells, (Side(1e-12), Side(1.0)))
    sums = solve_rows(problem, 0, own, other, Solver(method="cholesky"), gram=None)
    assert sums["repaired"] == 10
    assert_allclose(own.sum(axis=1), 1, rtol=1e-3)
