"""Life after fit for an average: more labels, instances and classifiers, what to label next, what classifiers count.

An average has nothing to go on from but its views, which know no labels. With more labels they stay and the members are
learned again; with more cells everything is. So the answer is that of one fit on everything.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.core.blas import one_blas_thread
from halfstep.ensemble.diagnostics import Diagnostics, calibration_curve, cosines, root
from halfstep.ensemble.family.fitting import FamilyFit
from halfstep.ensemble.family.views import PredictedRows
from halfstep.ensemble.fusion import most_informative
from halfstep.ensemble.inputs import InstanceRows, expand_labels
from halfstep.ensemble.naming import Naming, codes_of
from halfstep.ensemble.predictions import PredictionWarning, expit, logit

STEP = 0.1
"""Log odds by which a prediction is moved to see what it counts."""
SAMPLE = 200
"""Instances on which that is tried."""
SEEN = 1e-6  # answers are held so far from 0 and 1 before a logit

ELSEWHERE = ("partial_fit", "add_classifiers", "query")
"""What needs unlabelled instances."""

Learn = Callable[..., FamilyFit]
"""(rows, naming, views of the same predictions or None, what is known beside them) to a fit."""


def known_rows(fit: FamilyFit, method: str) -> InstanceRows:
    if fit.frame_columns is not None and method in ELSEWHERE:
        raise ValueError(
            f"{method} needs the fitted instances, which a model fitted by SparkEngine leaves on the cluster; fit "
            "again with the DataFrame of all of them"
        )
    if fit.rows is None:
        raise ValueError(
            f"{method} needs the fitted predictions; this model was fitted at many sites, or its file kept none: fit "
            "it where they are"
        )
    return fit.rows


def continued(learn: Learn, fit: FamilyFit, P: Any, y: Any, ids: Any, features: Any) -> FamilyFit:
    """See `CFEnsembleCV.partial_fit`."""
    rows = known_rows(fit, "partial_fit")
    if P is None:
        if features is not None:
            raise ValueError("features are those of more instances; pass P with them")
        if y is None:
            raise ValueError("partial_fit needs P (more instances), y (labels of the fitted ones), or both")
        fresh = codes_of(fit.classes, y, fit.naming.index)
        known = replace(rows, y=np.where(fresh >= 0, fresh, rows.y))
        return learn(known, fit.naming, fit.committee.views, fit.beside)
    more, index = fit.naming.rows(P, fit.n_classifiers, fit.n_channels, ids)
    added = np.full(more.n, -1) if y is None else codes_of(fit.classes, y, index)
    together = replace(rows, P=np.concatenate([rows.P, more.P]), y=np.concatenate([rows.y, added]))
    return learn(together, fit.naming.extended(index, more.n), None, fit.beside.with_instances(features, more.n))


def with_classifiers(learn: Learn, fit: FamilyFit, P_extra: Any, groups: Any) -> FamilyFit:
    """See `CFEnsembleCV.add_classifiers`."""
    rows = known_rows(fit, "add_classifiers")
    extra, names = fit.naming.more(P_extra, fit.n_channels)
    if extra.n != rows.n:
        raise ValueError(
            f"P_extra has {extra.n} instances, but the model was fitted with {rows.n}; give the new classifiers' "
            "predictions for the fitted instances, NaN where there are none"
        )
    naming: Naming = fit.naming.with_classifiers(fit.n_classifiers, names, extra.P.shape[1])
    beside = fit.beside.with_classifiers(groups, extra.P.shape[1])
    return learn(replace(rows, P=np.column_stack([rows.P, extra.P])), naming, None, beside)


@one_blas_thread
def query(fit: FamilyFit, n: int) -> NDArray[Any]:
    """See `CFEnsembleCV.query`."""
    rows = known_rows(fit, "query")
    left = int((rows.y < 0).sum())
    if not 1 <= n <= left:
        raise ValueError(f"n={n!r} must be between 1 and the number of unlabelled instances, {left}")
    positive = _positive(fit)
    chosen = most_informative(fit.told.design(positive), positive, rows.y, fit.n_channels, n)
    return fit.naming.index.take(chosen)


def _positive(fit: FamilyFit) -> Floats:
    """(N,) the answered probability of each row's class."""
    return fit.probabilities[:, 1] if fit.n_channels == 1 else fit.probabilities.ravel()


# ---------------------------------------------------------------------- what classifiers count


