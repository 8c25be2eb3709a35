"""From estimators, X and y to one fused fit: a layer of predictions, perhaps features beside them, and a fusion.

Pure functions; what they make is never changed. Must not know parameters of the front door that say how to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from halfstep.core.arrays import Floats
from halfstep.ensemble.from_estimators.features import FeatureTable
from halfstep.ensemble.from_estimators.layer import (
    Entry,
    FittedLayer,
    fit_layer,
    known_classes,
    make_splits,
    prefit_layer,
)
from halfstep.ensemble.from_estimators.targets import TargetCodes, read_targets
from halfstep.ensemble.predictions import logit

PREFIT = "prefit"
PASSED = "passthrough"
PASSED_CLIP = 1e-3
PASSED_FOLDS = 5  # of the features that are passed through, where the estimators have no folds


@dataclass(frozen=True, eq=False)
class FusedEstimators:
    """What a fit leaves behind.

    predictions (n, m, k) : those that the fusion was fitted to, NaN where an estimator abstained. passed : the layer of
    the features that are passed through, of one column, if any. feature_names : of X, where it had names.
    """

    classes: NDArray[Any]
    n_features_in: int
    feature_names: NDArray[Any] | None
    layer: FittedLayer
    passed: FittedLayer | None
    fusion: Any
    predictions: Floats

    @property
    def names(self) -> list[str]:
        return [*self.layer.names, *(() if self.passed is None else self.passed.names)]

    def probabilities(self, table: FeatureTable) -> Floats:
        """(n, m, k) what the estimators say of new rows."""
        P = self.layer.probabilities(table)
        if self.passed is None:
            return P
        return np.concatenate([P, self.passed.probabilities(beside(P, table))], axis=1)


def beside(P: Floats, table: FeatureTable) -> FeatureTable:
    """Log odds of predictions (n, m, k), and all features."""
    kept = P[:, :, 1:] if P.shape[2] == 2 else P
    flat = kept.reshape(len(P), -1)
    scores = np.where(np.isnan(flat), np.nan, logit(np.nan_to_num(flat, nan=0.5), PASSED_CLIP))
    return FeatureTable.of(np.column_stack([scores, table.numbers()]))


def for_fusion(P: Floats) -> Floats:
    """(n, m) of the second class where there are two classes, (n, m, k) as it is otherwise."""
    return P[:, :, 1] if P.shape[2] == 2 else P


def first_layer(
    entries: Sequence[Entry], table: FeatureTable, y: Any, unlabelled: Any, cv: Any, **options: Any
) -> tuple[TargetCodes, Floats, FittedLayer]:
    """Labels, (n, m, k) predictions and the fitted estimators."""
    if isinstance(cv, str):
        if cv != PREFIT:
            raise ValueError(f"cv={cv!r} must be a number of folds, a splitter of scikit-learn, or 'prefit'")
        targets = read_targets(y, table.n, unlabelled, known_classes(entries))
        return targets, *prefit_layer(entries, table, targets, options["stack_method"])
    targets = read_targets(y, table.n, unlabelled)
    splits = make_splits(cv, targets.y[targets.labelled], options.pop("seed"))
    return targets, *fit_layer(entries, table, targets, splits, **options)


def fuse(
    entries: Sequence[Entry],
    table: FeatureTable,
    y: Any,
    *,
    final_estimator: Any,
    cv: Any,
    passthrough: bool,
    unlabelled: Any,
    feature_names: NDArray[Any] | None,
    seed: int,
    **options: Any,
) -> FusedEstimators:
    """options : stack_method, n_jobs and verbose of `fit_layer`."""
    targets, P, layer = first_layer(entries, table, y, unlabelled, cv, seed=seed, **options)
    passed = None
    if passthrough:
        filled = SimpleImputer(keep_empty_features=True)
        model = make_pipeline(filled, StandardScaler(), LogisticRegression(max_iter=1000))
        folds = PASSED_FOLDS if isinstance(cv, str) else cv
        splits = make_splits(folds, targets.y[targets.labelled], seed)
        more, passed = fit_layer([Entry(PASSED, model)], beside(P, table), targets, splits, **options)
        P = np.concatenate([P, more], axis=1)
    fusion = clone(final_estimator).fit(for_fusion(P), targets.y)
    return FusedEstimators(targets.classes, table.width, feature_names, layer, passed, fusion, P)
