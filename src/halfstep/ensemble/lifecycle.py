"""Life after fit: more classifiers, more instances, more labels, and which label to ask for next.

Knows the fitted estimator. Must not know how a half-step is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from halfstep.core.arrays import Codes, Floats
from halfstep.ensemble.fusion import unlabelled_gains
from halfstep.ensemble.inputs import MAX_CLASSES, Rows, expand_labels, read_features, read_rows
from halfstep.ensemble.parts import LocalPart
from halfstep.ensemble.predictions import check_predictions
from halfstep.ensemble.table import Table, make_weights

PARTIAL_SWEEPS = 5


class LifecycleMixin:
    """Methods of `CFEnsemble` that change or question a fitted model."""

    _groups: NDArray[Any] | None
    _tasks: NDArray[Any] | None

    def add_classifiers(self: Any, P_extra: Any) -> Any:
        """Take in k more classifiers: their factors are solved against the fitted instances, which stay as they are.

        P_extra : (n, k) or (n, k, classes) predictions on the fitted instances, NaN where missing. Only the aggregator
        is learned again.
        """
        check_is_fitted(self, "classes_")
        self._need_instances("add_classifiers")
        factors, n = self._factors, len(self._y)
        extra = read_rows(P_extra, None, n_channels=self._n_channels)
        if extra.n != n:
            raise ValueError(
                f"P_extra has {extra.n} instances, but the model was fitted with {n}; give the new classifiers' "
                "predictions for the fitted instances, NaN where there are none"
            )
        dtype, m = factors.classifier_factors.dtype, len(factors.classifier_factors)
        together = np.column_stack([self._probabilities(factors), extra.P])
        confidence = self._confidence(*together.shape)
        weights = make_weights(
            together, confidence, expand_labels(self._y, self._n_channels), dtype.type, factors.scale.weight
        )
        own = weights[:, m:] if isinstance(weights, np.ndarray) else weights
        table = Table(factors.scale.target(extra.P).astype(dtype), own)
        new = factors.columns.classifiers(extra.P.shape[1], dtype)
        rows = LocalPart(table, factors.columns, factors.scale, factors.reg, factors.row_factors, factors.n_threads)
        rows.solve_classifiers(new, None)
        factors.classifier_factors = np.vstack([factors.classifier_factors, new])
        factors.table = factors.table.stacked(table, axis=1)
        factors.mean_weights = factors.table.mean_weights() / factors.scale.weight
        if self._groups is not None:  # newcomers belong to no known group: each is one of its own
            self._groups = np.concatenate([self._groups, self._groups.max() + 1 + np.arange(len(new))])
        self.n_features_in_ += len(new) * (self._n_channels if self._flat else 1)
        self._learn()
        return self

    def partial_fit(
        self: Any,
        P: Any = None,
        y: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        max_iter: int = PARTIAL_SWEEPS,
    ) -> Any:
        """Go on from the fitted factors with more instances (P and, where known, y), or with more labels (y alone).

        Without P, y (n,) belongs to the fitted instances; NaN, None or -1 leave a label as it is. At most `max_iter`
        sweeps are made from the present classifier factors. Unfitted, this is `fit`.
        """
        if not hasattr(self, "classes_"):
            return self.fit(P, y, features=features, tasks=tasks)
        self._need_instances("partial_fit")
        known = self._probabilities(self._factors)
        codes = self._y.copy()
        if P is None:
            if y is None:
                raise ValueError("partial_fit needs P (more instances), y (labels of the fitted ones), or both")
            fresh = self._codes(y, len(codes))
            codes = np.where(fresh >= 0, fresh, codes)
        else:
            m = len(self._factors.classifier_factors)
            more = read_rows(P, None, n_classifiers=m, n_channels=self._n_channels)
            known = np.concatenate([known, more.P])
            added = np.full(more.n, -1) if y is None else self._codes(y, more.n)
            codes = np.concatenate([codes, added])
            table = read_features(features, more.n, self._n_features)
            if table is not None:
                table = (table - self._feature_mean) / self._feature_scale
                self._features = np.concatenate([self._features, table])
            self._extend_tasks(tasks, more.n)
        self._y = codes
        rows = Rows(known, codes, self.classes_, self._n_channels)
        self._check_labels(rows)
        self._factorise(rows, self._factors.classifier_factors, max_iter)
        self._learn()
        return self

    def query(self: Any, n: int = 1) -> NDArray[np.intp]:
        """(n,) the unlabelled instances whose labels would help most, best first; numbers of fitted instances.

        Greedy information gain of a logistic model on the mean score and the latent factors: the next instance has the
        largest p (1 - p) x'H^-1 x, where H is the information of all labelled and already chosen instances. So it is
        uncertain, unlike those that are known, and unlike the others in the list.
        """
        check_is_fitted(self, "classes_")
        self._need_instances("query")
        left = int((self._y < 0).sum())
        if not 1 <= n <= left:
            raise ValueError(f"n={n!r} must be between 1 and the number of unlabelled instances, {left}")
        positive = self._row_probabilities()
        return unlabelled_gains(self._factors, positive, self._y, self._n_channels, n)

    # ------------------------------------------------------------------ helpers

    def _codes(self: Any, y: ArrayLike, n: int) -> Codes:
        """(n,) indices into `classes_`, -1 where unlabelled."""
        labels: list[Any] = list(y) if np.ndim(y) == 1 else []  # type: ignore[arg-type]
        if len(labels) != n:
            raise ValueError(f"y has shape {np.shape(y)}; it must have one label for each of {n} instances")
        classes = self.classes_.tolist()
        # With the known classes behind them the new labels are read as those of `fit` were.
        read = check_predictions(np.zeros((n + len(classes), 1)), [*labels, *classes], max_classes=MAX_CLASSES)
        if len(read.classes) != len(classes):
            strange = [label for label in read.classes.tolist() if label not in classes]
            raise ValueError(f"y has the label {strange[0]!r}, but the classes are {classes}")
        return read.y[:n]

    def _extend_tasks(self: Any, tasks: ArrayLike | None, n: int) -> None:
        if (self._tasks is None) != (tasks is None):
            raise ValueError("tasks must be given either in every call or in none")
        if tasks is not None:
            self._tasks = np.concatenate([self._tasks, self._read_tasks(tasks, n)])

    def _need_instances(self: Any, method: str) -> None:
        if hasattr(self, "frame_columns_"):
            raise ValueError(
                f"{method} needs all fitted instances on this machine; a model fitted by SparkEngine has the labelled "
                "ones only. Fit again with the new data"
            )
        if self._factors.row_factors.shape[0] == 0:
            raise ValueError(f"{method} needs fitted instances; a model merged from sites has none of its own")

    def _row_probabilities(self: Any) -> Floats:
        """(N,) the probability of each row's class."""
        return self._proba[:, 1] if self._n_channels == 1 else self._proba.ravel()  # type: ignore[no-any-return]
