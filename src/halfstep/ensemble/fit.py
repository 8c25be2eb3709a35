"""A fit as a function of settings and data: factors of the combined loss, the aggregator, one frozen `EnsembleFit`.

Knows rows that were read. Must not know how they were read, nor the estimator that keeps the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.core.extrapolate import Extrapolation
from halfstep.core.loop import Outcome, alternate
from halfstep.data.sweeps import SweepFile
from halfstep.engine.kept import KeptLoop
from halfstep.engine.local import thread_count
from halfstep.ensemble.baselines import ShrunkenStacking
from halfstep.ensemble.columns import FactorArray, LatentColumns
from halfstep.ensemble.combined import CombinedSession
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.fusion import Fusion, by_class, learn_fusion
from halfstep.ensemble.inputs import SideFeatures, expand_labels, more_features, read_tasks
from halfstep.ensemble.label_term import LabelTerm
from halfstep.ensemble.naming import Naming
from halfstep.ensemble.parts import RowsElsewhere
from halfstep.ensemble.predictions import expit
from halfstep.ensemble.settings import EnsembleSettings
from halfstep.ensemble.start import start_classifiers, start_rows
from halfstep.ensemble.table import PredictionTable, make_table, weights_of


@dataclass(frozen=True, eq=False)
class FittedInstances:
    """What a fit knows of its instances beside their predictions.

    labels (n,) : indices into `classes`, -1 where unlabelled. flat : whether predictions came as a table of two axes.
    groups (m,) : of the classifiers. tasks (n,) : of the instances. frame_columns : the names of "predictions" and
    "features" where the instances came as a DataFrame; the labelled ones alone are here then. naming : of
    instances and classifiers.
    """

    classes: NDArray[Any]
    labels: Codes
    flat: bool
    features: SideFeatures | None = None
    groups: Codes | None = None
    tasks: NDArray[Any] | None = None
    frame_columns: dict[str, list[str]] | None = None
    naming: Naming = field(default_factory=Naming)


@dataclass(frozen=True, eq=False)
class Routing:
    """Who answers: instances whose novelty is above the threshold go to the stacker, where there is one."""

    threshold: float
    stacker: ShrunkenStacking | None = None

    def novel(self, novelty: Floats) -> NDArray[np.bool_]:
        return (novelty > self.threshold) & (self.stacker is not None)


@dataclass(frozen=True, eq=False, kw_only=True)
class EnsembleFit(FittedInstances):
    """What a CFEnsemble has learned: n instances of which `factors` holds n * n_channels rows, m classifiers.

    settings : what it was fitted with, whatever the estimator says since. novelty (n,), probabilities (n, classes) : of
    the fitted instances.
    """

    settings: EnsembleSettings
    factors: EnsembleFactors
    outcome: Outcome
    fusion: Fusion
    routing: Routing
    novelty: Floats
    probabilities: Floats

    @property
    def n_channels(self) -> int:
        """Rows of an instance: 1 with two classes, otherwise one for each class."""
        return self.factors.columns.n_channels

    @property
    def n_features_in(self) -> int:
        """Columns that were given for an instance."""
        return len(self.factors.classifier_factors) * (self.n_channels if self.flat else 1)

    @property
    def n_iter(self) -> int:
        return len(self.outcome.history)

    @property
    def routed(self) -> NDArray[np.bool_]:
        """(n,) who went to the stacker."""
        return self.routing.novel(self.novelty)

    @property
    def positive(self) -> Floats:
        """(N,) the probability of each row's class."""
        return self.probabilities[:, 1] if self.n_channels == 1 else self.probabilities.ravel()

    @property
    def latent(self) -> NDArray[Any]:
        """(n, n_channels * rank) shared factors of the instances."""
        return self.factors.row_factors[:, self.factors.columns.shared].reshape(len(self.labels), -1)

    @property
    def classifier_vectors(self) -> NDArray[Any]:
        """(m, rank) shared factors of the classifiers."""
        return self.factors.classifier_factors[:, self.factors.columns.shared]

    @property
    def opinions(self) -> Floats:
        """(n, m, classes) what classifiers said of the fitted instances, clipped as the fit saw it; NaN: nothing."""
        told = self.factors.predictions()
        if self.n_channels == 1:
            return np.stack([1 - told, told], axis=2)
        return np.ascontiguousarray(told.reshape(len(self.labels), self.n_channels, -1).transpose(0, 2, 1))

    def fold_in(self, P: Any, features: ArrayLike | None) -> EnsembleFactors:
        """Rows of new instances against the fitted classifiers."""
        rows, _ = self.naming.rows(P, len(self.factors.classifier_factors), self.n_channels)
        side = more_features(self.features, features, rows.n)
        labels = expand_labels(self.labels, self.n_channels)
        return self.factors.fold_in(
            rows.P, rows.channel, None if side is None else side.by_row(self.n_channels), labels
        )

    def answer(self, factors: EnsembleFactors, novelty: Floats, tasks: ArrayLike | None) -> Floats:
        """(n, classes) probabilities of the instances of `factors`; novelty (n,)."""
        return _answer(self.fusion, self.routing, factors, novelty, read_tasks(tasks, len(novelty)))


