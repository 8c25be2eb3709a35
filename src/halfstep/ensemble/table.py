"""The prediction matrix as cells: targets and weights of every (row, classifier), handed to the core block by block.

A row is one instance and one class: an instance has one row with two classes (that of the second class) and as many
rows as classes otherwise. Knows where cells are; must not know what minimises them, nor labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.core.cells import DenseCells, Observations
from halfstep.ensemble.confidence import CellWeights
from halfstep.ensemble.scale import CellScale

BLOCK_CELLS = 4_000_000
"""Cells handed to the core at a time: a matrix of 10^8 cells is never held as a sparse matrix of both orientations."""

PASS_CELLS = 100_000
"""Cells of an element-wise pass: what one operation writes, the next finds in cache."""

Extra = tuple[Floats, Floats]
"""Targets (NaN: none) and weights of one more cell for each row."""


@dataclass(eq=False)
class PredictionTable:
    """targets (N, m), NaN where missing; weights (N, m), or one number for all observed cells."""

    targets: NDArray[np.floating]
    weights: NDArray[np.floating] | float
    _whole: dict[int, Observations] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        n, m = self.targets.shape
        return n, m

    @property
    def observed(self) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(self.targets))

    @cached_property
    def n_observed(self) -> int:
        """Observed cells."""
        return sum(int(np.count_nonzero(~np.isnan(self.targets[rows]))) for rows in row_passes(*self.shape))

    def total_weight(self) -> float:
        """Sum of the weights of observed cells."""
        if isinstance(self.weights, np.ndarray):
            return float(self.weights.sum(dtype=np.float64))
        return self.weights * self.n_observed

    def dense(self, side: int) -> DenseCells:
        """All cells, as they lie, grouped by rows (side 0) or classifiers (side 1)."""
        weights = np.ascontiguousarray(self.weights) if isinstance(self.weights, np.ndarray) else self.weights
        cells = DenseCells(np.ascontiguousarray(self.targets), weights)
        return cells if side == 0 else cells.T

    def blocks(self, side: int, extra: Extra | None = None) -> Iterator[tuple[slice, Observations]]:
        """Ranges of rows (side 0) or classifiers (side 1) with their cells. `extra` adds column m to side 0."""
        n, m = self.shape if side == 0 else self.shape[::-1]
        step = max(1, BLOCK_CELLS // m)
        if step >= n and extra is None:
            if side not in self._whole:
                self._whole[side] = self._cells(side, slice(0, n), None)
            yield slice(0, n), self._whole[side]
            return
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            yield rows, self._cells(side, rows, extra)

    def _cells(self, side: int, rows: slice, extra: Extra | None) -> Observations:
        where = rows if side == 0 else (slice(None), rows)
        targets = self.targets[where] if side == 0 else self.targets[where].T
        weights = self.weights
        if isinstance(weights, np.ndarray):
            weights = weights[where] if side == 0 else weights[where].T
        if extra is not None:
            if not isinstance(weights, np.ndarray):
                weights = np.full(targets.shape, weights, targets.dtype)
            targets = np.column_stack([targets, extra[0][rows]]).astype(targets.dtype)
            weights = np.column_stack([weights, extra[1][rows]]).astype(targets.dtype)
        return _observations(targets, weights)

    def weights_by_classifier(self) -> tuple[Floats, Floats]:
        """(m,) each: the summed weights of a classifier's observed cells, and their number."""
        counts = np.zeros(self.shape[1])
        for rows in row_passes(*self.shape):
            counts += np.count_nonzero(~np.isnan(self.targets[rows]), axis=0)
        if not isinstance(self.weights, np.ndarray):
            return self.weights * counts, counts
        return self.weights.sum(axis=0, dtype=np.float64), counts

    def mean_weights(self, elsewhere: Iterable[tuple[Floats, Floats]] = ()) -> Floats:
        """(m,) mean weight of each classifier's observed cells; 1 where it has none.

        elsewhere : `weights_by_classifier` of rows that are not here.
        """
        if not isinstance(self.weights, np.ndarray):
            return np.full(self.shape[1], self.weights)
        sums, counts = self.weights_by_classifier()
        for more_sums, more_counts in elsewhere:
            sums, counts = sums + more_sums, counts + more_counts
        return np.where(counts > 0, sums / np.maximum(counts, 1), 1.0)

    def take(self, rows: NDArray[np.intp]) -> PredictionTable:
        weights = self.weights[rows] if isinstance(self.weights, np.ndarray) else self.weights
        return PredictionTable(self.targets[rows], weights)

    def beside(self, more: PredictionTable) -> PredictionTable:
        """This table and further classifiers."""
        targets = np.column_stack([self.targets, more.targets])
        if not isinstance(self.weights, np.ndarray) and self.weights == more.weights:
            return PredictionTable(targets, self.weights)
        return PredictionTable(targets, np.column_stack([self.filled_weights(), more.filled_weights()]))

    def filled_weights(self) -> NDArray[np.floating]:
        """(N, m) weights, 0 where missing."""
        if isinstance(self.weights, np.ndarray):
            return self.weights
        return np.where(self.observed, self.targets.dtype.type(self.weights), self.targets.dtype.type(0))


