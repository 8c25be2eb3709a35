"""Names of a package that are imported when they are first asked for. Knows nothing of the rest."""

from __future__ import annotations

import importlib
from collections.abc import Callable


def later(package: str, **homes: str) -> Callable[[str], object]:
    """The `__getattr__` of a package. homes : the module of each name."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find
