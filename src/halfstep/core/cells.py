"""Observed cells of a matrix, with targets and weights apart, in both orientations.

Knows rows and columns, not what they stand for. Everything is built in linear time by the core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import HalfStep

Values = NDArray[Any] | float
"""One value for each cell, or one number that holds for all of them."""

MAX_INDEX = 2**31 - 1

SUMMED_AT_ONCE = 2**22


def plain(values: Values, dtype: Any) -> Values:
    """Values as the core takes them; it converts nothing itself."""
    return np.ascontiguousarray(values, dtype) if isinstance(values, np.ndarray) else float(values)


@dataclass(frozen=True, eq=False)
class Observations:
    """Cells of an (n, m) matrix, grouped by row.

    `indptr` (n + 1,) int64, `indices` (cells,) int32, sorted within a row; `targets` and `weights` are arrays of length
    `cells` or numbers. `.T` is the same data grouped by column; it is built once, when first asked for.
    """

    shape: tuple[int, int]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    targets: Values = 1.0
    weights: Values = 1.0
    _transposed: list[Observations] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def T(self) -> Observations:
        if not self._transposed:
            self._transposed.append(replace(self._turned(), _transposed=[self]))
        return self._transposed[0]

    def _turned(self) -> Observations:
        """The same cells grouped by column."""
        arrays = [v for v in (self.targets, self.weights) if isinstance(v, np.ndarray)]
        indptr, indices, moved = _core.transpose(self.indptr, self.indices, self.shape[1], arrays)
        return Observations(self.shape[::-1], indptr, indices, *self._refill(moved))

    def bind(self, rows: HalfStep, dtype: Any) -> None:
        """Tell the core about these cells."""
        rows.cells(self.indptr, self.indices, plain(self.targets, dtype), plain(self.weights, dtype))

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Observed cells of each row."""
        return np.diff(self.indptr)

    @property
    def total_weight(self) -> float:
        """The sum of the weights."""
        one = not isinstance(self.weights, np.ndarray)
        return float(np.sum(self.weights, dtype=np.float64)) * (len(self) if one else 1)

    def per_row(self, rule: Callable[[NDArray[np.int64]], Values]) -> Values:
        """What a rule gives each row from its number of cells. Cells on a cluster apply it where their rows are."""
        return rule(self.counts)

    def _refill(self, arrays: list[NDArray[Any]]) -> tuple[Values, Values]:
        """Targets and weights with their arrays replaced, in order."""
        queue = list(arrays)
        targets = queue.pop(0) if isinstance(self.targets, np.ndarray) else self.targets
        weights = queue.pop(0) if isinstance(self.weights, np.ndarray) else self.weights
        return targets, weights

    def astype(self, dtype: Any) -> Observations:
        """The same cells with values of another precision."""

        targets, weights = fitting("targets", self.targets, dtype), fitting("weights", self.weights, dtype)
        return replace(self, targets=targets, weights=weights, _transposed=[])

    def take(self, rows: NDArray[np.int64]) -> Observations:
        """Some of the rows, in the given order."""
        counts = self.counts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        cells = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], counts)
        pick = [v[cells] for v in (self.targets, self.weights) if isinstance(v, np.ndarray)]
        targets, weights = self._refill(pick)
        return Observations((len(rows), self.shape[1]), indptr, self.indices[cells], targets, weights)

    @classmethod
    def from_cells(
        cls,
        rows: NDArray[Any],
        columns: NDArray[Any],
        shape: tuple[int, int],
        targets: Values = 1.0,
        weights: Values = 1.0,
        duplicates: Literal["keep", "sum"] = "keep",
        dtype: Any = np.float32,
    ) -> Observations:
        """From cell coordinates. Repeated cells are kept as they are, or their weights summed."""
        cells = cls.by_column(rows, columns, shape, targets, weights, dtype).by_row()
        return cells.summed(dtype) if duplicates == "sum" else cells

    @classmethod
    def by_column(
        cls,
        rows: NDArray[Any],
        columns: NDArray[Any],
        shape: tuple[int, int],
        targets: Values = 1.0,
        weights: Values = 1.0,
        dtype: Any = np.float32,
    ) -> Observations:
        """The first half of `from_cells`: (m, n), the rows of a column as they come. What was given may go now."""
        check_size(shape)
        for name, places, n in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
            if len(places) and (places.min() < 0 or places.max() >= n):  # a cast to int32 would hide some of them
                raise ValueError(
                    f"{name} run from {places.min()} to {places.max()}; "
                    f"a matrix of shape {shape} has {name} 0 to {n - 1}."
                )
        rows32, columns32 = rows.astype(np.int32, copy=False), columns.astype(np.int32, copy=False)
        cells = cls(shape[::-1], np.zeros(1, np.int64), rows32, targets, weights).astype(dtype)
        arrays = [v for v in (cells.targets, cells.weights) if isinstance(v, np.ndarray)]
        indptr, indices, arrays = _core.group_cells(columns32, rows32, shape[1], arrays)
        return cls(shape[::-1], indptr, indices, *cells._refill(arrays))

    def by_row(self) -> Observations:
        """The second half: what `by_column` grouped, its columns sorted within a row, in linear time."""
        return self._turned()  # `.T` would keep what it came from, whose rows are in no order

    @classmethod
    def from_weights(cls, matrix: Any, dtype: Any = np.float32) -> Observations:
        """From a scipy sparse matrix whose stored values are weights; the target of every stored cell is 1.

        Explicit zeros are dropped (weight zero equals absent) and repeated cells summed. Values that are all equal are
        kept as one number. A canonical float32 CSR with int32 indices is used as it is, without a copy.
        """
        check_size(matrix.shape)
        csr = matrix.tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        indices = np.ascontiguousarray(csr.indices, np.int32)
        return cls(csr.shape, np.ascontiguousarray(csr.indptr, np.int64), indices, 1.0, csr.data).settled(dtype)

    def settled(self, dtype: Any) -> Observations:
        """Without cells of weight zero; weights as one number where all are equal, in a precision that they fit."""
        cells, weights = self, self.weights
        if isinstance(weights, np.ndarray):
            if not np.all(weights):
                cells = self._without(np.flatnonzero(weights == 0))
                weights = np.asarray(cells.weights)
            if len(weights) and weights.min() == weights.max():
                weights = float(weights[0])
        elif weights == 0:
            cells = self._without(np.arange(len(self)))
        return replace(cells, weights=fitting("weights", weights, dtype), _transposed=[])

    def to_csr(self) -> Any:
        """The weights as a scipy CSR array, in their own precision; a number for all in float32 where that is exact."""
        import scipy.sparse as sp

        weights = np.asarray(self.weights)
        if weights.ndim == 0 and np.float32(weights) == weights:
            weights = weights.astype(np.float32)
        data = np.broadcast_to(weights, (len(self),)).copy()
        # scipy wants one width for both: indptr as int32 below 2^31 cells, indices as int64 from there on.
        return sp.csr_array((data, self.indices, self.indptr), shape=self.shape)

    def _without(self, gone: NDArray[np.int64]) -> Observations:
        """Without these cells, whose places rise."""
        stay = np.ones(len(self), bool)
        stay[gone] = False
        targets, weights = self._refill([v[stay] for v in (self.targets, self.weights) if isinstance(v, np.ndarray)])
        indptr = self.indptr - np.searchsorted(gone, self.indptr)
        return Observations(self.shape, indptr, self.indices[stay], targets, weights)

    @property
    def repeated(self) -> NDArray[np.bool_]:
        """Of each cell whether the one before is the same, where columns are sorted within a row."""
        again = np.zeros(len(self), bool)
        np.equal(self.indices[1:], self.indices[:-1], out=again[1:])
        again[self.indptr[:-1][self.counts > 0]] = False
        return again

    def summed(self, dtype: Any) -> Observations:
        """Repeated cells of a row, whose columns are sorted, become one with the sum of their weights; of targets the
        first is kept."""
        again = self.repeated
        if not again.any():
            return self
        kept = self._without(np.flatnonzero(again))
        sums = np.empty(len(kept), dtype)
        # Some rows at a time: sums in float64 of all cells would need more than the cells themselves.
        cuts = np.unique(np.searchsorted(self.indptr, np.arange(0, len(self) + SUMMED_AT_ONCE, SUMMED_AT_ONCE)))
        for a, b in pairwise(np.append(cuts.clip(max=self.shape[0]), self.shape[0])):
            cells = slice(self.indptr[a], self.indptr[b])
            starts = np.flatnonzero(~again[cells])
            if len(starts):
                some = self.weights[cells] if isinstance(self.weights, np.ndarray) else self.weights
                each = np.broadcast_to(np.asarray(some, np.float64), len(again[cells]))
                sums[kept.indptr[a] : kept.indptr[b]] = np.add.reduceat(each, starts)
        return replace(kept, weights=sums)


