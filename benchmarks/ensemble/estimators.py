"""FusionClassifier against scikit-learn's StackingClassifier: the same estimators, the same rows, the same labels.

    python benchmarks/ensemble estimators [--datasets name ...] [--seeds 5] [--shares .05 .2 1] [--quick]

Half of the rows are the test. Of the others a share is labelled, drawn by class; StackingClassifier learns from these,
FusionClassifier from all of them. "complete": every estimator sees every column. "sensors": each sees columns of its
own, and each row lacks each group of columns with probability 0.3; StackingClassifier's estimators impute them
(mean and indicator). Printed: mean over seeds, and how often the fusion is better, by data set and share. Must not know
how anything is fused.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from ensemble.sources import DATASETS, features
from halfstep import FusionClassifier

Floats = NDArray[np.float64]
SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)
SKLEARN = ("breast_cancer", "wine", "digits", "iris", "diabetes")
MOST_ROWS = 2000
LACKING = 0.3
FLOOR = 1e-4  # of probabilities in the log loss
LEAST = 6  # labelled rows of each class, so that StackingClassifier's five folds can be made


def load(name: str) -> tuple[Floats, Any]:
    """Features and labels; at most MOST_ROWS rows. Of scikit-learn, or one of the data sets of `sources`."""
    if name in SKLEARN:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        y = y > np.median(y) if name == "diabetes" else y  # a measure of the disease a year later
    else:
        frame, positive = DATASETS[name].load()
        X, y = features(frame), positive.astype(int)
    order = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    return X[order], y[order]


def pool(seed: int) -> list[tuple[str, Any]]:
    """Six estimators of different families; one has scores only."""
    return [
        ("logistic", make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))),
        ("bayes", make_pipeline(StandardScaler(), GaussianNB(var_smoothing=1e-3))),
        ("tree", DecisionTreeClassifier(max_depth=5, random_state=seed)),
        ("forest", RandomForestClassifier(40, min_samples_leaf=2, random_state=seed)),
        ("neighbours", make_pipeline(StandardScaler(), KNeighborsClassifier(5))),
        ("margin", make_pipeline(StandardScaler(), LinearSVC(C=0.1, random_state=seed))),
    ]


def groups(width: int, size: int, rng: np.random.Generator) -> list[list[int]]:
    """Columns of each estimator: disjoint where there are enough."""
    order = rng.permutation(width)
    if width < size:
        return [[int(order[j % width])] for j in range(size)]
    return [sorted(part.tolist()) for part in np.array_split(order, size)]


def lacking(X: Floats, parts: Sequence[Sequence[int]], rng: np.random.Generator) -> Floats:
    """Each row lacks each group with probability LACKING, but never all of them."""
    X = X.astype(np.float64).copy()
    gone = rng.random((len(X), len(parts))) < LACKING
    gone[np.arange(len(X)), rng.integers(len(parts), size=len(X))] = False
    for j, part in enumerate(parts):
        X[np.ix_(gone[:, j], part)] = np.nan
    return X


def labelled(y: Any, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(n,) a share of each class, at least LEAST rows of it."""
    found = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        found[rows[: max(LEAST, round(share * len(rows)))]] = True
    return found


def scores(truth: Any, P: Floats) -> dict[str, float]:
    held = np.clip(P, FLOOR, 1)
    held /= held.sum(axis=1, keepdims=True)
    auc = roc_auc_score(truth, P[:, 1]) if P.shape[1] == 2 else roc_auc_score(truth, held, multi_class="ovr")
    return {"log_loss": log_loss(truth, held), "accuracy": accuracy_score(truth, P.argmax(axis=1)), "auc": auc}


def imputing(estimator: Any, part: Sequence[int]) -> Any:
    chosen = ColumnTransformer([("own", SimpleImputer(add_indicator=True, keep_empty_features=True), list(part))])
    return make_pipeline(chosen, clone(estimator))


def case(name: str, share: float, sensors: bool, seed: int) -> tuple[dict[str, float], dict[str, float], float]:
    """Scores of the fusion and of stacking, and the seconds of both."""
    X, y = load(name)
    y = np.unique(y, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    estimators = pool(seed)
    given: list[Any] = estimators
    rivals = estimators
    if sensors:
        parts = groups(X.shape[1], len(estimators), rng)
        X = lacking(X, parts, rng)
        given = [(key, each, part) for (key, each), part in zip(estimators, parts, strict=True)]
        rivals = [(key, imputing(each, part)) for (key, each), part in zip(estimators, parts, strict=True)]
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed)
    shown = labelled(y[train], share, rng)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = FusionClassifier(given).fit(X[train], np.where(shown, y[train], -1))
        theirs = StackingClassifier(rivals).fit(X[train][shown], y[train][shown])
        found = [scores(y[test], model.predict_proba(X[test])) for model in (ours, theirs)]
    return found[0], found[1], time.perf_counter() - begun


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="FusionClassifier against StackingClassifier.")
    parser.add_argument("--datasets", nargs="*", default=SKLEARN)
    parser.add_argument("--shares", type=float, nargs="*", default=SHARES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=["complete", "sensors"])
    parser.add_argument("--quick", action="store_true", help="iris and wine, one seed, two shares")
    asked = parser.parse_args(arguments)
    if asked.quick:
        asked.datasets, asked.shares, asked.seeds = ["iris", "wine"], [0.25, 1.0], 1
    print("| inputs | data set | labelled | log loss | stacking | accuracy | stacking | AUC | stacking | better |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    total: dict[str, list[float]] = {}
    for kind in [asked.only] if asked.only else ["complete", "sensors"]:
        for name in asked.datasets:
            for share in asked.shares:
                found = [case(name, share, kind == "sensors", seed) for seed in range(asked.seeds)]
                cells = []
                for key, digits in (("log_loss", 3), ("accuracy", 3), ("auc", 3)):
                    cells += [f"{np.mean([row[who][key] for row in found]):.{digits}f}" for who in (0, 1)]
                gaps = [row[1]["log_loss"] - row[0]["log_loss"] for row in found]
                total.setdefault(f"{kind}, {share:.0%}", []).append(float(np.mean(gaps)))
                wins = f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}"
                print(f"| {kind} | {name} | {share:.0%} | {' | '.join(cells)} | {wins} |", flush=True)
    for key, gaps in total.items():
        print(
            f"{key} labelled: log loss lower by {np.mean(gaps):.4f}, on {sum(g > 0 for g in gaps)} of {len(gaps)} sets"
        )
