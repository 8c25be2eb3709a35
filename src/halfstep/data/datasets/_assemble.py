"""From coded columns to `Interactions`: rows left out are counted, pairs that come twice are combined.

Must not know where the columns came from.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from halfstep.core.cells import Observations, Values
from halfstep.data.columns import plural
from halfstep.data.ids import encode
from halfstep.data.plain_ids import objects
from halfstep.errors import one_of

from ._columns import Coded, FloatArray
from .about import About
from .interactions import Interactions

DUPLICATES = ("sum", "mean", "max", "count", "last", "error")


class DataWarning(UserWarning):
    """Something in the data was left out or replaced; the text and `Interactions.report` say what."""


def assemble(
    users: Coded,
    items: Coded,
    weights: FloatArray | None = None,
    timestamps: FloatArray | None = None,
    *,
    duplicates: str,
    name: str,
    source: str = "",
    licence: str = "",
    report: dict[str, Any],
    user_labels: Mapping[Any, str] | None = None,
    item_labels: Mapping[Any, str] | None = None,
    about_users: About | None = None,
    about_items: About | None = None,
    nouns: tuple[str, str] = ("user", "item"),
) -> Interactions:
    """One cell for each distinct (user, item) pair.

    Rows without an id, a finite weight or a finite timestamp are left out and counted in `report`. Weights
    default to 1. `duplicates` says what becomes of pairs that come more than once; the cell keeps the latest
    timestamp. Labels map ids to titles; an id without one is its own title and counted as unknown.
    """
    one_of("duplicates", duplicates, DUPLICATES)
    # Counting needs no weights: every row is one.
    values: Values = 1.0 if weights is None or duplicates == "count" else weights
    # What cannot be stored as float32 is as unusable as what is no number.
    usable = np.abs(values) <= np.finfo(np.float32).max
    known = (users.codes >= 0) & (items.codes >= 0)
    timed = np.ones(len(users), np.bool_) if timestamps is None else np.isfinite(timestamps)
    report["rows_without_id"] = int((~known).sum())
    if weights is not None:
        report["rows_without_weight"] = int((known & ~usable).sum())
    if timestamps is not None:
        report["rows_without_timestamp"] = int((known & usable & ~timed).sum())
    keep = known & usable & timed
    if not keep.all():
        users, items = users.rows(keep), items.rows(keep)
        values = values[keep] if isinstance(values, np.ndarray) else values
        timestamps = None if timestamps is None else timestamps[keep]

    user_ids, rows = _encode(users)
    item_ids, columns = _encode(items)
    shape = (len(user_ids), len(item_ids))
    matrix, times, repeated = _cells(rows, columns, values, timestamps, shape, duplicates, user_ids, item_ids)
    report["duplicates"] = repeated
    titles: list[npt.NDArray[Any] | None] = []
    for side, ids, labels in (("users", user_ids, user_labels), ("items", item_ids, item_labels)):
        if labels is None:
            titles.append(None)
            continue
        report[f"{side}_without_label"] = sum(one not in labels for one in ids)
        titles.append(objects([labels.get(one, str(one)) for one in ids]))
    more = (times, name, source, licence, report, about_users, about_items, nouns)
    result = Interactions(matrix, user_ids, item_ids, titles[0], titles[1], *more)
    mention(result)
    return result


def mention(data: Interactions) -> None:
    """Warn once, in one sentence, of everything the report says was left out or replaced."""
    texts = {
        "broken_rows": "{} broken rows left out (wrong number of fields)",
        "rows_without_id": "{} rows without a user or item id left out",
        "rows_without_weight": "{} rows without a finite weight left out",
        "rows_without_timestamp": "{} rows without a readable timestamp left out",
        "unknown_relation_types": "{} rows with an unknown relation type left out",
        "users_without_label": _untitled(data.report.get("users_without_label", 0), data.nouns[0]),
        "items_without_label": _untitled(data.report.get("items_without_label", 0), data.nouns[1]),
        "repeated_labels": "{} ids have more than one title in the files; the last is shown",
    }
    said = [text.format(f"{data.report[key]:,}") for key, text in texts.items() if data.report.get(key)]
    if said:
        warn(f"{data.name}: {'; '.join(said)}. See `report`.")


def _untitled(count: int, noun: str) -> str:
    one = f"{{}} {noun} has no title in the files and shows its id"
    return one if count == 1 else f"{{}} {plural(noun)} have no title in the files and show their id"


def warn(text: str) -> None:
    """A `DataWarning` that points at the first line outside this package."""
    depth = 1
    while sys._getframe(depth).f_globals.get("__name__", "").startswith(f"{__package__}."):
        depth += 1
    warnings.warn(text, DataWarning, stacklevel=depth + 1)


def _encode(column: Coded) -> tuple[npt.NDArray[Any], npt.NDArray[np.integer[Any]]]:
    """The ids and, for each row, the number of its id."""
    column = column.used_only()
    index, order = encode(column.values)
    sorted_already = np.array_equal(order, np.arange(len(order)))
    return np.asarray(index.ids), column.codes if sorted_already else np.asarray(order)[column.codes]


def _cells(
    rows: npt.NDArray[Any],
    columns: npt.NDArray[Any],
    weights: Values,
    times: FloatArray | None,
    shape: tuple[int, int],
    duplicates: str,
    user_ids: npt.NDArray[Any],
    item_ids: npt.NDArray[Any],
) -> tuple[Any, FloatArray | None, int]:
    """The canonical CSR matrix, the timestamps of its cells, and how many rows repeated a pair."""
    if times is not None and duplicates == "last":
        by_time = np.argsort(times, kind="stable")
        rows, columns, times = rows[by_time], columns[by_time], times[by_time]
        weights = weights[by_time] if isinstance(weights, np.ndarray) else weights
    # Sorted in linear time; of a pair that comes twice, the cells stay in their order.
    cells = Observations.from_cells(rows, columns, shape, 0.0 if times is None else times, weights, dtype=np.float64)
    again = cells.repeated
    repeated = int(np.count_nonzero(again))
    if repeated and duplicates == "error":
        at = int(np.argmax(again))
        row = int(np.searchsorted(cells.indptr, at, side="right")) - 1
        raise ValueError(
            f"{repeated} rows repeat a (user, item) pair, the first ({user_ids[row]!r}, "
            f"{item_ids[cells.indices[at]]!r}); duplicates='sum', 'mean', 'max', 'count' or 'last' combines them"
        )
    each, places, indptr = np.broadcast_to(np.asarray(cells.weights), len(cells)), cells.indices, cells.indptr
    latest = None if times is None else np.asarray(cells.targets)
    if repeated:
        starts = np.flatnonzero(~again)
        sizes = np.diff(np.append(starts, len(cells)))
        each = _combine(each, starts, sizes, duplicates)
        latest = None if latest is None else _combine(latest, starts, sizes, "max")
        places, indptr = places[starts], np.searchsorted(starts, indptr)
    matrix = sparse.csr_array((each.astype(np.float32), places, indptr), shape=shape)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix, latest, repeated


def _combine(weights: FloatArray, starts: npt.NDArray[Any], sizes: npt.NDArray[Any], how: str) -> FloatArray:
    """One weight for each run of equal pairs that begins at `starts` and has `sizes` rows."""
    if how == "count":
        return sizes.astype(np.float64)
    if how == "last":
        return np.asarray(weights[starts + sizes - 1])
    if how == "max":
        return np.asarray(np.maximum.reduceat(weights, starts))
    total = np.add.reduceat(weights, starts)
    return np.asarray(total / sizes if how == "mean" else total)
