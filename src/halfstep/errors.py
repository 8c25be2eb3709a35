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
