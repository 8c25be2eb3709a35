"""Means of predictions: plain, bias-adjusted, weighted by skill, and the best single classifier.

Must not know optimisation: everything here is closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.core.fitted import FromFit
from halfstep.ensemble.baselines.base import FusionBaseline, row_mean
from halfstep.ensemble.baselines.impute import Additive
from halfstep.ensemble.predictions import CLIP, Predictions, expit
from halfstep.errors import one_of


@dataclass(frozen=True, eq=False)
class WeightedRule:
    """The mean of the observed predictions of an instance under `weights` (m,); `fallback` where there are none."""

    weights: Floats
    fallback: float

    def positive(self, data: Predictions) -> Floats:
        return row_mean(np.nan_to_num(data.P), data.observed * self.weights, self.fallback)


class Mean(FusionBaseline):
    """The mean of the observed predictions of an instance. Needs no labels.

    An instance without predictions gets the mean over all instances (`average_`).
    """

    average_ = FromFit[float]("rule.fallback")

    def _learn(self, data: Predictions) -> WeightedRule:
        return WeightedRule(np.ones(data.P.shape[1]), average_prediction(data))


@dataclass(frozen=True, eq=False)
class AdditiveRule:
    """sigmoid of the instance scores of `additive`."""

    additive: Additive
    clip: float

    def positive(self, data: Predictions) -> Floats:
        positive: Floats = expit(self.additive.scores(data.logits(self.clip), data.observed))
        return positive


@dataclass(eq=False, repr=False)
class BiasAdjustedMean(FusionBaseline):
    """The mean logit without each classifier's bias: sigmoid(mean_j(logit p_ij - b_j)). Needs no labels.

    Biases come from the cells where classifiers overlap: least squares of logit p_ij = a_i + b_j over
    observed cells plus `shrinkage * |b|^2`. Without missing cells they cancel and this is the mean of
    logits.
    """

    shrinkage: float = 1.0
    clip: float = CLIP

    bias_ = FromFit[Floats]("rule.additive.bias")

    def _learn(self, data: Predictions) -> AdditiveRule:
        if not self.shrinkage > 0:
            raise ValueError(
                f"shrinkage={self.shrinkage!r} must be positive: without it the biases are known only up to "
                "a constant; 1.0 counts as one cell"
            )
        return AdditiveRule(Additive.fit(data.logits(self.clip), data.observed, self.shrinkage), self.clip)


@dataclass(eq=False, repr=False)
class WeightedMean(FusionBaseline):
    """A mean weighted by skill on labelled instances: w_j = max(1 - Brier_j / Brier_0, floor).

    Brier_0 = q (1 - q) is that of the constant q, the share of positives among the labelled. Brier_j counts
    `prior_cells` cells of Brier_0 beside the labelled cells of classifier j, so few labels give little skill.
    """

    floor: float = 0.01
    prior_cells: float = 5.0

    _needs_labels = True
    weights_ = FromFit[Floats]("rule.weights")

    def _learn(self, data: Predictions) -> WeightedRule:
        if not self.floor > 0:
            raise ValueError(f"floor={self.floor!r} must be positive, so that every row keeps some weight; try 0.01")
        constant, loss = classifier_losses(data, "brier", self.prior_cells, CLIP)
        return WeightedRule(np.maximum(1 - loss / constant, self.floor), average_prediction(data))


@dataclass(frozen=True, eq=False)
class RankedRule:
    """The first classifier of `order` that has a prediction; `losses` (m,) are what it was ordered by."""

    losses: Floats
    order: Codes
    fallback: float

    def positive(self, data: Predictions) -> Floats:
        ranked = data.observed[:, self.order]
        chosen = self.order[ranked.argmax(axis=1)]
        return np.where(ranked.any(axis=1), data.P[np.arange(len(data.P)), chosen], self.fallback)


@dataclass(eq=False, repr=False)
class BestSingle(FusionBaseline):
    """The classifier with the lowest loss on labelled instances; where it is missing, the next best.

    `metric` is "log_loss" (clipped) or "brier". Losses are smoothed as in `WeightedMean`, so a classifier
    seen on two labelled instances does not win by luck. `order_` lists classifiers from best to worst.
    """

    metric: str = "log_loss"
    prior_cells: float = 5.0
    clip: float = CLIP

    _needs_labels = True
    losses_ = FromFit[Floats]("rule.losses")
    order_ = FromFit[Codes]("rule.order")

    def _learn(self, data: Predictions) -> RankedRule:
        _, losses = classifier_losses(data, self.metric, self.prior_cells, self.clip)
        return RankedRule(losses, np.argsort(losses, kind="stable"), average_prediction(data))


def average_prediction(data: Predictions) -> float:
    """The mean over instances of their mean prediction; 1/2 where there is none at all."""
    seen = data.observed.any(axis=1)
    means = row_mean(np.nan_to_num(data.P), data.observed.astype(np.float64), 0.5)
    return float(means[seen].mean()) if seen.any() else 0.5


def classifier_losses(data: Predictions, metric: str, prior_cells: float, clip: float) -> tuple[float, Floats]:
    """The loss of the constant base rate, and (m,) each classifier's smoothed mean loss on labelled cells."""
    one_of("metric", metric, ("brier", "log_loss"))
    if prior_cells < 0:
        raise ValueError(f"prior_cells={prior_cells!r} must be at least 0: it is a number of imagined cells")
    labelled, truth = data.labelled, data.y[data.labelled].astype(np.float64)
    rate = truth.mean()
    if metric == "brier":
        constant = float(rate * (1 - rate))
        losses = (np.nan_to_num(data.P[labelled]) - truth[:, None]) ** 2
    else:
        constant = float(-(rate * np.log(rate) + (1 - rate) * np.log(1 - rate)))
        signed = np.where(truth[:, None] == 1, 1, -1) * data.logits(clip)[labelled]
        losses = np.logaddexp(0, -signed)
    seen = data.observed[labelled]
    count = seen.sum(axis=0) + prior_cells
    total = (losses * seen).sum(axis=0) + prior_cells * constant
    return constant, np.where(count > 0, total / np.where(count > 0, count, 1), constant)
