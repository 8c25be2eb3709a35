"""What every fusion baseline shares: checked input, one frozen fit, probabilities in and labels out.

A subclass learns a rule. Must not know any particular one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from halfstep.core.arrays import Floats, Mask
from halfstep.core.estimators import BaseEstimator, ClassifierMixin
from halfstep.core.fitted import FromFit
from halfstep.ensemble.predictions import Predictions, check_predictions


class FusionRule(Protocol):
    """What a baseline has learned; nothing changes it."""

    def positive(self, data: Predictions) -> Floats:
        """(n,) probability of the second class."""


@dataclass(frozen=True, eq=False)
class FusionFit:
    """What a fit leaves behind; positive (n,) is the rule's answer for the fitted instances."""

    classes: NDArray[Any]
    n_features_in: int
    rule: FusionRule
    positive: Floats


class FusionBaseline(ClassifierMixin, BaseEstimator, ABC):
    """Fuses predictions P (n instances, m classifiers), NaN where missing, into one probability per instance.

    `fit(P, y)` is transductive: it sees all instances, labelled or not. Afterwards `predict_proba()` is
    about the fitted instances and `predict_proba(P_new)` about new ones. The two agree on the same rows.
    """

    _needs_labels = False
    classes_ = FromFit[NDArray[Any]]("classes")
    n_features_in_ = FromFit[int]("n_features_in")

    def fit(self, P: ArrayLike, y: ArrayLike | None = None) -> Self:
        """P (n, m) probabilities; y (n,) labels with NaN, None or -1 where unlabelled."""
        data = check_predictions(P, y)
        if self._needs_labels:
            data.require_labels(type(self).__name__)
        rule = self._learn(data)
        self.fitted_ = FusionFit(data.classes, data.P.shape[1], rule, rule.positive(data))
        return self

    def predict_proba(self, P: ArrayLike | None = None) -> Floats:
        """(n, 2) probabilities in the order of `classes_`; without P, of the fitted instances."""
        check_is_fitted(self, "classes_")
        fit: FusionFit = self.fitted_
        positive = fit.positive
        if P is not None:
            positive = fit.rule.positive(check_predictions(P, n_classifiers=fit.n_features_in))
        return np.column_stack([1 - positive, positive])

    def predict(self, P: ArrayLike | None = None) -> NDArray[Any]:
        """(n,) the more probable label of each instance."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(P).argmax(axis=1)]
        return labels

    @abstractmethod
    def _learn(self, data: Predictions) -> FusionRule: ...


def row_mean(values: Floats, weight: Floats | Mask, fallback: float) -> Floats:
    """(n,) mean of each row of `values` under `weight` (n, m); `fallback` where a row has no weight.

    `values` must be finite where `weight` is 0 too.
    """
    total = weight.sum(axis=1)
    return np.where(total > 0, (weight * values).sum(axis=1) / np.where(total > 0, total, 1), fallback)
