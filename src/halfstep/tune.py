"""Search for parameters: the names of `apps.tune`. `hs.tune(data)` finds a recommender, `hs.tune(P, y)` a fusion."""

import sys
from types import ModuleType
from typing import Any

from halfstep.apps.tune import *
from halfstep.apps.tune import __all__ as __all__
from halfstep.apps.tune import find_ensemble, find_recommender, tune
from halfstep.data.datasets.ratings import Ratings


class _Callable(ModuleType):
    """A module that can be called: rankings by `find_recommender`, ratings by `tune`, ensembles by `find_ensemble`."""

    def __call__(self, data: Any, y: Any = None, seconds: float = 120.0, **options: Any) -> Any:
        """y : labels of the predictions `data` of many classifiers; without it, `data` are interactions or ratings."""
        if isinstance(y, int | float):
            y, seconds = None, float(y)
        if y is not None:
            return find_ensemble(data, y, seconds, **options)
        if isinstance(data, Ratings):
            return tune(data, timeout=seconds, **options)
        return find_recommender(data, seconds, **options)


sys.modules[__name__].__class__ = _Callable
