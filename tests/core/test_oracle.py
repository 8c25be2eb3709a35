"""The oracle itself: its optima are checked by scipy, by closed forms and by bounds that need no solver."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linprog, minimize

from halfstep import losses
from halfstep.core.oracle import (
    RowProblem,
    alternate,
    half_step,
    objective,
    row_gap,
    row_objective,
    solve_row,
)

LOSSES = [
    losses.Squared(),
    losses.Absolute(),
    losses.Huber(0.5),
    losses.Quantile(0.2),
    losses.EpsilonInsensitive(0.3),
    losses.SquaredEpsilonInsensitive(0.3),
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.SmoothedHinge(),
    losses.PLQ(relu=([1, -2], [-1, -3]), rehu=([0.5, math.inf], [1.5, -0.7], [0.2, -0.4])),
    losses.Logistic(),
    losses.Bernoulli(),
    losses.Poisson(),
]


def draw_targets(loss, rng, n):
    if loss.form == "margin":
        return rng.choice([-1.0, 1.0], n)
    return rng.random(n) if loss.name == "bernoulli" else rng.integers(0, 5, n).astype(float)


def random_problem(loss, seed, *, weighted=True, offset=True, background=True, prior=True, pinned=True):
    rng = np.random.default_rng(seed)
    d, others, n = 5, 20, 12
    everyone = rng.normal(size=(others, d))
    free = (1, d) if pinned else (0, d)
    return RowProblem(
        x=everyone[rng.permutation(others)[:n]],
        targets=draw_targets(loss, rng, n),
        weights=rng.choice([0.0, 0.5, 1.0, 2.0], n) if weighted else np.ones(n),
        loss=loss,
        lam=float(10 ** rng.uniform(-2, 1)),
        offsets=rng.normal(size=n) if offset else 0.0,
        mu=rng.normal(size=free[1] - free[0]) if prior else 0.0,
        w0=0.3 if background else 0.0,
        gram=everyone.T @ everyone,
        free=free,
        own=rng.normal(size=d),
    )


def relative_gap(b, problem):
    return row_gap(b, problem) / abs(row_objective(b, problem))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("seed", range(8))
def test_solve_row_is_optimal(loss, seed):
    switches = {name: bool(seed >> bit & 1) for bit, name in enumerate(["offset", "background", "pinned"])}
    problem = random_problem(loss, seed, **switches)
    b = solve_row(problem)
    assert relative_gap(b, problem) < 1e-10
    rng = np.random.default_rng(seed)  # and, needing no theory: nothing nearby is better
    nearby = b + rng.normal(size=(50, len(b))) * 10.0 ** rng.uniform(-6, 0, (50, 1))
    assert min(row_objective(point, problem) for point in nearby) >= row_objective(b, problem) * (1 - 1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_solve_row_is_at_least_as_good_as_scipy(loss):
    problem = random_problem(loss, 11)
    b = solve_row(problem)
    found = minimize(
        row_objective,
        b + 0.3,
        args=(problem,),
        method="Nelder-Mead",
        options={"maxiter": 4000, "maxfev": 4000, "xatol": 1e-9, "fatol": 1e-12, "adaptive": True},
    )
    assert row_objective(b, problem) <= found.fun * (1 + 1e-12)
    assert found.fun <= row_objective(b, problem) * (1 + 1e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_gap_bounds_the_true_excess(loss):
    problem = random_problem(loss, 3)
    best = solve_row(problem)
    for scale in (1e-3, 1e-1, 1.0):
        b = best + scale
        excess = row_objective(b, problem) - row_objective(best, problem)
        assert excess > 0
        assert row_gap(b, problem) >= excess * (1 - 1e-9)


def test_absolute_loss_without_penalty_is_the_linear_program():
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(15, 3)), rng.normal(size=15)
    b = solve_row(RowProblem(x, t, np.ones(15), losses.Absolute(), lam=1e-7))
    above_and_below = np.block([[x, -np.eye(15)], [-x, -np.eye(15)]])
    costs = np.concatenate([np.zeros(3), np.ones(15)])
    program = linprog(costs, above_and_below, np.concatenate([t, -t]), bounds=[(None, None)] * 3 + [(0, None)] * 15)
    assert np.abs(x @ b - t).sum() == pytest.approx(program.fun, rel=1e-6)


def test_one_dimension_by_hand():
    one = np.ones((3, 1))
    row = RowProblem(one, np.array([0.0, 1.0, 5.0]), np.ones(3), losses.Absolute(), lam=0.1)
    assert_allclose(solve_row(row), [1.0])  # the median: slope 0.1 of the penalty is within its kink
    row = RowProblem(one, np.array([0.0, 1.0, 5.0]), np.ones(3), losses.Squared(), lam=1.0, mu=2.0)
    assert_allclose(solve_row(row), [2.0])  # (6 + 1 * 2) / 4
    row = RowProblem(one[:1], np.array([1.0]), np.ones(1), losses.Hinge(), lam=2.0)
    assert_allclose(solve_row(row), [0.25])  # lam b = w / 2


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_integer_weights_equal_duplicates_and_weight_zero_equals_absent(loss):
    problem = random_problem(loss, 5, background=False)
    times = np.arange(len(problem.targets)) % 4
    weighted = RowProblem(**{**vars(problem), "weights": times.astype(float)})
    repeated = RowProblem(
        **{
            **vars(problem),
            "x": problem.x.repeat(times, axis=0),
            "targets": problem.targets.repeat(times),
            "offsets": np.repeat(problem.offsets, times),
            "weights": np.ones(times.sum()),
        }
    )
    assert_allclose(solve_row(weighted), solve_row(repeated), rtol=1e-6, atol=1e-8)


def test_background_without_gram_is_refused():
    with pytest.raises(ValueError, match="w0 > 0 needs gram"):
        solve_row(RowProblem(np.ones((1, 1)), np.ones(1), np.ones(1), losses.Squared(), lam=1.0, w0=0.5))


def matrix_problem(loss, seed=0, w0=0.2):
    """A small matrix with a bias on both sides: own [1 | shared | bias], other [bias | shared | 1]."""
    rng = np.random.default_rng(seed)
    m, n, d = 6, 5, 4
    U, V = rng.normal(size=(m, d)), rng.normal(size=(n, d))
    U[:, 0] = V[:, -1] = 1.0
    rows, cols = np.nonzero(rng.random((m, n)) < 0.5)
    targets, weights = draw_targets(loss, rng, len(rows)), rng.choice([0.5, 1.0, 2.0], len(rows))
    lam_own, lam_other = rng.uniform(0.2, 1, m), rng.uniform(0.2, 1, n)
    return U, V, (rows, cols, targets, weights, w0, lam_own, lam_other, loss, (1, d), (0, d - 1))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_objective_is_the_sum_over_cells_and_twice_the_row_problems(loss):
    U, V, problem = matrix_problem(loss)
    rows, cols, targets, weights, w0, lam_own, lam_other, *_ = problem
    expected = 0.0
    observed = dict(zip(zip(rows, cols, strict=True), zip(targets, weights, strict=True), strict=True))
    for i, u in enumerate(U):
        expected += lam_own[i] * (u[1:] @ u[1:])
        for j, v in enumerate(V):
            t, w = observed.get((i, j), (0.0, 0.0))
            expected += w * loss.value(u @ v, t) if (i, j) in observed else w0 * (u @ v) ** 2
    row_problems = 0.0
    for i, u in enumerate(U):
        here = rows == i
        x, t, w, gram = V[cols[here]], targets[here], weights[here], V.T @ V
        row = RowProblem(x, t, w, loss, lam_own[i], w0=w0, gram=gram, free=(1, 4), own=u)
        row_problems += 2 * row_objective(u[1:], row)
    other_penalty = lam_other @ (V[:, :-1] ** 2).sum(axis=1)
    assert objective(U, V, *problem) == pytest.approx(expected + other_penalty, rel=1e-12)
    assert row_problems == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_loop_never_rises_and_leaves_pinned_columns_alone(loss):
    U, V, problem = matrix_problem(loss)
    U2, V2, history = alternate(U, V, *problem, sweeps=4)
    assert len(history) == 8
    assert history[0] < objective(U, V, *problem)
    assert (np.diff(history) <= 1e-10 * abs(np.array(history[1:]))).all()
    assert history[-1] == pytest.approx(objective(U2, V2, *problem), rel=1e-14)
    assert (U2[:, 0] == 1).all()
    assert (V2[:, -1] == 1).all()
    assert (U[:, 1:] != U2[:, 1:]).all()


def test_squared_half_step_is_the_normal_equations():
    U, V, problem = matrix_problem(losses.Squared())
    rows, cols, targets, weights, w0, lam, _, loss, *_ = problem
    solved = half_step(U, V, (rows, cols, targets, weights), w0, lam, loss, None)
    W, T = np.full((len(U), len(V)), w0), np.zeros((len(U), len(V)))
    W[rows, cols], T[rows, cols] = weights, targets
    for i in range(len(U)):
        Q = lam[i] * np.eye(4) + V.T @ (W[i][:, None] * V)
        assert_allclose(solved[i], np.linalg.solve(Q, V.T @ (W[i] * T[i])), rtol=1e-10)


def test_fitting_the_transpose_swaps_the_factors():
    U, V, (rows, cols, t, w, w0, lam_u, lam_v, loss, *_) = matrix_problem(losses.Absolute())
    own_first = half_step(U, V, (rows, cols, t, w), w0, lam_u, loss, None)
    U2, V2, _ = alternate(U, V, rows, cols, t, w, w0, lam_u, lam_v, loss, sweeps=1)
    V3, U3, _ = alternate(V, own_first, cols, rows, t, w, w0, lam_v, lam_u, loss, sweeps=1)
    assert_allclose(U2, own_first)
    assert_allclose(V2, V3)
    assert_allclose(U3, half_step(U2, V2, (rows, cols, t, w), w0, lam_u, loss, None))


@given(st.integers(0, 10_000), st.sampled_from(LOSSES))
@settings(max_examples=60, deadline=None)
def test_any_row_problem_is_solved_to_a_proved_gap(seed, loss):
    problem = random_problem(loss, seed)
    b = solve_row(problem)
    assert row_gap(b, problem) <= 1e-10 * (1e-3 + abs(row_objective(b, problem)))
