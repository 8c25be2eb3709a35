"""What every fusion baseline shares: checked input, one frozen fit, probabilities in and labels out.

A subclass learns a rule. Must not know any particular one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats, Mask
from halfstep.core.fitted import FromFit, fit_of
from halfstep.core.scikit import BaseEstimator, ClassifierMixin
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.naming import Naming, read_named
from halfstep.ensemble.predictions import Predictions


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
    naming: Naming


@dataclass(eq=False, repr=False)
class FusionBaseline(ClassifierMixin, BaseEstimator, ABC):
    """Fuses predictions P (n instances, m classifiers), NaN where missing, into one probability per instance.

    `fit(P, y)` is transductive: it sees all instances, labelled or not. Afterwards `predict_proba()` is
    about the fitted instances and `predict_proba(P_new)` about new ones. The two agree on the same rows.

    positive : the class whose probability P is. Labels that are text need it; of numbers and booleans it is the larger
    one: 1, True. `classes_` is sorted whatever it is.
    """

    positive: Any = field(default=None, kw_only=True)

    _needs_labels: ClassVar[bool] = False
    classes_ = FromFit[NDArray[Any]]("classes")
    n_features_in_ = FromFit[int]("n_features_in")

    def fit(self, P: ArrayLike, y: ArrayLike | None = None) -> Self:
        """P (n, m) probabilities, or a frame of them; y (n,) labels with NaN, None or -1 where unlabelled."""
        rows, naming = read_named(P, y, None, self.positive)
        if rows.n_channels > 1:
            raise ValueError(
                f"{type(self).__name__} fuses two classes; P and y have {rows.n_channels}: use CFEnsembleCV, or fuse "
                "each class against the rest"
            )
        data = _predictions(rows)
        if self._needs_labels:
            data.require_labels(type(self).__name__)
        rule = self._learn(data)
        self.fitted_ = FusionFit(data.classes, data.P.shape[1], rule, rule.positive(data), naming)
        return self

    def predict_proba(self, P: ArrayLike | None = None) -> Floats:
        """(n, 2) probabilities in the order of `classes_`; without P, of the fitted instances."""
        fit: FusionFit = fit_of(self)
        positive = fit.positive
        if P is not None:
            positive = fit.rule.positive(_predictions(fit.naming.rows(P, fit.n_features_in, 1)[0]))
        return np.column_stack([1 - positive, positive])

    def predict(self, P: ArrayLike | None = None) -> NDArray[Any]:
        """(n,) the more probable label of each instance."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(P).argmax(axis=1)]
        return labels

    @abstractmethod
    def _learn(self, data: Predictions) -> FusionRule: ...


def _predictions(rows: InstanceRows) -> Predictions:
    return Predictions(rows.P, ~np.isnan(rows.P), rows.y, rows.classes)


def row_mean(values: Floats, weight: Floats | Mask, fallback: float) -> Floats:
    """(n,) mean of each row of `values` under `weight` (n, m); `fallback` where a row has no weight.

    `values` must be finite where `weight` is 0 too.
    """
    total = weight.sum(axis=1)
    return np.where(total > 0, (weight * values).sum(axis=1) / np.where(total > 0, total, 1), fallback)
