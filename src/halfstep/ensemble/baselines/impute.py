"""Two ways to complete a matrix of logits: column means, or instance score plus classifier bias.

Knows predictions and a mask. Must not know labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfstep.core.arrays import Floats, Mask
from halfstep.ensemble.baselines.base import row_mean
from halfstep.ensemble.predictions import Predictions
from halfstep.errors import one_of

IMPUTE = ("bias_adjusted", "column_mean")


@dataclass(frozen=True)
class Additive:
    """logit_ij = a_i + b_j. `bias` (m,) is b; `centre` is the mean of a, for instances without cells."""

    bias: Floats
    centre: float

    @classmethod
    def fit(cls, logits: Floats, observed: Mask, shrinkage: float) -> Additive:
        """Minimise sum_observed (logit_ij - a_i - b_j)^2 + shrinkage |b|^2 exactly.

        With a_i eliminated, b solves (D - M'N^-1 M + shrinkage I) b = M'(logits - row means), where M is the
        mask, N and D are diagonal with the observed cells of each row and column. The biases sum to 0.
        """
        mask = observed.astype(np.float64)
        per_row = np.maximum(mask.sum(axis=1), 1)
        residual = mask * (logits - row_mean(logits, mask, 0.0)[:, None])
        laplacian = np.diag(mask.sum(axis=0) + shrinkage) - mask.T @ (mask / per_row[:, None])
        bias: Floats = np.linalg.solve(laplacian, residual.sum(axis=0))
        bias -= bias.mean()  # exactly 0 in theory; a weak ridge leaves rounding in this direction
        seen = observed.any(axis=1)
        centre = float(row_mean(logits - bias, mask, 0.0)[seen].mean()) if seen.any() else 0.0
        return cls(bias, centre)

    def scores(self, logits: Floats, observed: Mask) -> Floats:
        """(n,) a_i = mean over observed j of logit_ij - b_j."""
        return row_mean(logits - self.bias, observed.astype(np.float64), self.centre)

    def fill(self, logits: Floats, observed: Mask) -> Floats:
        """(n, m) logits with a_i + b_j where missing."""
        return np.where(observed, logits, self.scores(logits, observed)[:, None] + self.bias)


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
