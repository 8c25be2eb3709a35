"""Softmax regression with shared coefficients: at its optimum, and equal to the logistic one for two classes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from halfstep.core.logistic import fit_logistic
from halfstep.core.softmax import fit_softmax, softmax_loss, softmax_of


def problem(seed, r=30, K=4, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(r, K, d)), rng.integers(K, size=r), rng.normal(size=(r, K))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 50), st.floats(0.05, 50))
def test_no_direction_improves_on_the_minimiser(seed, penalty, intercept):
    X, truth, offset = problem(seed)
    b = fit_softmax(X, truth, offset, np.full(3, penalty), intercept, tolerance=1e-14)

    def objective(b):
        held = penalty * (b[:3] ** 2).sum() + intercept * (b[3:] ** 2).sum()
        return softmax_loss(offset + X @ b[:3] + b[3:], truth).sum() + held / 2

    found = minimize(objective, b, method="BFGS")
    assert objective(b) <= found.fun + 1e-7
    np.testing.assert_allclose(b, found.x, atol=1e-3)


def test_two_classes_are_a_logistic_regression_on_the_difference():
    X, truth, offset = problem(3, K=2)
    b = fit_softmax(X, truth, offset, np.ones(3), np.inf, tolerance=1e-16)
    across = X[:, 1] - X[:, 0]
    two = fit_logistic(across, truth.astype(float), np.ones(30), np.ones(3), offset=offset[:, 1] - offset[:, 0])
    np.testing.assert_allclose(b[:3], two, atol=1e-6)
    assert (b[3:] == 0).all()


def test_a_class_without_rows_and_separable_rows_stay_finite():
    X, truth, offset = problem(1)
    truth[truth == 2] = 0
    X[:, :, 0] = np.eye(4)[truth]
    b = fit_softmax(X, truth, offset, np.full(3, 1e-3), 0.1)
    assert np.isfinite(b).all()
    assert b[3 + 2] < 0


def test_no_rows_mean_no_change():
    assert not fit_softmax(np.zeros((0, 3, 2)), np.zeros(0, int), np.zeros((0, 3)), np.ones(2), 1.0).any()


def test_large_scores_neither_overflow_nor_lose_the_truth():
    scores = np.array([[1e4, 0.0, -1e4]])
    np.testing.assert_allclose(softmax_of(scores), [[1, 0, 0]])
    np.testing.assert_allclose(softmax_loss(scores, np.array([1])), [1e4])
