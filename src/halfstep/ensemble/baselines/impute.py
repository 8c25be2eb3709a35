"""Two ways to complete a matrix of logits: column means, or instance score plus classifier bias.

Knows predictions and a mask. Must not know labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfstep.core.arrays import Floats, Mask
from halfstep.ensemble.baselines.base import row_mean
from halfstep.ensemble.predictions import Predictions
from halfstep.ensemble.sums import SummedFields
from halfstep.errors import one_of

IMPUTE = ("bias_adjusted", "column_mean")


@dataclass(frozen=True)
class Additive:
    """logit_ij = a_i + b_j. `bias` (m,) is b; `centre` is the mean of a, for instances without cells."""

    bias: Floats
    centre: float

    @classmethod
    def fit(cls, logits: Floats, observed: Mask, shrinkage: float) -> Additive:
        """Minimise sum_observed (logit_ij - a_i - b_j)^2 + shrinkage |b|^2 exactly."""
        return AdditiveSums.of(logits, observed).solved(shrinkage)

    def scores(self, logits: Floats, observed: Mask) -> Floats:
        """(n,) a_i = mean over observed j of logit_ij - b_j."""
        return row_mean(logits - self.bias, observed.astype(np.float64), self.centre)

    def fill(self, logits: Floats, observed: Mask) -> Floats:
        """(n, m) logits with a_i + b_j where missing."""
        return np.where(observed, logits, self.scores(logits, observed)[:, None] + self.bias)


@dataclass(frozen=True, eq=False)
class AdditiveSums(SummedFields):
    """What `Additive` needs of rows. With M the mask and N the observed cells of each row:

    counts (m,) observed cells; shared (m, m) M'N^-1 M; residual (m,) M'(logits - row means); share (m,) M'N^-1 1; means
    the sum of the row means, and rows the number of rows, that have cells.
    """

    counts: Floats
    shared: Floats
    residual: Floats
    share: Floats
    means: float
    rows: float

    @classmethod
    def of(cls, logits: Floats, observed: Mask) -> AdditiveSums:
        mask = observed.astype(np.float64)
        share = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        means = row_mean(logits, mask, 0.0)
        residual = (mask * (logits - means[:, None])).sum(axis=0)
        seen = float(observed.any(axis=1).sum())
        return cls(mask.sum(axis=0), mask.T @ share, residual, share.sum(axis=0), float(means.sum()), seen)

    def solved(self, shrinkage: float) -> Additive:
        """With a_i eliminated, b solves (D - M'N^-1 M + shrinkage I) b = M'(logits - row means), D diagonal with the
        observed cells of each column. The biases sum to 0.
        """
        laplacian = np.diag(self.counts + shrinkage) - self.shared
        bias = np.asarray(np.linalg.solve(laplacian, self.residual), np.float64)
        bias -= bias.mean()  # exactly 0 in theory; a weak ridge leaves rounding in this direction
        return Additive(bias, float(self.means - self.share @ bias) / max(self.rows, 1.0))


@dataclass(frozen=True)
class ColumnMean:
    """Every missing logit is its classifier's mean; one without cells takes the mean of all cells."""

    means: Floats

    @classmethod
    def fit(cls, logits: Floats, observed: Mask) -> ColumnMean:
        mask = observed.astype(np.float64)
        overall = float((mask * logits).sum() / max(mask.sum(), 1))
        return cls(row_mean(logits.T, mask.T, overall))

    def fill(self, logits: Floats, observed: Mask) -> Floats:
        """(n, m) logits with the column's mean where missing."""
        return np.where(observed, logits, self.means)


@dataclass(frozen=True, eq=False)
class FilledLogits:
    """Logits of predictions, missing ones filled as those of all instances say."""

    imputer: Additive | ColumnMean
    clip: float

    @classmethod
    def fit(cls, how: str, data: Predictions, clip: float) -> FilledLogits:
        """`how` is one of `IMPUTE`. A ridge of one cell keeps biases of rarely seen classifiers near 0."""
        one_of("impute", how, IMPUTE)
        logits, observed = data.logits(clip), data.observed
        if how == "bias_adjusted":
            return cls(Additive.fit(logits, observed, shrinkage=1.0), clip)
        return cls(ColumnMean.fit(logits, observed), clip)

    def of(self, data: Predictions) -> Floats:
        """(n, m)."""
        return self.imputer.fill(data.logits(self.clip), data.observed)
