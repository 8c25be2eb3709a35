"""The prediction matrix as cells: targets and weights of every (row, classifier), handed to the core block by block.

A row is one instance and one class: an instance has one row with two classes (that of the second class) and as many
rows as classes otherwise. Knows where cells are; must not know what minimises them, nor labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.core.cells import DenseCells, Observations
from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.confidence import CellWeights
from halfstep.ensemble.predictions import expit, logit

BLOCK_CELLS = 4_000_000
"""Cells handed to the core at a time: a matrix of 10^8 cells is never held as a sparse matrix of both orientations."""

PASS_CELLS = 100_000
"""Cells of an element-wise pass: what one operation writes, the next finds in cache."""

Extra = tuple[Floats, Floats]
"""Targets (NaN: none) and weights of one more cell for each row."""


@dataclass(frozen=True, eq=False)
class Scale:
    """What a target is: `link` of a probability, softened by `temperature`; and how a fitted score becomes log odds.

    | link | loss | target of p | log odds of a fitted z |
    | --- | --- | --- | --- |
    | "logit" | squared | logit(p) | z |
    | "identity" | squared | p | 4 (z - 1/2), the tangent of the logit at 1/2 |
    | any | Bernoulli | sigmoid(logit(p) / T) | T z |

    Probabilities are held inside [clip, 1 - clip] before a logit is taken.
    """

    link: str = "logit"
    bernoulli: bool = False
    temperature: float = 1.0
    clip: float = 0.01

    def target(self, P: Floats) -> Floats:
        if self.bernoulli:
            softened: Floats = expit(logit(P, self.clip) / self.temperature)
            return softened
        return logit(P, self.clip) if self.link == "logit" else P

    @property
    def slope(self) -> float:
        if self.bernoulli:
            return self.temperature
        return 1.0 if self.link == "logit" else 4.0

    @property
    def shift(self) -> float:
        return -2.0 if self.link == "identity" and not self.bernoulli else 0.0

    def log_odds_of_targets(self, targets: Floats) -> Floats:
        """Observed targets in the units of fitted log odds."""
        if self.bernoulli:
            return self.temperature * logit(targets, min(self.clip, 1e-3))
        return self.slope * targets + self.shift

    @property
    def weight(self) -> float:
        """What multiplies a cell's weight: T^2 keeps gradients of softened targets at their size."""
        return self.temperature**2 if self.bernoulli else 1.0


@dataclass(eq=False)
class Table:
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

    def mean_weights(self) -> Floats:
        """(m,) mean weight of each classifier's observed cells; 1 where it has none."""
        if not isinstance(self.weights, np.ndarray):
            return np.full(self.shape[1], self.weights)
        return mean_weights(*self.weights_by_classifier())

    def take(self, rows: NDArray[np.intp]) -> Table:
        weights = self.weights[rows] if isinstance(self.weights, np.ndarray) else self.weights
        return Table(self.targets[rows], weights)

    def stacked(self, more: Table, axis: int) -> Table:
        """This table and further rows (axis 0) or classifiers (axis 1)."""
        targets = np.concatenate([self.targets, more.targets], axis=axis)
        numbers = [table.weights for table in (self, more) if not isinstance(table.weights, np.ndarray)]
        if len(numbers) == 2 and numbers[0] == numbers[1]:
            return Table(targets, numbers[0])
        return Table(targets, np.concatenate([self.filled_weights(), more.filled_weights()], axis=axis))

    def filled_weights(self) -> NDArray[np.floating]:
        """(N, m) weights, 0 where missing."""
        if isinstance(self.weights, np.ndarray):
            return self.weights
        return np.where(self.observed, self.targets.dtype.type(self.weights), self.targets.dtype.type(0))


def mean_weights(sums: Floats, counts: Floats) -> Floats:
    """(m,) mean weights from summed ones and the number of cells; 1 where there is none."""
    return np.where(counts > 0, sums / np.maximum(counts, 1), 1.0)


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


def make_table(P: Floats, scale: Scale, confidence: CellWeights, y: Codes, dtype: type) -> Table:
    """Targets and weights of the predictions P (N, m), NaN where missing, under labels y (N,)."""
    targets: NDArray[Any] = np.empty(P.shape, dtype)
    for rows in row_passes(*P.shape):
        targets[rows] = scale.target(P[rows])
    return Table(targets, make_weights(P, confidence, y, dtype, scale.weight))


def make_weights(
    P: Floats, confidence: CellWeights, y: Codes, dtype: type, times: float
) -> NDArray[np.floating] | float:
    """Weights of all cells in `dtype`; block by block where a row's weights depend on that row alone."""
    if isinstance(confidence, cell_weights.Uniform):
        return times
    if not is_row_local(confidence):
        return (times * confidence.compute(P, ~np.isnan(P), y)).astype(dtype)
    weights: NDArray[Any] = np.empty(P.shape, dtype)
    for rows in row_passes(*P.shape):
        weights[rows] = times * confidence.compute(P[rows], ~np.isnan(P[rows]), y[rows])
    return weights


def weights_of(rows: Codes, P: Floats, confidence: CellWeights, y: Codes, dtype: type, times: float) -> NDArray[Any]:
    """(r, m) weights of some rows, 0 where missing, as they are among all."""
    if is_row_local(confidence):
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


def is_row_local(confidence: CellWeights) -> bool:
    """Whether the weights of a row depend on that row alone, so that new rows get theirs in the same way."""
    if isinstance(confidence, cell_weights.LabelAware | cell_weights.LabelMatch):
        return is_row_local(cell_weights.get(confidence.base))
    return isinstance(confidence, cell_weights.Uniform | cell_weights.Certainty | cell_weights.Agreement)


def without_labels(confidence: CellWeights) -> CellWeights:
    """The weights an instance would have if it had no label."""
    if isinstance(confidence, cell_weights.LabelAware | cell_weights.LabelMatch):
        return without_labels(cell_weights.get(confidence.base))
    return confidence
