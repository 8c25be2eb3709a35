"""The best constant to add to scores: argmin_c sum_k w_k phi(z_k + c; t_k), one unknown, exact for every loss.

Knows scores, targets and weights; nothing of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.core.losses.base import Loss
from halfstep.core.losses.piecewise import PiecewiseLoss

BOUND = 50.0
"""How far a smooth loss may move: counts that are all zero have no best log rate."""
STEPS = 100


def best_constant(loss: Loss, z: Floats, t: Floats, w: Floats, rest: tuple[float, float] = (0.0, 0.0)) -> float:
    """argmin_c sum w phi(z + c; t); the middle where many are best.

    rest : curve and slope of what else depends on c: curve c + slope is its derivative.
    """
    z, t, w = (np.asarray(values, np.float64) for values in (z, t, w))
    if isinstance(loss, PiecewiseLoss):
        return _of_pieces(loss, z, t, w, rest)
    return by_newton(
        lambda c: (
            float(w @ loss.gradient(z + c, t)) + rest[0] * c + rest[1],
            float(w @ loss.curvature(z + c, t)) + rest[0],
        )
    )


def passed_at(loss: PiecewiseLoss, z: Floats, t: Floats) -> Floats:
    """(N, K): the c at which a cell passes each break of the loss."""
    breaks, _ = loss.pieces()
    margin = loss.form == "margin"
    place, sign = (z, t) if margin else (z - t, np.ones_like(z))
    return np.asarray(sign[:, None] * breaks - place[:, None])


def _of_pieces(loss: PiecewiseLoss, z: Floats, t: Floats, w: Floats, rest: tuple[float, float]) -> float:
    """The slope in c is piecewise linear and never falls; breaks of all cells in order lead to where it passes 0.

    A cell's slope is 2 a c + 2 a z' + s b on each interval, where its argument is s (z' + c) with z' = z - t and s = 1
    (residuals), or z' = z and s = t (margins).
    """
    breaks, table = loss.pieces()
    margin = loss.form == "margin"
    place, sign = (z, t) if margin else (z - t, np.ones_like(z))
    if not len(breaks):
        a, b, _ = table[0]
        curve = float(np.sum(2 * a * w)) + rest[0]
        return float(-(np.sum(w * (2 * a * place + sign * b)) + rest[1]) / curve) if curve > 0 else 0.0
    at = passed_at(loss, z, t)
    bend = 2 * np.diff(table[:, 0]) * sign[:, None]  # a cell with s = -1 passes its breaks backwards
    turn = 2 * np.diff(table[:, 0]) * sign[:, None] * place[:, None] + np.diff(table[:, 1])
    first = np.where(sign > 0, 0, len(breaks))
    curve = np.sum(2 * w * table[first, 0]) + rest[0]
    slope = np.sum(w * (2 * table[first, 0] * place + sign * table[first, 1])) + rest[1]
    order = np.argsort(at, axis=None, kind="stable")
    c = at.ravel()[order]
    curves = curve + np.concatenate([[0.0], np.cumsum((w[:, None] * bend).ravel()[order])])
    slopes = slope + np.concatenate([[0.0], np.cumsum((w[:, None] * turn).ravel()[order])])
    size = 1e-12 * float(np.sum(w * np.abs(table[:, 1]).max())) + 1e-12 * float(np.abs(slopes).max())
    before, after = curves[:-1] * c + slopes[:-1], curves[1:] * c + slopes[1:]
    rising, falling = np.flatnonzero(after >= -size), np.flatnonzero(before <= size)
    low = _zero(int(rising[0]) if len(rising) else len(c), c, curves, slopes)
    high = _zero(int(falling[-1]) + 1 if len(falling) else 0, c, curves, slopes)
    ends = [end for end in (low, high) if np.isfinite(end)]
    return float(np.mean(ends)) if ends else 0.0


def _zero(interval: int, c: Floats, curves: Floats, slopes: Floats) -> float:
    """Where the slope is 0 within an interval between breaks, held to its ends."""
    ends = np.concatenate([[-np.inf], c, [np.inf]])
    low, high = ends[interval], ends[interval + 1]
    if curves[interval] > 0:
        return float(np.clip(-slopes[interval] / curves[interval], low, high))
    return float(high if np.isfinite(high) and slopes[interval] < 0 else low if np.isfinite(low) else high)


def by_newton(slopes: Callable[[float], tuple[float, float]]) -> float:
    """Where the first of two derivatives is 0, by steps that stay between two ends."""
    low, high, c = -BOUND, BOUND, 0.0
    for _ in range(STEPS):
        slope, bend = slopes(c)
        low, high = (c, high) if slope < 0 else (low, c)
        step = c - slope / bend if bend > 0 else np.nan
        new = step if low < step < high else (low + high) / 2
        if abs(new - c) <= 1e-12 * max(1.0, abs(c)):
            return new
        c = new
    return c
