"""A fitted CFEnsembleCV as one model file, and back. Knows files through `persistence` alone; learns nothing."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from halfstep.data import files as persistence
from halfstep.ensemble.family.zoo import make_members, make_views

VIEW = "view."
MEMBER = "member."


class CVStoringMixin:
    """`save` and what `halfstep.load` calls."""

    def save(self: Any, path: str | os.PathLike[str]) -> None:
        """Write parameters, views, members and answers as one safetensors file; `halfstep.load` reads it back.

        Members of `estimators` cannot be written: files hold no code.
        """
        check_is_fitted(self, "classes_")
        if self.estimators:
            raise ValueError(
                f"estimators={[name for name, _ in self.estimators]} cannot be held by a model file; fit without them "
                "to save, or pickle the estimator yourself"
            )
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in ("random_state", "estimators")}
        params |= {"ranks": [int(rank) for rank in self.ranks], "links": list(self.links)}
        if isinstance(self.random_state, int | np.integer):
            params["random_state"] = int(self.random_state)
        arrays = {
            "weights": self.weights_,
            "calibration": self._calibration,
            "probabilities": self._proba,
            "uncertainty": self.uncertainty_,
            **_flat(VIEW, [view.arrays() for view in self._views.values()]),
            **_flat(MEMBER, [member.arrays() for member in self._members]),
        }
        meta = {
            "classes": self.classes_,
            "n_features_in": self.n_features_in_,
            "n_classifiers": self._m,
            "n_channels": self._n_channels,
            "n_labels": self._n_labels,
            "views": list(self._views),
            "members": self.members_,
            "log_loss": self.log_loss_,
        }
        persistence.save(path, "CFEnsembleCV", params, arrays, meta)

    @classmethod
    def _from_saved(cls, saved: persistence.Saved) -> Any:
        model: Any = cls(**saved.params)
        meta = saved.meta
        model.classes_, model.n_features_in_ = meta["classes"], meta["n_features_in"]
        model._m, model._n_channels = meta["n_classifiers"], meta["n_channels"]
        model._n_labels = meta["n_labels"]
        known = {view.name: view for view in make_views(model.ranks, model.links, model._m)}
        unknown = set(meta["views"]) - set(known)
        if unknown:
            raise persistence.ModelFileError(f"{saved.path}: the views {sorted(unknown)} are not known")
        model._views = {name: known[name] for name in meta["views"]}
        for k, view in enumerate(model._views.values()):
            view.restore(_nested(f"{VIEW}{k}.", saved))
        model._members = make_members(list(model._views.values()), model._n_labels)
        for k, member in enumerate(model._members):
            member.restore(_nested(f"{MEMBER}{k}.", saved))
        model.weights_ = saved.array("weights", (len(model._members),))
        model._calibration = saved.array("calibration", (model._n_channels + 1,))
        model._proba = saved.array("probabilities", (None, len(model.classes_)))
        model.uncertainty_ = saved.array("uncertainty", (len(model._proba),))
        model.members_, model.log_loss_ = meta["members"], meta["log_loss"]
        return model


def _flat(prefix: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{prefix}{k}.{name}": array for k, part in enumerate(parts) for name, array in part.items()}


def _nested(prefix: str, saved: persistence.Saved) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in saved.arrays.items() if name.startswith(prefix)}
