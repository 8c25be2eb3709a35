"""Weighted logistic regression with offsets, a penalty and a prior mean, solved to optimality.

Serves stacking, the aggregators and, whitened, the exact classifier step. Knows nothing of predictions.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.special import expit

from halfstep.core.arrays import Floats
from halfstep.core.blas import one_blas_thread

MAX_STEPS = 100
TOLERANCE = 1e-9


def cross_entropy(score: Floats, truth: Floats) -> Floats:
    """log(1 + e^score) - truth score."""
    value: Floats = np.logaddexp(0.0, score) - truth * score
    return value


@one_blas_thread
def fit_logistic(
    X: Floats,
    truth: Floats,
    weights: Floats,
    penalty: Floats,
    prior: Floats,
    offset: Floats | float = 0.0,
    start: Floats | None = None,
) -> Floats:
    """(d,) minimiser of  sum_i weights_i CE(truth_i, offset_i + x_i'b) + 1/2 sum_k penalty_k (b_k - prior_k)^2.

    CE(t, z) = log(1 + e^z) - t z. Newton with backtracking from the better of `start` and `prior`; every penalty must
    be positive, which makes the minimum unique and finite even where the classes can be separated.
    """

    def objective(b: Floats) -> float:
        fit = float(weights @ cross_entropy(offset + X @ b, truth))
        return fit + 0.5 * float(penalty @ (b - prior) ** 2)

    b, value = prior.copy(), objective(prior)
    if start is not None and (warm := objective(start)) < value:
        b, value = start.copy(), warm
    for _ in range(MAX_STEPS):
        p = expit(offset + X @ b)
        gradient = X.T @ (weights * (p - truth)) + penalty * (b - prior)
        hessian = (X * (weights * p * (1 - p))[:, None]).T @ X
        hessian[np.diag_indices_from(hessian)] += penalty
        step = scipy.linalg.solve(hessian, gradient, assume_a="pos")
        descent = float(gradient @ step)
        if descent <= TOLERANCE * TOLERANCE * (1 + abs(value)):
            break
        length = 1.0
        while (new_value := objective(b - length * step)) > value - 1e-4 * length * descent and length > 1e-8:
            length /= 2
        if new_value >= value:
            break  # rounding has been reached
        b, value = b - length * step, new_value
    return b
