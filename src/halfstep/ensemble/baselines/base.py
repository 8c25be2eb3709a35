"""What every fusion baseline shares: checked input, fitted attributes, probabilities in and labels out.

A subclass gives two methods, `_learn` and `_positive`. Must not know any particular method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from halfstep.core.arrays import Floats, Mask
from halfstep.ensemble.predictions import Predictions, check_predictions


class FusionClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is untyped
    """Fuses predictions P (n instances, m classifiers), NaN where missing, into one probability per instance.

    `fit(P, y)` is transductive: it sees all instances, labelled or not. Afterwards `predict_proba()` is
    about the fitted instances and `predict_proba(P_new)` about new ones. The two agree on the same rows.
    """

    _needs_labels = False

    def fit(self, P: ArrayLike, y: ArrayLike | None = None) -> Self:
        """P (n, m) probabilities; y (n,) labels with NaN, None or -1 where unlabelled."""
        data = check_predictions(P, y)
        if self._needs_labels:
            data.require_labels(type(self).__name__)
        self.classes_ = data.classes
        self.n_features_in_ = data.P.shape[1]
        self._learn(data)
        self._fitted_positive = self._positive(data)
        return self

    def predict_proba(self, P: ArrayLike | None = None) -> Floats:
        """(n, 2) probabilities in the order of `classes_`; without P, of the fitted instances."""
        check_is_fitted(self, "classes_")
        if P is None:
            positive = self._fitted_positive
        else:
            positive = self._positive(check_predictions(P, n_classifiers=self.n_features_in_))
        return np.column_stack([1 - positive, positive])

    def predict(self, P: ArrayLike | None = None) -> NDArray[Any]:
        """(n,) the more probable label of each instance."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(P).argmax(axis=1)]
        return labels

    @abstractmethod
    def _learn(self, data: Predictions) -> None:
        """Set the fitted attributes."""

    @abstractmethod
    def _positive(self, data: Predictions) -> Floats:
        """(n,) probability of the second class."""


def row_mean(values: Floats, weight: Floats | Mask, fallback: float) -> Floats:
    """(n,) mean of each row of `values` under `weight` (n, m); `fallback` where a row has no weight.

    `values` must be finite where `weight` is 0 too.
    """
    total = weight.sum(axis=1)
    return np.where(total > 0, (weight * values).sum(axis=1) / np.where(total > 0, total, 1), fallback)
