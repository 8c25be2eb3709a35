"""Fitted factors that have seen no label of their own rows, and what can be read off them.

Several aggregators may share one of these. Knows rows and classifiers; must not know labels or parameters of
estimators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.ensemble.aggregators import FORMS, Design
from halfstep.ensemble.columns import Columns, Factors
from halfstep.ensemble.combined import Factorisation
from halfstep.ensemble.confidence import CellWeights
from halfstep.ensemble.parts import PartSums
from halfstep.ensemble.table import Scale, Table, is_row_local, make_weights, row_passes
from halfstep.errors import one_of


@dataclass(frozen=True, eq=False)
class Residuals:
    """(N,) each: weighted squared residuals of a row, the same of its pinned part alone, and its total weight."""

    left: Floats
    total: Floats
    weight: Floats

    def noise(self, elsewhere: tuple[float, float] = (0.0, 0.0)) -> float:
        """Mean squared residual of a cell. elsewhere : summed residuals and weights of cells of other rows."""
        return float((self.left.sum() + elsewhere[0]) / max(self.weight.sum() + elsewhere[1], np.finfo(float).tiny))

    def novelty(self, noise: float) -> Floats:
        """(N,) share of a row that the factors cannot reconstruct: left / (total + noise * weight), 0 to about 1.

        `total` is what biases of classifiers and features alone leave. `noise`, that of the fitted rows, keeps rows
        that say little from looking novel. A row without cells has novelty 1.
        """
        whole = np.maximum(self.total + noise * self.weight, np.finfo(float).tiny)
        return np.where(self.weight > 0, self.left / whole, 1.0)


@dataclass(eq=False)
class FusionFactors:
    """Rows (N, d) and classifiers (m, d) of one factorisation, with the cells they were solved from.

    `confidence` weighs the cells of new rows; where a row's weights depend on other rows too, new cells take their
    classifier's mean, `mean_weights` (m,).
    """

    columns: Columns
    scale: Scale
    reg: float
    classifier_factors: Factors
    row_factors: Factors
    table: Table
    channel: Codes
    confidence: CellWeights
    mean_weights: Floats
    n_threads: int = 1

    @classmethod
    def without_rows(
        cls, columns: Columns, scale: Scale, reg: float, V: Factors, confidence: CellWeights, n_threads: int
    ) -> FusionFactors:
        """Classifiers (m, d) alone, for rows that are elsewhere."""
        nothing = Table(np.zeros((0, len(V)), V.dtype), scale.weight)
        rows = np.zeros((0, columns.width), V.dtype)
        nobody = np.zeros(0, np.int64)
        return cls(columns, scale, reg, V, rows, nothing, nobody, confidence, np.ones(len(V)), n_threads)

    def fold_in(self, P: Floats, channel: Codes, features: Floats | None) -> FusionFactors:
        """New rows against the same classifiers, by the row kernel of the fit. P (N', m); features (N', q) or None."""
        dtype = self.classifier_factors.dtype
        targets = self.scale.target(P).astype(dtype)
        nobody = np.full(len(P), -1)
        weights: Any
        if is_row_local(self.confidence):
            weights = make_weights(P, self.confidence, nobody, dtype.type, self.scale.weight)
        else:
            weights = np.where(np.isnan(P), 0, self.scale.weight * self.mean_weights).astype(dtype)
        new = self.with_rows(Table(targets, weights), channel, features)
        new.solve_rows()
        return new

    def with_rows(self, table: Table, channel: Codes, features: Floats | None) -> FusionFactors:
        """The same classifiers with other rows, which are not solved yet. features (N', q) or None."""
        fresh = self.columns.rows(channel, features, self.classifier_factors.dtype)
        return replace(self, table=table, row_factors=fresh, channel=channel)

    def take(self, rows: Codes) -> FusionFactors:
        """Some of the rows, as copies."""
        return replace(
            self, table=self.table.take(rows), row_factors=self.row_factors[rows], channel=self.channel[rows]
        )

    def solve_rows(self) -> None:
        """Every row against the classifiers, without labels."""
        self.session().solve_row_side()

    def sums(self) -> PartSums:
        """What the rows add up to under the classifiers."""
        return self.session().own.sums(self.classifier_factors)

    def session(self) -> Factorisation:
        """These factors as a factorisation under way; shares the arrays."""
        return Factorisation(
            self.table,
            self.columns,
            self.scale,
            self.reg,
            self.channel,
            self.row_factors,
            self.classifier_factors,
            n_threads=self.n_threads,
        )

    def scores(self, rows: Any) -> Floats:
        """(r, m) reconstructed log odds."""
        return self.session().scores(rows)

    def design(self, rows: Any, form: str) -> Design:
        """What an aggregator sees of some rows, in one of three forms.

        "reconstructed": scores minus their mean; "filled": the same with observed scores where observed; "latent": the
        shared factors, rotated and scaled so that their squares sum to the mean square of their part of the scores.
        """
        one_of("on", form, FORMS)
        design = self.session().design(rows)
        if form == "filled":
            targets = self.table.targets[rows].astype(np.float64)
            scores = np.where(np.isnan(targets), design.scores, self.scale.log_odds_of_targets(targets))
            return replace(design, scores=scores, deviations=scores - scores.mean(axis=1, keepdims=True))
        if form == "latent":
            values, vectors = np.linalg.eigh(design.keys.T @ design.keys / len(design.keys))
            basis = vectors * np.sqrt(np.maximum(values, 0)) * self.scale.slope
            return replace(design, deviations=design.latent @ basis)
        return design

    def chunks(self) -> Iterator[slice]:
        """Ranges of rows whose dense scores are held at one time."""
        return row_passes(*self.table.shape)

    def residuals(self) -> Residuals:
        """What the factors leave of each row, in the units of targets; log odds for the Bernoulli loss."""
        N = len(self.row_factors)
        left, total, weight = np.zeros(N), np.zeros(N), np.zeros(N)
        V = self.classifier_factors.astype(np.float64)
        start, stop = self.columns.row_free
        pins = np.r_[:start, stop : self.columns.width]
        ones = np.ones(len(V))
        for rows in self.chunks():
            U = self.row_factors[rows].astype(np.float64)
            targets = self.table.targets[rows].astype(np.float64)
            if self.scale.bernoulli:
                targets = self.scale.log_odds_of_targets(targets) / self.scale.slope
            missing = np.isnan(targets)
            w = np.broadcast_to(self.table.weights, self.table.shape)[rows].astype(np.float64)
            if missing.any():
                w, targets = np.where(missing, 0.0, w), np.where(missing, 0.0, targets)
            pinned = targets - U[:, pins] @ V[:, pins].T
            gap = pinned - U[:, start:stop] @ V[:, start:stop].T
            left[rows] = np.einsum("ij,ij,ij->i", w, gap, gap)
            total[rows] = np.einsum("ij,ij,ij->i", w, pinned, pinned)
            weight[rows] = w @ ones
        return Residuals(left, total, weight)
