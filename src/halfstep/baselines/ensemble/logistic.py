"""Logistic regression with a penalty and a prior mean for each coefficient. Knows nothing of predictions."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.special import expit

from halfstep.predictions import Floats

MAX_STEPS = 100
GRADIENT_TOLERANCE = 1e-8


def fit_logistic(X: Floats, truth: Floats, penalty: Floats, prior: Floats, start: Floats | None = None) -> Floats:
    """(d,) the minimiser of sum_i CE(truth_i, sigmoid(x_i'b)) + 1/2 sum_k penalty_k (b_k - prior_k)^2.

    Newton with backtracking; `penalty` must be positive, which makes the minimum unique and finite even
    where the classes can be separated.
    """
    b = prior.copy() if start is None else start.copy()
    value = _objective(X, truth, penalty, prior, b)
    for _ in range(MAX_STEPS):
        p = expit(X @ b)
        gradient = X.T @ (p - truth) + penalty * (b - prior)
        if np.abs(gradient).max() <= GRADIENT_TOLERANCE * (1 + len(X)):
            break
        hessian = (X * (p * (1 - p))[:, None]).T @ X + np.diag(penalty)
        step = scipy.linalg.solve(hessian, gradient, assume_a="pos")
        descent = float(gradient @ step)
        length = 1.0
        while length > 1e-10:
            candidate = b - length * step
            new_value = _objective(X, truth, penalty, prior, candidate)
            if new_value <= value - 1e-4 * length * descent:
                break
            length /= 2
        else:
            break  # no representable progress: rounding has been reached
        b, value = candidate, new_value
    return b


def _objective(X: Floats, truth: Floats, penalty: Floats, prior: Floats, b: Floats) -> float:
    score = X @ b
    return float((np.logaddexp(0, score) - truth * score).sum() + 0.5 * (penalty * (b - prior) ** 2).sum())
