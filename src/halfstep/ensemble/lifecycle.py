"""Life after fit: more classifiers, more instances, more labels, and which label to ask for next.

Functions from a fit to the next one. Must not know how a half-step is made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.ensemble.fit import EnsembleFit, FittedInstances, factorise, known_of, learn
from halfstep.ensemble.fusion import unlabelled_gains
from halfstep.ensemble.inputs import InstanceRows, expand_labels, more_features, read_tasks
from halfstep.ensemble.naming import codes_of
from halfstep.ensemble.settings import EnsembleSettings, check_labels
from halfstep.ensemble.table import PredictionTable, make_weights

PARTIAL_SWEEPS = 5


def with_classifiers(settings: EnsembleSettings, fit: EnsembleFit, P_extra: Any) -> EnsembleFit:
    """See `CFEnsemble.add_classifiers`."""
    _need_instances(fit, "add_classifiers")
    factors, n, k = fit.factors, len(fit.labels), fit.n_channels
    extra, names = fit.naming.more(P_extra, k)
    if extra.n != n:
        raise ValueError(
            f"P_extra has {extra.n} instances, but the model was fitted with {n}; give the new classifiers' "
            "predictions for the fitted instances, NaN where there are none"
        )
    dtype, m = factors.classifier_factors.dtype, len(factors.classifier_factors)
    together = np.column_stack([factors.predictions(), extra.P])
    confidence = settings.weights_of_cells(together.shape, k)
    weights = make_weights(together, confidence, expand_labels(fit.labels, k), dtype.type, factors.scale.weight)
    own = weights[:, m:] if isinstance(weights, np.ndarray) else weights
    table = PredictionTable(factors.scale.target(extra.P).astype(dtype), own)
    new = factors.columns.classifiers(extra.P.shape[1], dtype)
    replace(factors, table=table, classifier_factors=new).solve_classifiers()
    table = factors.table.beside(table)
    groups = fit.groups
    if groups is not None:  # newcomers belong to no known group: each is one of its own
        groups = np.concatenate([groups, groups.max() + 1 + np.arange(len(new))])
    factors = replace(
        factors,
        classifier_factors=np.vstack([factors.classifier_factors, new]),
        table=table,
        mean_weights=table.mean_weights() / factors.scale.weight,
    )
    naming = fit.naming.with_classifiers(m, names, len(new))
    return learn(settings, replace(fit, groups=groups, naming=naming), factors, fit.outcome)


def continued(
    settings: EnsembleSettings,
    fit: EnsembleFit,
    P: Any,
    y: ArrayLike | None,
    features: ArrayLike | None,
    tasks: ArrayLike | None,
    max_iter: int,
    ids: Any = None,
) -> EnsembleFit:
    """See `CFEnsemble.partial_fit`."""
    _need_instances(fit, "partial_fit")
    predictions, known = fit.factors.predictions(), FittedInstances(**known_of(fit))
    if P is None:
        if y is None:
            raise ValueError("partial_fit needs P (more instances), y (labels of the fitted ones), or both")
        fresh = codes_of(fit.classes, y, fit.naming.index)
        known = replace(known, labels=np.where(fresh >= 0, fresh, fit.labels))
    else:
        m = len(fit.factors.classifier_factors)
        more, index = fit.naming.rows(P, m, fit.n_channels, ids)
        predictions = np.concatenate([predictions, more.P])
        added = np.full(more.n, -1) if y is None else codes_of(fit.classes, y, index)
        side = more_features(fit.features, features, more.n)
        if side is not None and fit.features is not None:
            side = replace(side, values=np.concatenate([fit.features.values, side.values]))
        names = read_tasks(tasks, more.n)
        if (fit.tasks is None) != (names is None):
            raise ValueError("tasks must be given either in every call or in none")
        if names is not None and fit.tasks is not None:
            names = np.concatenate([fit.tasks, names])
        known = replace(known, labels=np.concatenate([fit.labels, added]), features=side, tasks=names)
        known = replace(known, naming=fit.naming.extended(index, more.n))
    check_labels(InstanceRows(predictions, known.labels, known.classes, fit.n_channels), 4)
    start = fit.factors.classifier_factors
    factors, outcome = factorise(settings, known, predictions, fit.factors.columns, start=start, max_iter=max_iter)
    return learn(settings, known, factors, outcome)


def query(fit: EnsembleFit, n: int) -> NDArray[Any]:
    """See `CFEnsemble.query`."""
    _need_instances(fit, "query")
    left = int((fit.labels < 0).sum())
    if not 1 <= n <= left:
        raise ValueError(f"n={n!r} must be between 1 and the number of unlabelled instances, {left}")
    return fit.naming.index.take(unlabelled_gains(fit.factors, fit.positive, fit.labels, n))


def _need_instances(fit: EnsembleFit, method: str) -> None:
    if fit.frame_columns is not None:
        raise ValueError(
            f"{method} needs all fitted instances on this machine; a model fitted by SparkEngine has the labelled "
            "ones only. Fit again with the new data"
        )
    if not len(fit.factors.row_factors):
        raise ValueError(f"{method} needs fitted instances; a model merged from sites has none of its own")
