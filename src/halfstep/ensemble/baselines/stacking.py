"""Stacking: logistic regression on the classifiers' logits, plain and shrunken towards their mean.

Must not know where the predictions came from, nor how missing ones are filled (`impute.py` does).
"""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from halfstep.core.arrays import Codes, Floats
from halfstep.core.logistic import cross_validated, fit_shrunken
from halfstep.ensemble.baselines.base import FusionClassifier
from halfstep.ensemble.baselines.impute import fit_imputer
from halfstep.ensemble.predictions import CLIP, Predictions, expit


class LogisticStacking(FusionClassifier):
    """L2 logistic regression on the logits: sigmoid(b0 + sum_j w_j logit p_ij), penalty |w|^2 / (2 C).

    `impute` fills missing logits ("column_mean" or "bias_adjusted"); `class_weight` is scikit-learn's.
    """

    _needs_labels = True

    def __init__(
        self, C: float = 1.0, impute: str = "column_mean", class_weight: str | None = None, clip: float = CLIP
    ) -> None:
        self.C = C
        self.impute = impute
        self.class_weight = class_weight
        self.clip = clip

    def _learn(self, data: Predictions) -> None:
        logits = data.logits(self.clip)
        self._imputer = fit_imputer(self.impute, logits, data.observed)
        model = LogisticRegression(C=self.C, class_weight=self.class_weight, max_iter=1000)
        filled = self._imputer.fill(logits, data.observed)
        model.fit(filled[data.labelled], data.y[data.labelled])
        self.coef_, self.intercept_ = model.coef_[0], float(model.intercept_[0])

    def _positive(self, data: Predictions) -> Floats:
        filled = self._imputer.fill(data.logits(self.clip), data.observed)
        positive: Floats = expit(filled @ self.coef_ + self.intercept_)
        return positive


class ShrunkenStacking(FusionClassifier):
    """Stacking drawn to the mean logit s_i: sigmoid(b0 + b1 s_i + sum_j w_j (logit p_ij - s_i)).

    Only the deviations w are penalised, by `strength / 2 * |w|^2`; b0 and b1 are free. The strength is
    chosen from `strengths` by `cv`-fold cross-validated log loss on the labelled instances; infinity is the
    recalibrated mean. Fewer than two labelled instances in a class leave no folds, and the largest strength
    is taken.
    """

    _needs_labels = True

    def __init__(
        self,
        strengths: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, np.inf),
        cv: int = 5,
        impute: str = "bias_adjusted",
        clip: float = CLIP,
        random_state: int | RandomState | None = 0,
    ) -> None:
        self.strengths = strengths
        self.cv = cv
        self.impute = impute
        self.clip = clip
        self.random_state = random_state

    def _learn(self, data: Predictions) -> None:
        if not self.strengths or min(self.strengths) <= 0:
            raise ValueError(
                f"strengths={self.strengths!r} must be positive numbers, at least one; infinity is allowed"
            )
        if self.cv < 2:
            raise ValueError(f"cv={self.cv!r} must be at least 2 folds")
        logits = data.logits(self.clip)
        self._imputer = fit_imputer(self.impute, logits, data.observed)
        features = self._features(data)[data.labelled]
        truth = data.y[data.labelled].astype(np.float64)
        grid = sorted(self.strengths, reverse=True)
        weights, folds = np.ones(len(truth)), self._folds(truth)
        self.cv_loss_ = np.zeros(len(grid))
        if folds is not None:
            self.cv_loss_ = cross_validated(grid, folds, features, 1, truth, weights) / len(truth)
        self.strength_ = grid[int(np.argmin(self.cv_loss_))]
        self.coef_ = fit_shrunken(features, 1, truth, weights, self.strength_)

    def _folds(self, truth: Floats) -> Codes | None:
        """(r,) the fold that holds a labelled instance out; None where there are too few labels."""
        n_folds = min(self.cv, int(min(truth.sum(), (1 - truth).sum())))
        if n_folds < 2 or len(self.strengths) == 1:
            return None
        folds = np.empty(len(truth), np.int64)
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=self.random_state)
        for k, (_, held) in enumerate(splitter.split(truth, truth)):
            folds[held] = k
        return folds

    def _features(self, data: Predictions) -> Floats:
        """(n, 2 + m): one, the mean logit, deviations from it."""
        filled = self._imputer.fill(data.logits(self.clip), data.observed)
        mean = filled.mean(axis=1)
        return np.column_stack([np.ones(len(mean)), mean, filled - mean[:, None]])

    def _positive(self, data: Predictions) -> Floats:
        positive: Floats = expit(self._features(data) @ self.coef_)
        return positive
