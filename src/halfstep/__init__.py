"""halfstep: alternating minimisation of matrices. Fix one side, solve the other, exactly and fast."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from halfstep._version import __version__

__all__ = [
    "BayesMF",
    "Blend",
    "CFEnsemble",
    "CFEnsembleCV",
    "FusionClassifier",
    "EASE",
    "Features",
    "ItemGraph",
    "ItemRules",
    "PLQMF",
    "Shift",
    "WALS",
    "__version__",
    "baselines",
    "cross_validate",
    "datasets",
    "engine",
    "evaluate",
    "load",
    "losses",
    "metrics",
    "out_of_fold",
    "show_config",
    "tune",
    "weighting",
    "weights",
]

# Type checkers see plain imports. Python imports a name when it is first used, so that `import halfstep` stays quick.
if TYPE_CHECKING:
    from halfstep import baselines, datasets, engine, evaluate, losses, metrics, tune, weighting, weights
    from halfstep.config import show_config
    from halfstep.data.features import Features
    from halfstep.ensemble import CFEnsemble, CFEnsembleCV, FusionClassifier, Shift, out_of_fold
    from halfstep.judge import cross_validate
    from halfstep.kinds import load
    from halfstep.models.bayes import BayesMF
    from halfstep.models.blend import Blend
    from halfstep.models.ease import EASE
    from halfstep.models.item_graph import ItemGraph
    from halfstep.models.plqmf import PLQMF
    from halfstep.models.rules import ItemRules
    from halfstep.models.wals import WALS
else:
    _HOMES = {  # of the names that are no modules
        "BayesMF": "halfstep.models.bayes",
        "Blend": "halfstep.models.blend",
        "CFEnsemble": "halfstep.ensemble",
        "CFEnsembleCV": "halfstep.ensemble",
        "FusionClassifier": "halfstep.ensemble",
        "EASE": "halfstep.models.ease",
        "Features": "halfstep.data.features",
        "ItemGraph": "halfstep.models.item_graph",
        "ItemRules": "halfstep.models.rules",
        "PLQMF": "halfstep.models.plqmf",
        "Shift": "halfstep.ensemble",
        "WALS": "halfstep.models.wals",
        "cross_validate": "halfstep.judge",
        "load": "halfstep.kinds",
        "out_of_fold": "halfstep.ensemble",
        "show_config": "halfstep.config",
    }

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        if name in __all__:
            return importlib.import_module(f"halfstep.{name}")
        raise AttributeError(f"module 'halfstep' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)

    def _write_report(*model_and_path: Any, **options: Any) -> Any:
        return importlib.import_module("halfstep.apps.report").write_report(*model_and_path, **options)

    # So that `model.report(path)` reaches the pages, which stand above the models.
    importlib.import_module("halfstep.figures.hook").write = _write_report
