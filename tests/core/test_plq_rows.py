"""Rows under PLQ and smooth losses: against scipy and the oracle, their gap, bounds, backgrounds, determinism."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from halfstep import _core, losses
from halfstep.core import oracle as _reference
from halfstep.core.cells import Observations
from halfstep.core.loop import measure
from halfstep.core.oracle import RowProblem, row_objective
from halfstep.engine import LocalEngine, Problem, Side, Solver

PIECEWISE = [
    losses.Absolute(),
    losses.Huber(0.5),
    losses.Quantile(0.3),
    losses.EpsilonInsensitive(0.3),
    losses.SquaredEpsilonInsensitive(0.3),
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.SmoothedHinge(0.5),
    losses.PLQ(relu=([1, -2, 0.5], [0, 0.3, -1]), rehu=([1.0], [1.0], [0.5])),
]
SMOOTH = [losses.Logistic(), losses.Bernoulli(), losses.Poisson()]
names = [repr(loss)[:24] for loss in PIECEWISE + SMOOTH]


def targets_for(loss: losses.Loss, n: int, rng: np.random.Generator) -> np.ndarray:
    if loss.form == "margin":
        return rng.choice([-1.0, 1.0], n)
    if isinstance(loss, losses.Bernoulli):
        return rng.random(n)
    return rng.poisson(2.0, n).astype(float) if isinstance(loss, losses.Poisson) else 2 * rng.normal(size=n)


def random_row(loss: losses.Loss, seed: int, max_cells: int = 40) -> tuple[RowProblem, np.ndarray, np.ndarray]:
    """A row problem over {weights} x {offset} x {background} x {prior mean} x {pinned}, the other side, its cells."""
    rng = np.random.default_rng(seed)
    d, size = int(rng.integers(1, 8)), int(rng.integers(8, 2 * max_cells))
    n = int(rng.integers(1, min(size, max_cells)))
    other, cells = rng.normal(size=(size, d)), np.sort(rng.choice(size, n, replace=False))
    free = (1, d - 1) if d > 3 and rng.random() < 0.5 else (0, d)
    problem = RowProblem(
        other[cells],
        targets_for(loss, n, rng),
        rng.choice([np.ones(n), rng.choice([0.0, 0.5, 3.0], n)]),
        loss,
        float(rng.choice([0.02, 0.5, 5.0])),
        offsets=rng.normal(size=n) if rng.random() < 0.5 else np.zeros(n),
        mu=rng.normal(size=free[1] - free[0]) if rng.random() < 0.5 else np.zeros(free[1] - free[0]),
        w0=float(rng.choice([0.0, 0.1])),
        gram=other.T @ other,
        free=free,
        own=rng.normal(size=d),
    )
    return problem, other, cells


def rounded(problem: RowProblem, other: np.ndarray, cells: np.ndarray, dtype: Any) -> tuple[RowProblem, np.ndarray]:
    """The problem in the numbers that the core is given, so that all solve the same one."""

    def cast(values: Any) -> np.ndarray:
        return np.asarray(values, dtype).astype(np.float64)

    other = cast(other)
    named = {name: cast(getattr(problem, name)) for name in ("targets", "weights", "offsets", "mu", "own")}
    return replace(problem, x=other[cells], gram=other.T @ other, lam=float(dtype(problem.lam)), **named), other


def solve(
    problem: RowProblem, other: np.ndarray, cells: np.ndarray, dtype: Any = np.float64, tolerance: float = 1e-8,
    start: float = 0.0, duals: np.ndarray | None = None, bounded: tuple[int, int] = (0, 0),
) -> tuple[np.ndarray, dict[str, float]]:  # fmt: skip
    """The core's row and its sums."""
    assert problem.own is not None
    assert problem.free is not None
    own = problem.own[None].astype(dtype)
    own[:, slice(*problem.free)] = start

    def plain(values: Any) -> Any:
        return np.ascontiguousarray(values, dtype)

    rows = _core.half_step(own, plain(other))
    rows.cells(
        np.array([0, len(cells)]), cells.astype(np.int32), plain(problem.targets), plain(problem.weights),
        plain(problem.offsets),
    )  # fmt: skip
    problem.loss.bind(rows)
    rows.columns(*problem.free)
    rows.nonnegative(*(problem.free[0] + column for column in bounded))
    rows.penalty(problem.lam)
    rows.prior(plain(problem.mu)[None])
    rows.background(problem.w0, plain(problem.gram))
    if duals is not None:
        rows.duals(duals)
    rows.method(_core.Method.exact, tolerance, 1000, 64)
    sums = rows.solve(True, 1)
    return own[0, slice(*problem.free)].astype(np.float64), sums


