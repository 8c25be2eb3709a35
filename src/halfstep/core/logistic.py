"""Weighted logistic regressions with offsets, a penalty and a prior, solved to optimality, one or many at once.

Serves stacking, the aggregators, the averaged family and, whitened, the exact classifier step. What is shrunk towards
a mean, and how the strength of that is chosen, is here too. Knows nothing of predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg
from scipy.special import expit

from halfstep.core.arrays import Codes, Floats
from halfstep.core.blas import one_blas_thread

MAX_STEPS = 100
SHORTEST_STEP = 1e-8
TOLERANCE = 1e-18
BLIND = 1e-13
"""Of the objective: a decrement that its rounded values may not show. Steps so small are taken whole."""

FREE_PENALTY = 0.01
"""Keeps the intercept finite where labels can be separated; far too weak to matter otherwise."""
SLOPE_PENALTY = 1.0
"""Holds the slope of the mean near 1, its natural value on the logit scale: few separable labels would make it ten."""
STRENGTHS = (np.inf, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
"""What is tried where the strength is chosen by cross-validation, from strong to weak."""


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
    prior: Floats | float = 0.0,
    offset: Floats | float = 0.0,
    start: Floats | None = None,
    tolerance: float = TOLERANCE,
) -> Floats:
    """(d,) minimiser of  sum_i weights_i CE(truth_i, offset_i + x_i'b) + 1/2 sum_k penalty_k (b_k - prior_k)^2.

    CE(t, z) = log(1 + e^z) - t z. X (r, d), truth (r,), penalty (d,), weights (r,); or weights (B, r) for B problems
    on the same rows, 0 for rows that one of them leaves out, and (B, d) minimisers. Newton with backtracking from the
    better of `start` and `prior`, until its decrement is below `tolerance` (1 + the objective) or rounding is reached.
    Every penalty must be positive, which makes the minimum unique and finite even where the classes can be separated.
    """

    def objective(b: Floats) -> Floats:
        entropy = cross_entropy(b @ X.T + offset, truth)
        fit = (weights[..., None, :] @ entropy[..., None])[..., 0, 0]
        return np.asarray(fit + 0.5 * ((b - prior) ** 2 @ penalty))

    b = np.broadcast_to(prior, (*weights.shape[:-1], X.shape[1])).astype(np.float64)
    value = objective(b)
    if start is not None:
        warm = objective(start)
        b, value = np.where((warm < value)[..., None], start, b), np.minimum(warm, value)
    moving, before = np.ones_like(value, dtype=bool), np.full_like(value, np.inf)
    diagonal = np.arange(X.shape[1])
    for _ in range(MAX_STEPS):
        p = expit(b @ X.T + offset)
        gradient = (weights * (p - truth)) @ X + penalty * (b - prior)
        hessian = (X.T * (weights * p * (1 - p))[..., None, :]) @ X
        hessian[..., diagonal, diagonal] += penalty
        step = _solve(hessian, gradient)
        descent = (gradient[..., None, :] @ step[..., None])[..., 0, 0]
        moving = moving & (descent > tolerance * (1 + np.abs(value)))
        if not moving.any():
            break
        length = moving.astype(np.float64)
        blind = descent <= BLIND * (1 + np.abs(value))
        while True:
            new_value = objective(b - length[..., None] * step)
            failed = ~blind & (new_value > value - 1e-4 * length * descent) & (length > SHORTEST_STEP)
            if not failed.any():
                break
            length = np.where(failed, length / 2, length)
        moving = moving & np.where(blind, descent < before, new_value < value)  # otherwise rounding has been reached
        b = np.where(moving[..., None], b - length[..., None] * step, b)
        value, before = np.where(moving, new_value, value), descent
    return b


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    """Of one problem by Cholesky; of many at once as NumPy can, which has no stacked Cholesky solver."""
    if hessian.ndim == 2:
        return np.asarray(scipy.linalg.solve(hessian, gradient, assume_a="pos"))
    return np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0], np.float64)


# ---------------------------------------------------------------------- shrunk towards a mean


def shrinkage(size: int, n_free: int, strength: float) -> tuple[Floats, Floats]:
    """(size,) penalty and prior of coefficients: `n_free` intercepts, the slope of a mean, deviations from it."""
    penalty, prior = np.full(size, strength), np.zeros(size)
    penalty[:n_free], penalty[n_free], prior[n_free] = FREE_PENALTY, SLOPE_PENALTY, 1.0
    return penalty, prior


def fit_shrunken(
    X: Floats, n_free: int, truth: Floats, weights: Floats, strength: float, start: Floats | None = None
) -> Floats:
    """(size,) coefficients under `shrinkage`; an infinite strength leaves deviations out: the recalibrated mean."""
    penalty, prior = shrinkage(X.shape[1], n_free, strength)
    used = n_free + 1 if np.isinf(strength) else X.shape[1]
    b = np.zeros(X.shape[1])
    warm = None if start is None else start[:used]
    b[:used] = fit_logistic(X[:, :used], truth, weights, penalty[:used], prior[:used], start=warm)
    return b


def choose_strength(
    strengths: Sequence[float],
    folds: Codes | None,
    truth: Floats,
    weights: Floats,
    learn: Callable[[Any, float, Any], Any],
    score: Callable[[Any, Any], Floats],
) -> tuple[float, Floats]:
    """The strength with the lowest log loss on rows whose fold was held out, and the summed losses of all.

    strengths from strong to weak; the first one where there are no folds, or no other. learn(kept, strength, before)
    gives what the rows `kept` teach, `before` what they taught under the strength before, or None: each solution warms
    the next. score(learned, held) gives log odds of other rows.
    """
    losses = np.zeros(len(strengths))
    for fold in () if folds is None or len(strengths) == 1 else np.unique(folds):
        held, kept = folds == fold, folds != fold
        learned = None
        for k, strength in enumerate(strengths):
            learned = learn(kept, strength, learned)
            losses[k] += weights[held] @ cross_entropy(score(learned, held), truth[held])
    return strengths[int(np.argmin(losses))], losses


def choose_shrunken(
    strengths: Sequence[float], folds: Codes | None, X: Floats, n_free: int, truth: Floats, weights: Floats
) -> tuple[float, Floats]:
    """`choose_strength` of `fit_shrunken`."""
    return choose_strength(
        strengths,
        folds,
        truth,
        weights,
        lambda kept, strength, before: fit_shrunken(X[kept], n_free, truth[kept], weights[kept], strength, before),
        lambda b, held: X[held] @ b,
    )