def known_of(fit: FittedInstances) -> dict[str, Any]:
    """What a fit knows of its instances, by name."""
    return {each.name: getattr(fit, each.name) for each in fields(FittedInstances)}


def factorise(
    settings: EnsembleSettings,
    known: FittedInstances,
    P: Floats,
    columns: LatentColumns,
    *,
    start: FactorArray | None = None,
    max_iter: int | None = None,
    elsewhere: Sequence[RowsElsewhere] = (),
    prepare: Callable[[CombinedSession], object] | None = None,
    file: SweepFile | None = None,
) -> tuple[EnsembleFactors, Outcome]:
    """Minimise the combined loss of rows P (N, m) from classifiers `start`, or from where `init` says.

    The factors that come back have seen no label of their own rows. elsewhere : further rows, none of them labelled.
    prepare : called before the first sweep. file : where the sweeps keep themselves.
    """
    scale, dtype, seed, k = settings.scale, settings.number, settings.seed, columns.n_channels
    confidence = settings.weights_of_cells(P.shape, k)
    plain = confidence.without_labels()
    if plain.learned:
        P = scale.seen(P)  # what is left of predictions after the fit, from which new rows learn theirs
    row_labels, channel = expand_labels(known.labels, k), np.tile(np.arange(k), len(known.labels))
    table = make_table(P, scale, confidence, row_labels, dtype)
    labelled = np.flatnonzero((row_labels >= 0) & ~np.isnan(P).all(axis=1))
    label_free = None  # weights of labelled rows that have seen no label, where they differ
    if plain is not confidence:
        label_free = weights_of(labelled, P, plain, row_labels, dtype, scale.weight)
    if start is None:
        V = start_classifiers(table, columns, channel, settings.init, seed, dtype, [part.start for part in elsewhere])
    else:
        V = start.astype(dtype)
    features = None if known.features is None else known.features.by_row(k)
    U = start_rows(columns, channel, features, seed, settings.init, dtype)
    threads = thread_count(settings.n_threads)
    factors = EnsembleFactors(
        columns, scale, settings.reg, V, U, table, channel, plain, np.ones(len(V)), n_threads=threads
    )
    session = CombinedSession(factors, known.groups, elsewhere)
    total = table.total_weight() + sum(float(part.weights[0].sum()) for part in elsewhere)
    total = max(total, np.finfo(float).tiny)
    supervised = settings.solver == "exact" and 0 < settings.rho < 1 and len(labelled) > 0
    if settings.init != "random" or start is not None or elsewhere:  # rows elsewhere have no numbers to start at
        session.solve_row_side()
    session.share = (settings.rho if supervised else 1.0) / settings.size(total)
    if supervised:
        weights = settings.class_weights(known.labels[labelled // k], known.classes)
        strength = (1 - settings.rho) / settings.rho * settings.size(total) / settings.size(weights.sum())
        aggregator, truth = settings.aggregator_of_loss(len(V), k), row_labels[labelled].astype(np.float64)
        session.labels = LabelTerm(labelled, truth, weights, strength, aggregator, fixed=settings.is_mean)
        session.labels.update(factors)
        session.extrapolation = Extrapolation()
    if prepare is not None:
        prepare(session)
    outcome = alternate(
        session,
        order=(1, 0),
        max_iter=settings.max_iter if max_iter is None else max_iter,
        tol=settings.tol,
        max_seconds=settings.max_seconds,
        callbacks=settings.callbacks,
        measured=session.measure,
        verbose=settings.verbose,
        label="CFEnsemble",
        file=None if file is None else KeptLoop(file, [session]),
    )
    table = PredictionTable(table.targets, table.weights)  # without the cells that it made for the core
    if label_free is not None and isinstance(table.weights, np.ndarray):
        table.weights[labelled] = label_free
    means = table.mean_weights([part.weights for part in elsewhere]) / scale.weight
    factors = replace(factors, table=table, mean_weights=means)
    if supervised or label_free is not None:  # what labelled rows would be without their labels
        again = factors.take(labelled)
        again.solve_rows()
        U[labelled] = again.row_factors
    return factors, outcome


def learn(
    settings: EnsembleSettings,
    known: FittedInstances,
    factors: EnsembleFactors,
    outcome: Outcome,
    elsewhere: Sequence[RowsElsewhere] = (),
) -> EnsembleFit:
    """The aggregator, the stacker of novel instances, and what is reported about the fitted ones."""
    mean = settings.is_mean or not (known.labels >= 0).any()
    fusion = learn_fusion(
        factors,
        settings.form,
        settings.predicting_aggregator("mean" if mean else None),
        known.labels,
        lambda y: settings.class_weights(y, known.classes),
        tasks=known.tasks,
        calibrate=settings.calibrate and not mean and settings.class_weight is not None,
        seed=settings.seed,
    )
    V, residuals = factors.classifier_factors, factors.residuals()
    fusion = replace(fusion, noise=residuals.noise([part.residuals(V) for part in elsewhere]))
    novelty = fusion.by_instance(residuals)
    threshold = float(np.quantile(novelty, settings.novelty_level))
    for part in elsewhere:
        threshold = part.novelty_quantile(V, fusion.noise, novelty, settings.novelty_level)
    return with_answers(settings, known, factors, outcome, fusion, novelty, threshold)


def with_answers(
    settings: EnsembleSettings,
    known: FittedInstances,
    factors: EnsembleFactors,
    outcome: Outcome,
    fusion: Fusion,
    novelty: Floats,
    threshold: float,
    probabilities: Floats | None = None,
) -> EnsembleFit:
    """The fit of which all this is known; the stacker of novel instances is fitted where `route` asks for it."""
    stacker = None
    if settings.route == "auto" and (known.labels >= 0).any():
        labels = expand_labels(known.labels, factors.columns.n_channels)
        stacker = ShrunkenStacking(clip=settings.clip).fit(factors.predictions(), labels)
    routing = Routing(threshold, stacker)
    if probabilities is None:
        probabilities = _answer(fusion, routing, factors, novelty, known.tasks)
    return EnsembleFit(
        **known_of(known),
        settings=replace(settings, callbacks=(), random_state=None),
        factors=factors,
        outcome=outcome,
        fusion=fusion,
        routing=routing,
        novelty=novelty,
        probabilities=probabilities,
    )


def _answer(
    fusion: Fusion, routing: Routing, factors: EnsembleFactors, novelty: Floats, tasks: NDArray[Any] | None
) -> Floats:
    """(n, classes) probabilities of the instances of `factors`."""
    positive = expit(fusion.log_odds(factors, tasks))
    novel = np.repeat(routing.novel(novelty), fusion.n_channels)
    if routing.stacker is not None and novel.any():
        positive[novel] = routing.stacker.predict_proba(factors.predictions(novel))[:, 1]
    return by_class(positive, fusion.n_channels)