@one_blas_thread
def classifier_weights(fit: FamilyFit) -> Floats:
    """(m,) how much the answer's log odds move with one log odds of a classifier, the mean over instances.

    Each prediction of up to SAMPLE instances is moved by STEP towards 1/2, alone, and the answers are compared. 0 for a
    classifier without predictions. With several classes it is the log odds of the class a classifier finds likeliest.
    """
    rows, k = known_rows(fit, "classifier_weights_"), fit.n_channels
    chosen = np.unique(np.linspace(0, rows.n - 1, SAMPLE).astype(int))
    P = rows.P[(chosen[:, None] * k + np.arange(k)).ravel()].reshape(len(chosen), k, -1)
    known = fit.beside.features
    side = None if known is None else np.repeat(known.values[chosen], k, axis=0)
    n, _, m = P.shape
    z = logit(np.nan_to_num(P, nan=0.5), fit.clip)
    asked = np.zeros((n, m), int) if k == 1 else np.nan_to_num(P, nan=-1.0).argmax(axis=1)
    where, whose = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")
    step = -STEP * np.where(z[where, asked, whose] < 0, -1.0, 1.0)
    moved = np.broadcast_to(np.where(np.isnan(P), np.nan, expit(z)), (m, n, k, m)).copy()
    still = moved[0].copy()
    there = ~np.isnan(P).any(axis=1)
    moved[whose, where, asked, whose] = np.where(there, expit(z[where, asked, whose] + step), np.nan)
    if k > 1:
        moved /= moved.sum(axis=2, keepdims=True)
        still /= still.sum(axis=1, keepdims=True)

    def answers(cells: Floats) -> Floats:
        flat = cells.reshape(-1, m)
        channel = np.tile(np.arange(k), len(flat) // k)
        beside = None if side is None else np.tile(side, (len(flat) // len(side), 1))
        found = fit.committee.answer(PredictedRows(flat, channel, fit.clip, beside))[0]
        return logit(found[:, 1:] if k == 1 else found, SEEN).reshape(*cells.shape[:-1])

    before, after = answers(still)[where, asked], answers(moved)[whose, where, asked]
    effect = np.where(there, (after - before) / step, 0.0)
    return np.asarray(effect.sum(axis=0) / np.maximum(there.sum(axis=0), 1))


def weight_errors(learn: Learn, fit: FamilyFit, repeats: int, seed: int) -> Floats:
    """(m,) standard errors of the weights: their deviation over fits on random halves of the labels of each class.

    A half-sample varies about the full sample as the full sample does about the truth, so no correction is needed.
    """
    rows, rng = known_rows(fit, "classifier_intervals"), np.random.default_rng(seed)
    groups = [np.flatnonzero(rows.y == code) for code in range(len(fit.classes))]
    if min(map(len, groups)) < 4:
        have = dict(zip(fit.classes.tolist(), map(len, groups), strict=True))
        raise ValueError(f"intervals need four labels of each class, so that half can be left out; there are {have}")
    found = []
    for _ in range(repeats):
        half: Codes = np.full(rows.n, -1)
        for group in groups:
            kept = rng.choice(group, len(group) // 2, replace=False)
            half[kept] = rows.y[kept]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PredictionWarning)
            found.append(classifier_weights(learn(replace(rows, y=half), fit.naming, fit.committee.views, fit.beside)))
    return np.asarray(np.std(found, axis=0, ddof=1))


@one_blas_thread
def diagnose(fit: FamilyFit, weights: Floats) -> Diagnostics:
    """What an average says about itself; `Diagnostics` has the meanings.

    difficulty is the probability that the answer is wrong, by the answer itself; calibration is that of answers from
    other folds, which have not seen the labels they are judged by.
    """
    rows, k = known_rows(fit, "diagnostics_"), fit.n_channels
    labelled = np.repeat(rows.y >= 0, k)
    errors, counts = fit.told.errors()
    held = fit.held if fit.held is not None else fit.probabilities[rows.y >= 0]
    positive = held[:, 1] if k == 1 else held.ravel()
    truth = expand_labels(rows.y[rows.y >= 0], k).astype(np.float64)
    return Diagnostics(
        root(errors[labelled].sum(), counts[labelled].sum()),
        root(errors[~labelled].sum(), counts[~labelled].sum()),
        cosines(fit.classifier_vectors),
        weights,
        1 - fit.probabilities.max(axis=1),
        fit.told.novelty(),
        {},
        calibration_curve(positive, truth),
    )
