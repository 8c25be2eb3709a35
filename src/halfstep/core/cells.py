"""Observed cells of a matrix, with targets and weights apart, in both orientations.

Knows rows and columns, not what they stand for. Everything is built in linear time by the core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import HalfStep

Values = NDArray[Any] | float
"""One value for each cell, or one number that holds for all of them."""

MAX_INDEX = 2**31 - 1


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
            arrays = [v for v in (self.targets, self.weights) if isinstance(v, np.ndarray)]
            indptr, indices, moved = _core.transpose(self.indptr, self.indices, self.shape[1], arrays)
            targets, weights = self._refill(moved)
            n, m = self.shape
            self._transposed.append(Observations((m, n), indptr, indices, targets, weights, [self]))
        return self._transposed[0]

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

        targets, weights = _narrow("targets", self.targets, dtype), _narrow("weights", self.weights, dtype)
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
        check_size(shape)
        for name, places, n in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
            if len(places) and (places.min() < 0 or places.max() >= n):  # a cast to int32 would hide some of them
                raise ValueError(
                    f"{name} run from {places.min()} to {places.max()}; "
                    f"a matrix of shape {shape} has {name} 0 to {n - 1}."
                )
        rows32, columns32 = rows.astype(np.int32, copy=False), columns.astype(np.int32, copy=False)
        cells = cls(shape, np.zeros(1, np.int64), columns32, targets, weights).astype(dtype)
        arrays = [v for v in (cells.targets, cells.weights) if isinstance(v, np.ndarray)]
        # Grouping by column and then transposing sorts the columns of every row, in linear time.
        indptr, indices, arrays = _core.group_cells(columns32, rows32, shape[1], arrays)
        indptr, indices, arrays = _core.transpose(indptr, indices, shape[0], arrays)
        targets, weights = cells._refill(arrays)
        grouped = cls(shape, indptr, indices, targets, weights)
        return grouped._summed() if duplicates == "sum" else grouped

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
        if not np.all(csr.data):
            csr = csr.copy()
            csr.eliminate_zeros()
        data = np.asarray(csr.data)
        constant = len(data) > 0 and data.min() == data.max()
        weights = _narrow("weights", float(data[0]) if constant else data, dtype)
        indices = np.ascontiguousarray(csr.indices, np.int32)
        return cls(csr.shape, np.ascontiguousarray(csr.indptr, np.int64), indices, 1.0, weights)

    def to_csr(self) -> Any:
        """The weights as a scipy CSR array, in their own precision; a number for all in float32 where that is exact."""
        import scipy.sparse as sp

        weights = np.asarray(self.weights)
        if weights.ndim == 0 and np.float32(weights) == weights:
            weights = weights.astype(np.float32)
        data = np.broadcast_to(weights, (len(self),)).copy()
        # scipy copies int64 indptr down to the width of the indices; harmless below 2^31 cells.
        return sp.csr_array((data, self.indices, self.indptr), shape=self.shape)

    def _summed(self) -> Observations:
        """Repeated cells of a row become one whose weight is their sum; the first target is kept."""
        row = np.repeat(np.arange(self.shape[0]), self.counts)
        first = np.ones(len(self), bool)
        first[1:] = (row[1:] != row[:-1]) | (self.indices[1:] != self.indices[:-1])
        if first.all():
            return self
        starts = np.flatnonzero(first)
        each = np.broadcast_to(np.asarray(self.weights, np.float64), (len(self),))
        weights = np.add.reduceat(each, starts)
        dtype = self.weights.dtype if isinstance(self.weights, np.ndarray) else np.float32
        targets = self.targets[starts] if isinstance(self.targets, np.ndarray) else self.targets
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row[starts], minlength=self.shape[0]))]).astype(np.int64)
        return Observations(self.shape, indptr, self.indices[starts], targets, weights.astype(dtype))


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


def _narrow(name: str, values: Values, dtype: Any) -> Values:
    """Values in a precision that they fit: none grows infinite, and no weight that counts becomes one that does not."""
    given = np.asarray(values)
    largest = np.abs(given).max(initial=0.0)
    if largest > np.finfo(dtype).max:
        raise ValueError(f"{name} of {largest:.3g} do not fit {np.dtype(dtype)}; scale them, or use float64.")
    narrow = np.ascontiguousarray(given, dtype)
    lost = (narrow.reshape(given.shape) == 0) & (given != 0)
    if name == "weights" and lost.any():
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
