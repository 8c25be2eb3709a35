"""Cells of a sampler: normal targets and weights, and what scores leave of them. likelihoods.py says the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.drawn_rows import Array, Part, RowDraw, Stretch, draw_part, residual_part


@dataclass(frozen=True)
class Prior:
    """What is believed before any cell is seen, in units of t.

    Precisions of columns are Gamma(shape, rate): so vague that a column which is not needed dies out, and a rank that
    is too large costs time, not error. Noise precision is Gamma(noise_shape, noise_rate).
    """

    shape: float = 1.0
    rate: float = 0.01
    noise_shape: float = 1.0
    noise_rate: float = 1.0
    strength: float = 1.0
    width: float = 0.01


class Chance(NamedTuple):
    """Where the random numbers of a sweep come from."""

    seed: int
    sweep: int
    rng: np.random.Generator
    n_threads: int = 1


Oriented = tuple[NDArray[Any], NDArray[Any]]
"""One value for each cell, by rows of side 0 and by rows of side 1."""


@dataclass
class Cells:
    """Cells in both orientations; targets and weights may be drawn. `order` has the place of each cell of the second.

    given : sample weights, or None for 1. weights : drawn, given ones included, or None where `given` holds.
    by_row : (n,), noise precisions of the rows of side 0 relative to alpha.
    """

    sides: tuple[Observations, Observations]
    order: NDArray[np.int64]
    targets: Oriented
    given: Oriented | None
    by_row: Floats
    weights: Oriented | None = None

    @classmethod
    def of(cls, cells: Observations, dtype: Any = np.float32) -> Cells:
        """From targets and sample weights."""
        n, m = cells.shape
        rows = np.repeat(np.arange(n), cells.counts)
        columns = cells.indices.astype(np.int64)
        order = np.argsort(columns, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=m))]).astype(np.int64)
        sides = (
            Observations(cells.shape, cells.indptr, cells.indices),
            Observations((m, n), indptr, rows[order].astype(np.int32)),
        )
        targets, given = (np.broadcast_to(np.asarray(v, dtype), len(cells)) for v in (cells.targets, cells.weights))
        made = cls(sides, order, (targets, targets), None, np.ones(n))
        made.targets = made.turned(targets)
        made.given = None if (given == 1).all() else made.turned(given)
        return made

    def turned(self, values: NDArray[Any]) -> Oriented:
        """Values by rows of side 0 in both orders."""
        return np.ascontiguousarray(values), np.ascontiguousarray(values[self.order])

    @property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of every cell."""
        cells = self.sides[0]
        return np.repeat(np.arange(cells.shape[0]), cells.counts), cells.indices.astype(np.int64)

    @property
    def total(self) -> float:
        """How many cells there are, by their sample weights."""
        return float(len(self.order) if self.given is None else self.given[0].sum(dtype=np.float64))

    @property
    def shape(self) -> tuple[int, int]:
        return self.sides[0].shape

    @property
    def precisions(self) -> Oriented | None:
        """What multiplies alpha and `by_row`."""
        return self.given if self.weights is None else self.weights

    # ------------------------------------------------------------------ what a sampler asks for

    def part(self, side: int) -> Part:
        """All cells by the rows of a side."""
        cells, weights = self.sides[side], self.precisions
        return Part(0, cells.indptr, cells.indices, self.targets[side], None if weights is None else weights[side])

    def draw_rows(self, own: Array, step: RowDraw, n_threads: int) -> int:
        return draw_part(self.part(step.side), own, step, n_threads)

    def residual(self, own: Array, other: Array, stretch: Stretch, keep: bool, n_threads: int) -> Residual:
        return Residual(*residual_part(self.part(0), own, other, stretch, keep, n_threads), 0.0)

    def row_sums(self, side: int, offsets: Floats) -> tuple[Floats, Floats]:
        places, n = self.places, self.shape[side]
        given = np.ones(len(self.order)) if self.given is None else self.given[0].astype(np.float64)
        rest = given * (self.targets[0].astype(np.float64) - offsets[places[1 - side]])
        counts, sums = (np.bincount(places[side], values, n).astype(np.float64) for values in (given, rest))
        return counts, sums

    def some(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        cells = np.unique(np.linspace(0, len(self.order) - 1, count).astype(np.int64))
        rows, columns = self.places
        return rows[cells], columns[cells]

    def arrays(self) -> dict[str, Array]:
        weights = np.empty(0, np.float32) if self.weights is None else self.weights[0]
        return {"by_row": self.by_row, "targets": self.targets[0], "weights": weights}

    def restore(self, arrays: dict[str, Array]) -> None:
        self.by_row, self.targets = arrays["by_row"], self.turned(arrays["targets"])
        if len(arrays["weights"]):
            self.weights = self.turned(arrays["weights"])

    def let_go(self) -> None:
        pass


class Residual(NamedTuple):
    """What is left of targets once scores are taken away: sums over the cells of each row, (n, 6).

    Sums are those of w, w e, w x, w e^2, w e x and w x^2; e and x (N,) are kept where cells are drawn. Since they were
    made, scores have risen by `shift` + `stretch` x. `constant` is the intercept now.
    """

    sums: Floats
    e: NDArray[Any]
    x: NDArray[Any]
    constant: float
    shift: float = 0.0
    stretch: float = 0.0

    @property
    def squares(self) -> Floats:
        """(n,): sums of w (t - z)^2."""
        w, e, x, ee, ex, xx = self.sums.T
        a, b = self.shift, self.stretch
        return np.asarray(np.maximum(ee - 2 * a * e - 2 * b * ex + a * a * w + 2 * a * b * x + b * b * xx, 0.0))

    @property
    def each(self) -> NDArray[Any]:
        """(N,): t - z."""
        dtype = self.e.dtype.type
        return np.asarray(self.e - (dtype(self.shift) + dtype(self.stretch) * self.x))


class CellsAnywhere(Protocol):
    """Cells of a sampler, on this machine or in executors, whose own noise is all that is drawn of them.

    by_row : (n,), noise precisions of the rows of side 0 relative to alpha; total : number of cells by their weights.
    """

    by_row: Floats

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def total(self) -> float: ...
    def draw_rows(self, own: Array, step: RowDraw, n_threads: int) -> int:
        """Draw the rows (n, d) of a side in place; the number of a row that has no finite draw, or -1."""

    def residual(self, own: Array, other: Array, stretch: Stretch, keep: bool, n_threads: int) -> Residual:
        """What the scores of rows of both sides leave of targets."""

    def row_sums(self, side: int, offsets: Floats) -> tuple[Floats, Floats]:
        """For each row of a side, over its cells: sums of w, and of w (t - offsets of the other side's row)."""

    def some(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns of at most so many cells."""

    def arrays(self) -> dict[str, Array]:
        """What has been drawn of cells, for a checkpoint."""

    def restore(self, arrays: dict[str, Array]) -> None:
        """From what `arrays` gave."""

    def let_go(self) -> None:
        """Free what is kept elsewhere."""
