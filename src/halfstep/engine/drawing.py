"""Cells for a sampler, as an engine has them: here, or in the executors of a cluster. Draws nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.core.drawn_cells import Cells, CellsAnywhere
from halfstep.data.ids import Index
from halfstep.data.sweeps import digest_of_cells
from halfstep.data.table import CellsHere

Unit = tuple[float, float]


class CellsToDraw(Protocol):
    """Cells with numbers as targets, wherever an engine has read them to."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def ids(self) -> tuple[Index, Index]: ...
    @property
    def classes(self) -> NDArray[Any] | None: ...
    def spread(self) -> tuple[float, float, float, float]:
        """Mean and standard deviation of the targets by their weights, the smallest and the largest."""

    def in_units(self, unit: Unit) -> CellsAnywhere:
        """Cells with targets (t - unit[0]) / unit[1], in float32."""

    def pattern(self) -> Observations:
        """Which cells there are, on this machine."""

    def digest(self) -> str:
        """The same for the same cells."""

    def let_go(self) -> None:
        """Free what is kept elsewhere."""

    def here(self, what: str) -> DrawnHere:
        """Refuses, naming `what` needs it, unless every cell is on this machine."""


@dataclass(frozen=True)
class DrawnHere:
    """Cells on this machine."""

    given: CellsHere

    @property
    def shape(self) -> tuple[int, int]:
        return self.given.cells.shape

    @property
    def n_rows(self) -> int:
        return self.given.n_rows

    @property
    def ids(self) -> tuple[Index, Index]:
        return self.given.ids

    @property
    def classes(self) -> NDArray[Any] | None:
        return self.given.classes

    def spread(self) -> tuple[float, float, float, float]:
        t, w = numbers_of(self.given.cells)
        mean = float(np.average(t, weights=w))
        return mean, float(np.sqrt(np.average((t - mean) ** 2, weights=w))), float(t.min()), float(t.max())

    def in_units(self, unit: Unit) -> Cells:
        return cells_in_units(self.given.cells, unit)

    def pattern(self) -> Observations:
        cells = self.given.cells
        return Observations(cells.shape, cells.indptr, cells.indices)

    def digest(self) -> str:
        return digest_of_cells(self.given.cells)

    def let_go(self) -> None:
        pass

    def here(self, what: str) -> DrawnHere:
        return self


def numbers_of(cells: Observations) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Targets and weights of all cells."""
    t, w = (np.broadcast_to(np.asarray(v, np.float64), len(cells)) for v in (cells.targets, cells.weights))
    return t, w


def cells_in_units(cells: Observations, unit: Unit) -> Cells:
    t, w = numbers_of(cells)
    return Cells.of(Observations(cells.shape, cells.indptr, cells.indices, (t - unit[0]) / unit[1], w))
