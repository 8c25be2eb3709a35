"""What a predicted rating is made of. Knows models by their `predict` alone, so all kinds are taken apart alike."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.errors import UnknownIdWarning


class _Nobody:
    """An id that no model has seen."""


def values_of(model: Any, pairs: NDArray[Any]) -> NDArray[Any]:
    """(N,) predictions; unknown ids count as average ones, without a warning."""
    with warnings.catch_warnings(action="ignore", category=UnknownIdWarning):
        return np.asarray(model.predict(pairs))


def parts_of(model: Any, pairs: NDArray[Any], values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Values (N,) as sums: an average pair, what the user adds to it, what the item adds, and the taste of the two.

    pairs : (N, 2) objects. An average user or item is one that no model has seen.
    """

    def seen(*sides: int) -> NDArray[Any]:
        known = np.empty_like(pairs)
        known[:] = [(_Nobody, _Nobody)] * len(pairs)
        for side in sides:
            known[:, side] = pairs[:, side]
        return values_of(model, known)

    average = seen()
    user, item = seen(0) - average, seen(1) - average
    return {"average": average, "user": user, "item": item, "taste": values - average - user - item}
