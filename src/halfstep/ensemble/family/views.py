"""What can be seen of rows without labels: a score, latent factors, and the matrix with its gaps filled.

A view is learned from predictions alone, so it may be shared by all folds and looked through at new rows. Knows
predictions; must not know labels, members or weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from halfstep.core.arrays import Codes, Floats, Mask
from halfstep.ensemble.baselines.base import row_mean
from halfstep.ensemble.baselines.impute import Additive
from halfstep.ensemble.family.analysis import FactorAnalysis
from halfstep.ensemble.learned import Learned
from halfstep.ensemble.predictions import CLIP, expit, logit
from halfstep.errors import one_of

LINKS = ("logit", "identity")
MEAN_CLIP = 1e-3  # of averaged probabilities, which are less extreme than single ones
FIT_ROWS = 20_000
"""Views are learned from at most so many rows, drawn at random: a classifier has a handful of numbers to learn."""


@dataclass(eq=False)
class PredictedRows:
    """Predictions of some rows: P (n, m), NaN where missing, and the class each row is about."""

    P: Floats
    channel: Codes
    clip: float = CLIP
    _logits: list[Floats] = field(default_factory=list, repr=False)

    @property
    def observed(self) -> Mask:
        observed: Mask = ~np.isnan(self.P)
        return observed

    def scores(self, link: str) -> Floats:
        """(n, m) logits or probabilities, 0 where missing."""
        if link == "identity":
            return np.nan_to_num(self.P)
        if not self._logits:
            self._logits.append(np.where(self.observed, logit(np.nan_to_num(self.P, nan=0.5), self.clip), 0.0))
        return self._logits[0]

    def take(self, rows: Any) -> PredictedRows:
        return PredictedRows(self.P[rows], self.channel[rows], self.clip)


@dataclass(frozen=True, eq=False)
class Sight:
    """Rows seen through a view.

    centre (n,) log odds of all classifiers taken together; latent (n, k) what they differ in, in units of log odds;
    filled (n, m) scores in the view's link, reconstructed where missing; variance (n,) of the centre, as far as the
    factors of a row are not known. A view without factors has no columns and no variance.
    """

    centre: Floats
    latent: Floats
    filled: Floats
    variance: Floats

    @classmethod
    def of_centre(cls, centre: Floats) -> Sight:
        """What a view without factors sees."""
        nothing = np.zeros((len(centre), 0))
        return cls(centre, nothing, nothing, np.zeros(len(centre)))


class View(Learned, ABC):
    """`fit` learns from all rows; `look` answers for any."""

    link: str = "logit"

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def fit(self, cells: PredictedRows) -> Self: ...

    @abstractmethod
    def look(self, cells: PredictedRows) -> Sight: ...

    def probabilities(self, scores: Floats) -> Floats:
        """Scores of the view's link as probabilities."""
        answer: Floats = expit(scores) if self.link == "logit" else np.clip(scores, MEAN_CLIP, 1 - MEAN_CLIP)
        return answer

    def log_odds(self, scores: Floats) -> Floats:
        """Scores of the view's link as log odds."""
        return scores if self.link == "logit" else logit(scores, MEAN_CLIP)


class MeanView(View):
    """The log odds of the mean observed probability."""

    name = "mean"
    learned = ("average",)

    def fit(self, cells: PredictedRows) -> Self:
        means = self._means(cells, np.nan)
        self.average = float(np.nanmean(means)) if np.isfinite(means).any() else 0.5
        return self

    def _means(self, cells: PredictedRows, fallback: float) -> Floats:
        return row_mean(cells.scores("identity"), cells.observed.astype(np.float64), fallback)

    def look(self, cells: PredictedRows) -> Sight:
        return Sight.of_centre(logit(self._means(cells, self.average), MEAN_CLIP))


class AdditiveView(View):
    """Instance score plus classifier bias on logits: the bias-adjusted mean."""

    name = "bias-adjusted mean"
    learned = ("bias", "centre")

    def fit(self, cells: PredictedRows) -> Self:
        found = Additive.fit(cells.scores("logit"), cells.observed, shrinkage=1.0)
        self.bias, self.centre = found.bias, found.centre
        return self

    def look(self, cells: PredictedRows) -> Sight:
        return Sight.of_centre(Additive(self.bias, self.centre).scores(cells.scores("logit"), cells.observed))


class FactorView(View):
    """Factor analysis of the linked predictions.

    centre: log odds of the mean reconstructed score. latent: factors turned and scaled so that the squares of a row
    sum to the mean square of what its reconstructed scores differ from their mean.
    """

    learned = ("means", "loadings", "noise")

    def __init__(self, rank: int, link: str = "logit") -> None:
        one_of("link", link, LINKS)
        self.rank = rank
        self.link = link

    @property
    def name(self) -> str:
        return f"factors {self.rank}" if self.link == "logit" else f"factors {self.rank} of probabilities"

    def fit(self, cells: PredictedRows) -> Self:
        found = FactorAnalysis.fit(cells.scores(self.link), cells.observed, self.rank)
        self.means, self.loadings, self.noise = found.means, found.loadings, found.noise
        return self

    @property
    def model(self) -> FactorAnalysis:
        return FactorAnalysis(self.means, self.loadings, self.noise)

    def _basis(self) -> Floats:
        """(rank, rank) turns factors into latent columns."""
        apart = self.loadings - self.loadings.mean(axis=0)
        values, vectors = np.linalg.eigh(apart.T @ apart / len(apart))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) * self._slope)

    @property
    def _slope(self) -> float:
        return 1.0 if self.link == "logit" else 4.0  # of the logit at one half

    def look(self, cells: PredictedRows) -> Sight:
        scores, observed = cells.scores(self.link), cells.observed
        model = self.model
        factors, covariance = model.posterior(scores, observed)
        reconstructed = model.reconstruct(factors)
        direction = self._slope * self.loadings.mean(axis=0)
        return Sight(
            self.log_odds(reconstructed.mean(axis=1)),
            factors @ self._basis(),
            np.where(observed, scores, reconstructed),
            np.broadcast_to(np.einsum("i,nij,j->n", direction, covariance, direction), len(scores)),
        )
