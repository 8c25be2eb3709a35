"""Penalised softmax regression whose coefficients are shared by all classes, with an intercept for each.

    sum_i CE(truth_i, offset_i + X_i b + a) + 1/2 sum_d penalty_d b_d^2 + 1/2 intercept_penalty sum_k a_k^2

with CE(t, z) = log sum_k e^{z_k} - z_t. X (r, K, d) says d things about each class of each row, so b (d,) does not grow
with the classes, and a class without any row costs nothing: its intercept stays where the others push it. Knows
nothing of predictions.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.special import logsumexp

from halfstep.core.arrays import Codes, Floats
from halfstep.core.blas import one_blas_thread

MAX_STEPS = 60
SHORTEST_STEP = 1e-8


def softmax_loss(scores: Floats, truth: Codes) -> Floats:
    """(..., r) CE of scores (..., r, K)."""
    value: Floats = (
        logsumexp(scores, axis=-1)
        - np.take_along_axis(scores, np.broadcast_to(truth, scores.shape[:-1])[..., None], axis=-1)[..., 0]
    )
    return value


def softmax_of(scores: Floats) -> Floats:
    """Probabilities of the last axis."""
    held = np.exp(scores - scores.max(axis=-1, keepdims=True))
    held /= held.sum(axis=-1, keepdims=True)
    return np.asarray(held)


@one_blas_thread
def fit_softmax(
    X: Floats,
    truth: Codes,
    offset: Floats,
    penalty: Floats,
    intercept_penalty: float,
    start: Floats | None = None,
    tolerance: float = 1e-10,
) -> Floats:
    """(d + K,) the minimiser, coefficients b before intercepts a; see the top of the file.

    X (r, K, d), truth (r,) classes, offset (r, K), penalty (d,). Newton with backtracking from `start` or 0, until its
    decrement is below `tolerance` (1 + the objective). All penalties must be positive: the minimum is unique and
    finite even where classes can be separated. Intercepts of an infinite penalty stay 0.
    """
    r, K, d = X.shape
    free = np.isfinite(intercept_penalty)
    held = np.concatenate([penalty, np.full(K, intercept_penalty if free else 1.0)])
    said = np.zeros((r, K))
    said[np.arange(r), truth] = 1.0

    def scores(b: Floats) -> Floats:
        return np.asarray(offset + X @ b[:d] + b[d:])

    def objective(b: Floats) -> float:
        return float(softmax_loss(scores(b), truth).sum() + 0.5 * held @ b**2)

    b = np.zeros(d + K) if start is None else start.copy()
    value = objective(b)
    for _ in range(MAX_STEPS):
        P = softmax_of(scores(b))
        gradient, hessian = _derivatives(X, P, P - said)
        gradient += held * b
        hessian[np.arange(d + K), np.arange(d + K)] += held
        if not free:
            gradient[d:], hessian[:d, d:], hessian[d:, :d] = 0.0, 0.0, 0.0
        step = scipy.linalg.solve(hessian, gradient, assume_a="pos")
        descent = float(gradient @ step)
        if descent <= tolerance * (1 + abs(value)):
            break
        length, new_value = 1.0, objective(b - step)
        while new_value > value - 1e-4 * length * descent and length > SHORTEST_STEP:
            length /= 2
            new_value = objective(b - length * step)
        if not new_value < value:  # rounding has been reached
            break
        b, value = b - length * step, new_value
    return b


def _derivatives(X: Floats, P: Floats, left: Floats) -> tuple[Floats, Floats]:
    """(d + K,) gradient and (d + K, d + K) curvature of the losses; P and left = P - truth (r, K)."""
    r, K, d = X.shape
    flat, weights = X.reshape(r * K, d), P.reshape(r * K, 1)
    means = np.einsum("rk,rkd->rd", P, X)
    hessian = np.empty((d + K, d + K))
    hessian[:d, :d] = flat.T @ (weights * flat) - means.T @ means
    hessian[:d, d:] = np.einsum("rk,rkd->dk", P, X) - means.T @ P
    hessian[d:, :d] = hessian[:d, d:].T
    hessian[d:, d:] = np.diag(P.sum(axis=0)) - P.T @ P
    return np.concatenate([flat.T @ left.ravel(), left.sum(axis=0)]), hessian