@dataclass(frozen=True, eq=False)
class DenseCells:
    """Cells of an (n, m) matrix as a table, which nothing is copied from: `.T` is another view of it.

    targets (n, m), NaN where there is no cell; weights (n, m) or one number. Both arrays lie in memory in the same way,
    row after row or column after column.
    """

    targets: NDArray[Any]
    weights: Values = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        n, m = self.targets.shape
        return n, m

    @property
    def T(self) -> DenseCells:
        return DenseCells(self.targets.T, self.weights.T if isinstance(self.weights, np.ndarray) else self.weights)

    def bind(self, rows: HalfStep, dtype: Any) -> None:
        """Tell the core about these cells."""
        weights = self.weights  # like the targets they stay in their order, which may be that of the columns
        rows.table(
            np.asarray(self.targets, dtype),
            np.asarray(weights, dtype) if isinstance(weights, np.ndarray) else float(weights),
        )


def fitting(name: str, values: Values, dtype: Any) -> Values:
    """Values in a precision that they fit: none grows infinite, and no weight that counts becomes one that does not."""
    given = np.asarray(values)
    largest = max(float(given.max(initial=0.0)), -float(given.min(initial=0.0)))
    if largest > float(np.finfo(dtype).max):
        raise ValueError(f"{name} of {largest:.3g} do not fit {np.dtype(dtype)}; scale them, or use float64.")
    narrow = np.ascontiguousarray(given, dtype)
    if name == "weights" and given.dtype != dtype and (lost := (narrow.reshape(given.shape) == 0) & (given != 0)).any():
        raise ValueError(
            f"weights of {np.abs(given[lost]).max():.3g} are 0 in {np.dtype(dtype)}, so {np.count_nonzero(lost)} cells "
            "would not count; scale all weights up, leave these cells out, or use float64."
        )
    return narrow if isinstance(values, np.ndarray) else values


def check_size(shape: tuple[int, int]) -> None:
    """Row numbers are int32 in the core; more rows than that would wrap around."""
    for side, n in zip(("rows", "columns"), shape, strict=True):
        if n > MAX_INDEX:
            raise ValueError(
                f"the matrix has {n:,} {side}; at most {MAX_INDEX:,} fit into one machine. Use SparkEngine."
            )
