"""Is shift seen? AUC of novelty for three kinds of strange instances, and what routing does to log loss.

    python benchmarks/ensemble shift [--seeds 3] [--classifiers 30] [--missing 0 .5]

Six tasks of scikit-learn's data. 40% of the rows train the pool, a third of the rest (100 labels at most) is what Shift
is fitted to, the rest is new. Strange: predictions of uniform noise; every classifier's predictions permuted among the
instances; half of the classifiers flipped. Must not know how novelty is computed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.metrics import log_loss, roc_auc_score

from ensemble.pool import train_pool
from halfstep import CFEnsembleCV, Shift

LABELS = 100
FLOOR = 1e-4


def tasks() -> dict[str, tuple[Any, Any]]:
    """Features and whether a row is positive."""
    cancer, digits, wine, sugar = load_breast_cancer(), load_digits(), load_wine(), load_diabetes()
    return {
        "breast cancer": (cancer.data, cancer.target == 1),
        "digit 8": (digits.data, digits.target == 8),
        "digit 3": (digits.data, digits.target == 3),
        "even digits": (digits.data, digits.target % 2 == 0),
        "wine 1": (wine.data, wine.target == 1),
        "diabetes": (sugar.data, sugar.target > np.median(sugar.target)),
    }


def strange(P: Any, rng: np.random.Generator) -> dict[str, Any]:
    m = P.shape[1]
    flipped = rng.permutation(m) < m // 2
    return {
        "noise": np.where(np.isnan(P), np.nan, rng.random(P.shape)),
        "permuted": np.column_stack([rng.permutation(P[:, j]) for j in range(m)]),
        "flipped": np.where(flipped, 1 - P, P),
    }


def case(X: Any, y: Any, size: int, missing: float, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    cut = int(0.4 * len(y))
    train, rest = order[:cut], order[cut:]
    P = train_pool(X[train], y[train].astype(int), X[rest], size, rng)[0]
    P, y = np.where(rng.random(P.shape) < missing, np.nan, P), y[rest].astype(int)
    half = len(y) // 2
    shown = np.where(np.arange(half) < LABELS, y[:half], -1)
    model = Shift(CFEnsembleCV(), route="auto").fit(P[:half], shown)
    new, truth = P[half:], y[half:]
    usual = model.novelty(new)
    found = {"p < .05": float(np.mean(usual.p < 0.05)), "p of the batch": model.test(new).p}
    who = np.repeat([0, 1], len(new))
    for name, cells in {"usual": new, **strange(new, rng)}.items():
        if name != "usual":
            found[name] = roc_auc_score(who, np.r_[usual.score, model.novelty(cells).score])
            found[f"p of {name}"] = model.test(cells).p
        answers = [np.clip(each.predict_proba(cells)[:, 1], FLOOR, 1 - FLOOR) for each in (model, model.model_)]
        found[f"routed, {name}"] = log_loss(truth, answers[0]) - log_loss(truth, answers[1])
    answers = model.model_.predict_proba(new)
    error = 1 - answers[np.arange(len(truth)), truth]
    for name, score in (("difficulty", model.difficulty(new)), ("spread", np.nanstd(new, axis=1))):
        found[name] = float(np.corrcoef(np.argsort(np.argsort(score)), np.argsort(np.argsort(error)))[0, 1])
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Novelty, routing and difficulty of Shift.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--classifiers", type=int, default=30)
    parser.add_argument("--missing", type=float, nargs="*", default=[0.0, 0.5])
    asked = parser.parse_args(arguments)
    header: list[str] = []
    for missing in asked.missing:
        for name, (X, y) in tasks().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = [case(X, y, asked.classifiers, missing, seed) for seed in range(asked.seeds)]
            if not header:
                header = list(rows[0])
                print("| data set | missing |", " | ".join(header), "|")
                print("| --- " * (len(header) + 2) + "|")
            cells = [f"{np.mean([row[key] for row in rows]):.3f}" for key in header]
            print(f"| {name} | {missing:.0%} |", " | ".join(cells), "|", flush=True)
