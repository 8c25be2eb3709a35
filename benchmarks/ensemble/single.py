"""The single model at its defaults against the mean, and label-aware ALS against the exact loss.

    python benchmarks/ensemble single [--development] [--seeds 2] [--pools german yeast3 ...] [--methods ...]

Tasks are made of scikit-learn's digits and breast cancer; pools of 25 classifiers (a third of them weak) are trained on
a third of the rows, the others are fused. Every cell is a number of labels and a share of missing predictions. The
defaults of `CFEnsemble` were looked at on the development tasks; the table in docs/cfensemble.md is of the others.
--pools : pools of `ensemble.data` in their place, at most 1,500 instances of each.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import wilcoxon
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import average_precision_score, log_loss

import halfstep as hs
from ensemble.data import pool
from ensemble.pool import train_pool

LABELS, MISSING = (30, 100, 300), (0.0, 0.5, 0.8)
MOST_ROWS = 1500
METHODS: dict[str, Any] = {
    "mean": hs.baselines.Mean,
    "CFEnsemble()": hs.CFEnsemble,
    'shrinkage="auto"': lambda: hs.CFEnsemble(shrinkage="auto"),
    'solver="als"': lambda: hs.CFEnsemble(solver="als"),
    "CFEnsembleCV()": hs.CFEnsembleCV,
}
DEVELOPMENT = ("even", "eight", "breast")
HELD_OUT = ("high", "three", "ones")


def task(name: str) -> tuple[Any, Any]:
    """Features and 0 or 1."""
    if name == "breast":
        return load_breast_cancer(return_X_y=True)
    X, digit = load_digits(return_X_y=True)
    chosen = {"even": [0, 2, 4, 6, 8], "eight": [8], "high": [5, 6, 7, 8, 9], "three": [3], "ones": [1, 7, 9]}[name]
    return X, np.isin(digit, chosen).astype(int)


def trained(name: str, seed: int) -> tuple[Any, Any]:
    """Predictions and truth of a task."""
    X, y = task(name)
    order = np.random.default_rng(seed).permutation(len(y))
    train, rest = order[: len(y) // 3], order[len(y) // 3 :]
    return train_pool(X[train], y[train], X[rest], 25, np.random.default_rng(seed))[0], y[rest]


def pooled(name: str, seed: int) -> tuple[Any, Any]:
    made = pool(name)
    return made.P[:MOST_ROWS], made.y_true[:MOST_ROWS]


def results(
    names: Sequence[str], seeds: Sequence[int], made: Callable[[str, int], tuple[Any, Any]], methods: Sequence[str]
) -> list[tuple[int, float, str, float, float, float]]:
    """(labels, missing, method, PR-AUC x 100, log loss, seconds) of every case, judged on unlabelled instances."""
    found = []
    for name in names:
        for seed in seeds:
            P, truth = made(name, seed)
            for labels in LABELS:
                for missing in MISSING:
                    random = np.random.default_rng([seed, labels, round(10 * missing)])
                    cells = np.where(random.random(P.shape) < missing, np.nan, P)
                    known = random.choice(len(truth), labels, replace=False)
                    if min(np.bincount(truth[known], minlength=2)) < 2:
                        continue
                    given = np.full(len(truth), -1)
                    given[known] = truth[known]
                    hidden = given < 0
                    for method in methods:
                        begun = time.process_time()
                        p = METHODS[method]().fit(cells, given).predict_proba()[hidden, 1]
                        spent = time.process_time() - begun
                        area = 100 * average_precision_score(truth[hidden], p)
                        found.append((labels, missing, method, area, log_loss(truth[hidden], p), spent))
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--pools", nargs="*", default=[])
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args(arguments)
    first = 0 if options.development else 100
    warnings.simplefilter("ignore")
    names, made = (
        (options.pools, pooled) if options.pools else (DEVELOPMENT if options.development else HELD_OUT, trained)
    )
    methods = options.methods
    rows = results(names, range(first, first + options.seeds), made, methods)
    print("| labels | missing |", " | ".join(methods), "|")
    print("| --- | --- |", " | ".join("---" for _ in methods), "|")
    for labels in LABELS:
        for missing in MISSING:
            cell = {m: np.array([r[3:5] for r in rows if r[:3] == (labels, missing, m)]) for m in methods}
            told = [f"{c[:, 0].mean():.1f} / {c[:, 1].mean():.3f}" for c in cell.values()]
            print(f"| {labels} | {missing:.0%} |", " | ".join(told), "|")
    for one, other in (("CFEnsemble()", "mean"), ('solver="als"', "CFEnsemble()")):
        if not {one, other} <= set(methods):
            continue
        gap = np.array([r[3] for r in rows if r[2] == one]) - np.array([r[3] for r in rows if r[2] == other])
        loss = np.array([r[4] for r in rows if r[2] == one]) - np.array([r[4] for r in rows if r[2] == other])
        print(
            f"{one} - {other}: PR-AUC {gap.mean():+.2f} (p {wilcoxon(gap).pvalue:.2g}), log loss {loss.mean():+.4f} "
            f"(p {wilcoxon(loss).pvalue:.2g}), {len(gap)} cases"
        )
    for method in methods:
        print(f"{method}: {np.mean([r[5] for r in rows if r[2] == method]):.2f} s of processor time")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
