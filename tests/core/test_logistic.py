"""The small logistic regression that stacking and ensembles share, against scipy and its own optimality."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from halfstep.core.logistic import TOLERANCE, choose_shrunken, cross_entropy, fit_logistic, fit_shrunken


def problem(seed, n=30, d=4):
    """X, truth, weights, penalty, prior and offset of a random regression."""
    random = np.random.default_rng(seed)
    X, truth = random.normal(size=(n, d)), (random.random(n) < 0.4).astype(float)
    weights, offset = random.uniform(0.1, 3, n), random.normal(size=n)
    return X, truth, weights, random.uniform(0.01, 5, d), random.normal(size=d), offset


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_no_other_coefficients_are_better(seed):
    X, truth, weights, penalty, prior, offset = problem(seed)

    def objective(b):
        return weights @ cross_entropy(offset + X @ b, truth) + 0.5 * penalty @ (b - prior) ** 2

    best = minimize(objective, prior, tol=1e-12)
    assert objective(fit_logistic(X, truth, weights, penalty, prior, offset)) <= best.fun + 1e-7


def test_the_gradient_vanishes_from_any_start():
    X, truth, weights, _, _, offset = problem(0, n=60)
    penalty, prior = np.array([0.01, 1, 5, 100]), np.array([1.0, 0, -1, 2])
    for start in (None, np.full(4, 30.0), -prior):
        b = fit_logistic(X, truth, weights, penalty, prior, offset, start)
        gradient = X.T @ (weights * (expit(offset + X @ b) - truth)) + penalty * (b - prior)
        assert np.abs(gradient).max() < 1e-7


def test_whole_weights_are_repeated_rows():
    X, truth, _, penalty, prior, offset = problem(1)
    times = 1 + np.arange(len(X)) % 3
    weighted = fit_logistic(X, truth, times.astype(float), penalty, prior, offset)
    repeated = [np.repeat(part, times, axis=0) for part in (X, truth, np.ones(len(X)), offset)]
    plain = fit_logistic(*repeated[:3], penalty, prior, repeated[3])
    np.testing.assert_allclose(weighted, plain, atol=1e-8)


def test_separable_labels_have_a_finite_optimum():
    X = np.column_stack([np.ones(6), np.array([-3.0, -2, -1, 1, 2, 3]) * 100])
    truth, penalty = np.array([0.0, 0, 0, 1, 1, 1]), np.full(2, 0.01)
    b = fit_logistic(X, truth, np.ones(6), penalty, np.zeros(2))
    assert np.abs(X.T @ (expit(X @ b) - truth) + penalty * b).max() < 1e-6


def test_huge_weights_on_separable_labels_stay_finite():
    X = np.column_stack([np.ones(6), [-3, -2, -1, 1, 2, 3]])
    b = fit_logistic(X, np.array([0.0, 0, 0, 1, 1, 1]), np.full(6, 1e6), np.full(2, 0.01), np.zeros(2))
    assert np.isfinite(b).all()
    assert b[1] > 5


def test_cross_entropy_does_not_overflow():
    np.testing.assert_allclose(cross_entropy(np.array([-800.0, 0, 800]), np.array([0.0, 1, 1])), [0, np.log(2), 0])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(0.1, 30))
def test_many_at_once_are_each_alone(seed, size):
    random = np.random.default_rng(seed)
    X, truth, _, penalty, prior, offset = problem(seed, n=25)
    X, offset = X * size, offset * size
    weights = (random.random((5, 25)) < 0.7).astype(float)
    start = random.normal(size=(5, 4))
    found = fit_logistic(X, truth, weights, penalty, prior, offset, start)
    for b, w, s in zip(found, weights, start, strict=True):
        np.testing.assert_allclose(b, fit_logistic(X, truth, w, penalty, prior, offset, s), atol=1e-6)


def test_a_batch_without_rows_stays_at_its_prior():
    assert not fit_logistic(np.zeros((0, 3)), np.zeros(0), np.ones((1, 0)), np.ones(3)).any()
    assert (fit_logistic(np.zeros((0, 3)), np.zeros(0), np.ones((2, 0)), np.ones(3), np.ones(3)) == 1).all()


def test_shrunken_deviations_are_left_out_at_an_infinite_strength():
    X, truth, weights, *_ = problem(3, d=5)
    X[:, 0] = 1.0
    b = fit_shrunken(X, 1, truth, weights, np.inf)
    np.testing.assert_array_equal(b[2:], 0)
    np.testing.assert_allclose(fit_shrunken(X, 1, truth, weights, 1e9), b, atol=1e-6)


def test_held_out_losses_are_those_of_rows_that_did_not_teach():
    X, truth, weights, *_ = problem(4, d=5)
    X[:, 0], folds, grid = 1.0, np.arange(len(X)) % 3, (np.inf, 10.0, 1.0)
    expected = np.zeros(3)
    for k, strength in enumerate(grid):
        for fold in range(3):
            held = folds == fold
            b = fit_shrunken(X[~held], 1, truth[~held], weights[~held], strength)
            expected[k] += weights[held] @ cross_entropy(X[held] @ b, truth[held])
    strength, losses = choose_shrunken(grid, folds, X, 1, truth, weights)
    np.testing.assert_allclose(losses, expected, rtol=1e-7)
    assert strength == grid[int(np.argmin(expected))]
    assert choose_shrunken(grid, None, X, 1, truth, weights)[0] == np.inf


def test_the_last_newton_step_does_not_hang_on_the_rounding_of_the_objective():
    for seed in range(30):
        X, truth, weights, penalty, prior, offset = problem(seed)
        b = fit_logistic(X, truth, weights, penalty, prior, offset)
        p = expit(X @ b + offset)
        gradient = (weights * (p - truth)) @ X + penalty * (b - prior)
        hessian = (X.T * (weights * p * (1 - p))) @ X + np.diag(penalty)
        value = weights @ cross_entropy(X @ b + offset, truth) + 0.5 * penalty @ (b - prior) ** 2
        assert gradient @ np.linalg.solve(hessian, gradient) <= TOLERANCE * (1 + value)
