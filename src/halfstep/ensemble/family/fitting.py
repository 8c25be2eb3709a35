"""From rows to a family that answers: views, members, their weights, and the calibration of their average.

Pure functions; what they make is never changed. Must not know how rows were read, nor files.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.core.initial import seed_from
from halfstep.core.logistic import cross_entropy, fit_logistic
from halfstep.data.sweeps import SweepFile
from halfstep.ensemble.family.beside import NOTHING, Beside
from halfstep.ensemble.family.members import TOLERANCE, EstimatorMember, FoldedLabels, Member, Refit, Scene
from halfstep.ensemble.family.roster import SURE_VIEWS, make_members, make_views
from halfstep.ensemble.family.settings import FamilySettings
from halfstep.ensemble.family.steps import fit_views, learn_members, member_table, steps_bar, weigh
from halfstep.ensemble.family.told import ToldRows
from halfstep.ensemble.family.views import FIT_ROWS, PredictedRows, View
from halfstep.ensemble.fusion import by_class
from halfstep.ensemble.inputs import InstanceRows, make_folds
from halfstep.ensemble.naming import Naming
from halfstep.ensemble.predictions import PredictionWarning, expit

CHUNK_ROWS = 4096  # whose members' answers are held at one time
CALIBRATION_PENALTY = 16.0
"""Of intercepts and slope of the last calibration: the members are calibrated already, so it takes many labels."""

Roster = Callable[[Sequence[View], int, Beside], list[Member]]


class Answering(Protocol):
    """Weighed members on views, whatever they are about."""

    @property
    def views(self) -> Mapping[str, Any]: ...

    @property
    def members(self) -> Sequence[Any]: ...

    @property
    def weights(self) -> Floats: ...

    @property
    def calibration(self) -> Floats: ...

    def answer(self, rows: PredictedRows) -> tuple[Floats, Floats]:
        """(n, classes) probabilities and (n,) standard deviations."""


@dataclass(frozen=True, eq=False)
class Committee:
    """Members on views, their weights, and (n_channels + 1,) intercepts and slope of the last calibration."""

    views: dict[str, View]
    members: Sequence[Member]
    weights: Floats
    calibration: Floats

    def answer(self, rows: PredictedRows) -> tuple[Floats, Floats]:
        """(n, classes) probabilities and (n,) standard deviations; see `CFEnsembleCV.uncertainty`."""
        n, n_channels = len(rows.P), len(self.calibration) - 1
        positive, spread = np.empty(n), np.empty(n)
        for start in range(0, n, CHUNK_ROWS):
            here = slice(start, min(start + CHUNK_ROWS, n))
            scene = Scene(rows.take(here), n_channels, self.views)
            answers = np.array([member.log_odds(scene) for member in self.members])
            average = self.weights @ answers
            shift = scene.intercepts @ self.calibration[:-1] + self.calibration[-1] * average
            positive[here] = expit(average + shift)
            probabilities = expit(answers + shift)
            reach = np.sqrt([member.variance(scene) for member in self.members])
            within = (expit(answers + shift + reach) - expit(answers + shift - reach)) / 2
            between = probabilities - self.weights @ probabilities
            spread[here] = self.weights @ (between**2 + within**2)
        uncertainty: Floats = np.sqrt(spread).reshape(-1, n_channels).mean(axis=1)
        return by_class(positive, n_channels), uncertainty


@dataclass(frozen=True, eq=False)
class FamilyFit:
    """What a fit leaves behind. labels (n,) codes of `classes`, -1 unlabelled; None from files that kept no labels.

    rows : the fitted instances; held (labelled, classes) : probabilities of the labelled ones from the other folds.
    frame_columns : of a fit on a cluster, whose instances are the labelled ones; names of "predictions" and "features".
    """

    classes: NDArray[Any]
    labels: Codes | None
    n_labels: int
    n_channels: int
    n_classifiers: int
    n_features_in: int
    clip: float
    committee: Answering
    table: list[dict[str, Any]]
    log_loss: float | None
    probabilities: Floats
    uncertainty: Floats
    naming: Naming
    rows: InstanceRows | None = None
    held: Floats | None = None
    beside: Beside = NOTHING
    frame_columns: dict[str, list[str]] | None = None

    @classmethod
    def of(
        cls,
        rows: InstanceRows,
        cells: PredictedRows,
        committee: Answering,
        table: list[dict[str, Any]],
        log_loss: float | None,
        held: Floats | None,
        naming: Naming,
        n_features_in: int,
        beside: Beside,
    ) -> FamilyFit:
        """What a committee that has learned answers about the rows it was fitted to; cells : the same rows."""
        return cls(
            rows.classes,
            rows.y,
            int(np.sum(rows.y >= 0)),
            rows.n_channels,
            rows.P.shape[1],
            n_features_in,
            cells.clip,
            committee,
            table,
            log_loss,
            *committee.answer(cells),
            naming,
            rows,
            held,
            beside,
        )

    @cached_property
    def told(self) -> ToldRows:
        """What the classifiers said of the fitted instances, looked at without labels."""
        if self.rows is None:
            raise ValueError(
                "this model has no fitted instances to compare with: it was fitted at many sites, or its file kept none"
            )
        view = self.committee.views.get(ToldRows.usual_view(self.n_classifiers)) if self.n_channels == 1 else None
        return ToldRows(self.rows, self.clip, view)

    def cells(self, rows: InstanceRows, features: ArrayLike | None) -> PredictedRows:
        """Further instances as the committee looks at them."""
        return PredictedRows.of(rows, self.clip, self.beside.of(features, rows.n))

    @property
    def opinions(self) -> Floats:
        """(n, m, classes) what classifiers said of the fitted instances; NaN: nothing."""
        return self.told.opinions

    @property
    def latent(self) -> Floats:
        """(n, n_channels * rank) factors of the instances, for maps."""
        return self.told.latent

    @property
    def classifier_vectors(self) -> Floats:
        return self.told.view.loadings


def fit_family(
    settings: FamilySettings,
    rows: InstanceRows,
    naming: Naming,
    n_features_in: int,
    roster: Roster = make_members,
    views: dict[str, View] | None = None,
    beside: Beside = NOTHING,
    file: SweepFile | None = None,
) -> FamilyFit:
    """Learn from all rows and the labels there are.

    roster : which members stand on the views, of so many labels. views : of the same predictions, learned before.
    file : where views are kept while others are learned.
    """
    if rows.n_channels > 1 and settings.estimators:
        raise ValueError(f"estimators= serve two classes; y has {len(rows.classes)}: {rows.classes[:5].tolist()}")
    seed = seed_from(settings.random_state)
    instances = np.flatnonzero(rows.y >= 0)
    here = (instances[:, None] * rows.n_channels + np.arange(rows.n_channels)).ravel()
    cells = PredictedRows.of(rows, settings.clip, beside.features)
    truth, folds = rows.row_labels[here].astype(np.float64), _folds(rows, instances, settings.folds, seed)
    labels = FoldedLabels(truth, folds, cells, here)
    planned = make_views(settings.ranks, settings.links, rows.P.shape[1])
    with steps_bar(len(planned), settings.verbose) as bar:
        if views is None:
            views, spent = fit_views(planned, _sample(cells, seed), settings.max_seconds, SURE_VIEWS, bar, file)
        else:
            spent = dict.fromkeys(views, 0.0)
        members = roster(list(views.values()), len(instances), beside)
        members += [EstimatorMember(name, Refit(each, rows, instances)) for name, each in settings.estimators]
        scene = Scene(cells.take(here), rows.n_channels, views)
        answers, seconds = learn_members(members, scene, labels, bar)
    weights, losses = np.full(len(members), 1 / len(members)), None
    calibration, log_loss, held = np.zeros(rows.n_channels + 1), None, None
    if labels.folds is not None:
        losses = cross_entropy(answers, labels.truth).mean(axis=1)
        weights = weigh(losses, len(instances) / settings.temperature)
        average = weights @ answers
        log_loss = float(cross_entropy(average, labels.truth).mean())
        if settings.calibrate:
            calibration = _calibrate(scene.intercepts, average, labels.truth)
        shift = scene.intercepts @ calibration[:-1] + calibration[-1] * average
        held = by_class(expit(average + shift), rows.n_channels)
    committee = Committee(views, members, weights, calibration)
    table = member_table(members, weights, losses, seconds, spent)
    return FamilyFit.of(rows, cells, committee, table, log_loss, held, naming, n_features_in, beside)


def _folds(rows: InstanceRows, instances: Codes, n_folds: int, seed: int) -> Codes | None:
    """(r,) of the labelled rows; None, and a warning, where labels are too few to be held out."""
    y, n_classes = rows.y[instances], max(2, rows.n_channels)
    folds = make_folds(y, n_classes, n_folds, seed) if len(y) else None
    if folds is not None:
        return np.repeat(folds, rows.n_channels)
    message = "y has no labels at all: the answer is the plain average of what needs none"
    if len(y):
        have = dict(zip(rows.classes.tolist(), np.bincount(y, minlength=n_classes).tolist(), strict=False))
        message = (
            f"y has labelled instances {have}; with fewer than two of a class nothing can be held out, so all members "
            "weigh the same"
        )
    warnings.warn(message, PredictionWarning, stacklevel=4)
    return None


def _sample(cells: PredictedRows, seed: int) -> PredictedRows:
    """At most FIT_ROWS rows, at random."""
    n = len(cells.P)
    if n <= FIT_ROWS:
        return cells
    return cells.take(np.sort(np.random.default_rng(seed).choice(n, FIT_ROWS, replace=False)))


def _calibrate(intercepts: Floats, average: Floats, truth: Floats) -> Floats:
    """(n_channels + 1,) what intercepts and slope of the out-of-fold average want beyond 0 and 1."""
    X = np.column_stack([intercepts, average])
    penalty = np.full(X.shape[1], CALIBRATION_PENALTY)
    found: Floats = fit_logistic(X, truth, np.ones((1, len(X))), penalty, offset=average, tolerance=TOLERANCE)[0]
    return found
