"""A fitted CFEnsemble as one model file, and back. Knows files through `data.files` alone; learns nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from halfstep.core.loop import Outcome, timeless
from halfstep.data import files
from halfstep.data.tensors import CODES, FACTORS, HOLES, POSITIVE, SHARES, WEIGHTS, Tensor, kept_classes
from halfstep.engine.local import thread_count
from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.aggregators import AGGREGATORS
from halfstep.ensemble.columns import LatentColumns
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.fit import EnsembleFit, FittedInstances, with_answers
from halfstep.ensemble.fusion import Fusion
from halfstep.ensemble.inputs import SideFeatures, expand_labels
from halfstep.ensemble.naming import INSTANCE, Naming
from halfstep.ensemble.settings import EnsembleSettings
from halfstep.ensemble.table import PredictionTable

STATE = "aggregator."
TASK = "task."
UNSAVED = ("callbacks", "engine", "random_state", "checkpoint", "every", "resume")
FITTED = {
    "classifier_factors": Tensor("classifiers columns", FACTORS),
    "row_factors": Tensor("rows columns", FACTORS, like="classifier_factors"),
    "targets": Tensor("rows classifiers", HOLES),
    "mean_weights": Tensor("classifiers", WEIGHTS),
    "y": Tensor("instances", CODES, of="classes"),
    "novelty": Tensor("instances", SHARES),
    "shifts": Tensor("channels"),
    "probabilities": Tensor("instances classes", SHARES),
}
WEIGHED = {"weights": Tensor("rows classifiers", WEIGHTS)}
FEATURES = {
    "features": Tensor("instances features", FACTORS),
    "feature_mean": Tensor("features", FACTORS),
    "feature_scale": Tensor("features", POSITIVE),
}
GROUPS = {"groups": Tensor("classifiers", CODES)}


def save_fit(path: str | os.PathLike[str], parameters: Mapping[str, Any], fit: EnsembleFit) -> None:
    """See `CFEnsemble.save`. Parameters that have changed since the fit are kept beside those it was made with."""
    given = fit.settings.aggregator if isinstance(parameters["aggregator"], str) else parameters["aggregator"]
    if not isinstance(given, str):
        raise ValueError(
            f"aggregator={given!r} is an object, which a model file cannot hold; fit with one of "
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
    fitted_with = {each.name: getattr(fit.settings, each.name) for each in fields(fit.settings)}
    changed = {k: v for k, v in fitted_with.items() if k not in UNSAVED and v is not parameters[k]}
    meta = {
        "fitted_with": changed,
        "classes": fit.classes,
        "history": timeless(fit.outcome.history),
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
    """The fit that a file holds. settings : of the parameters, for files that do not say what was fitted."""
    meta = saved.meta
    settings = replace(settings, **meta.get("fitted_with", {}))
    k, classes = int(meta["n_channels"]), kept_classes(meta["classes"])
    if k != (1 if len(classes) == 2 else len(classes)):
        raise files.ModelFileError(f"{saved.path}: it has {k} rows of an instance for {len(classes)} classes")
    n = saved.tensors({"y": Tensor("instances", CODES, of="classes")}, classes=len(classes))["y"].shape[0]
    declared = FITTED | (WEIGHED if meta["weight"] is None else {}) | (FEATURES if "features" in saved.arrays else {})
    declared |= GROUPS if "groups" in saved.arrays else {}
    kept = saved.tensors(declared, instances=n, rows=n * k, channels=k, classes=len(classes))
    V, labels, targets = kept["classifier_factors"], kept["y"], kept["targets"]
    m, width = V.shape
    side, q = None, 0
    if "features" in kept:
        side = SideFeatures(kept["features"], kept["feature_mean"], kept["feature_scale"])
        q = kept["features"].shape[1]
    factors = EnsembleFactors(
        LatentColumns(k, q, width - 1 - k * (1 + q), settings.biases),
        settings.scale,
        settings.reg,
        V,
        kept["row_factors"],
        PredictionTable(targets, kept["weights"] if meta["weight"] is None else float(meta["weight"])),
        np.tile(np.arange(k), n),
        settings.weights_of_cells(targets.shape, k).without_labels(),
        kept["mean_weights"],
        thread_count(settings.n_threads),
    )
    known = FittedInstances(
        classes, labels, bool(meta["flat"]), side, kept.get("groups"), meta["tasks"], meta.get("frame_columns")
    )
    known = replace(known, naming=Naming.from_saved(saved, n))
    aggregator = settings.predicting_aggregator("mean" if meta["learned"] == "MeanAggregator" else None)
    aggregator.restore(saved.learned(STATE, infinite=("strength",)))
    of_tasks = saved.learned(TASK)
    tasks = {name: of_tasks[str(place)] for place, name in enumerate(meta["task_names"])}
    fusion = Fusion(settings.form, aggregator, kept["shifts"], float(meta["noise"]), tasks)
    history = list(meta["history"])
    outcome = Outcome(history, history[-1]["objective"] if history else np.inf, bool(meta["converged"]))
    threshold = float(meta["threshold"])
    fit = with_answers(settings, known, factors, outcome, fusion, kept["novelty"], threshold, kept["probabilities"])
    _rehearse(fit, m)
    return fit


def _rehearse(fit: EnsembleFit, m: int) -> None:
    """Two new instances are answered, whatever was learned: arrays that do not fit each other show themselves here."""
    k, two = fit.n_channels, 2 * fit.n_channels
    q = 0 if fit.features is None else fit.features.values.shape[1]
    told = fit.factors.fold_in(
        np.full((two, m), 1 / len(fit.classes)),
        np.tile(np.arange(k), 2),
        np.zeros((two, q)) if q else None,
        expand_labels(fit.labels, k),
    )
    tasks = None if fit.tasks is None else np.resize(fit.tasks, 2)
    answers = fit.answer(told, np.zeros(2), tasks), fit.fusion.novelty(told)
    if not all(np.isfinite(answer).all() for answer in answers):
        raise ValueError("it answers with numbers that are not finite")


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
