"""Fused probabilities beside their baselines, judged on known labels, and what refits say. Draws nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from halfstep.core.arrays import Floats
from halfstep.ensemble import baselines
from halfstep.judge.result import bootstrap_means

BESIDE = ("Mean", "ShrunkenStacking", "LogisticStacking", "BestSingle", "GreedySelection")


@dataclass
class Scores:
    """How good probabilities p of class 1 are for labels y; `low` and `high` bound the log loss, 95%."""

    name: str
    p: Floats
    y: NDArray[Any]
    log_loss: float
    low: float
    high: float
    auc: float
    accuracy: float
    brier: float

    @property
    def n(self) -> int:
        return len(self.y)


def scored(name: str, p: ArrayLike, y: ArrayLike, n_bootstrap: int = 400) -> Scores:
    """Log loss with a bootstrap interval over instances, AUC, accuracy and Brier score."""
    p, y = np.asarray(p, np.float64), np.asarray(y)
    held = np.clip(p, 1e-6, 1 - 1e-6)
    loss = -np.where(y == 1, np.log(held), np.log1p(-held))
    low, high = np.quantile(bootstrap_means(loss[:, None], n_bootstrap, 0)[:, 0], [0.025, 0.975])
    auc = float(roc_auc_score(y, p)) if len(np.unique(y)) == 2 else float("nan")
    accuracy, brier = float(((p >= 0.5) == (y == 1)).mean()), float(((p - y) ** 2).mean())
    return Scores(name, p, y, float(loss.mean()), float(low), float(high), auc, accuracy, brier)


def baselines_beside(P: Floats, y: NDArray[Any]) -> list[tuple[str, Floats]]:
    """Name and fitted probabilities of every baseline; y holds 0, 1 and -1 where unlabelled."""
    labels = np.where(y < 0, np.nan, y)
    return [(name, getattr(baselines, name)().fit(P, labels).predict_proba()[:, 1]) for name in BESIDE]


def weight_spread(
    model: Any, P: ArrayLike, y: ArrayLike, seconds: float = 2.5, repeats: int = 24, seed: int = 0
) -> Floats | None:
    """(m,) standard error of the classifier weights: their deviation over refits on random halves of the labels.

    A half-sample varies about the full sample as the full sample does about the truth, so no correction is needed. None
    where there are too few labels, or where fewer than 8 refits fit into `seconds` of processor time.
    """
    codes = np.asarray(y)
    rng, begun, found = np.random.default_rng(seed), time.process_time(), []
    groups = [np.flatnonzero(codes == c) for c in np.unique(codes[codes >= 0])]
    if len(groups) < 2 or min(map(len, groups)) < 4:
        return None
    quiet = clone(model).set_params(callbacks=(), verbose=0, n_threads=1)
    for _ in range(repeats):
        half = np.full(len(codes), -1)
        for group in groups:
            kept = rng.choice(group, len(group) // 2, replace=False)
            half[kept] = codes[kept]
        found.append(np.asarray(clone(quiet).fit(P, half).classifier_weights_, float))
        if time.process_time() - begun > seconds:
            break
    return np.std(found, axis=0, ddof=1) if len(found) >= 8 else None
