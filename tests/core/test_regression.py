"""Where rows are expected from their features: weights against dense solutions, and the loop with one block more."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from halfstep.core import regression
from halfstep.core.cells import Observations
from halfstep.core.loop import alternate
from halfstep.core.problem import Problem, Side, Solver
from halfstep.core.regression import Regression
from halfstep.engine import LocalEngine

ETA = 0.7


def features(n: int, p: int, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.3)
    return sp.csr_array(dense)


def dense_weights(F, lam, eta, B):
    F = F.toarray()
    return np.linalg.solve((F.T * lam) @ F + eta * np.eye(F.shape[1]), (F.T * lam) @ B)


@pytest.fixture
def many_steps(monkeypatch):
    """Conjugate gradients to the end, whatever the size."""
    monkeypatch.setattr(regression, "ALWAYS", 0)
    monkeypatch.setattr(regression, "WORTH", 0)
    monkeypatch.setattr(regression, "STEPS", 300)
    monkeypatch.setattr(regression, "TOLERANCE", 1e-16)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (30, 30)])
def test_factored_weights_are_those_of_the_dense_system(shape):
    n, p = shape
    rng, F = np.random.default_rng(1), features(n, p)
    lam, B = rng.uniform(0.2, 3, n), rng.normal(size=(n, 5))
    found = Regression(F, ETA, lam).learned(B, 1)
    np.testing.assert_allclose(found.weights, dense_weights(F, lam, ETA, B), atol=1e-10)
    np.testing.assert_allclose(found.means, F @ dense_weights(F, lam, ETA, B) / 2, atol=1e-10)


@pytest.mark.parametrize("f", [1, 16, 21])
@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_conjugate_gradients_end_at_the_same_weights(many_steps, shape, f):
    n, p = shape
    rng, F = np.random.default_rng(1), features(n, p)
    lam, B = rng.uniform(0.2, 3, n), rng.normal(size=(n, f))
    found = Regression(F, ETA, lam).learned(B, 2)
    np.testing.assert_allclose(found.weights, dense_weights(F, lam, ETA, B), atol=1e-7)
    np.testing.assert_allclose(found.fitted, F @ found.weights, atol=1e-7)


def test_every_step_of_conjugate_gradients_lowers_the_objective_from_any_start(monkeypatch, many_steps):
    monkeypatch.setattr(regression, "STEPS", 1)
    rng, F = np.random.default_rng(2), features(50, 80)
    lam, B = rng.uniform(0.2, 3, 50), rng.normal(size=(50, 3))

    def objective(found):
        return float(np.sum(lam[:, None] * (B - F @ found.weights) ** 2) + ETA * np.sum(found.weights**2))

    at = Regression(F, ETA, lam).learned(rng.normal(size=(50, 3)), 1)
    values = [objective(at)]
    for _ in range(8):
        at = at.learned(B, 1)
        values.append(objective(at))
    assert np.all(np.diff(values) < 0)


def test_single_steps_that_know_the_last_one_are_conjugate_gradients(monkeypatch, many_steps):
    """One step a sweep gets as far as the same number of steps at once, and further than steps that know nothing."""
    monkeypatch.setattr(regression, "STEPS", 1)
    rng, F = np.random.default_rng(2), features(50, 80)
    lam, B = rng.uniform(0.2, 3, 50), rng.normal(size=(50, 3))
    start = Regression(F, ETA, lam)
    at_once, known, unknown = start.learned(B, 1, steps=40), start, start
    for _ in range(40):
        known = known.learned(B, 1)
        unknown = replace(unknown.learned(B, 1), step=None, moved=None)
    best = dense_weights(F, lam, ETA, B)
    np.testing.assert_allclose(known.weights, at_once.weights, atol=1e-9)
    assert np.linalg.norm(known.weights - best) < np.linalg.norm(unknown.weights - best) / 10


def test_a_system_held_otherwise_is_solved_as_if_it_were_new(many_steps):
    rng, F = np.random.default_rng(2), features(50, 80)
    lam, B = rng.uniform(0.2, 3, 50), rng.normal(size=(50, 3))
    found = Regression(F, ETA, lam).learned(B, 1).held(4 * ETA).learned(B, 1)
    np.testing.assert_allclose(found.weights, dense_weights(F, lam, 4 * ETA, B), atol=1e-7)


def test_a_system_held_otherwise_is_factored_again():
    rng, F = np.random.default_rng(2), features(50, 20)
    lam, B = rng.uniform(0.2, 3, 50), rng.normal(size=(50, 3))
    found = Regression(F, ETA, lam).learned(B, 1).held(4 * ETA).learned(B, 1)
    np.testing.assert_allclose(found.weights, dense_weights(F, lam, 4 * ETA, B), atol=1e-10)


def test_weights_go_on_where_they_were_after_both_sides_were_turned(many_steps):
    rng, F = np.random.default_rng(3), features(20, 30)
    B, turn = rng.normal(size=(20, 6)), np.linalg.qr(rng.normal(size=(6, 6)))[0]
    plain = Regression(F, ETA, np.ones(20)).learned(B, 1)
    turned = plain.turned(turn)
    np.testing.assert_allclose(turned.weights, plain.weights @ turn, atol=1e-12)
    np.testing.assert_allclose(turned.means, plain.means @ turn, atol=1e-12)
    assert turned.cost() == plain.cost()
    np.testing.assert_allclose(turned.learned(B @ turn, 1).weights, plain.weights @ turn, atol=1e-7)


def test_the_bits_of_weights_do_not_depend_on_threads(many_steps):
    rng, F = np.random.default_rng(4), features(60, 90)
    B = rng.normal(size=(60, 40)).astype(np.float32)
    one, three = (Regression(F, ETA, np.ones(60)).learned(B, threads) for threads in (1, 3))
    assert np.array_equal(one.weights, three.weights)


# ---------------------------------------------------------------------- the loop


def cells(n: int, m: int, seed: int = 0) -> Observations:
    rng = np.random.default_rng(seed)
    X = sp.csr_array((rng.random((n, m)) < 0.2).astype(np.float64))
    return Observations(X.shape, X.indptr.astype(np.int64), X.indices.astype(np.int32))


def session(background: float, solver: str, strength: float = 0.5, lam: float = 0.3, features_of=(0, 1), n=30, m=24):
    given = cells(n, m)
    sides = [Side(np.linspace(0.5, 1.5, size) * lam) for size in (n, m)]
    for side in features_of:
        sides[side] = sides[side].expecting(features((n, m)[side], 7, seed=side), strength)
    rng = np.random.default_rng(5)
    start = [rng.normal(size=(n, 4)) * 0.3, np.zeros((m, 4))]
    problem = Problem(given, (sides[0], sides[1]), background=background)
    return LocalEngine(1).open(problem, start, Solver(solver, tolerance=1e-10))


def dense_objective(at) -> float:
    """Everything that is minimised, from dense matrices."""
    U, V = at.factors
    Y = at.problem.observations.to_csr().toarray()
    Z = U @ V.T
    value = np.sum((1 - Z[Y > 0]) ** 2) + at.problem.background * np.sum(Z[Y == 0] ** 2)
    for side, rows in zip(at.problem.sides, at.factors, strict=True):
        held = side.features
        mean = 0 if held is None or held.weights is None else held.matrix @ held.weights
        value += np.sum(side.penalty[:, None] * ((rows - mean) ** 2 + rows**2)) / 2
        value += 0 if held is None or held.weights is None else held.eta * np.sum(held.weights**2)
    return float(value)


def test_what_a_side_costs_is_that_of_its_present_rows_and_weights():
    """It is kept from when the side was solved; turns leave it, new weights do not."""
    at = session(0.1, "exact")
    alternate(at, order=(1, 0), max_iter=2, tol=0)
    fresh = [side.cost(rows) for side, rows in zip(at.problem.sides, at.factors, strict=True)]
    np.testing.assert_allclose([at.penalty(0), at.penalty(1)], fresh, rtol=1e-10)
    before = at.penalty(0)
    at.learn(0)
    assert at.penalty(0) < before
    assert at.penalty(0) == pytest.approx(at.problem.sides[0].cost(at.factors[0]), rel=1e-12)


@pytest.mark.parametrize("solver", ["auto", "exact", "cholesky", "dual", "cg", "subspace"])
@pytest.mark.parametrize("background", [0.0, 0.1])
def test_the_objective_with_features_never_rises_and_is_the_dense_one(background, solver):
    at, seen = session(background, solver), []
    alternate(at, order=(1, 0), max_iter=12, tol=0, callbacks=[lambda record: seen.append(dense_objective(at))])
    reported = [record["objective"] for record in at.past]
    np.testing.assert_allclose(reported, seen, rtol=1e-8)
    assert np.all(np.diff(reported) <= 1e-10)


def test_features_end_where_a_dense_minimiser_ends():
    """All blocks at once by L-BFGS from where the loop stopped find nothing better."""
    from scipy.optimize import minimize

    at = session(0.1, "exact", features_of=(0, 1))
    alternate(at, order=(1, 0), max_iter=3000, tol=1e-13)
    shapes = [rows.shape for rows in at.factors] + [side.features.weights.shape for side in at.problem.sides]
    start = [*at.factors, *(side.features.weights for side in at.problem.sides)]
    places = np.cumsum([0, *(np.prod(shape) for shape in shapes)])

    def value(x):
        U, V, P, Q = (x[a:b].reshape(s) for a, b, s in zip(places, places[1:], shapes, strict=False))
        sides = [
            replace(side, features=replace(side.features, solved=W, fitted=side.features.matrix @ W, turn=None))
            for side, W in zip(at.problem.sides, (P, Q), strict=True)
        ]
        here = replace(at.problem, sides=tuple(sides))
        return dense_objective(type("At", (), {"factors": (U, V), "problem": here}))

    x = np.concatenate([part.ravel() for part in start])
    slope = minimize(value, x, method="L-BFGS-B", options={"maxiter": 1}).jac
    assert value(x) == pytest.approx(at.past[-1]["objective"])
    assert np.abs(slope).max() < 2e-2
    assert minimize(value, x, method="L-BFGS-B", options={"maxiter": 30}).fun > value(x) * (1 - 1e-4)


def test_weights_held_very_strongly_give_the_plain_model():
    plain, held = session(0.1, "exact", features_of=()), session(0.1, "exact", strength=1e12)
    for at in (plain, held):
        alternate(at, order=(1, 0), max_iter=5, tol=0)
    np.testing.assert_allclose(held.factors[0] @ held.factors[1].T, plain.factors[0] @ plain.factors[1].T, atol=1e-6)


@pytest.mark.parametrize("lam", [10.0, 40.0])
def test_rows_held_very_strongly_are_those_of_the_model_of_features_alone(lam):
    """Given the other side, the best W of u_i = W'f_i is one dense system; rows come as near to it as 1 / lam."""
    at, eta, w0 = session(0.1, "exact", features_of=()), 0.5, 0.1
    F = features(30, 7)
    strength = eta / (lam * float(np.mean(F.multiply(F).sum(axis=1))))
    side = Side(np.full(30, lam)).expecting(F, strength, share=1.0)
    V = np.random.default_rng(8).normal(size=(24, 4)) * 0.5
    start = [at.factors[0].copy(), V]
    held = LocalEngine(1).open(replace(at.problem, sides=(side, at.problem.sides[1])), start, Solver("cholesky"))
    for _ in range(20 * int(lam)):
        held.half_step(0)
    Y, dense = at.problem.observations.to_csr().toarray(), F.toarray()
    weight = np.where(Y > 0, 1.0, w0)
    designs = np.einsum("ia,jb->ijab", dense, held.factors[1]).reshape(-1, 28)
    system = designs.T @ (weight.reshape(-1, 1) * designs) + eta * np.eye(28)
    W = np.linalg.solve(system, designs.T @ (weight * (Y > 0)).ravel()).reshape(7, 4)
    found = held.factors[0]
    assert np.linalg.norm(dense @ W) > 1  # rows are somewhere
    assert np.linalg.norm(found - dense @ W) < 4 / lam * np.linalg.norm(dense @ W)
    np.testing.assert_allclose(dense @ held.problem.sides[0].features.weights, dense @ W, atol=2 / lam)


def test_a_row_without_cells_is_what_its_features_say():
    given = session(0.0, "exact")
    Y = given.problem.observations.to_csr().tolil()
    Y[3] = 0
    Y = sp.csr_array(Y)
    Y.eliminate_zeros()
    empty = Observations(Y.shape, Y.indptr.astype(np.int64), Y.indices.astype(np.int32))
    at = LocalEngine(1).open(replace(given.problem, observations=empty), given.factors, Solver())
    alternate(at, order=(1, 0), max_iter=3, tol=0)
    np.testing.assert_allclose(at.factors[0][3], at.problem.sides[0].mean[3], atol=1e-12)
    assert np.abs(at.factors[0][3]).max() > 1e-3
