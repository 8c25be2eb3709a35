"""The methods of the fusion benchmark: how each is built, and which sources it depends on. Must not know results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import halfstep
from halfstep import baselines

Floats = NDArray[np.float64]
OURS = "CFEnsembleCV"
PACKAGE = Path(halfstep.__file__).parent


@dataclass(frozen=True)
class Method:
    """`make()` gives an estimator with `fit(P, y)` and `predict_proba()`.

    `sources` are the files of the package whose text decides what it answers. `complete`: it needs complete
    predictions.
    """

    make: Callable[[], Any]
    sources: tuple[str, ...]
    complete: bool = False

    @property
    def fingerprint(self) -> str:
        """A hash of the sources: a stored result counts only while they are the same."""
        return _fingerprint(self.sources)


@cache
def _fingerprint(sources: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update((PACKAGE / source).read_bytes())
    return digest.hexdigest()[:12]


class _Column:
    """A trained classifier, as scikit-learn's stacking wants it: its probabilities stand in column j already."""

    def __init__(self, j: int) -> None:
        self.j = j
        self.classes_ = np.array([0, 1])

    def fit(self, X: Floats, y: Any) -> _Column:
        return self

    def get_params(self, deep: bool = True) -> dict[str, int]:
        return {"j": self.j}

    def predict_proba(self, X: Floats) -> Floats:
        return np.column_stack([1 - X[:, self.j], X[:, self.j]])

    _estimator_type = "classifier"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator, ClassifierMixin

        return type("Tagged", (ClassifierMixin, BaseEstimator), {})().__sklearn_tags__()


class SklearnStacking:
    """scikit-learn's `StackingClassifier` with its default logistic regression, on predictions with column means."""

    def fit(self, P: Floats, y: Floats) -> SklearnStacking:
        from sklearn.ensemble import StackingClassifier

        seen = ~np.isnan(P)
        means = np.nansum(P, axis=0) / np.maximum(seen.sum(axis=0), 1)
        self._filled = np.where(seen, P, np.where(seen.any(axis=0), means, np.nanmean(P)))
        known = ~np.isnan(y)
        pool = [(f"c{j}", _Column(j)) for j in range(P.shape[1])]
        self._model = StackingClassifier(pool, cv="prefit")
        self._model.fit(self._filled[known], y[known].astype(int))
        return self

    def predict_proba(self) -> Floats:
        answer: Floats = self._model.predict_proba(self._filled)
        return answer


def _baselines(*files: str) -> tuple[str, ...]:
    return ("ensemble/predictions.py", *(f"ensemble/baselines/{name}.py" for name in ("base", "impute", *files)))


_AVERAGES, _STACKING = _baselines("averages"), (*_baselines("stacking"), "core/logistic.py")
_OURS = (
    *_baselines(),
    "core/logistic.py",
    *(f"ensemble/family/{name}.py" for name in ("analysis", "estimator", "fitting", "members", "roster", "views")),
)

METHODS: dict[str, Method] = {
    OURS: Method(lambda: halfstep.CFEnsembleCV(n_threads=1), _OURS),
    "Mean": Method(baselines.Mean, _AVERAGES),
    "BiasAdjustedMean": Method(baselines.BiasAdjustedMean, _AVERAGES),
    "WeightedMean": Method(baselines.WeightedMean, _AVERAGES),
    "BestSingle": Method(baselines.BestSingle, _AVERAGES),
    "GreedySelection": Method(baselines.GreedySelection, _baselines("selection")),
    "LogisticStacking": Method(baselines.LogisticStacking, _STACKING),
    "ShrunkenStacking (column mean)": Method(lambda: baselines.ShrunkenStacking(impute="column_mean"), _STACKING),
    "ShrunkenStacking (bias-adjusted)": Method(baselines.ShrunkenStacking, _STACKING),
    "SpectralMetaLearner": Method(lambda: baselines.SpectralMetaLearner(votes="soft"), _baselines("spectral")),
    "DawidSkene": Method(baselines.DawidSkene, _baselines("dawid_skene")),
    "sklearn stacking": Method(SklearnStacking, ()),
}