def scipy_bound(problem: RowProblem) -> float:
    """A lower bound of the optimum that scipy finds: the dual over the ReLU and ReHU pieces, a quadratic in a box.

    ReLU(x) = max over c in [0, 1] of c x, and ReHU_tau(x) = max over c in [0, tau] of c x - c^2/2.
    """
    assert isinstance(problem.loss, losses.PiecewiseLoss)
    Q, q, x, half = problem.parts()
    (u, v), (tau, s, t) = (tuple(np.asarray(p, float) for p in part) for part in problem.loss._composition())
    margin = problem.loss.form == "margin"
    sign = problem.targets if margin else np.ones(len(half))
    shift = sign * problem.scores(0.0) - (0.0 if margin else problem.targets)
    steep, add = np.concatenate([u, s]), np.concatenate([v, t])
    pull = (half * sign)[:, None, None] * x[:, None, :] * steep[:, None]  # (n, pieces, k)
    level = half[:, None] * (shift[:, None] * steep + add)
    curved = np.concatenate([np.zeros_like(u), np.ones_like(s)])
    zero = row_objective(np.zeros(len(q)), problem) - half @ problem.loss.value(problem.scores(0.0), problem.targets)
    inverse = np.linalg.inv(Q)

    def negative(flat: np.ndarray) -> tuple[float, np.ndarray]:
        c = flat.reshape(level.shape)
        right = q - np.einsum("np,npk->k", c, pull)
        b = inverse @ right
        value = zero - right @ b / 2 + np.sum(c * level - half[:, None] * curved * c**2 / 2)
        return -value, -(pull @ b + level - half[:, None] * curved * c).ravel()

    bounds = [(0, None if np.isinf(high) else high) for high in np.concatenate([np.ones_like(u), tau])] * len(half)
    options = {"maxiter": 20000, "maxfun": 200000, "ftol": 0, "gtol": 1e-9, "maxcor": 30}
    best = minimize(negative, np.zeros(level.size), jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    return float(-best.fun)


def scipy_smooth(problem: RowProblem, bounds: Any = None) -> float:
    Q, q, x, half = problem.parts()

    def gradient(b: np.ndarray) -> np.ndarray:
        return Q @ b - q + x.T @ (half * problem.loss.gradient(problem.scores(b), problem.targets))

    options = {"maxiter": 20000, "maxfun": 200000, "ftol": 0, "gtol": 1e-9}
    start = np.zeros(len(q))
    best = minimize(
        lambda b: row_objective(b, problem), start, jac=gradient, bounds=bounds, method="L-BFGS-B", options=options
    )
    return float(best.fun)


@pytest.mark.parametrize("loss", PIECEWISE, ids=names[: len(PIECEWISE)])
@pytest.mark.parametrize("seed", range(6))
def test_piecewise_rows_reach_the_bound_that_scipy_finds(loss: losses.Loss, seed: int) -> None:
    problem, other, cells = random_row(loss, seed, max_cells=25)
    b, sums = solve(problem, other, cells)
    value = row_objective(b, problem)
    assert value - scipy_bound(problem) <= 1e-6 * abs(value)
    assert sums["gap"] <= 1e-8


@pytest.mark.parametrize("loss", SMOOTH, ids=names[len(PIECEWISE) :])
@pytest.mark.parametrize("seed", range(10))
def test_smooth_rows_reach_the_optimum_that_scipy_finds(loss: losses.Loss, seed: int) -> None:
    problem, other, cells = random_row(loss, seed)
    b, sums = solve(problem, other, cells)
    best = scipy_smooth(problem)
    assert row_objective(b, problem) - best <= 1e-6 * abs(best)
    assert sums["gap"] <= 1e-8


@settings(max_examples=120, deadline=None)
@given(loss=st.sampled_from(PIECEWISE + SMOOTH), seed=st.integers(0, 10**6))
def test_the_reported_gap_bounds_the_distance_to_the_optimum(loss: losses.Loss, seed: int) -> None:
    problem, other, cells = random_row(loss, seed)
    try:
        exact = _reference.solve_row(problem)
    except ArithmeticError:  # the oracle gives up on a few
        assume(False)
    best = row_objective(exact, problem)
    size = 1e-9 + abs(best) + problem.weights @ np.abs(loss.value(problem.scores(exact), problem.targets))
    for tolerance in (1e-2, 1e-8):
        b, sums = solve(problem, other, cells, tolerance=tolerance)
        assert sums["gap"] <= tolerance
        assert row_objective(b, problem) - best <= (2 * sums["gap"] + 1e-12) * size
    b, sums = solve(problem, other, cells, np.float32, tolerance=1e-4)
    assert row_objective(b, problem) - best <= 1e-3 * size


@pytest.mark.parametrize("loss", [losses.Absolute(), losses.Hinge(), losses.Poisson()], ids=repr)
def test_integer_weights_equal_duplicates_and_zero_equals_absent(loss: losses.Loss) -> None:
    problem, other, cells = random_row(loss, 5)
    rng = np.random.default_rng(0)
    problem = replace(problem, weights=rng.integers(0, 4, len(cells)).astype(float), w0=0.0)
    repeat = np.repeat(np.arange(len(cells)), problem.weights.astype(int))
    copies = replace(
        problem, x=problem.x[repeat], targets=problem.targets[repeat], weights=np.ones(len(repeat)),
        offsets=np.asarray(problem.offsets)[repeat],
    )  # fmt: skip
    weighted, _ = solve(problem, other, cells, tolerance=1e-12)
    copied, _ = solve(copies, other, cells[repeat], tolerance=1e-12)
    np.testing.assert_allclose(weighted, copied, atol=1e-5)


@pytest.mark.parametrize(
    "loss", [losses.Squared(), losses.SquaredHinge(), losses.Logistic(), losses.Poisson()], ids=repr
)
@pytest.mark.parametrize("seed", range(8))
def test_bounded_rows_match_scipy(loss: losses.Loss, seed: int) -> None:
    problem, other, cells = random_row(loss, seed)
    k = problem.free[1] - problem.free[0]
    b, sums = solve(problem, other, cells, bounded=(0, k - k // 3))
    best = scipy_smooth(problem, [(0, None)] * (k - k // 3) + [(None, None)] * (k // 3))
    assert (b[: k - k // 3] >= 0).all()
    assert row_objective(b, problem) - best <= 1e-6 * abs(best)
    assert sums["gap"] <= 1e-8


@pytest.mark.parametrize("loss", PIECEWISE + SMOOTH, ids=names)
def test_rows_of_any_length_are_solved_by_every_instruction_set(instruction_set: str, loss: losses.Loss) -> None:
    """The last vector of cells is filled up with cells that count for nothing; under ranks of one vector and of two."""
    rng = np.random.default_rng(0)
    for n, d in [*((n, 3) for n in range(1, 35)), (50, 7), (50, 8), (50, 15), (50, 16), (50, 17), (70, 33)]:
        other = rng.normal(size=(n + 3, d)) / np.sqrt(d)
        cells, weights = np.arange(n), rng.choice([0.0, 0.5, 1.0], n)
        targets = targets_for(loss, n, rng)
        plain = {"offsets": np.zeros(n), "mu": np.zeros(d), "gram": np.zeros((d, d)), "own": np.zeros(d)}
        problem = RowProblem(other[cells], targets, weights, loss, 0.3, free=(0, d), **plain)
        exact, told = solve(problem, other, cells, tolerance=1e-8)
        assert told["gap"] <= 1e-7
        for dtype in (np.float32, np.float64):
            row, sums = solve(problem, other, cells, dtype, tolerance=1e-5)
            assert sums["stalled"] < 0
            best = row_objective(exact, problem)
            assert row_objective(row, problem) <= best + 1e-4 * abs(best) + 1e-6


@pytest.mark.parametrize("loss", PIECEWISE, ids=names[: len(PIECEWISE)])
def test_bounded_piecewise_rows_close_their_gap(loss: losses.Loss) -> None:
    for seed in range(8):
        problem, other, cells = random_row(loss, seed)
        k = problem.free[1] - problem.free[0]
        b, sums = solve(problem, other, cells, bounded=(0, k), tolerance=1e-7)
        assert (b >= 0).all()
        assert sums["gap"] <= 1e-7


def test_a_start_where_poisson_overflows_is_survived() -> None:
    problem, other, cells = random_row(losses.Poisson(), 3)
    far, _ = solve(problem, other, cells, start=1e4)
    near, _ = solve(problem, other, cells)
    np.testing.assert_allclose(far, near, atol=1e-3)


@pytest.mark.parametrize("loss", PIECEWISE + SMOOTH, ids=names)
def test_rows_that_say_nothing_return_the_prior_mean(loss: losses.Loss) -> None:
    problem, other, cells = random_row(loss, 1)
    k = problem.free[1] - problem.free[0]
    problem = replace(problem, weights=np.zeros(len(cells)), w0=0.0, mu=np.arange(1.0, k + 1))
    np.testing.assert_allclose(solve(problem, other, cells)[0], np.arange(1.0, k + 1))
    still = replace(problem, weights=np.ones(len(cells)))  # cells whose x is zero
    np.testing.assert_allclose(solve(still, np.zeros_like(other), cells)[0], np.arange(1.0, k + 1))


def test_targets_already_met_cost_nothing() -> None:
    problem, other, cells = random_row(losses.Absolute(), 2)
    problem = replace(problem, targets=np.zeros(len(cells)), offsets=np.zeros(len(cells)), w0=0.0)
    problem = replace(problem, own=np.zeros(other.shape[1]), mu=np.zeros_like(problem.mu))
    b, sums = solve(problem, other, cells)
    assert not b.any()
    assert sums["gap"] == 0


def test_rows_longer_than_the_turned_panel_are_walked_by_index() -> None:
    rng = np.random.default_rng(0)
    n, d = 300_000, 8
    other, row = rng.normal(size=(n, d)), rng.normal(size=d)
    targets = other @ row + rng.laplace(size=n) * 0.1
    problem = RowProblem(other, targets, np.ones(n), losses.Absolute(), 1.0, np.zeros(n), np.zeros(d), 0.0,
                         other.T @ other, (0, d), np.zeros(d))  # fmt: skip
    b, sums = solve(problem, other, np.arange(n), np.float32, 1e-5)
    assert sums["gap"] <= 1e-5
    np.testing.assert_allclose(b, row, atol=5e-3)


# ---------------------------------------------------------------------- whole problems


def cells_of(loss: losses.Loss, n: int = 40, m: int = 30, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((n, m)) < 0.3)
    return rows, columns, targets_for(loss, len(rows), rng), rng.random(len(rows)) + 0.5


def session_of(
    loss: losses.Loss, background: float, threads: int = 1, dtype: Any = np.float64, tolerance: float = 1e-9
):
    rows, columns, targets, weights = cells_of(loss)
    cells = Observations.from_cells(rows, columns, (40, 30), targets, weights, dtype=dtype)
    rng = np.random.default_rng(1)
    factors = [(0.3 * rng.normal(size=(size, 5))).astype(dtype) for size in (40, 30)]
    factors[0][:, 0] = factors[1][:, -1] = 1
    problem = Problem(cells, (Side(0.7, (1, 5)), Side(0.4, (0, 4))), loss, background)
    return LocalEngine(threads).open(problem, factors, Solver(tolerance=tolerance))


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Absolute(), losses.Logistic(), losses.Poisson()], ids=repr)
@pytest.mark.parametrize("background", [0.0, 0.2])
def test_sweeps_match_the_oracle_and_never_rise(loss: losses.Loss, background: float) -> None:
    session = session_of(loss, background)
    U, V = (f.copy() for f in session.factors)
    rows, columns, targets, weights = cells_of(loss)
    _, _, expected = _reference.alternate(
        U, V, rows, columns, targets, weights, background, 0.7, 0.4, loss, (1, 5), (0, 4), sweeps=3
    )
    found = [measure(session, session.half_step(side % 2, evaluate=True))["objective"] for side in range(6)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (np.diff(found) <= 1e-9 * np.abs(found[1:])).all()


@pytest.mark.parametrize("loss", PIECEWISE + SMOOTH, ids=names)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_give_the_same_bits(loss: losses.Loss, dtype: Any) -> None:
    one, many = (session_of(loss, 0.1, threads, dtype, 1e-4) for threads in (1, 3))
    for side in (0, 1, 0, 1):
        assert one.half_step(side, True) == many.half_step(side, True)
    np.testing.assert_array_equal(one.factors[0], many.factors[0])


def test_duals_of_the_last_sweep_save_steps() -> None:
    session = session_of(losses.Absolute(), 0.0, tolerance=1e-6)
    for _ in range(30):
        session.half_step(0)
        session.half_step(1)
    kept = session.half_step(0)["steps"]
    session._duals = [None, None]
    session.factors[0][:, 1:] = 0
    assert kept < 0.5 * session.half_step(0)["steps"]


def test_a_sweep_of_loose_steps_still_never_rises() -> None:
    session = session_of(losses.Absolute(), 0.0, dtype=np.float32, tolerance=0.05)
    found = [measure(session, session.half_step(side % 2, evaluate=True))["objective"] for side in range(40)]
    assert (np.diff(found) <= 1e-6 * found[-1]).all()
