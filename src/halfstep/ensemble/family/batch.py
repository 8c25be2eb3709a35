"""Many small logistic regressions on the same rows at once: one for each fold, in one batch of arrays.

Knows rows, weights and offsets. Must not know what the features mean.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from halfstep.core.arrays import Floats
from halfstep.core.blas import one_blas_thread

MAX_STEPS = 50
TOLERANCE = 1e-12


@one_blas_thread
def fit_logistics(X: Floats, truth: Floats, weights: Floats, penalty: Floats, offset: Floats) -> Floats:
    """(B, d) minimisers of  sum_i weights_bi CE(truth_i, offset_i + x_i'beta_b) + 1/2 sum_k penalty_k beta_bk^2.

    X (r, d), truth (r,), weights (B, r) with 0 for rows that are held out, penalty (d,) > 0, offset (r,).
    CE(t, z) = log(1 + e^z) - t z. Newton with backtracking for all B together; a problem stops moving when its
    decrement is below rounding.
    """
    beta = np.zeros((len(weights), X.shape[1]))

    def objective(b: Floats) -> Floats:
        z = b @ X.T + offset
        values: Floats = (weights * (np.logaddexp(0.0, z) - truth * z)).sum(axis=1) + 0.5 * (b**2) @ penalty
        return values

    value = objective(beta)
    for _ in range(MAX_STEPS):
        p = expit(beta @ X.T + offset)
        gradient = (weights * (p - truth)) @ X + penalty * beta
        curvature = weights * p * (1 - p)
        hessian = (X.T[None] * curvature[:, None, :]) @ X
        hessian[:, np.arange(len(penalty)), np.arange(len(penalty))] += penalty
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        descent = (gradient * step).sum(axis=1)
        moving = descent > TOLERANCE * (1 + np.abs(value))
        if not moving.any():
            break
        length = moving.astype(np.float64)
        while True:
            new_value = objective(beta - length[:, None] * step)
            failed = (new_value > value - 1e-4 * length * descent) & (length > 0)
            if not failed.any():
                break
            length = np.where(failed, np.where(length > 1e-8, length / 2, 0.0), length)
        beta = beta - length[:, None] * step
        value = np.where(length > 0, new_value, value)
        if not length.any():
            break  # rounding has been reached
    return beta
