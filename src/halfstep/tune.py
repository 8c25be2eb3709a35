"""Search for parameters: the public names of `apps.tune`. Called itself, `hs.tune(data)`, it finds a recommender."""

import sys
from types import ModuleType
from typing import Any

from halfstep.apps.tune import *
from halfstep.apps.tune import __all__ as __all__
from halfstep.apps.tune import find_recommender, tune
from halfstep.data.datasets.ratings import Ratings


class _Callable(ModuleType):
    """A module that can be called: rankings by `find_recommender`, ratings by `tune`."""

    def __call__(self, data: Any, seconds: float = 120.0, **options: Any) -> Any:
        if isinstance(data, Ratings):
            return tune(data, timeout=seconds, **options)
        return find_recommender(data, seconds, **options)


sys.modules[__name__].__class__ = _Callable
