"""Many sites, one model: sites send sums over their instances, and the centre makes the next round from the totals.

A round: every site calls `accumulate` on a copy of the model with its own data and sends back sums; `merge` adds them
up and takes the model one sweep further. What travels is a d x d matrix for each classifier, and the gradient and
curvature of the aggregator. Sums over sites are sums over all instances, so the result is that of `fit` on all of them.
Plain sums of few instances give them away: docs/federated.md says what, and `sealed` keeps all but the total secret.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep.core.arrays import Floats
from halfstep.core.loop import Outcome, Record, settled
from halfstep.engine.local import thread_count
from halfstep.ensemble.aggregators import WeightedAggregator
from halfstep.ensemble.columns import LatentColumns
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.fit import EnsembleFit, FittedInstances, with_answers
from halfstep.ensemble.fusion import Fusion
from halfstep.ensemble.inputs import InstanceRows, read_rows
from halfstep.ensemble.naming import name_predictions
from halfstep.ensemble.parts import best_classifiers
from halfstep.ensemble.predictions import expit
from halfstep.ensemble.sealed import SealedSums, Site
from halfstep.ensemble.settings import EnsembleSettings
from halfstep.ensemble.start import StartSums
from halfstep.ensemble.sums import SiteSums
from halfstep.ensemble.table import PredictionTable, make_table, make_weights
from halfstep.errors import check_number

LONGEST_STEP = 2.0  # of an aggregator coefficient in one round: far from the optimum Newton may overshoot
SETTLED = 1e-9
MOST_STEPS = 20  # of the aggregator: under noise it never settles
LEAST_INSTANCES = 20
"""Of a site, and of each classifier there; half as many labels. Sums over one instance are that instance."""


@dataclass(frozen=True, eq=False)
class FederatedRound:
    """A federated fit under way: what the centre sends to its sites. labels (2,) : how many there are of each class.

    `swept`: classifiers have settled, and the aggregator is still learning, for so many `steps`.
    """

    factors: EnsembleFactors
    fusion: Fusion
    labels: Floats
    total_weight: float
    history: tuple[Record, ...] = ()
    sweep: int = 0
    swept: bool = False
    steps: int = 0


def site_sums(
    settings: EnsembleSettings,
    state: FederatedRound | None,
    P: Any,
    y: ArrayLike,
    least: int = LEAST_INSTANCES,
    site: Site | None = None,
) -> SiteSums | SealedSums:
    """See `CFEnsemble.accumulate`; state : None in the first round."""
    _check(settings)
    rows = site_rows(P, y, least)
    sums = _sums(settings, state, rows)
    if site is None:
        return sums
    single = (InstanceRows(rows.P[i : i + 1], rows.y[i : i + 1], rows.classes, 1) for i in range(rows.n))
    return site.seal(sums, lambda: [_sums(settings, state, each) for each in single])


def site_rows(P: Any, y: ArrayLike, least: int) -> InstanceRows:
    """The instances of a site, where there are enough of them. Sums know classifiers by their place, not by name."""
    if name_predictions(P, None).names is not None:
        raise ValueError(
            "P names its classifiers, and sums of sites know them by place alone; pass P[names].to_numpy(), with names "
            "in an order that all sites agree on"
        )
    rows = read_rows(P, y)
    if rows.n_channels != 1 or rows.classes.tolist() != [0, 1]:
        raise ValueError("a federated fit has the classes 0 and 1, so that every site names them alike")
    _check_size(rows, least)
    return rows


def total_of(sites: Sequence[SiteSums | SealedSums], stage: str) -> dict[str, Any]:
    """The sums of all sites, which answered the question of this stage."""
    if len({type(each) for each in sites}) != 1:
        raise ValueError("merge takes the sums of every site, all of them plain or all of them sealed")
    total: SiteSums = reduce(add, sites).opened()
    if total.stage != stage:
        raise ValueError(f"the sites answered {total.stage!r}, but this round is {stage!r}; send them the new model")
    return total.sums


def _check_size(rows: InstanceRows, least: int) -> None:
    """Refuse what would be a sum over few: of instances, of labels, or of the predictions of a classifier."""
    check_number("least", least, at_least=1, whole=True)
    cells, labels = (~np.isnan(rows.P)).sum(axis=0), np.count_nonzero(rows.y >= 0)
    few = np.flatnonzero((cells > 0) & (cells < least))
    advice = "join it with another site, or lower least= knowing what docs/federated.md says of it"
    if rows.n < least:
        raise ValueError(
            f"the site has {rows.n} instances, and sums over fewer than least={least} tell of them; {advice}"
        )
    if 0 < labels < least / 2:
        raise ValueError(
            f"the site has {labels} labels, and sums over fewer than half of least={least} tell them; leave them out, "
            f"or {advice}"
        )
    if len(few):
        raise ValueError(
            f"classifier {few[0]} has {cells[few[0]]} predictions at the site, and sums over fewer than least={least} "
            f"tell of them; leave them out (NaN), or {advice}"
        )


def _sums(settings: EnsembleSettings, state: FederatedRound | None, rows: InstanceRows) -> SiteSums:
    table = make_table(rows.P, settings.scale, settings.weights_of_cells(rows.P.shape, 1), rows.y, settings.number)
    if state is None:
        start = StartSums.of(table, _columns(settings, table.shape[1]), rows.channel)
        labels = np.bincount(rows.y[rows.y >= 0], minlength=2).astype(np.float64)
        return SiteSums("start", {"start": start, "labels": labels, "total": table.total_weight()})
    factors = state.factors.with_rows(table, rows.channel, None)
    factors.solve_rows()
    return SiteSums("sweep", {"rows": factors.sums(), **_aggregator_sums(settings, state, factors, rows)})


def next_round(
    settings: EnsembleSettings, state: FederatedRound | None, sites: Sequence[SiteSums | SealedSums]
) -> FederatedRound | EnsembleFit:
    """The next round from the sums of all sites, or the finished fit; see `CFEnsemble.merge`."""
    _check(settings)
    sums = total_of(sites, "start" if state is None else "sweep")
    return _begin(settings, sums) if state is None else _advance(settings, state, sums)


def _columns(settings: EnsembleSettings, m: int) -> LatentColumns:
    return LatentColumns(1, 0, settings.chosen_rank(m), settings.biases)


def _begin(settings: EnsembleSettings, sums: dict[str, Any]) -> FederatedRound:
    if sums["labels"].min() == 0:
        raise ValueError(f"the sites have {sums['labels'].tolist()} labels of the classes 0 and 1; both are needed")
    m = len(sums["start"].centred)
    columns, aggregator = _columns(settings, m), settings.predicting_aggregator()
    if isinstance(aggregator, WeightedAggregator):
        aggregator.start(columns.rank if settings.on == "latent" else m, 1)
    factors = EnsembleFactors.without_rows(
        columns,
        settings.scale,
        settings.reg,
        sums["start"].classifiers(columns, settings.number),
        settings.weights_of_cells((0, m), 1).without_labels(),
        thread_count(settings.n_threads),
    )
    return FederatedRound(factors, Fusion(settings.form, aggregator, np.zeros(1)), sums["labels"], sums["total"])


def _advance(settings: EnsembleSettings, state: FederatedRound, sums: dict[str, Any]) -> FederatedRound | EnsembleFit:
    factors, history, swept = state.factors, state.history, state.swept
    start, stop = factors.columns.classifier_free
    V = factors.classifier_factors.copy()
    if not swept:
        penalty = sums["rows"].penalty + settings.reg * float((V[:, start:stop].astype(np.float64) ** 2).sum())
        objective = (sums["rows"].data + penalty) / state.total_weight
        if state.sweep:  # the first round only solves rows, as the start of `fit` does
            history = (*history, {"iteration": state.sweep, "total": objective, "objective": objective})
        swept = settled(history, settings.tol) or state.sweep >= settings.max_iter
    state = replace(state, history=history, swept=swept)
    if swept:
        fusion, step = _stepped(state.fusion, sums)
        if step <= SETTLED or state.steps >= MOST_STEPS:
            return _finished(settings, state, fusion, sums)
        return replace(state, fusion=fusion, steps=state.steps + 1)
    V[:, start:stop] = best_classifiers(sums["rows"].matrices, sums["rows"].vectors, settings.reg)
    return replace(state, factors=replace(factors, classifier_factors=V), sweep=state.sweep + 1)


def _finished(settings: EnsembleSettings, state: FederatedRound, fusion: Fusion, sums: dict[str, Any]) -> EnsembleFit:
    known = FittedInstances(np.array([0, 1]), np.zeros(0, np.int64), flat=True)
    history = list(state.history)
    objective = history[-1]["objective"] if history else np.inf
    outcome = Outcome(history, objective, len(history) < settings.max_iter)
    fusion = replace(fusion, noise=float(sums["left"] / max(sums["weight"], np.finfo(float).tiny)))
    nobody = np.zeros(0)
    return with_answers(settings, known, state.factors, outcome, fusion, nobody, np.inf, np.zeros((0, 2)))


def _aggregator_sums(
    settings: EnsembleSettings, state: FederatedRound, factors: EnsembleFactors, rows: InstanceRows
) -> dict[str, Any]:
    """Gradient and curvature of the aggregator's loss on rows solved without labels, and what noise is made of."""
    aggregator, nobody = state.fusion.aggregator, np.full(rows.n, -1)
    plain = make_weights(rows.P, factors.confidence, nobody, settings.number, factors.scale.weight)
    free = factors.with_rows(PredictionTable(factors.table.targets, plain), rows.channel, None)
    free.solve_rows()
    residuals = free.residuals()
    sums = {"left": residuals.left.sum(), "weight": residuals.weight.sum()}
    if not isinstance(aggregator, WeightedAggregator):
        return sums
    labelled = np.flatnonzero((rows.y >= 0) & ~np.isnan(rows.P).all(axis=1))
    X = aggregator.features(free.design(labelled, state.fusion.form))
    truth = rows.y[labelled].astype(np.float64)
    by_class = state.labels.sum() / (2 * state.labels) if settings.class_weight == "balanced" else np.ones(2)
    s = by_class[rows.y[labelled]]
    p = expit(X @ aggregator.coefficients)
    return sums | {"gradient": X.T @ (s * (p - truth)), "hessian": (X * (s * p * (1 - p))[:, None]).T @ X}


