"""The best constant for cells that lie on a cluster: sums of slopes come to the driver, and in the end a few cells.

What is minimised stands in `core.losses.constant`; the answer is the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.core.losses import Loss
from halfstep.core.losses.constant import best_constant, by_newton, passed_at
from halfstep.core.losses.piecewise import PiecewiseLoss
from halfstep.engine.spark.sums import in_order

HERE = 200_000
"""So many cells come to the driver whole."""
ENDS, ROUNDS = 65, 12


class ScoredCells(NamedTuple):
    """Score, target and weight of the cells of one partition."""

    z: Floats
    t: Floats
    w: Floats


def best_lift(loss: Loss, scored: Any, n_cells: int) -> float:
    """argmin_c sum w phi(z + c; t). scored : RDD of (partition, ScoredCells), which is read several times."""
    if n_cells <= HERE:
        return best_constant(loss, *_gathered(scored))
    if not isinstance(loss, PiecewiseLoss):
        return by_newton(lambda c: tuple(_summed(scored, lambda s: _slopes(loss, s, c)).tolist()))
    if not len(loss.pieces()[0]):
        slope, curve = _summed(scored, lambda s: _slopes(loss, s, 0.0))
        return float(-slope / curve) if curve > 0 else 0.0
    return _of_pieces(loss, scored)


def _of_pieces(loss: PiecewiseLoss, scored: Any) -> float:
    """The slope never falls. Cut where it passes zero until few cells have a break there; these come to the driver."""
    spans = scored.mapValues(lambda s: _span(passed_at(loss, s.z, s.t))).values().collect()
    low, high = min(span[0] for span in spans) - 1.0, max(span[1] for span in spans) + 1.0
    for _ in range(ROUNDS):
        ends = np.linspace(low, high, ENDS)
        *slopes, inside, size = _summed(scored, lambda s, e=ends: _profile(loss, s, e))
        if inside <= HERE:
            break
        slack = 1e-12 * size
        below, above = (np.flatnonzero(side) for side in (np.array(slopes) < -slack, np.array(slopes) > slack))
        new = (ends[below[-1]] if len(below) else low), (ends[above[0]] if len(above) else high)
        if new == (low, high):
            break
        low, high = float(new[0]), float(new[1])
        if high - low <= 1e-12 * max(1.0, abs(low), abs(high)):
            return (low + high) / 2
    near, middle = scored.mapValues(lambda s: _within(loss, s, low, high)), (low + high) / 2
    slope, curve = _summed(scored, lambda s: _slopes(loss, _without(loss, s, low, high), middle))
    return best_constant(loss, *_gathered(near), rest=(float(curve), float(slope - curve * middle)))


def _gathered(scored: Any) -> ScoredCells:
    parts = [part for _, part in sorted(scored.collect(), key=lambda item: item[0])]
    return ScoredCells(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _summed(scored: Any, of: Any) -> Floats:
    return np.asarray(in_order(scored.mapValues(of).collect()))


def _slopes(loss: Loss, s: ScoredCells, c: float) -> Floats:
    """Sums of first and second derivatives at c."""
    return np.array([s.w @ loss.gradient(s.z + c, s.t), s.w @ loss.curvature(s.z + c, s.t)])


def _span(at: Floats) -> tuple[float, float]:
    return (float(at.min()), float(at.max())) if at.size else (0.0, 0.0)


def _profile(loss: PiecewiseLoss, s: ScoredCells, ends: Floats) -> Floats:
    """Slopes at the ends, how many cells have a break between the first and the last, and the size of slopes."""
    slopes = [float(s.w @ loss.gradient(s.z + c, s.t)) for c in ends]
    sizes = float(s.w @ np.abs(loss.gradient(s.z + ends[0], s.t)) + s.w @ np.abs(loss.gradient(s.z + ends[-1], s.t)))
    return np.array([*slopes, float(_bent(loss, s, ends[0], ends[-1]).sum()), sizes])


def _bent(loss: PiecewiseLoss, s: ScoredCells, low: float, high: float) -> Any:
    at = passed_at(loss, s.z, s.t)
    return ((at >= low) & (at <= high)).any(axis=1)


def _within(loss: PiecewiseLoss, s: ScoredCells, low: float, high: float) -> ScoredCells:
    """Cells that are alike are one: where y is whole stars and rows have not moved yet, most of them are."""
    keep = _bent(loss, s, low, high)
    pairs, which = np.unique(np.stack([s.z[keep], s.t[keep]], axis=1), axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), s.w[keep], len(pairs)).astype(np.float64)
    return ScoredCells(pairs[:, 0], pairs[:, 1], weights)


def _without(loss: PiecewiseLoss, s: ScoredCells, low: float, high: float) -> ScoredCells:
    keep = ~_bent(loss, s, low, high)
    return ScoredCells(*(values[keep] for values in s))
