"""What a sampler does with cells that are grouped by rows: draw the rows, and sum what scores leave of targets.

All rows at once on one machine, a block of them in an executor: noise goes by the number of a row, so a row has the
same draw wherever it is made. Knows two sides and arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import Floats

Array = NDArray[Any]


class Part(NamedTuple):
    """Cells of the rows from `first` on, grouped by them; weights None where all are 1."""

    first: int
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    targets: Array
    weights: Array | None

    @property
    def rows(self) -> slice:
        """Its rows among all of the side."""
        return slice(self.first, self.first + len(self.indptr) - 1)


class RowDraw(NamedTuple):
    """A half-step that draws: all about it that is no cell.

    other : (m, d), the fixed side; free : the range of columns that is drawn, each with prior precision 1 and mean
    `prior`, (1, f), or (n, f) of all rows; noise : (n,), precisions of the rows of side 0.
    """

    side: int
    other: Array
    free: tuple[int, int]
    prior: Array
    noise: Array
    seed: int
    sweep: int


class Stretch(NamedTuple):
    """The factors of a side, `columns` of its rows, scaled about their means."""

    side: int
    columns: NDArray[np.int64]
    mean: Array


def draw_part(part: Part, own: Array, step: RowDraw, n_threads: int) -> int:
    """Draw the rows of a part in place; returns the number of a row that has no finite draw, or -1."""
    rows = _core.half_step(own, step.other)
    rows.cells(part.indptr, part.indices, part.targets, 1.0 if part.weights is None else part.weights)
    by_row = np.ascontiguousarray(step.noise[part.rows]) if step.side == 0 else None
    rows.row_weights(by_row, step.noise if step.side == 1 else None)
    rows.columns(*step.free)
    rows.penalty(1.0)
    rows.prior(step.prior)
    rows.method(_core.Method.draw, 1e-5, 1, 64)
    rows.noise(step.seed, step.sweep, step.side, part.first)
    failed = int(rows.solve(False, n_threads)["failed"])
    return failed if failed < 0 else failed + part.first


def residual_part(
    part: Part, own: Array, other: Array, stretch: Stretch, keep: bool, n_threads: int
) -> tuple[Floats, Array, Array]:
    """Sums over the cells of each row of side 0, `Residual.sums`; then e and x of all cells, if they are to be kept."""
    columns, mean = stretch.columns, stretch.mean
    moved, base = np.zeros_like(own), np.zeros(len(own), own.dtype)
    moved[:, columns] = own[:, columns]
    if stretch.side == 0:
        moved[:, columns] -= mean
    else:
        base = np.ascontiguousarray(-own[:, columns] @ mean)
    sums, e, x = _core.residuals(
        own, moved, base, other, part.indptr, part.indices, part.targets, part.weights, keep, n_threads
    )
    return np.asarray(sums), np.asarray(e), np.asarray(x)
