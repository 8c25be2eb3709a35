"""What else fuses many classes or votes: (n, K) scores, each with a temperature from the labels. Knows no results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ensemble.class_data import ClassCase
from halfstep.core.softmax import fit_softmax, softmax_loss
from halfstep.ensemble.family.classes.cells import ClassCells
from halfstep.ensemble.family.confusion import VoteModel, VoteTable
from halfstep.ensemble.inputs import deal_folds

Floats = NDArray[np.float64]
STRENGTHS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
FLOOR = 1e-4
FOLDS = 5


def tempered(scores: Floats, case: ClassCase) -> Floats:
    """Scores under the slope that the labels like best, from e^-4 to e^4."""
    known = np.flatnonzero(~case.test)

    def loss(log_slope: float) -> float:
        return float(softmax_loss(np.exp(log_slope) * scores[known], case.y[known]).sum())

    return np.asarray(np.exp(minimize_scalar(loss, bounds=(-4, 4), method="bounded").x) * scores)


def soft_rivals(case: ClassCase) -> Iterator[tuple[str, Floats]]:
    """P (n, m, K). Missing predictions are left out of means, and are the mean of the others in stacking."""
    cells = ClassCells(np.ascontiguousarray(case.P.transpose(0, 2, 1)))
    seen = cells.observed
    count = np.maximum(seen.sum(axis=1), 1)[:, None]
    yield "arithmetic mean", tempered(np.log(np.maximum(cells.probabilities.sum(axis=2) / count, FLOOR)), case)
    geometric = cells.ratios.sum(axis=2) / count
    yield "geometric mean", tempered(geometric, case)
    filled = np.where(seen[:, None, :], cells.ratios, geometric[:, :, None])
    yield "shrunken stacking", _stacked(filled, case)
    yield "best single", _best_single(filled, case)


def _stacked(filled: Floats, case: ClassCase) -> Floats:
    """One weight for each classifier, shrunk towards the mean; the strength is chosen by cross-validation."""
    known = np.flatnonzero(~case.test)
    y, base = case.y[known], filled.mean(axis=2)
    X = np.concatenate([base[:, :, None], filled - base[:, :, None]], axis=2)
    folds, d = deal_folds(y, FOLDS, 0), X.shape[2]

    def fit(rows: Any, strength: float) -> Floats:
        penalty = np.full(d, strength)
        penalty[0] = 0.1
        return fit_softmax(X[rows], case.y[rows], base[rows], penalty, np.inf, tolerance=1e-7)[:d]

    def held(strength: float) -> float:
        loss = 0.0
        for fold in range(FOLDS):
            rest = known[folds == fold]
            scores = base[rest] + X[rest] @ fit(known[folds != fold], strength)
            loss += float(softmax_loss(scores, case.y[rest]).sum())
        return loss

    return np.asarray(base + X @ fit(known, min(STRENGTHS, key=held)))


def _best_single(filled: Floats, case: ClassCase) -> Floats:
    known = np.flatnonzero(~case.test)
    each = [tempered(filled[:, :, j], case) for j in range(filled.shape[2])]
    return min(each, key=lambda scores: float(softmax_loss(scores[known], case.y[known]).sum()))


def vote_rivals(case: ClassCase) -> Iterator[tuple[str, Floats]]:
    """P (n, m) votes, -1 for none."""
    votes, K, known = case.P, case.n_classes, np.flatnonzero(~case.test)
    seen = votes >= 0
    said = np.where(seen[:, None, :], np.eye(K)[votes].transpose(0, 2, 1), 0.0)
    shares = said.sum(axis=2) / np.maximum(seen.sum(axis=1), 1)[:, None]
    yield "majority", tempered(shares, case)
    right = ((votes[known] == case.y[known][:, None]) & seen[known]).sum(axis=0)
    accuracy = (right + 1) / (seen[known].sum(axis=0) + 2)
    yield "weighted majority", tempered(said @ np.maximum(np.log(accuracy * (K - 1) / (1 - accuracy)), 0) / 10, case)
    table = VoteTable.of(votes, K)
    for name, coin in (("Dawid-Skene, one coin", True), ("Dawid-Skene, confusion", False)):
        yield name, tempered(VoteModel.learn(table, case.y, coin).joint(table) / 10, case)
    best = int(np.argmax(accuracy))
    yield "best single", tempered(np.where(seen[:, [best]], said[:, :, best], shares), case)
