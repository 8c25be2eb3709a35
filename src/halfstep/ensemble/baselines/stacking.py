"""Stacking: logistic regression on the classifiers' logits, plain and shrunken towards their mean.

Must not know where the predictions came from, nor how missing ones are filled (`impute.py` does).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from halfstep.core.arrays import Codes, Floats
from halfstep.core.fitted import FromFit
from halfstep.core.logistic import STRENGTHS, choose_shrunken, fit_shrunken
from halfstep.ensemble.baselines.base import FusionBaseline
from halfstep.ensemble.baselines.impute import FilledLogits
from halfstep.ensemble.predictions import CLIP, Predictions, expit


@dataclass(frozen=True, eq=False)
class StackedRule:
    """sigmoid(intercept + coefficients'filled logits)."""

    filling: FilledLogits
    coefficients: Floats
    intercept: float

    def positive(self, data: Predictions) -> Floats:
        positive: Floats = expit(self.filling.of(data) @ self.coefficients + self.intercept)
        return positive


@dataclass(eq=False, repr=False)
class LogisticStacking(FusionBaseline):
    """L2 logistic regression on the logits: sigmoid(b0 + sum_j w_j logit p_ij), penalty |w|^2 / (2 C).

    `impute` fills missing logits ("column_mean" or "bias_adjusted"); `class_weight` is scikit-learn's.
    """

    C: float = 1.0
    impute: str = "column_mean"
    class_weight: str | None = None
    clip: float = CLIP

    _needs_labels = True
    coef_ = FromFit[Floats]("rule.coefficients")
    intercept_ = FromFit[float]("rule.intercept")

    def _learn(self, data: Predictions) -> StackedRule:
        filling = FilledLogits.fit(self.impute, data, self.clip)
        model = LogisticRegression(C=self.C, class_weight=self.class_weight, max_iter=1000)
        model.fit(filling.of(data)[data.labelled], data.y[data.labelled])
        return StackedRule(filling, model.coef_[0], float(model.intercept_[0]))


@dataclass(frozen=True, eq=False)
class ShrunkenRule:
    """coefficients (2 + m,) of one, the mean logit and deviations from it; cv_loss by strength, from strong to weak."""

    filling: FilledLogits
    coefficients: Floats
    strength: float
    cv_loss: Floats

    def positive(self, data: Predictions) -> Floats:
        positive: Floats = expit(mean_and_deviations(self.filling.of(data)) @ self.coefficients)
        return positive


@dataclass(eq=False, repr=False)
class ShrunkenStacking(FusionBaseline):
    """Stacking drawn to the mean logit s_i: sigmoid(b0 + b1 s_i + sum_j w_j (logit p_ij - s_i)).

    Only the deviations w are penalised, by `strength / 2 * |w|^2`; b0 and b1 are free. The strength is
    chosen from `strengths` by `cv`-fold cross-validated log loss on the labelled instances; infinity is the
    recalibrated mean. Fewer than two labelled instances in a class leave no folds, and the largest strength
    is taken.
    """

    strengths: tuple[float, ...] = STRENGTHS
    cv: int = 5
    impute: str = "bias_adjusted"
    clip: float = CLIP
    random_state: int | RandomState | None = 0

    _needs_labels = True
    coef_ = FromFit[Floats]("rule.coefficients")
    strength_ = FromFit[float]("rule.strength")
    cv_loss_ = FromFit[Floats]("rule.cv_loss")

    def _learn(self, data: Predictions) -> ShrunkenRule:
        if not self.strengths or min(self.strengths) <= 0:
            raise ValueError(
                f"strengths={self.strengths!r} must be positive numbers, at least one; infinity is allowed"
            )
        if self.cv < 2:
            raise ValueError(f"cv={self.cv!r} must be at least 2 folds")
        filling = FilledLogits.fit(self.impute, data, self.clip)
        features = mean_and_deviations(filling.of(data))[data.labelled]
        truth = data.y[data.labelled].astype(np.float64)
        weights, grid = np.ones(len(truth)), sorted(self.strengths, reverse=True)
        strength, losses = choose_shrunken(grid, self._folds(truth), features, 1, truth, weights)
        coefficients = fit_shrunken(features, 1, truth, weights, strength)
        return ShrunkenRule(filling, coefficients, strength, losses / len(truth))

    def _folds(self, truth: Floats) -> Codes | None:
        """(r,) the fold that holds a labelled instance out; None where there are too few labels."""
        n_folds = min(self.cv, int(min(truth.sum(), (1 - truth).sum())))
        if n_folds < 2:
            return None
        folds = np.empty(len(truth), np.int64)
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=self.random_state)
        for k, (_, held) in enumerate(splitter.split(truth, truth)):
            folds[held] = k
        return folds


def mean_and_deviations(filled: Floats) -> Floats:
    """(n, 2 + m): one, the mean logit, deviations from it."""
    mean = filled.mean(axis=1)
    return np.column_stack([np.ones(len(mean)), mean, filled - mean[:, None]])
