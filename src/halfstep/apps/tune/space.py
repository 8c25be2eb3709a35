"""Where a search looks, and what may be done to weights before a fit. Knows the estimator, not the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.estimators import BaseEstimator
from halfstep.errors import one_of
from halfstep.models.wals import WALS

TRANSFORMS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "given": lambda w: w,
    "sqrt": np.sqrt,
    "log": np.log1p,
    "binary": np.ones_like,
}
"""What may be done to weights before the fit, by name; "log" is log(1 + w)."""

SPACE: dict[str, Any] = {
    "rank": (8, 128),
    "background": (1e-3, 1.0),
    "reg": (1e-4, 10.0),
    "reg_scaling": (0.0, 1.0),
    "weights": list(TRANSFORMS),
}
"""Where the search looks. A pair is a range (whole numbers for `rank`), a list is a choice.

`rank`, `background` and `reg` are drawn evenly in their logarithm.
"""

_LOGARITHMIC = ("rank", "background", "reg")


class Reweighted(BaseEstimator):
    """A ranker that transforms weights, then hands them to `model`; new users' weights alike."""

    def __init__(self, model: WALS, weights: str = "given") -> None:
        self.model = model
        self.weights = weights

    def fit(self, matrix: Any, y: Any = None) -> Self:
        self.model.fit(transformed(matrix, self.weights))
        return self

    def rank_items(self, seen: Any, n: int, rows: NDArray[Any] | None = None) -> NDArray[np.int32]:
        return self.model.rank_items(transformed(seen, self.weights), n, rows)


def transformed(data: Any, weights: str) -> Any:
    """A sparse matrix or `Interactions` with its weights transformed."""
    one_of("weights", weights, TRANSFORMS)
    if hasattr(data, "matrix"):
        return replace(data, matrix=transformed(data.matrix, weights))
    cells = sp.csr_array(data)
    return sp.csr_array((TRANSFORMS[weights](cells.data), cells.indices, cells.indptr), cells.shape)


def space_for(changes: Mapping[str, Any] | None, matrix: Any) -> dict[str, Any]:
    """The space for these data: no rank above the smaller side, no transforms of weights that are all alike."""
    for name in changes or {}:
        one_of("space", name, SPACE)
    space = dict(SPACE)
    most = max(1, min(matrix.shape) - 1)
    space["rank"] = (min(SPACE["rank"][0], most), min(SPACE["rank"][1], most))
    if matrix.nnz and matrix.data.min() == matrix.data.max():
        space["weights"] = ["given"]
    space |= dict(changes or {})
    for name in space["weights"] if isinstance(space["weights"], list) else [space["weights"]]:
        one_of("space['weights']", name, TRANSFORMS)
    return space


def suggest(trial: Any, name: str, spec: Any) -> Any:
    """A value of one parameter, drawn by an Optuna trial: of a range, of a choice, or the one value it is fixed to."""
    if isinstance(spec, tuple):
        low, high = spec
        log = name in _LOGARITHMIC and low > 0
        whole = name == "rank"
        return (trial.suggest_int if whole else trial.suggest_float)(name, low, high, log=log)
    choices: Sequence[Any] = spec if isinstance(spec, list) else [spec]
    return trial.suggest_categorical(name, choices)
