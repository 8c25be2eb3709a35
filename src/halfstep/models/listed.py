"""Rated cells as plain lists, for sums over the rows of either side. Fits nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations


@dataclass(frozen=True, eq=False)
class ListedCells:
    """Cells as lists: where each lies on both sides, target, weight."""

    places: tuple[NDArray[np.int64], NDArray[Any]]
    t: Floats
    w: Floats
    shape: tuple[int, int]

    @classmethod
    def of(cls, cells: Observations) -> ListedCells:
        rows = np.repeat(np.arange(cells.shape[0]), cells.counts)
        t, w = (np.broadcast_to(np.asarray(v, np.float64), len(cells)) for v in (cells.targets, cells.weights))
        return cls((rows, cells.indices), t, w, cells.shape)

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.t.min()), float(self.t.max())

    def sums(self, values: Floats, side: int) -> Floats:
        return np.bincount(self.places[side], values, self.shape[side]).astype(np.float64)

    def spread_out(self, biases: tuple[Floats, Floats]) -> Floats:
        return np.asarray(biases[0][self.places[0]] + biases[1][self.places[1]])
