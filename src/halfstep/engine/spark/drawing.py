"""Cells of a sampler in the executors. Rows of both sides are held by the driver and go whole to every executor.

A half-step is one job: each block draws its rows by the core of one machine, with noise that goes by the number of a
row, and sends them back; so do the sums between two half-steps. Hyperparameters are drawn by the driver, from rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.drawn_cells import Residual
from halfstep.core.drawn_rows import Array, Part, RowDraw, Stretch, draw_part, residual_part
from halfstep.data.ids import Index
from halfstep.engine.drawing import DrawnHere, Unit, numbers_of
from halfstep.engine.spark.moves import kept
from halfstep.engine.spark.reading import CellsThere
from halfstep.engine.spark.tasks import CellBlock


class Moments(NamedTuple):
    """Of the targets of a block: sum of weights, of w t, of w (t - about)^2, smallest, largest."""

    w: float
    wt: float
    square: float
    low: float
    high: float


@dataclass(frozen=True)
class DrawnThere:
    """Cells on a cluster, read without long rows cut into pieces, whose ids are brought to the driver."""

    given: CellsThere
    ids: tuple[Index, Index]

    @classmethod
    def of(cls, given: CellsThere) -> DrawnThere:
        both = zip(given.numberings, given.columns.roles, strict=True)
        first, second = (numbering.ids(role) for numbering, role in both)
        return cls(given, (first, second))

    @property
    def shape(self) -> tuple[int, int]:
        return self.given.cells.shape

    @property
    def n_rows(self) -> int:
        return self.given.n_rows

    @property
    def classes(self) -> NDArray[Any] | None:
        return self.given.classes

    def spread(self) -> tuple[float, float, float, float]:
        first = self._moments(0.0)
        mean = sum(m.wt for m in first) / sum(m.w for m in first)
        found = self._moments(mean)
        spread = np.sqrt(sum(m.square for m in found) / sum(m.w for m in found))
        return mean, float(spread), min(m.low for m in found), max(m.high for m in found)

    def _moments(self, about: float) -> list[Moments]:
        def run(block: CellBlock) -> Moments | None:
            t, w = numbers_of(block.cells)
            if not len(t):
                return None
            square = float(np.dot(w, (t - about) ** 2))
            return Moments(float(w.sum()), float(np.dot(w, t)), square, float(t.min()), float(t.max()))

        found = self.given.cells.blocks[0].mapValues(run).collect()
        return [moments for _, moments in sorted(found, key=lambda item: item[0]) if moments is not None]

    def in_units(self, unit: Unit) -> FarCells:
        def run(block: CellBlock) -> Part:
            t, w = numbers_of(block.cells)
            columns = block.needed[block.cells.indices].astype(np.int32)
            weights = None if (w == 1).all() else w.astype(np.float32)
            targets = ((t - unit[0]) / unit[1]).astype(np.float32)
            return Part(block.first, block.cells.indptr, columns, targets, weights)

        cells = self.given.cells
        first, second = (kept(rdd.mapValues(run)) for rdd in cells.blocks)
        return FarCells(cells.context, cells.shape, (first, second), cells.total_weight, np.ones(cells.shape[0]))

    def pattern(self) -> Observations:
        rows, columns, *_ = self.given.listed()
        return Observations.from_cells(rows, columns, self.shape, dtype=np.float32)

    def digest(self) -> str:
        return self.given.cells.fingerprint

    def let_go(self) -> None:
        for thing in (self.given.cells, *self.given.numberings):
            thing.unpersist()

    def here(self, what: str) -> DrawnHere:
        raise ValueError(
            f"{what} draws something for every cell in both orientations, so it is not for SparkEngine; use "
            "likelihood='gaussian' there, or fit on one machine."
        )


@dataclass
class FarCells:
    """Cells in both orientations as RDDs of (partition, Part). `CellsAnywhere` says what the methods mean."""

    context: Any
    shape: tuple[int, int]
    parts: tuple[Any, Any]
    total: float
    by_row: Floats

    def draw_rows(self, own: Array, step: RowDraw, n_threads: int) -> int:
        def run(part: Part, shared: tuple[Array, RowDraw]) -> tuple[int, Array, int]:
            rows, how = shared
            mine = np.ascontiguousarray(rows[part.rows])
            if len(how.prior) > 1:  # rows are where their features say
                how = how._replace(prior=np.ascontiguousarray(how.prior[part.rows]))
            failed = draw_part(part, mine, how, 1)
            return part.first, mine[:, slice(*how.free)], failed

        worst = -1
        for first, drawn, failed in self._run(step.side, run, (own, step)):
            own[first : first + len(drawn), slice(*step.free)] = drawn
            worst = failed if worst < 0 else worst
        return worst

    def residual(self, own: Array, other: Array, stretch: Stretch, keep: bool, n_threads: int) -> Residual:
        def run(part: Part, shared: tuple[Array, Array, Stretch]) -> tuple[int, Floats]:
            left, right, how = shared
            return part.first, residual_part(part, np.ascontiguousarray(left[part.rows]), right, how, False, 1)[0]

        nothing = np.empty(0, own.dtype)
        return Residual(self._joined(0, run, (own, other, stretch), 6), nothing, nothing, 0.0)

    def row_sums(self, side: int, offsets: Floats) -> tuple[Floats, Floats]:
        def run(part: Part, shared: Floats) -> tuple[int, Floats]:
            n = len(part.indptr) - 1
            rows = np.repeat(np.arange(n), np.diff(part.indptr))
            given = np.ones(len(rows)) if part.weights is None else part.weights.astype(np.float64)
            rest = given * (part.targets.astype(np.float64) - shared[part.indices])
            return part.first, np.column_stack([np.bincount(rows, given, n), np.bincount(rows, rest, n)])

        counts, rest = self._joined(side, run, offsets, 2).T
        return counts, rest

    def some(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        def run(part: Part, shared: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            cells = np.unique(np.linspace(0, max(len(part.indices) - 1, 0), shared).astype(np.int64))
            cells = cells[: len(part.indices)]
            rows = part.first + np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))
            return rows[cells], part.indices[cells].astype(np.int64)

        found = self._run(0, run, -(-count // self.parts[0].getNumPartitions()))
        return np.concatenate([rows for rows, _ in found]), np.concatenate([columns for _, columns in found])

    def arrays(self) -> dict[str, Array]:
        return {"by_row": self.by_row}

    def restore(self, arrays: dict[str, Array]) -> None:
        self.by_row = arrays["by_row"]

    def let_go(self) -> None:
        for rdd in self.parts:
            rdd.unpersist()

    def _joined(self, side: int, run: Callable[[Part, Any], Any], what: Any, width: int) -> Floats:
        """(n, width): what parts find for their rows."""
        values = np.zeros((self.shape[side], width))
        for first, found in self._run(side, run, what):
            values[first : first + len(found)] = found
        return values

    def _run(self, side: int, run: Callable[[Part, Any], Any], what: Any) -> list[Any]:
        """What `run` makes of every part of a side and of what all of them get, in the order of the parts."""
        shared = self.context.broadcast(what)
        try:
            found = self.parts[side].mapValues(lambda part: run(part, shared.value)).collect()
        finally:
            shared.unpersist()
        return [each for _, each in sorted(found, key=lambda item: item[0])]
