"""What can be seen of rows without labels: a score, latent factors, and the matrix with its gaps filled.

A view is learned from predictions alone, so it may be shared by all folds and looked through at new rows. Knows
predictions; must not know labels, members or weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from halfstep.core.arrays import Codes, Floats, Mask
from halfstep.ensemble.baselines.base import row_mean
from halfstep.ensemble.baselines.impute import Additive, AdditiveSums
from halfstep.ensemble.family.analysis import Ascent, CellSums, FactorAnalysis, StepSums
from halfstep.ensemble.inputs import InstanceRows, SideFeatures
from halfstep.ensemble.learned import Learned
from halfstep.ensemble.predictions import CLIP, expit, logit
from halfstep.errors import one_of

LINKS = ("logit", "identity")
MEAN_CLIP = 1e-3  # of averaged probabilities, which are less extreme than single ones
FIT_ROWS = 20_000
"""Views are learned from at most so many rows, drawn at random: a classifier has a handful of numbers to learn."""


@dataclass(eq=False)
class PredictedRows:
    """Predictions of some rows: P (n, m), NaN where missing, and the class each row is about.

    features (n, q) : of the instance that a row is about, with mean 0 and deviation 1 over the fitted ones, or None.
    """

    P: Floats
    channel: Codes
    clip: float = CLIP
    features: Floats | None = None
    _known: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: InstanceRows, clip: float, features: SideFeatures | None = None) -> PredictedRows:
        """Of instances and, where there are any, their features."""
        return cls(rows.P, rows.channel, clip, None if features is None else features.by_row(rows.n_channels))

    @property
    def observed(self) -> Mask:
        observed: Mask = ~np.isnan(self.P)
        return observed

    def scores(self, link: str) -> Floats:
        """(n, m) logits or probabilities, 0 where missing."""
        if link == "identity":
            return np.nan_to_num(self.P)
        logits: Floats = self._once(
            link, lambda: np.where(self.observed, logit(np.nan_to_num(self.P, nan=0.5), self.clip), 0.0)
        )
        return logits

    def sums(self, link: str) -> CellSums:
        """What every factor analysis of these scores begins with."""
        sums: CellSums = self._once(f"{link} sums", lambda: CellSums.of(self.scores(link), self.observed))
        return sums

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def take(self, rows: Any) -> PredictedRows:
        features = None if self.features is None else self.features[rows]
        return PredictedRows(self.P[rows], self.channel[rows], self.clip, features)


@dataclass(frozen=True, eq=False)
class Unseen:
    """What a view does not know of rows: (n or 1, r, r) covariances of their factors, and the cells that are missing.

    direction (r,), basis (r, k) : what a unit of each factor does to centre and latent columns.
    """

    covariance: Floats
    missing: Floats
    loadings: Floats
    noise: Floats
    direction: Floats
    basis: Floats

    def of_factors(self, slope: float, weights: Floats) -> Floats:
        """(n,) variance of  slope centre + latent.weights."""
        along = slope * self.direction + self.basis @ weights
        return np.broadcast_to(np.einsum("i,nij,j->n", along, self.covariance, along), len(self.missing))

    def of_filled(self, weights: Floats) -> Floats:
        """(n,) variance of  filled.weights (m,):  missing scores have that of their factors and their own noise."""
        gaps = self.missing * weights
        along = gaps @ self.loadings
        known = (along[:, None, :] @ self.covariance @ along[:, :, None])[:, 0, 0]
        return np.asarray(known + gaps**2 @ self.noise)


@dataclass(frozen=True, eq=False)
class Sight:
    """Rows seen through a view.

    centre (n,) log odds of all classifiers taken together; latent (n, k) what they differ in, in units of log odds;
    filled (n, m) scores in the view's link, reconstructed where missing. A view without factors has no columns, and
    does not know what it does not know.
    """

    centre: Floats
    latent: Floats
    filled: Floats
    unknown: Unseen | None = None

    @classmethod
    def of_centre(cls, centre: Floats) -> Sight:
        """What a view without factors sees."""
        nothing = np.zeros((len(centre), 0))
        return cls(centre, nothing, nothing)


class View(Learned, ABC):
    """Learned from sums over rows, wherever they are; `look` answers for any.

    Until it is `settled`, whoever holds rows is to `ask` what the view needs of them, and the total is `told` to it.
    `fit` does so with rows that are here.
    """

    link: str = "logit"
    settled = False

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def ask(self, cells: PredictedRows) -> Any:
        """Sums over these rows."""

    @abstractmethod
    def told(self, sums: Any) -> Self:
        """The view one step further, from the sums over all rows."""

    @abstractmethod
    def look(self, cells: PredictedRows) -> Sight: ...

    def fit(self, cells: PredictedRows) -> Self:
        view = self
        while not view.settled:
            view = view.told(view.ask(cells))
        return view

    def _with(self, **learned: Any) -> Self:
        """A copy that has learned this."""
        found = copy(self)
        vars(found).update(learned)
        return found

    def probabilities(self, scores: Floats) -> Floats:
        """Scores of the view's link as probabilities."""
        answer: Floats = expit(scores) if self.link == "logit" else np.clip(scores, MEAN_CLIP, 1 - MEAN_CLIP)
        return answer

    def log_odds(self, scores: Floats) -> Floats:
        """Scores of the view's link as log odds."""
        return scores if self.link == "logit" else logit(scores, MEAN_CLIP)

    def steepness(self, scores: Floats) -> Floats:
        """By how much log odds move with scores of the view's link."""
        if self.link == "logit":
            return np.ones_like(scores)
        p = self.probabilities(scores)
        return np.asarray(1 / (p * (1 - p)))


