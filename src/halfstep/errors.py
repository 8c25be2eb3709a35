"""Errors that say what to do, and optional packages that say how to get them. Knows nothing of the rest."""

from __future__ import annotations

import difflib
import importlib
import math
import sys
import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np


class UnknownIdError(KeyError):
    """An id that the model has never seen. `suggestions` holds close matches."""

    def __init__(self, message: str, suggestions: list[Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.suggestions = suggestions or []

    def __str__(self) -> str:  # KeyError quotes its argument, which reads badly
        return self.message


class UnknownIdWarning(UserWarning):
    """Ids that a fit has not seen, answered by what is known of the rest."""


def level_of_caller() -> int:
    """The `stacklevel` at which a warning names the line of whoever called into halfstep, however deep it arises."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    return level


def warn_of_convergence(text: str) -> None:
    """scikit-learn's `ConvergenceWarning` at the line of whoever called into halfstep."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(text, ConvergenceWarning, stacklevel=level_of_caller())


class CheckpointError(ValueError):
    """A place that does not hold checkpoints of this fit."""


class RowError(ArithmeticError):
    """A row problem without a finite solution; the text names the row."""


def close_matches(wanted: object, known: Iterable[object], n: int = 3) -> list[Any]:
    """Up to `n` of the `known` values whose text is nearest to that of `wanted`, best first, case ignored."""
    by_text: dict[str, Any] = {}
    for value in known:
        by_text.setdefault(str(value).casefold(), value)
    return [by_text[text] for text in difflib.get_close_matches(str(wanted).casefold(), by_text, n, 0.6)]


def did_you_mean(near: Sequence[object]) -> str:
    """The end of an error text: a question about what is near, or nothing."""
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def one_of(name: str, value: object, allowed: Iterable[object], what: str = "is not known; it must be one of") -> None:
    """Raise unless `value` is one of `allowed`. `what` says in the error what these are."""
    allowed = list(allowed)
    if value not in allowed:
        raise ValueError(f"{name}={value!r} {what} {allowed}.{did_you_mean(close_matches(value, allowed, 1))}")


def require(module: str, extra: str) -> Any:
    """Import an optional module, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs {module}, which is not installed; `pip install 'halfstep[{extra}]'` brings it"
        ) from error


def check_number(
    name: str, value: object, *, at_least: float | None = None, above: float | None = None, whole: bool = False
) -> None:
    """Raise unless `value` is a finite number (a whole one where asked) within its bound."""
    kind = "whole number" if whole else "finite number"
    bound = f" of at least {at_least}" if at_least is not None else f" above {above}" if above is not None else ""
    numeric = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    try:
        number = float(value) if numeric else math.nan  # type: ignore[arg-type]
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    fits = math.isfinite(number) and (at_least is None or number >= at_least) and (above is None or number > above)
    if not fits:
        raise ValueError(f"{name}={value!r} must be a {kind}{bound}.")


def expect_plain(name: str, values: Any) -> None:
    """Raise for numbers that lose a part of them as floats: complex ones, times, and masked ones."""
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind == "c":
        raise TypeError(f"{name} holds complex numbers; it must hold real ones. Pass their real or absolute values.")
    if kind in ("m", "M"):
        raise TypeError(f"{name} holds times ({values.dtype}); it must hold numbers. Say in which unit: pass numbers.")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise TypeError(f"{name} has masked values, which would count as if they were not; pass {name}.filled(...).")


def expect_sound(name: str, matrix: Any) -> None:
    """Raise for a scipy matrix whose places lie outside it: scipy follows them out of its memory."""
    if matrix.ndim != 2:
        raise ValueError(f"{name} is a sparse array of {matrix.ndim} dimensions; it must have two.")
    try:
        if matrix.format == "coo":  # `check_format` of scipy is for the compressed ones alone
            sound = all(
                len(p) == len(matrix.data) and _within(p, n) for p, n in zip(matrix.coords, matrix.shape, strict=True)
            )
        elif matrix.format == "lil":
            sound = all(_within(np.asarray(row, np.int64), matrix.shape[1]) for row in matrix.rows)
        elif hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
            ends = matrix.indptr  # no look at them where the last is not above 0
            sound = bool((ends[1:] >= ends[:-1]).all()) and ends[0] == 0
        else:
            sound = True
    except (ValueError, IndexError, TypeError, OverflowError):
        sound = False
    if not sound:
        raise ValueError(
            f"{name} is no sound sparse matrix: its index arrays lead outside its shape {matrix.shape}. "
            "Build it again from rows, columns and values."
        )


def _within(places: Any, n: int) -> bool:
    return not len(places) or bool(places.min() >= 0 and places.max() < n)
