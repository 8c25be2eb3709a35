"""From rows about many classes to a committee that answers for all of them jointly.

Pure functions; what they make is never changed. The steps are those of every family. Must not know how rows were
read, nor files.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.core.initial import seed_from
from halfstep.core.softmax import fit_softmax, softmax_loss, softmax_of
from halfstep.data.sweeps import SweepFile
from halfstep.ensemble.family.beside import NOTHING, Beside
from halfstep.ensemble.family.classes.cells import ClassCells
from halfstep.ensemble.family.classes.members import ClassLabels, ClassMember, ClassScene
from halfstep.ensemble.family.classes.roster import make_class_members, make_class_views
from halfstep.ensemble.family.classes.views import ClassView
from halfstep.ensemble.family.fitting import CALIBRATION_PENALTY, FamilyFit
from halfstep.ensemble.family.roster import SURE_VIEWS
from halfstep.ensemble.family.settings import FamilySettings
from halfstep.ensemble.family.steps import fit_views, learn_members, member_table, steps_bar, weigh
from halfstep.ensemble.family.views import PredictedRows
from halfstep.ensemble.inputs import InstanceRows, deal_folds
from halfstep.ensemble.naming import Naming
from halfstep.ensemble.predictions import PredictionWarning

CHUNK_CELLS = 2_000_000  # instances x classes x classifiers whose scores are held at one time
VIEW_ROWS = 10_000
LEAST_INSTANCES = 500
"""Views are learned from VIEW_ROWS rows, a row being a class of an instance, but from so many instances at least."""
VOTE_ROWS = 3000
"""Instances from which the votes of classifiers are learned, beside the labelled ones."""
MOST_COEFFICIENTS = 1000
"""Features x classes."""
LEAST_LABELS = 4
"""Fewer labels than that are not held out."""


@dataclass(frozen=True, eq=False)
class ClassCommittee:
    """Members on views, their weights, and (1,) what the last calibration adds to the slope of their average."""

    n_classes: int
    views: dict[str, ClassView]
    members: Sequence[ClassMember]
    weights: Floats
    calibration: Floats

    def answer(self, rows: PredictedRows) -> tuple[Floats, Floats]:
        """(n, K) probabilities and (n,) standard deviations of that of the likeliest class."""
        cells = class_cells(rows, self.n_classes)
        n, K, m = cells.P.shape
        answers, spread = np.empty((n, K)), np.empty(n)
        step = max(1, CHUNK_CELLS // (K * m))
        for start in range(0, n, step):
            here = slice(start, min(start + step, n))
            scene = ClassScene(cells.take(here), self.views)
            slope = 1 + self.calibration[0]
            scores = slope * np.array([member.scores(scene) for member in self.members])
            answers[here] = softmax_of(np.tensordot(self.weights, scores, 1))
            top = answers[here].argmax(axis=1)
            p = np.take_along_axis(softmax_of(scores), top[None, :, None], axis=2)[:, :, 0]
            within = np.array([member.variance(scene) for member in self.members])
            between = (p - self.weights @ p) ** 2
            spread[here] = self.weights @ (between + (p * (1 - p)) ** 2 * slope**2 * within)
        return answers, np.sqrt(spread)


def class_cells(rows: PredictedRows, n_classes: int) -> ClassCells:
    """Rows of instances, one for each class, as the cells of instances."""
    features = None if rows.features is None else rows.features[::n_classes]
    return ClassCells(rows.P.reshape(-1, n_classes, rows.P.shape[1]), rows.clip, features)


def fit_classes(
    settings: FamilySettings,
    rows: InstanceRows,
    naming: Naming,
    n_features_in: int,
    views: dict[str, ClassView] | None = None,
    beside: Beside = NOTHING,
    file: SweepFile | None = None,
) -> FamilyFit:
    """Learn from all instances and the labels there are; rows.n_channels is the number of classes.

    views : of the same predictions, learned before.
    file : where views are kept while others are learned.
    """
    if settings.estimators:
        raise ValueError(f"estimators= serve two classes; y has {len(rows.classes)}: {rows.classes[:5].tolist()}")
    if beside.n_features * rows.n_channels > MOST_COEFFICIENTS:
        raise ValueError(
            f"{beside.n_features} features x {rows.n_channels} classes are more than the {MOST_COEFFICIENTS} "
            "coefficients that few labels can teach; train a classifier on the features and fuse it with the others"
        )
    seed, K = seed_from(settings.random_state), rows.n_channels
    said = PredictedRows.of(rows, settings.clip, beside.features)
    cells = class_cells(said, K)
    instances = np.flatnonzero(rows.y >= 0)
    folds = _class_folds(rows.y[instances], settings.folds, seed)
    some = _some(len(cells.P), VOTE_ROWS, seed, instances)
    labels = ClassLabels(rows.y[instances], folds, np.searchsorted(some, instances), cells.take(some))
    planned = make_class_views(settings.ranks, rows.P.shape[1])
    with steps_bar(len(planned), settings.verbose) as bar:
        if views is None:
            sample = cells.take(_some(len(cells.P), max(LEAST_INSTANCES, VIEW_ROWS // K), seed))
            views, spent = fit_views(planned, sample, settings.max_seconds, SURE_VIEWS, bar, file)
        else:
            spent = dict.fromkeys(views, 0.0)
        members = make_class_members(list(views.values()), len(instances), beside)
        scene = ClassScene(cells.take(instances), views)
        answers, seconds = learn_members(members, scene, labels, bar)
    weights, losses = np.full(len(members), 1 / len(members)), None
    calibration, log_loss, held = np.zeros(1), None, None
    if folds is not None:
        losses = softmax_loss(answers, labels.truth).mean(axis=1)
        weights = weigh(losses, len(instances) / settings.temperature)
        average = np.tensordot(weights, answers, 1)
        log_loss = float(softmax_loss(average, labels.truth).mean())
        if settings.calibrate:
            calibration = _temperature(average, labels.truth)
        held = softmax_of((1 + calibration[0]) * average)
    committee = ClassCommittee(K, views, members, weights, calibration)
    table = member_table(members, weights, losses, seconds, spent)
    return FamilyFit.of(rows, said, committee, table, log_loss, held, naming, n_features_in, beside)


def _some(n: int, most: int, seed: int, sure: Codes | None = None) -> Codes:
    """At most `most` of n instances at random, and the sure ones, in order."""
    drawn = np.arange(n) if n <= most else np.random.default_rng(seed).choice(n, most, replace=False)
    return np.unique(drawn if sure is None else np.concatenate([drawn, sure]))


def _class_folds(y: Codes, n_folds: int, seed: int) -> Codes | None:
    """(r,) of labelled instances; None, and a warning, where they are too few. A class may have one label, or none."""
    if len(y) >= LEAST_LABELS and len(np.unique(y)) > 1:
        return deal_folds(y, min(n_folds, len(y) // 2), seed)
    what = f"y has {len(y)} labelled instances" if len(y) else "y has no labels at all"
    warnings.warn(
        f"{what}: nothing can be held out with fewer than {LEAST_LABELS} labels of two classes, so all members weigh "
        "the same",
        PredictionWarning,
        stacklevel=4,
    )
    return None


def _temperature(average: Floats, truth: Codes) -> Floats:
    """(1,) what the slope of the out-of-fold average wants beyond 1."""
    penalty = np.array([CALIBRATION_PENALTY])
    return fit_softmax(average[:, :, None], truth, average, penalty, np.inf)[:1]