class MeanView(View):
    """The log odds of the mean observed probability."""

    name = "mean"
    learned = ("average",)
    average: float

    def ask(self, cells: PredictedRows) -> Floats:
        """(2,) the sum of the means of rows that have cells, and their number."""
        means = self._means(cells, np.nan)
        return np.array([np.nansum(means), np.isfinite(means).sum()])

    def told(self, sums: Floats) -> Self:
        return self._with(average=float(sums[0] / sums[1]) if sums[1] else 0.5, settled=True)

    def _means(self, cells: PredictedRows, fallback: float) -> Floats:
        return row_mean(cells.scores("identity"), cells.observed.astype(np.float64), fallback)

    def look(self, cells: PredictedRows) -> Sight:
        return Sight.of_centre(logit(self._means(cells, self.average), MEAN_CLIP))


class AdditiveView(View):
    """Instance score plus classifier bias on logits: the bias-adjusted mean."""

    name = "bias-adjusted mean"
    learned = ("bias", "centre")
    bias: Floats
    centre: float

    def ask(self, cells: PredictedRows) -> AdditiveSums:
        return AdditiveSums.of(cells.scores("logit"), cells.observed)

    def told(self, sums: AdditiveSums) -> Self:
        return self._with(**vars(sums.solved(shrinkage=1.0)), settled=True)

    def look(self, cells: PredictedRows) -> Sight:
        return Sight.of_centre(Additive(self.bias, self.centre).scores(cells.scores("logit"), cells.observed))


class FactorView(View):
    """Factor analysis of the linked predictions.

    centre: log odds of the mean reconstructed score. latent: factors turned and scaled so that the squares of a row
    sum to the mean square of what its reconstructed scores differ from their mean.
    """

    learned = ("means", "loadings", "noise")
    means: Floats
    loadings: Floats
    noise: Floats

    def __init__(self, rank: int, link: str = "logit") -> None:
        one_of("link", link, LINKS)
        self.rank = rank
        self.link = link
        self._ascent: Ascent | None = None

    @property
    def name(self) -> str:
        return f"factors {self.rank}" if self.link == "logit" else f"factors {self.rank} of probabilities"

    def ask(self, cells: PredictedRows) -> CellSums | StepSums:
        if self._ascent is None:
            return cells.sums(self.link)
        return self._ascent.model.expect(cells.scores(self.link), cells.observed)

    def told(self, sums: Any) -> Self:
        ascent = Ascent.begun(sums, self.rank) if self._ascent is None else self._ascent.told(sums)
        if not ascent.done:
            return self._with(_ascent=ascent)
        found = ascent.model
        return self._with(means=found.means, loadings=found.loadings, noise=found.noise, _ascent=None, settled=True)

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
        direction, basis = self._slope * self.loadings.mean(axis=0), self._basis()
        missing = (~observed).astype(np.float64)
        return Sight(
            self.log_odds(reconstructed.mean(axis=1)),
            factors @ basis,
            np.where(observed, scores, reconstructed),
            Unseen(covariance, missing, self.loadings, self.noise, direction, basis),
        )