def _observations(targets: NDArray[np.floating], weights: NDArray[np.floating] | float) -> Observations:
    n, m = targets.shape
    missing = np.isnan(targets)
    if not missing.any():
        indptr = np.arange(n + 1, dtype=np.int64) * m
        indices = np.tile(np.arange(m, dtype=np.int32), n)
        flat = weights.ravel() if isinstance(weights, np.ndarray) else weights
        return Observations((n, m), indptr, indices, targets.ravel(), flat)
    seen = ~missing
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(seen.sum(axis=1), out=indptr[1:])
    indices = np.nonzero(seen)[1].astype(np.int32)
    flat = weights[seen] if isinstance(weights, np.ndarray) else weights
    return Observations((n, m), indptr, indices, targets[seen], flat)


def make_table(P: Floats, scale: CellScale, confidence: CellWeights, y: Codes, dtype: type) -> PredictionTable:
    """Targets and weights of the predictions P (N, m), NaN where missing, under labels y (N,)."""
    targets: NDArray[Any] = np.empty(P.shape, dtype)
    for rows in row_passes(*P.shape):
        targets[rows] = scale.target(P[rows])
    return PredictionTable(targets, make_weights(P, confidence, y, dtype, scale.weight))


def make_weights(
    P: Floats, confidence: CellWeights, y: Codes, dtype: type, times: float
) -> NDArray[np.floating] | float:
    """Weights of all cells in `dtype`; block by block where a row's weights depend on that row alone."""
    if confidence.constant is not None:
        return times * confidence.constant
    if not confidence.row_local:
        return (times * confidence.compute(P, ~np.isnan(P), y)).astype(dtype)
    weights: NDArray[Any] = np.empty(P.shape, dtype)
    for rows in row_passes(*P.shape):
        weights[rows] = times * confidence.compute(P[rows], ~np.isnan(P[rows]), y[rows])
    return weights


def weights_of(rows: Codes, P: Floats, confidence: CellWeights, y: Codes, dtype: type, times: float) -> NDArray[Any]:
    """(r, m) weights of some rows, 0 where missing, as they are among all."""
    if confidence.row_local:
        weights = make_weights(P[rows], confidence, y[rows], dtype, times)
    else:
        whole = make_weights(P, confidence, y, dtype, times)
        weights = whole[rows] if isinstance(whole, np.ndarray) else whole
    return np.where(np.isnan(P[rows]), 0, weights).astype(dtype)


def row_passes(n: int, m: int, cells: int = PASS_CELLS) -> Iterator[slice]:
    """Ranges of rows of an (n, m) table, each of about that many cells."""
    step = max(1, cells // m)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
