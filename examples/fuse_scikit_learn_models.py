"""One better probability from several scikit-learn models, when few rows have labels.

`FusionClassifier` stands where `StackingClassifier` stood. It also learns from the rows without a label (-1).
Run it: `python examples/fuse_scikit_learn_models.py`. It writes fused.svg.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import halfstep as hs
from halfstep.report import charts, write_picture

LABELS, DRAWS = 60, 3


def models():
    return [
        ("logistic", make_pipeline(StandardScaler(), LogisticRegression(C=0.1))),
        ("neighbours", make_pipeline(StandardScaler(), KNeighborsClassifier(7))),
        ("bayes", GaussianNB()),
        ("forest", RandomForestClassifier(50, random_state=0)),
        ("tree", DecisionTreeClassifier(min_samples_leaf=8, random_state=0)),
    ]


def main(folder: Path = Path(".")) -> Path:
    X, y = load_breast_cancer(return_X_y=True)
    losses: dict[str, list[float]] = {}
    for draw in range(DRAWS):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=draw, stratify=y)
        known = np.random.default_rng(draw).permutation(len(y_train))[:LABELS]
        partly = np.full(len(y_train), -1)
        partly[known] = y_train[known]  # all other rows have no label, and still help

        fused = hs.FusionClassifier(models(), random_state=draw).fit(X_train, partly)
        stacked = StackingClassifier(models(), LogisticRegression()).fit(X_train[known], y_train[known])
        answers = {"FusionClassifier": fused, "StackingClassifier": stacked}
        answers |= {name: each.fit(X_train[known], y_train[known]) for name, each in models()}
        for name, model in answers.items():
            losses.setdefault(name, []).append(log_loss(y_test, model.predict_proba(X_test)))

    names = sorted(losses, key=lambda name: np.mean(losses[name]))
    for name in names:
        print(f"{name:20s} log loss {np.mean(losses[name]):.3f}")
    figure = charts.estimates(
        f"Log loss with {LABELS} labels, smaller is better",
        names,
        [np.mean(losses[name]) for name in names],
        [np.min(losses[name]) for name in names],
        [np.max(losses[name]) for name in names],
        x_label="log loss on rows that nobody has seen",
        marked="FusionClassifier",
        caption=f"Breast cancer data of scikit-learn; the mean of {DRAWS} draws, from the smallest to the largest.",
        wide=True,
    )
    return write_picture(figure, folder / "fused.svg")


if __name__ == "__main__":
    print(main())
