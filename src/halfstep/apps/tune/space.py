"""Where a search looks. Knows parameters, not the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from halfstep.core.weighting import WEIGHTINGS
from halfstep.errors import one_of

SPACE: dict[str, Any] = {
    "rank": (8, 128),
    "background": (1e-3, 1.0),
    "reg": (1e-4, 10.0),
    "reg_scaling": (0.0, 1.0),
    "weights": ["given", "sqrt", "log", "binary"],
}
"""Where the search looks. A pair is a range (whole numbers for `rank`), a list is a choice.

`rank`, `background` and `reg` are drawn evenly in their logarithm; `weights` is the `weighting` of WALS.
"""

_LOGARITHMIC = ("rank", "background", "reg", "reg_times", "reg_bias_times")


def space_for(changes: Mapping[str, Any] | None, matrix: Any, rank: int) -> dict[str, Any]:
    """The space for these data: ranks up to the one that `WALS()` would take, no rank above the smaller side, no
    transforms of weights that are all alike."""
    for name in changes or {}:
        one_of("space", name, SPACE)
    space = dict(SPACE)
    most = max(1, min(matrix.shape) - 1)
    space["rank"] = (min(SPACE["rank"][0], most), min(max(SPACE["rank"][1], rank), most))
    if matrix.nnz and matrix.data.min() == matrix.data.max():
        space["weights"] = ["given"]
    space |= dict(changes or {})
    for name in space["weights"] if isinstance(space["weights"], list) else [space["weights"]]:
        one_of("space['weights']", name, WEIGHTINGS)
    return space


def within(space: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The nearest setting that the space has."""

    def nearest(spec: Any, value: Any) -> Any:
        if isinstance(spec, tuple):
            return min(max(value, spec[0]), spec[1])
        choices = spec if isinstance(spec, list) else [spec]
        return value if value in choices else choices[0]

    return {name: nearest(spec, params[name]) for name, spec in space.items()}


def suggest(trial: Any, name: str, spec: Any) -> Any:
    """A value of one parameter, drawn by an Optuna trial: of a range, of a choice, or the one value it is fixed to."""
    if isinstance(spec, tuple):
        low, high = spec
        log = name in _LOGARITHMIC and low > 0
        whole = name == "rank"
        return (trial.suggest_int if whole else trial.suggest_float)(name, low, high, log=log)
    choices: Sequence[Any] = spec if isinstance(spec, list) else [spec]
    return trial.suggest_categorical(name, choices)
