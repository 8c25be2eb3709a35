"""A fitted CFEnsemble as one model file, and back. Knows files through `persistence` alone; learns nothing."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from halfstep.data import files as persistence
from halfstep.engine.local import thread_count
from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.aggregators import make_aggregator
from halfstep.ensemble.factors import FusionFactors
from halfstep.ensemble.fusion import Fusion
from halfstep.ensemble.table import Table, without_labels

STATE = "aggregator."
TASK = "task."
UNSAVED = ("callbacks", "engine", "random_state")


class StoringMixin:
    """`save` and what `halfstep.load` calls."""

    def save(self: Any, path: str | os.PathLike[str]) -> None:
        """Write parameters, factors, cells and aggregator as one safetensors file; `halfstep.load` reads it back.

        An aggregator that is a scikit-learn classifier cannot be written: files hold no code.
        """
        check_is_fitted(self, "classes_")
        if not isinstance(self.aggregator, str):
            raise ValueError(
                f"aggregator={self.aggregator!r} is a scikit-learn classifier, which a model file cannot hold; fit "
                "with 'mean', 'weighted' or 'attention' to save, or pickle the estimator yourself"
            )
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in UNSAVED}
        if isinstance(self.random_state, int | np.integer):
            params["random_state"] = int(self.random_state)
        factors, fusion = self._factors, self._fusion
        arrays: dict[str, Any] = {
            "classifier_factors": factors.classifier_factors,
            "row_factors": factors.row_factors,
            "targets": factors.table.targets,
            "mean_weights": factors.mean_weights,
            "y": self._y,
            "novelty": self.novelty_,
            "shifts": fusion.shifts,
            "probabilities": self._proba,
            **{STATE + name: value for name, value in fusion.aggregator.state().items()},
            **{f"{TASK}{k}": value for k, value in enumerate(fusion.task_coefficients.values())},
        }
        optional = {"features": self._features, "groups": self._groups}
        optional["weights"] = factors.table.weights if isinstance(factors.table.weights, np.ndarray) else None
        if self._features is not None:
            optional |= {"feature_mean": self._feature_mean, "feature_scale": self._feature_scale}
        arrays |= {name: value for name, value in optional.items() if value is not None}
        meta = {
            "classes": self.classes_,
            "history": self.history_,
            "converged": self.converged_,
            "n_features_in": self.n_features_in_,
            "n_channels": self._n_channels,
            "flat": bool(self._flat),
            "weight": None if isinstance(factors.table.weights, np.ndarray) else float(factors.table.weights),
            "noise": fusion.noise,
            "threshold": self._novelty_threshold,
            "tasks": self._tasks,
            "task_names": list(fusion.task_coefficients),
            "learned": type(fusion.aggregator).__name__,
            "frame_columns": self.__dict__.get("frame_columns_"),
        }
        persistence.save(path, "CFEnsemble", params, arrays, meta)

    @classmethod
    def _from_saved(cls, saved: persistence.Saved) -> Any:
        model: Any = cls(**saved.params)
        meta = saved.meta
        V = saved.array("classifier_factors", (None, None))
        m, width = V.shape
        U = saved.array("row_factors", (None, width))
        targets = saved.array("targets", (len(U), m))
        weights = saved.array("weights", (len(U), m)) if meta["weight"] is None else float(meta["weight"])
        model.classes_, model.n_features_in_ = meta["classes"], meta["n_features_in"]
        model.history_, model.converged_, model.n_iter_ = meta["history"], meta["converged"], len(meta["history"])
        model._n_channels, model._flat, model._tasks = meta["n_channels"], meta["flat"], meta["tasks"]
        if meta.get("frame_columns") is not None:
            model.frame_columns_ = meta["frame_columns"]
        model._y = saved.array("y", (len(U) // model._n_channels,))
        model._features = saved.arrays.get("features")
        model._groups = saved.arrays.get("groups")
        model._n_features = 0
        if model._features is not None:
            model._n_features = model._features.shape[1]
            model._feature_mean = saved.array("feature_mean", (model._n_features,))
            model._feature_scale = saved.array("feature_scale", (model._n_features,))
        model._rank = width - 1 - model._n_channels * (1 + model._n_features)
        model._factors = FusionFactors(
            model._columns(),
            model._scale(),
            model.reg,
            V,
            U,
            Table(targets, weights),
            np.tile(np.arange(model._n_channels), len(U) // model._n_channels),
            without_labels(model._confidence(len(U), m)),
            saved.array("mean_weights", (m,)),
            thread_count(model.n_threads),
        )
        model._fusion = _fusion(model, saved)
        model.novelty_, model._novelty_threshold = saved.array("novelty", model._y.shape), meta["threshold"]
        model._proba = saved.array("probabilities", (len(model._y), len(model.classes_)))
        model._fit_stacker()
        return model


def _fusion(model: Any, saved: persistence.Saved) -> Fusion:
    mean = saved.meta["learned"] == "MeanAggregator"
    aggregator = make_aggregator("mean" if mean else model.aggregator, model.shrinkage, model._factors.scale.shift != 0)
    state = {n.removeprefix(STATE): array for n, array in saved.arrays.items() if n.startswith(STATE)}
    aggregator.restore(state)
    names = saved.meta["task_names"]
    tasks = {name: saved.array(f"{TASK}{k}") for k, name in enumerate(names)}
    shifts = saved.array("shifts", (model._n_channels,))
    return Fusion(model._form(), model._n_channels, aggregator, shifts, saved.meta["noise"], tasks)


def _weights_to_json(weights: cell_weights.CellWeights) -> dict[str, Any]:
    values = {field.name: getattr(weights, field.name) for field in fields(weights)}  # type: ignore[arg-type]
    return {"kind": type(weights).__name__, **values}


def _weights_from_json(stored: dict[str, Any]) -> cell_weights.CellWeights:
    known = {kind.__name__: kind for kind in cell_weights.CellWeights.__subclasses__()}
    values = dict(stored)
    kind = values.pop("kind")
    if kind not in known:
        raise ValueError(f"confidence of kind {kind!r} is not known")
    weights: cell_weights.CellWeights = known[kind](**values)
    return weights


persistence.register_codec(cell_weights.CellWeights, "cell_weights", _weights_to_json, _weights_from_json)