def _stepped(fusion: Fusion, sums: dict[str, Any]) -> tuple[Fusion, float]:
    """One Newton step of the aggregator, and how far it went, relative to the coefficients."""
    aggregator = copy.copy(fusion.aggregator)
    if not isinstance(aggregator, WeightedAggregator):
        return fusion, 0.0
    penalty, prior = aggregator.penalty(1)
    gradient: Floats = sums["gradient"] + penalty * (aggregator.coefficients - prior)
    step = np.linalg.solve(sums["hessian"] + np.diag(penalty), gradient)
    step = limited(step)
    aggregator.coefficients = aggregator.coefficients - step
    length = float(np.abs(step).max() / (1 + np.abs(aggregator.coefficients).max()))
    return replace(fusion, aggregator=aggregator), length


def limited(step: Floats) -> Floats:
    """A Newton step, shortened where it is longer than LONGEST_STEP."""
    return np.asarray(step * min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300)))


def _check(settings: EnsembleSettings) -> None:
    reasons = {
        "solver='als' or rho=1: the exact solver's labels tie the sites together": settings.solver == "als"
        or settings.rho == 1,
        "shrinkage as a finite number: 'auto' would need folds across sites": not isinstance(settings.shrinkage, str)
        and np.isfinite(settings.shrinkage),
        "aggregator='weighted' or 'mean'": settings.aggregator in ("weighted", "mean"),
        "calibrate=False or class_weight=None": not settings.calibrate or settings.class_weight is None,
        "class_weight='balanced' or None": settings.class_weight in ("balanced", None),
        "init='svd'": settings.init == "svd",
        "loss='squared'": settings.loss == "squared",
        "a confidence that looks at one instance at a time": settings.weights_of_cells((1, 1), 1).row_local,
    }
    for needed, holds in reasons.items():
        if not holds:
            raise ValueError(f"a federated fit needs {needed}")
