"""halfstep: alternating minimisation of matrices. Fix one side, solve the other, exactly and fast."""

from __future__ import annotations

import importlib
from typing import Any

from halfstep.figures import hook

__version__ = "0.1.0"

# Public names and where they live; imported when first used, so that `import halfstep` stays quick.
_NAMES = {
    "CFEnsemble": "halfstep.ensemble",
    "CFEnsembleCV": "halfstep.ensemble",
    "PLQMF": "halfstep.models.plqmf",
    "WALS": "halfstep.models.wals",
    "load": "halfstep.kinds",
    "show_config": "halfstep.config",
}
_MODULES = ("baselines", "datasets", "engine", "evaluate", "losses", "metrics", "weights")

__all__ = ["__version__", *_NAMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"halfstep.{name}")
    raise AttributeError(f"module 'halfstep' has no attribute {name!r}")


def _write_report(*model_and_path: Any, **options: Any) -> Any:
    return importlib.import_module("halfstep.apps.report").write_report(*model_and_path, **options)


hook.write = _write_report  # so that `model.report(path)` reaches the pages, which stand above the models


def __dir__() -> list[str]:
    return sorted(__all__)
