"""Absolute and quantile losses of targets on a grid, such as whole stars. Knows grids and pieces, nothing of fits.

A quantile of whole stars jumps from star to star, and a fit under |z - t| is stuck to them: most scores come to lie
exactly on a star, whatever the data say of the place between two. So a star stands for the interval around it, over
which the loss is averaged. That makes scores interpolated quantiles; rounded, they are quantiles of the stars again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from halfstep.core.arrays import Floats
from halfstep.core.losses.base import Loss
from halfstep.core.losses.piecewise import Composition, PiecewiseLoss

MOST, WIDEST = 200, 10_000
"""Distinct targets of a grid, and steps from its lowest to its highest; beyond that steps say nothing."""


@dataclass(frozen=True)
class Coarse(PiecewiseLoss):
    """below max(0, t - z) + above max(0, z - t), averaged over targets within step / 2 of t; answers are on the grid.

    The grid is low, low + step, ..., high. `Coarse(1, 1, step)` is |r| beyond step / 2 and r^2 / step + step / 4
    within.
    """

    name = "coarse"
    below: float = 1.0
    above: float = 1.0
    step: float = 1.0
    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        for name in ("below", "above", "step"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)!r} is not valid; it must be a finite number > 0")

    def _composition(self) -> Composition:
        # ReLU(u r), averaged, is a square while |r| <= step / 2, and itself beyond.
        slopes = np.array([-self.below, self.above])
        tau = np.sqrt(np.abs(slopes) * self.step)
        return ((), ()), (tau, slopes / tau, tau / 2)

    @property
    def skew(self) -> float:
        return (self.below + self.above) / (2 * math.sqrt(self.below * self.above))

    def rounded(self, z: ArrayLike) -> Floats:
        """The nearest target of the grid; the lower one in the middle."""
        steps = np.ceil((np.asarray(z, np.float64) - self.low) / self.step - 0.5)
        return np.asarray(np.clip(self.low + self.step * steps, self.low, self.high))


def on_grid(loss: Loss, t: Floats) -> Loss:
    """The loss itself, or, where it has one kink and targets lie on a grid, what it is for such targets."""
    grid = None if loss.slopes is None else grid_of(t)
    if loss.slopes is None or grid is None:
        return loss
    return Coarse(*loss.slopes, *grid)


def grid_of(t: Floats) -> tuple[float, float, float] | None:
    """(step, low, high) of the grid on which targets lie; None where they lie on none, or it is too fine to matter."""
    levels = np.unique(t)
    if not 2 <= len(levels) <= MOST:
        return None
    low, high, step = float(levels[0]), float(levels[-1]), float(np.diff(levels).min())
    steps = (levels - low) / step
    near = np.abs(steps - np.rint(steps)).max() <= 1e-3
    return (step, low, high) if near and steps[-1] <= WIDEST else None
