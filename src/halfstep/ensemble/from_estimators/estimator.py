"""FusionClassifier: scikit-learn estimators and X in, one calibrated probability for each row out.

The front door of `fitting`. Must not know how predictions are made or fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, get_tags
from sklearn.utils.validation import validate_data

from halfstep.core.arrays import Floats
from halfstep.core.fitted import FromFit, fit_of
from halfstep.core.initial import seed_from
from halfstep.core.scikit import BaseEstimator, ClassifierMixin, TransformerMixin
from halfstep.ensemble.family.estimator import CFEnsembleCV
from halfstep.ensemble.from_estimators.features import FeatureTable
from halfstep.ensemble.from_estimators.fitting import FusedEstimators, for_fusion, fuse
from halfstep.ensemble.from_estimators.layer import read_entries
from halfstep.ensemble.from_estimators.named import flat_columns
from halfstep.ensemble.from_estimators.targets import given_labels


@dataclass(eq=False, repr=False)
class FusionClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Fuse estimators: a drop-in for scikit-learn's StackingClassifier that learns from unlabelled rows too.

    Labelled rows are predicted by copies fitted to the other folds, unlabelled and new ones by copies fitted to all
    labelled rows. `CFEnsembleCV` then fuses the predictions of all rows: its factor analyses are learned from every
    row, its few weights from labels. An estimator abstains where a row lacks its columns; the fusion integrates over
    what is missing.

    Parameters
    ----------
    estimators : (name, estimator) or (name, estimator, columns); columns as ColumnTransformer takes them: a name, a
        number, a list of either, a slice, a mask or a function of X. None are all columns. "drop" leaves one out. An
        estimator that says it takes NaN abstains where all its columns are missing, any other where one of them is.
    final_estimator : what fuses; anything that fits to (rows, estimators) probabilities with NaN and y with -1. None is
        `CFEnsembleCV()`.
    cv : folds of the labelled rows, a splitter that holds out each of them once, or "prefit": the estimators were
        fitted elsewhere, to other rows, and are used as they are.
    stack_method : "predict_proba", "decision_function", "predict", or "auto": the first that there is. Scores and votes
        become probabilities by logistic regression on held-out ones.
    passthrough : a logistic regression on X beside the predictions' log odds joins as one more column. X must
        be numbers.
    unlabelled : the label that means none, beside None and NaN. None: every label is one.
    n_jobs : fits side by side, as joblib counts them.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ (where X has names)
    estimators_, named_estimators_ : fitted to all labelled rows; None for one that no labelled row could teach. They
        know classes by their numbers, as in StackingClassifier (with cv="prefit" as they came).
    fusion_ : the fitted final estimator. `fusion_.predict_proba()` answers for the fitted rows.
    predictions_ (n, m) or (n, m, classes) : what it was fitted to.
    """

    estimators: Sequence[Any]
    final_estimator: Any = None
    cv: Any = 5
    stack_method: str = "auto"
    passthrough: bool = False
    unlabelled: Any = -1
    n_jobs: int | None = None
    random_state: Any = 0
    verbose: int = 0

    classes_ = FromFit[NDArray[Any]]("classes")
    n_features_in_ = FromFit[int]("n_features_in")
    fusion_ = FromFit[Any]("fusion")

    def fit(self, X: Any, y: Any) -> Self:
        """X (n, features), NaN or null where missing; y (n,) labels, `unlabelled`, None or NaN where there is none."""
        entries = read_entries(self.estimators)
        if y is None:
            raise ValueError(
                "FusionClassifier requires y to be passed, but the target y is None; give unlabelled rows the label "
                f"{self.unlabelled!r}, and a few rows their classes"
            )
        table, seen = FeatureTable.of(X), BaseEstimator()
        validate_data(seen, X, reset=True, skip_check_array=True)
        seed = seed_from(self.random_state)
        self.fitted_ = fuse(
            entries,
            table,
            y,
            final_estimator=CFEnsembleCV(random_state=seed) if self.final_estimator is None else self.final_estimator,
            cv=self.cv,
            passthrough=self.passthrough,
            unlabelled=self.unlabelled,
            feature_names=getattr(seen, "feature_names_in_", None),
            seed=seed,
            stack_method=self.stack_method,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        return self

    # ------------------------------------------------------------------ answers

    def predict_proba(self, X: Any) -> Floats:
        """(n, classes) probabilities in the order of `classes_`."""
        answer: Floats = self._fit().fusion.predict_proba(for_fusion(self._predictions(X)))
        return answer

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) the most probable class of each row."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def transform(self, X: Any) -> Floats:
        """(n, m) what the fitted estimators say of the rows, NaN where they abstain; (n, m * classes) of more."""
        P = self._predictions(X)
        return flat_columns(P, self._fit().names, self.classes_)[0]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of `transform`."""
        fit = self._fit()
        return np.asarray(flat_columns(fit.predictions[:0], fit.names, fit.classes)[1], dtype=object)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows of X that have a label."""
        labels, given = given_labels(y, self.unlabelled)
        right = self.predict(X)[given] == labels[given]
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)[given]))

    def _predictions(self, X: Any) -> Floats:
        """(n, m, classes)."""
        fit, table = self._fit(), FeatureTable.of(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return fit.probabilities(table)

    # ------------------------------------------------------------------ what was fitted

    def _fit(self) -> FusedEstimators:
        fit: FusedEstimators = fit_of(self)
        return fit

    @property
    def predictions_(self) -> Floats:
        return for_fusion(self._fit().predictions)

    @property
    def estimators_(self) -> list[Any]:
        return [None if column is None else column.estimator for column in self._fit().layer.columns]

    @property
    def named_estimators_(self) -> Bunch:
        return Bunch(**dict(zip(self._fit().layer.names, self.estimators_, strict=True)))

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        names = self._fit().feature_names
        if names is None:
            raise AttributeError("a model that was fitted to a table without names has no feature_names_in_")
        return names

    # ------------------------------------------------------------------ parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """By name; deep: those of the estimators too, as `name__parameter`."""
        found = super().get_params(deep=deep)
        if deep:
            for name, estimator, *_ in self._listed():
                found[name] = estimator
                if hasattr(estimator, "get_params"):
                    found |= {f"{name}__{key}": value for key, value in estimator.get_params(deep=True).items()}
        return found

    def _listed(self) -> Sequence[Any]:
        """The estimators, whose list is checked by `fit` only."""
        listed = self.estimators
        whole = isinstance(listed, list | tuple) and all(isinstance(e, list | tuple) and len(e) > 1 for e in listed)
        return listed if whole else ()

    def set_params(self, **params: Any) -> Self:
        """Parameters, whole estimators by their names, and theirs as `name__parameter`."""
        if "estimators" in params:
            self.estimators = params.pop("estimators")
        names = [entry[0] for entry in self._listed()]
        whole = {name: params.pop(name) for name in names if name in params}
        if whole:
            self.estimators = [(name, whole.get(name, old), *rest) for name, old, *rest in self.estimators]
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = all(
            get_tags(estimator).input_tags.sparse for _, estimator, *_ in self._listed() if hasattr(estimator, "fit")
        )
        return tags
