"""What people call rows: ids, and titles where a model has them. Finds rows by either; knows no factors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.data.ids import Index
from halfstep.errors import UnknownIdError, close_matches


def rows_by_name(index: Index, labels: NDArray[Any] | None, given: Iterable[Any]) -> NDArray[np.int64]:
    """Row numbers of rows given by id or, where there are labels, by label (case does not matter). Ids come first.

    An unknown name raises with close matches, and so does a label that several rows have.
    """
    if isinstance(given, str):
        raise TypeError(f"{given!r} is one name where a list is expected; write [{given!r}].")
    wanted: Any = given if hasattr(given, "__array__") else list(given)
    if labels is None:
        return index.positions(wanted)
    try:
        found = index.find(wanted)
    except (TypeError, ValueError):  # texts beside numbers
        found = np.full(len(wanted), -1, np.int64)
    missing = np.flatnonzero(found < 0)
    if len(missing):
        rows, names = _rows_of_labels(labels), list(wanted)
        for k in missing:
            found[k] = _row(names[k], rows, index, labels)
    return found


def _rows_of_labels(labels: NDArray[Any]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(str(label).casefold(), []).append(row)
    return rows


def _row(wanted: Any, rows: dict[str, list[int]], index: Index, labels: NDArray[Any]) -> int:
    these = rows.get(str(wanted).casefold(), [])
    if len(these) == 1:
        return these[0]
    side = index.name or "row"
    if these:
        ids = index.take(these[:3]).tolist()
        raise UnknownIdError(f"{side} {wanted!r} is the label of {len(these)} {side}s; give an id, such as {ids}.", ids)
    near = close_labels(wanted, labels)
    hint = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
    raise UnknownIdError(f"{side} {wanted!r} is neither an id nor a label of this model.{hint}", near)


def close_labels(wanted: Any, labels: Iterable[Any]) -> list[Any]:
    """Up to three labels near to `wanted` as a whole; failing that, that contain it; failing that, with a near word."""
    labels = list(labels)
    near = close_matches(wanted, labels)
    if near:
        return near
    text = str(wanted).casefold()
    holding = sorted((label for label in labels if text in str(label).casefold()), key=lambda label: len(str(label)))
    if holding:
        return holding[:3]
    by_word: dict[str, list[Any]] = {}
    for label in labels:
        for word in str(label).casefold().split():
            by_word.setdefault(word.strip("(),.:;"), []).append(label)
    return [label for word in close_matches(wanted, by_word, 1) for label in by_word[word]][:3]


def labels_of(labels: NDArray[Any] | None, positions: NDArray[Any]) -> NDArray[Any] | None:
    """Labels of rows in the shape of `positions`; None for -1, and None as a whole where there are no labels."""
    if labels is None:
        return None
    taken: NDArray[Any] = labels.astype(object)[positions]
    taken[positions < 0] = None
    return taken
