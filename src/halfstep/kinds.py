"""Which estimator a model file holds, and `load`. Stands above the estimators and below what people touch.

A new kind of model that can be saved is one line here.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from halfstep.data.files import ModelFileError, read

ESTIMATORS: dict[str, str] = {
    "WALS": "halfstep.models.wals:WALS",
    "ItemGraph": "halfstep.models.item_graph:ItemGraph",
    "Blend": "halfstep.models.blend:Blend",
    "EASE": "halfstep.models.ease:EASE",
    "ItemKNN": "halfstep.models.baselines:ItemKNN",
    "Popularity": "halfstep.models.baselines:Popularity",
    "PLQMF": "halfstep.models.plqmf:PLQMF",
    "BayesMF": "halfstep.models.bayes:BayesMF",
    "Constant": "halfstep.models.rating_baselines:Constant",
    "Biases": "halfstep.models.rating_baselines:Biases",
    "CFEnsemble": "halfstep.ensemble:CFEnsemble",
    "CFEnsembleCV": "halfstep.ensemble:CFEnsembleCV",
}


def load(path: str | os.PathLike[str], mmap: bool = False) -> Any:
    """Any saved model back, as the estimator that saved it. `mmap=True` lets processes share its arrays."""
    saved = read(path, mmap=mmap)
    if saved.kind not in ESTIMATORS:
        raise ModelFileError(f"{saved.path} holds a {saved.kind!r}; known estimators are {list(ESTIMATORS)}")
    module, name = ESTIMATORS[saved.kind].split(":")
    with saved.blamed():
        model = getattr(importlib.import_module(module), name).from_saved(saved)
    if saved.backing is not None:
        model.backing_ = saved.backing
    return model
