"""The one object that holds factors: rows, classifiers and the cells between them; solved in place, and read.

A fit under way solves its arrays (`combined`), a fitted model keeps them, new rows are folded in by another one with
the same classifiers. Knows rows and classifiers; must not know labels beyond one cell for each row, nor estimators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.core.cells import DenseCells, Observations
from halfstep.core.problem import Problem, Side, Solver
from halfstep.engine.local import LabelCell, evaluate_cells, normal_equations, solve_rows
from halfstep.ensemble.aggregators import FORMS, Design
from halfstep.ensemble.columns import FactorArray, LatentColumns
from halfstep.ensemble.confidence import CellWeights
from halfstep.ensemble.parts import REPORTED, PartSums
from halfstep.ensemble.predictions import expit
from halfstep.ensemble.scale import CellScale
from halfstep.ensemble.table import Extra, PredictionTable, make_weights, row_passes
from halfstep.errors import one_of

DENSE_COLUMNS = 100
"""Rows of f free columns are solved side by side where f / DENSE_COLUMNS of the cells are observed: a measured rule."""
CURVATURE_FLOOR = 1e-3  # of a loss that is no square in a Newton step: a saturated cell must not make the step wild


@dataclass(frozen=True, eq=False)
class Residuals:
    """(N,) each: weighted squared residuals of a row, the penalty on its factors, and its total weight."""

    left: Floats
    penalty: Floats
    weight: Floats

    def noise(self, elsewhere: Iterable[tuple[float, float]] = ()) -> float:
        """Mean squared residual of a cell. elsewhere : summed residuals and weights of cells of other rows."""
        sums = np.array([self.left.sum(), self.weight.sum()])
        for more in elsewhere:
            sums += more
        return float(sums[0] / max(sums[1], np.finfo(float).tiny))

    def novelty(self, noise: float) -> Floats:
        """(N,) q / (1 + q) with q = (left + penalty) / (noise * weight): how far a row is from what was fitted.

        left + penalty is the Mahalanobis distance of the row's cells under the factorisation, in noise and in factors;
        missing cells are in no sum. `noise` is that of the fitted rows, so q is absolute: about 1 for a row like them,
        novelty about one half. A row without cells has novelty 1.
        """
        distance = self.left + self.penalty
        whole = np.maximum(distance + noise * self.weight, np.finfo(float).tiny)
        return np.where(self.weight > 0, distance / whole, 1.0)


@dataclass(frozen=True, eq=False)
class EnsembleFactors:
    """Rows (N, d) and classifiers (m, d) of one factorisation, with the cells they are solved from.

    `confidence` weighs the cells of new rows; where a row's weights depend on other rows too, new cells take their
    classifier's mean, `mean_weights` (m,).
    """

    columns: LatentColumns
    scale: CellScale
    reg: float
    classifier_factors: FactorArray
    row_factors: FactorArray
    table: PredictionTable
    channel: Codes
    confidence: CellWeights
    mean_weights: Floats
    n_threads: int = 1

    @classmethod
    def without_rows(
        cls, columns: LatentColumns, scale: CellScale, reg: float, V: FactorArray, confidence: CellWeights, threads: int
    ) -> EnsembleFactors:
        """Classifiers (m, d) alone, for rows that are elsewhere."""
        nothing = PredictionTable(np.zeros((0, len(V)), V.dtype), scale.weight)
        rows = np.zeros((0, columns.width), V.dtype)
        return cls(columns, scale, reg, V, rows, nothing, np.zeros(0, np.int64), confidence, np.ones(len(V)), threads)

    # ------------------------------------------------------------------ other rows

    def fold_in(
        self, P: Floats, channel: Codes, features: Floats | None, labels: Codes | None = None
    ) -> EnsembleFactors:
        """New rows against the same classifiers, by the row kernel of the fit. P (N', m); features (N', q) or None.

        labels (N,) : of the fitted rows, where a confidence was learned from them.
        """
        dtype = self.classifier_factors.dtype
        weights: Any
        if self.confidence.row_local:
            weights = make_weights(P, self.confidence, np.full(len(P), -1), dtype.type, self.scale.weight)
        elif self.confidence.learned and labels is not None and (labels >= 0).any():
            known = np.flatnonzero(labels >= 0)
            told = np.vstack([self.predictions(known), self.scale.seen(P)])
            y = np.append(labels[known], np.full(len(P), -1))
            found = make_weights(told, self.confidence, y, dtype.type, self.scale.weight)
            weights = found[len(known) :] if isinstance(found, np.ndarray) else found
        else:
            weights = np.where(np.isnan(P), 0, self.scale.weight * self.mean_weights).astype(dtype)
        new = self.with_rows(PredictionTable(self.scale.target(P).astype(dtype), weights), channel, features)
        new.solve_rows()
        return new

    def with_rows(self, table: PredictionTable, channel: Codes, features: Floats | None) -> EnsembleFactors:
        """The same classifiers with other rows, which are not solved yet. features (N', q) or None."""
        fresh = self.columns.rows(channel, features, self.classifier_factors.dtype)
        return replace(self, table=table, row_factors=fresh, channel=channel)

    def take(self, rows: Codes) -> EnsembleFactors:
        """Some of the rows, as copies."""
        return replace(
            self, table=self.table.take(rows), row_factors=self.row_factors[rows], channel=self.channel[rows]
        )

    # ------------------------------------------------------------------ solving, in place

    @cached_property
    def problem(self) -> Problem:
        """The problem without its cells, which come block by block."""
        n, m = self.table.shape
        rows, classifiers = (Side(self.reg, free=f) for f in (self.columns.row_free, self.columns.classifier_free))
        nothing = Observations((n, m), np.zeros(n + 1, np.int64), np.zeros(0, np.int32))
        return Problem(nothing, (rows, classifiers), self.scale.loss)

    def _cells(self, side: int, extra: Extra | None = None) -> Iterator[tuple[slice, Observations | DenseCells]]:
        """Ranges of rows of a side with their cells, in the form from which they are solved fastest.

        Squared rows are solved side by side from the table itself, its missing cells with weight 0, unless few cells
        are observed or the rows are long; otherwise one by one from the cells they have. See DENSE_COLUMNS.
        """
        n, m = self.table.shape
        start, stop = self.columns.row_free if side == 0 else self.columns.classifier_free
        if self.scale.loss.is_quadratic and DENSE_COLUMNS * self.table.n_observed >= (stop - start) * n * m:
            yield slice(0, n if side == 0 else m), self.table.dense(side)
        else:
            yield from self.table.blocks(side, extra)

    def solve_rows(self, evaluate: bool = False, label: LabelCell | None = None) -> dict[str, float]:
        """Every row against the classifiers; `label` is one more cell of each row whose weight is not 0.

        Under the Bernoulli loss that cell is one of the others, and `data` has what it costs.
        """
        extra, V = None, self.classifier_factors
        if label is not None and not self.scale.loss.is_quadratic:
            V = np.vstack([V, label.vector.astype(V.dtype)])
            extra, label = (np.where(label.weights > 0, label.targets, np.nan), label.weights), None
        total = dict.fromkeys(REPORTED, 0.0)
        for rows, cells in self._cells(0, extra):
            here = None if label is None else LabelCell(label.vector, label.targets[rows], label.weights[rows])
            sums = solve_rows(
                self.problem,
                0,
                self.row_factors[rows],
                V,
                self._solver,
                cells=cells,
                label=here,
                evaluate=evaluate,
                n_threads=self.n_threads,
            )
            for name in total:
                total[name] += sums[name]
        return total

    def solve_classifiers(self, prior: Floats | None = None) -> None:
        """Every classifier against the rows; prior (m, f) or None for 0."""
        for block, cells in self._cells(1):
            side = replace(self.problem.sides[1], prior=None if prior is None else prior[block])
            problem = replace(self.problem, sides=(self.problem.sides[0], side))
            own, solver = self.classifier_factors[block], self._solver
            solve_rows(problem, 1, own, self.row_factors, solver, cells=cells, n_threads=self.n_threads)

    @property
    def _solver(self) -> Solver:
        return Solver(tolerance=1e-7 if self.row_factors.dtype == np.float32 else 1e-10, max_steps=100)

    # ------------------------------------------------------------------ sums over rows

    def sums(self) -> PartSums:
        """What the rows add up to under the classifiers."""
        return PartSums(*self.normal_equations(), self.reconstruction(), self.penalty())

    def normal_equations(self) -> tuple[Floats, Floats]:
        """`matrices` and `vectors` of the sums."""
        V, found = self.classifier_factors, []
        for block, cells in self._cells(1):
            if isinstance(cells, Observations) and not self.scale.loss.is_quadratic:
                cells = self._working_cells(cells, V[block])
            found.append(
                normal_equations(cells, V[block], self.row_factors, self.columns.classifier_free, self.n_threads)
            )
        matrices, vectors = zip(*found, strict=True)
        return np.concatenate(matrices), np.concatenate(vectors)

    def _working_cells(self, cells: Observations, own: NDArray[Any]) -> Observations:
        """Bernoulli cells as the squared ones of a Newton step: half the curvature as weight, at the working target."""
        row = np.repeat(np.arange(len(own)), cells.counts)
        z = np.einsum("kd,kd->k", own[row], self.row_factors[cells.indices], dtype=np.float64)
        p = expit(z)
        curvature = np.maximum(p * (1 - p), CURVATURE_FLOOR)
        targets = z - (p - cells.targets) / curvature
        return replace(cells, targets=targets, weights=0.5 * cells.weights * curvature, _transposed=[])

    def reconstruction(self) -> float:
        """sum c phi over all observed cells."""
        return sum(
            evaluate_cells(self.problem, self.row_factors[rows], self.classifier_factors, self.n_threads, cells)["data"]
            for rows, cells in self._cells(0)
        )

    def penalty(self) -> float:
        """reg sum |u_i|^2 over the free columns."""
        return self.problem.sides[0].cost(self.row_factors)

    # ------------------------------------------------------------------ reading

    def chunks(self) -> Iterator[slice]:
        """Ranges of rows whose dense scores are held at one time."""
        return row_passes(*self.table.shape)

    def scores(self, rows: Any) -> Floats:
        """(r, m) reconstructed log odds."""
        z = self.row_factors[rows].astype(np.float64) @ self.classifier_factors.T.astype(np.float64)
        return np.asarray(self.scale.slope * z + self.scale.shift)

    def predictions(self, rows: Any = slice(None)) -> Floats:
        """(r, m) predictions behind the targets, clipped as they were; NaN where missing."""
        return self.scale.prediction(self.table.targets[rows].astype(np.float64))

    def design(self, rows: Any, form: str = "reconstructed") -> Design:
        """What an aggregator sees of some rows, in one of three forms.

        "reconstructed": scores minus their mean; "filled": the same with observed scores where observed; "latent": the
        shared factors, rotated and scaled so that their squares sum to the mean square of their part of the scores.
        """
        one_of("on", form, FORMS)
        scores, shared = self.scores(rows), self.columns.shared
        latent = self.row_factors[rows][:, shared].astype(np.float64)
        keys = self.classifier_factors[:, shared].astype(np.float64)
        if form == "filled":
            targets = self.table.targets[rows].astype(np.float64)
            scores = np.where(np.isnan(targets), scores, self.scale.log_odds(targets))
        if form == "latent":
            values, vectors = np.linalg.eigh(keys.T @ keys / len(keys))
            deviations = latent @ (vectors * np.sqrt(np.maximum(values, 0)) * self.scale.slope)
        else:
            deviations = scores - scores.mean(axis=1, keepdims=True)
        return Design(scores, deviations, self.channel[rows], self.columns.n_channels, latent, keys)

    def residuals(self) -> Residuals:
        """What the factors leave of each row, in the units of scores."""
        N = len(self.row_factors)
        left, penalty, weight = np.zeros(N), np.zeros(N), np.zeros(N)
        V = self.classifier_factors.astype(np.float64)
        start, stop = self.columns.row_free
        ones = np.ones(len(V))
        for rows in self.chunks():
            U = self.row_factors[rows].astype(np.float64)
            targets = self.scale.score(self.table.targets[rows].astype(np.float64))
            missing = np.isnan(targets)
            w = np.broadcast_to(self.table.weights, self.table.shape)[rows].astype(np.float64)
            if missing.any():
                w, targets = np.where(missing, 0.0, w), np.where(missing, 0.0, targets)
            gap = targets - U @ V.T
            left[rows] = np.einsum("ij,ij,ij->i", w, gap, gap)
            penalty[rows] = self.reg * (U[:, start:stop] ** 2).sum(axis=1)
            weight[rows] = w @ ones
        return Residuals(left, penalty, weight)
