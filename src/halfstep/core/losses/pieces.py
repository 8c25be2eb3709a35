"""Convex piecewise linear-quadratic functions of one variable as tables. Knows nothing of losses or targets.

A table is `breaks` (K,), strictly increasing, and `coefficients` (K+1, 3): on interval k, which ends at
break k, phi(r) = a r^2 + b r + c with (a, b, c) = coefficients[k]. It is continuous and convex. The compiled
core reads the same two arrays.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MAX_BREAKS = 15  # the row kernels hold a table in an array of fixed size


def expand(relu: tuple[ArrayLike, ArrayLike], rehu: tuple[ArrayLike, ArrayLike, ArrayLike]) -> tuple[Floats, Floats]:
    """The table of phi(r) = sum ReLU(u r + v) + sum ReHU_tau(s r + t) for relu = (u, v), rehu = (tau, s, t).

    Kinks that differ by rounding alone become one break; breaks at which nothing changes are left out.
    """
    u, v = (np.asarray(part, dtype=np.float64) for part in relu)
    tau, s, t = (np.asarray(part, dtype=np.float64) for part in rehu)
    bent = np.isfinite(tau)
    with np.errstate(all="ignore"):  # a piece with slope 0 has no kink; overflow is reported by check_table
        kinks = np.concatenate([-v / u, -t / s, ((tau - t) / s)[bent]])
        breaks = np.unique(kinks[np.isfinite(kinks)]) + 0.0  # + 0.0 turns -0 into 0
        breaks = breaks[np.diff(breaks, prepend=-np.inf) > 1e-12 * np.maximum(1.0, np.abs(breaks))]
        inside = _inner_points(breaks)[:, None]
        on = inside * u + v > 0
        x = inside * s + t
        square, line = (x > 0) & (x <= tau), x > tau
        tail = np.where(bent, tau, 0.0)
        a = square @ (s * s / 2)
        b = on @ u + square @ (s * t) + line @ (tail * s)
        c = on @ v + square @ (t * t / 2) + line @ (tail * (t - tail / 2))
        coefficients = np.stack([a, b, c], axis=1)
        tolerance = 1e-12 * np.maximum(1.0, np.abs(coefficients).max(axis=0))
        changes = (np.abs(np.diff(coefficients, axis=0)) > tolerance).any(axis=1)
    breaks, coefficients = breaks[changes], coefficients[np.concatenate([[True], changes])]
    check_table(breaks, coefficients)
    return breaks, coefficients


def _inner_points(breaks: Floats) -> Floats:
    """One point (K+1,) within each interval."""
    if not breaks.size:
        return np.zeros(1)
    margin = np.maximum(1.0, np.abs(breaks))
    return np.concatenate([breaks[:1] - margin[:1], (breaks[:-1] + breaks[1:]) / 2, breaks[-1:] + margin[-1:]])


def check_table(breaks: Floats, coefficients: Floats) -> None:
    """Raise unless the table is one the row kernels accept: finite, continuous, convex, not too long."""
    if coefficients.shape != (breaks.size + 1, 3):
        raise ValueError(
            f"coefficients have shape {coefficients.shape}; {breaks.size} breaks need ({breaks.size + 1}, 3)"
        )
    if breaks.size > MAX_BREAKS:
        raise ValueError(f"the loss has {breaks.size} breaks; at most {MAX_BREAKS} are supported. Use fewer pieces")
    if not (np.isfinite(breaks).all() and np.isfinite(coefficients).all()):
        raise ValueError("the loss has pieces too large for float64; give parameters of moderate size")
    if (np.diff(breaks) <= 0).any():
        raise ValueError(f"the breaks of a loss must be strictly increasing, not {breaks.tolist()}")
    powers = breaks[:, None] ** np.arange(2, -1, -1)
    tolerance = 1e-9 * np.abs(powers * coefficients[1:]).max(axis=1, initial=1.0)
    gaps = (powers * np.diff(coefficients, axis=0)).sum(axis=1)
    if (np.abs(gaps) > tolerance).any():
        raise ValueError("the loss is not continuous; its pieces must have the same value at each break")
    bends = 2 * np.diff(coefficients[:, 0]) * breaks + np.diff(coefficients[:, 1])
    if (coefficients[:, 0] < 0).any() or (bends < -tolerance).any():
        raise ValueError("the loss is not convex; its slope must never fall as r grows")


def _at(breaks: Floats, coefficients: Floats, r: Floats, side: Literal["left", "right"] = "left") -> Floats:
    """a, b, c (3, ...) of the interval that holds each r; at a break that of the given side."""
    return np.moveaxis(coefficients[np.searchsorted(breaks, r, side)], -1, 0)


def value(breaks: Floats, coefficients: Floats, r: Floats) -> Floats:
    """phi(r)."""
    a, b, c = _at(breaks, coefficients, r)
    return np.asarray((a * r + b) * r + c)


def subdifferential(breaks: Floats, coefficients: Floats, r: Floats) -> tuple[Floats, Floats]:
    """The slopes of phi to the left and to the right of r."""
    (a, b, _), (a2, b2, _) = (_at(breaks, coefficients, r, side) for side in ("left", "right"))
    return np.asarray(2 * a * r + b), np.asarray(2 * a2 * r + b2)


def slope(breaks: Floats, coefficients: Floats, r: Floats) -> Floats:
    """phi'(r); at a kink the slope nearest to 0."""
    return np.asarray(np.clip(0.0, *subdifferential(breaks, coefficients, r)))


def curvature(breaks: Floats, coefficients: Floats, r: Floats) -> Floats:
    """phi''(r); at a break that of the left side."""
    return np.asarray(2 * _at(breaks, coefficients, r)[0])


def prox(breaks: Floats, coefficients: Floats, goal: Floats, step: Floats) -> Floats:
    """argmin_r step phi(r) + (r - goal)^2 / 2, exactly; `goal` and `step` >= 0 have one shape.

    r + step phi'(r) rises with r, so counting the breaks it has passed at the goal finds the interval. Where
    it jumps at a break, all goals within the jump end at that break.
    """
    a, b = coefficients[:, 0], coefficients[:, 1]
    past = breaks + step[..., None] * (2 * a[1:] * breaks + b[1:])
    interval = (goal[..., None] > past).sum(axis=-1)
    free = (goal - step * b[interval]) / (1 + 2 * step * a[interval])
    return np.asarray(np.minimum(free, np.append(breaks, np.inf)[interval]))
