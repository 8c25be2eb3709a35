"""A pool of heterogeneous classifiers for one data set. Knows features and labels; must not know fusion.

Families: logistic, linear SVM, kernel SVM, trees, forests, boosting, nearest neighbours, naive Bayes,
neural nets. Each member sees a random subset of features and rows; one in three is weak on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

MIN_TRAIN_ROWS = 40  # the most neighbours that anybody asks for
MAX_TRAIN_ROWS = 2000
MAX_SVC_ROWS = 800

Floats = NDArray[np.float64]
Maker = Callable[[np.random.Generator, int], Any]


def _log_uniform(random: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


FAMILIES: dict[str, Maker] = {
    "logistic": lambda r, s: LogisticRegression(C=_log_uniform(r, 0.01, 10), max_iter=200),
    "linear_svm": lambda r, s: LinearSVC(C=_log_uniform(r, 0.001, 1), random_state=s),
    "svm": lambda r, s: SVC(C=_log_uniform(r, 0.1, 10), gamma="scale", random_state=s),
    "tree": lambda r, s: DecisionTreeClassifier(max_depth=int(r.integers(2, 10)), random_state=s),
    "forest": lambda r, s: RandomForestClassifier(40, max_depth=int(r.integers(3, 15)), random_state=s),
    "extra_trees": lambda r, s: ExtraTreesClassifier(40, min_samples_leaf=int(r.integers(1, 6)), random_state=s),
    "boosting": lambda r, s: HistGradientBoostingClassifier(
        max_iter=int(r.integers(15, 60)), max_leaf_nodes=int(r.integers(4, 16)), random_state=s
    ),
    "neighbours": lambda r, s: KNeighborsClassifier(int(r.integers(3, 40))),
    "naive_bayes": lambda r, s: GaussianNB(var_smoothing=_log_uniform(r, 1e-9, 1e-2)),
    "neural_net": lambda r, s: MLPClassifier((int(r.integers(4, 24)),), max_iter=60, random_state=s),
}


def train_pool(
    X: Floats, y: NDArray[np.int64], X_rest: Floats, size: int, random: np.random.Generator
) -> tuple[Floats, NDArray[np.str_], NDArray[np.bool_]]:
    """P (rows of X_rest, size), names (size,), weak (size,)."""
    families = list(FAMILIES)
    names = np.array([families[k % len(families)] for k in random.permutation(size)])
    weak = np.arange(size) % 3 == 0
    columns = [_member(name, is_weak, X, y, X_rest, random) for name, is_weak in zip(names, weak, strict=True)]
    return np.column_stack(columns), names, weak


def _member(
    family: str, weak: bool, X: Floats, y: NDArray[np.int64], X_rest: Floats, random: np.random.Generator
) -> Floats:
    """(rows of X_rest,) the probabilities of one classifier."""
    share = random.uniform(0.1, 0.3) if weak else random.uniform(0.4, 1.0)
    width = X.shape[1]
    chosen = random.choice(width, max(1, round(share * width)), replace=False)
    rows = _rows(y, 0.15 if weak else random.uniform(0.4, 1.0), family, random)
    model = make_pipeline(StandardScaler(), FAMILIES[family](random, int(random.integers(2**31))))
    model.fit(X[np.ix_(rows, chosen)], y[rows])
    return _probabilities(model, X_rest[:, chosen])


def _rows(y: NDArray[np.int64], share: float, family: str, random: np.random.Generator) -> NDArray[np.intp]:
    """Rows to train on: a share of them, no more than the family can afford, at least three of each class."""
    most = MAX_SVC_ROWS if family == "svm" else MAX_TRAIN_ROWS
    order = random.permutation(len(y))
    sure = np.concatenate([order[y[order] == label][:3] for label in np.unique(y)])
    return np.unique(np.concatenate([sure, order[: min(most, max(MIN_TRAIN_ROWS, round(share * len(y))))]]))


def _probabilities(model: Any, X: Floats) -> Floats:
    """Probability of class 1; a margin becomes one through the logistic function, uncalibrated on purpose."""
    if hasattr(model, "predict_proba"):
        probabilities: Floats = model.predict_proba(X)[:, 1]
    else:
        probabilities = expit(2 * model.decision_function(X))
    return np.clip(probabilities, 0.0, 1.0)
