"""Values of a column of features, read as numbers, as text or as lists. Must not know what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.data.plain_ids import is_null

Values = Sequence[Any] | NDArray[Any]  # one for each row; None, NaN and their kin where there is none
Table = Mapping[str, Values]

FARTHEST = 1e30
"""What a feature may come to, and a number that features are made of: beyond it float32 cannot hold what they weigh."""


def as_numbers(column: str, values: Values) -> NDArray[np.float64]:
    """float64 with NaN where missing; what is no number, or beyond `FARTHEST`, raises."""
    array = values if isinstance(values, np.ndarray) and values.dtype.kind in "fiu" else None
    if array is None:
        wrong = next((value for value in values if not is_null(value) and not is_number(value)), None)
        if wrong is not None:
            raise TypeError(f"column {column!r} holds numbers, and {wrong!r} is none")
        array = np.array([np.nan if is_null(value) else _as_float(value) for value in values])
    return bounded(column, array.astype(np.float64))


def bounded(column: str, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same numbers, none of them beyond `FARTHEST`."""
    beyond = np.abs(numbers) > FARTHEST
    if beyond.any():
        row = int(np.argmax(beyond))
        what = "infinite" if np.isinf(numbers[row]) else f"beyond all bounds ({numbers[row]:.3g})"
        raise ValueError(f"column {column!r} is {what} in row {row}; leave it empty where it is not known")
    return np.asarray(numbers)


def as_texts(column: str, values: Values) -> list[str | None]:
    """Categories as text, None where missing; a list raises."""
    wrong = next((value for value in values if is_list(value)), None)
    if wrong is not None:
        raise TypeError(f"column {column!r} holds categories, and {wrong!r} is a list; give one value")
    return [None if is_absent(value) else _text(value) for value in values]


def as_lists(column: str, values: Values, separator: str | None) -> list[list[str]]:
    """Lists of text, empty where missing; text is split where a separator is given. Anything else raises."""
    if separator is not None:
        values = [value.split(separator) if is_text(value) else value for value in values]
    wrong = next((value for value in values if not is_absent(value) and not is_list(value)), None)
    if wrong is not None:
        raise TypeError(
            f"column {column!r} holds lists, and {wrong!r} is none; give a list, or say what separates the elements: "
            f'lists={{{column!r}: "|"}}'
        )
    return [
        [] if is_absent(value) else [_text(element).strip() for element in value if not is_absent(element)]
        for value in values
    ]


def joined(columns: Iterable[str], table: Table) -> list[str]:
    """One text for each row: its text columns, and the elements of those that are lists, one after the other."""
    parts = [
        ["\n".join(one) for one in as_lists(name, [[v] if is_text(v) else v for v in table[name]], None)]
        for name in columns
    ]
    return ["\n".join(row) for row in zip(*parts, strict=True)]


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats
        return np.inf


def _text(value: Any) -> str:
    """A category as text: 25.0, which a column of integers with a gap becomes in some libraries, is "25"."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def is_absent(value: Any) -> bool:
    """Nothing: null, NaN or the empty text."""
    return not is_list(value) and (is_null(value) or (isinstance(value, str) and not value))


def is_flag(value: Any) -> bool:
    """True or false."""
    return isinstance(value, bool | np.bool_)


def is_number(value: Any) -> bool:
    """A number, and no flag."""
    return isinstance(value, int | float | np.integer | np.floating) and not is_flag(value)


def is_list(value: Any) -> bool:
    """Several values."""
    return isinstance(value, list | tuple | set | frozenset | np.ndarray)


def is_text(value: Any) -> bool:
    """Text."""
    return isinstance(value, str)
