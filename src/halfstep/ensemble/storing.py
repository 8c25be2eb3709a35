"""A fitted CFEnsemble as one model file, and back. Knows files through `data.files` alone; learns nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from halfstep.core.loop import Outcome
from halfstep.data import files
from halfstep.engine.local import thread_count
from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.aggregators import AGGREGATORS
from halfstep.ensemble.columns import LatentColumns
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.fit import EnsembleFit, FittedInstances, with_answers
from halfstep.ensemble.fusion import Fusion
from halfstep.ensemble.inputs import SideFeatures
from halfstep.ensemble.naming import INSTANCE, Naming
from halfstep.ensemble.settings import EnsembleSettings
from halfstep.ensemble.table import PredictionTable

STATE = "aggregator."
TASK = "task."
UNSAVED = ("callbacks", "engine", "random_state")


def save_fit(path: str | os.PathLike[str], parameters: Mapping[str, Any], fit: EnsembleFit) -> None:
    """See `CFEnsemble.save`."""
    if not isinstance(parameters["aggregator"], str):
        raise ValueError(
            f"aggregator={parameters['aggregator']!r} is an object, which a model file cannot hold; fit with one of "
            f"{list(AGGREGATORS)} to save, give your own a name there, or pickle the estimator yourself"
        )
    params = {k: v for k, v in parameters.items() if k not in UNSAVED}
    if isinstance(parameters["random_state"], int | np.integer):
        params["random_state"] = int(parameters["random_state"])
    factors, fusion, side = fit.factors, fit.fusion, fit.features
    weights = factors.table.weights
    arrays: dict[str, Any] = {
        "classifier_factors": factors.classifier_factors,
        "row_factors": factors.row_factors,
        "targets": factors.table.targets,
        "mean_weights": factors.mean_weights,
        "y": fit.labels,
        "novelty": fit.novelty,
        "shifts": fusion.shifts,
        "probabilities": fit.probabilities,
        **{STATE + name: value for name, value in fusion.aggregator.state().items()},
        **{f"{TASK}{k}": value for k, value in enumerate(fusion.task_coefficients.values())},
    }
    optional = {"groups": fit.groups, "weights": weights if isinstance(weights, np.ndarray) else None}
    if side is not None:
        optional |= {"features": side.values, "feature_mean": side.mean, "feature_scale": side.scale}
    arrays |= {name: value for name, value in optional.items() if value is not None}
    meta = {
        "classes": fit.classes,
        "history": fit.outcome.history,
        "converged": fit.outcome.converged,
        "n_features_in": fit.n_features_in,
        "n_channels": fit.n_channels,
        "flat": bool(fit.flat),
        "weight": None if isinstance(weights, np.ndarray) else float(weights),
        "noise": fusion.noise,
        "threshold": fit.routing.threshold,
        "tasks": fit.tasks,
        "task_names": list(fusion.task_coefficients),
        "learned": type(fusion.aggregator).__name__,
        "frame_columns": fit.frame_columns,
        **fit.naming.to_meta(),
    }
    files.save(path, "CFEnsemble", params, arrays, meta, {INSTANCE: fit.naming.index})


def load_fit(settings: EnsembleSettings, saved: files.Saved) -> EnsembleFit:
    """The fit that a file holds."""
    meta = saved.meta
    V = saved.array("classifier_factors", (None, None))
    m, width = V.shape
    U = saved.array("row_factors", (None, width))
    targets = saved.array("targets", (len(U), m))
    weights = saved.array("weights", (len(U), m)) if meta["weight"] is None else float(meta["weight"])
    k = meta["n_channels"]
    labels = saved.array("y", (len(U) // k,))
    side, q = None, 0
    if "features" in saved.arrays:
        values = saved.array("features", (len(labels), None))
        q = values.shape[1]
        side = SideFeatures(values, saved.array("feature_mean", (q,)), saved.array("feature_scale", (q,)))
    columns = LatentColumns(k, q, width - 1 - k * (1 + q), settings.biases)
    factors = EnsembleFactors(
        columns,
        settings.scale,
        settings.reg,
        V,
        U,
        PredictionTable(targets, weights),
        np.tile(np.arange(k), len(labels)),
        settings.weights_of_cells(targets.shape, k).without_labels(),
        saved.array("mean_weights", (m,)),
        thread_count(settings.n_threads),
    )
    groups, frame_columns = saved.arrays.get("groups"), meta.get("frame_columns")
    known = FittedInstances(meta["classes"], labels, meta["flat"], side, groups, meta["tasks"], frame_columns)
    known = replace(known, naming=Naming.from_saved(saved, len(labels)))
    aggregator = settings.predicting_aggregator("mean" if meta["learned"] == "MeanAggregator" else None)
    state = {name.removeprefix(STATE): array for name, array in saved.arrays.items() if name.startswith(STATE)}
    aggregator.restore(state)
    tasks = {name: saved.array(f"{TASK}{place}") for place, name in enumerate(meta["task_names"])}
    fusion = Fusion(settings.form, aggregator, saved.array("shifts", (k,)), meta["noise"], tasks)
    history = meta["history"]
    outcome = Outcome(history, history[-1]["objective"] if history else np.inf, meta["converged"])
    novelty = saved.array("novelty", labels.shape)
    probabilities = saved.array("probabilities", (len(labels), len(meta["classes"])))
    return with_answers(settings, known, factors, outcome, fusion, novelty, meta["threshold"], probabilities)


def _weights_to_json(weights: Any) -> dict[str, Any]:
    if not is_dataclass(weights):
        raise ValueError(
            f"confidence={weights!r} does not say what it is made of, so a model file cannot keep it; make "
            f"{type(weights).__name__} a dataclass whose fields are its parameters"
        )
    return {"kind": type(weights).__name__, **{field.name: getattr(weights, field.name) for field in fields(weights)}}


def _weights_from_json(stored: dict[str, Any]) -> cell_weights.CellWeights:
    values = dict(stored)
    kind = values.pop("kind")
    known: list[Any] = [cell_weights.CellWeights]
    for each in known:  # a confidence may be a kind of another one
        known += each.__subclasses__()
        if each.__name__ == kind:
            found: cell_weights.CellWeights = each(**values)
            return found
    raise ValueError(f"confidence of kind {kind!r} is not known; if it is your own, import its class before you load")


files.register_codec(cell_weights.CellWeights, "cell_weights", _weights_to_json, _weights_from_json)
