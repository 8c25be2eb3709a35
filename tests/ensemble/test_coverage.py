"""What is said of errors holds: `uncertainty()` about the answer given everything, `predict_set` about the truth."""

from __future__ import annotations

import numpy as np
import pytest

import halfstep as hs
from halfstep.ensemble.predictions import expit

N, M = 500, 12


def drawn(seed, classes=2):
    """One signal, an error that half of the classifiers share, and noise."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(classes, N, p=[0.6, 0.4] if classes == 2 else None)
    signs = np.eye(classes)[truth] * 2 - 1
    signal = signs[:, None, :] + rng.normal(size=(N, 1, classes))
    shared = rng.normal(size=(N, 1, classes)) * (np.arange(M) % 2)[None, :, None]
    z = signal * np.linspace(0.2, 1.5, M)[None, :, None] + shared + rng.normal(size=(N, M, classes))
    if classes == 2:
        return expit(z[:, :, 1]), truth
    P = np.exp(z)
    return P / P.sum(axis=2, keepdims=True), truth


@pytest.mark.parametrize("missing", [0.0, 0.6])
@pytest.mark.parametrize("labels", [30, 120])
def test_the_answer_given_everything_lies_within_the_stated_error(missing, labels):
    """90% of the answers lay within 1.64 deviations in half of the cases only."""
    within = []
    for seed in range(4):
        P, truth = drawn(seed)
        everything = hs.CFEnsembleCV(ranks=(1, 2)).fit(P, truth).predict_proba()[:, 1]
        shown = np.random.default_rng(seed).random(P.shape) >= missing
        shown[:, 3] = True
        y = np.where(np.arange(N) < labels, truth, -1)
        model = hs.CFEnsembleCV(ranks=(1, 2)).fit(np.where(shown, P, np.nan), y)
        away = np.abs(model.predict_proba()[:, 1] - everything) / model.uncertainty()
        within.append((away < 1.645)[labels:].mean())
    assert 0.8 < np.mean(within) <= 0.995


def test_few_labels_and_few_predictions_both_leave_answers_open():
    P, truth = drawn(0)
    few, many = (hs.CFEnsembleCV(ranks=(2,)).fit(P, np.where(np.arange(N) < k, truth, -1)) for k in (20, 400))
    assert np.median(few.uncertainty()) > 1.3 * np.median(many.uncertainty())
    holes = P.copy()
    holes[:, 2:10] = np.nan
    for member in many.fitted_.committee.members:
        if member.view is not None and "factors" in member.view.name:
            scenes = [_scene(many, cells) for cells in (P, holes)]
            assert member.variance(scenes[1]).mean() > member.variance(scenes[0]).mean()


def _scene(model, P):
    from halfstep.ensemble.family.members import Scene
    from halfstep.ensemble.family.views import PredictedRows

    return Scene(PredictedRows(P, np.zeros(len(P), np.int64)), 1, model.fitted_.committee.views)


@pytest.mark.heavy
@pytest.mark.parametrize(("classes", "level"), [(2, 0.8), (2, 0.95), (3, 0.9)])
def test_conformal_sets_hold_the_truth_as_often_as_they_say(classes, level):
    held = []
    for seed in range(8):
        P, truth = drawn(seed, classes)
        model = hs.CFEnsembleCV(ranks=(1,)).fit(P, np.where(np.arange(N) < 100, truth, -1))
        held.append(model.predict_set(level=level)[np.arange(N), truth][100:].mean())
    error = np.sqrt(level * (1 - level) / 100 / len(held))  # mostly that of the labels that set the threshold
    assert level - 3 * error < np.mean(held) < level + 1 / 100 + 4 * error
