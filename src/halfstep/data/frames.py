"""Columns out of any frame: pandas, polars (eager or lazy), pyarrow, through narwhals.

Must not know models, nor row numbers: `ids.encode` turns ids into those. `columns.py` says which column is which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from halfstep.data.columns import choose_columns, detect


class InteractionColumns(NamedTuple):
    """Interactions as columns of equal length n.

    users, items : columns, ready for `ids.encode`. weights : float32 or float64 array, finite, or None where the frame
    has none. names : the column that was taken for each role.
    """

    users: nw.Series[Any]
    items: nw.Series[Any]
    weights: NDArray[Any] | None
    names: dict[str, str]


def is_frame(obj: object) -> bool:
    """Whether `obj` is a data frame that narwhals reads, eager or lazy."""
    try:
        return isinstance(nw.from_native(obj, pass_through=True), nw.DataFrame | nw.LazyFrame)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"a frame has several columns of one name; rename or drop them. {error}") from None


def interactions_from_frame(
    frame: Any,
    user: str | None = None,
    item: str | None = None,
    weight: str | Literal[False] | None = None,
) -> InteractionColumns:
    """Pick the columns of an interaction table with n rows.

    A column is named by its argument, or detected from common names (`columns.RECOGNISED`; case and marks do not
    matter). `weight=False` leaves one out that would be detected. Of a lazy frame only these columns are collected.
    """
    table = _table(frame, "frame")
    names = choose_columns({"user": user, "item": item, "weight": weight}, table.collect_schema().names())
    eager = _collect(table.select(list(names.values())))
    weights = weights_of(eager[names["weight"]]) if "weight" in names else None
    return InteractionColumns(eager[names["user"]], eager[names["item"]], weights, names)


def pairs_from(X: Any) -> tuple[Any, Any]:
    """The two columns of (user, item) pairs, ids of any kind.

    X : array or list of shape (n, 2), user first; or a frame. In a frame, columns with recognised names are
    taken by name. Otherwise the frame must have exactly two columns, user first.
    """
    if is_frame(X):
        table = _table(X, "X")
        found = table.collect_schema().names()
        chosen = [detect("user", found), detect("item", found)]
        if None in chosen:
            if len(found) != 2:
                raise ValueError(
                    f"X must have two columns, user and item, or columns with such names; it has {found}: "
                    "pass X[[user_column, item_column]]"
                )
            chosen = found
        eager = _collect(table.select(chosen))
        return eager[chosen[0]].to_native(), eager[chosen[1]].to_native()
    if hasattr(X, "tocsr"):
        raise TypeError(
            f"X must be (user, item) pairs of shape (n, 2), got a sparse matrix of shape {X.shape}; "
            "pass np.column_stack([M.row, M.col]) of its COO form M as X and M.data as y"
        )
    # as objects, so that numpy does not turn the numbers of mixed pairs into text
    array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"X must be (user, item) pairs of shape (n, 2), or a frame with two columns; got shape {array.shape}"
        )
    return np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])


def _table(frame: Any, argument: str) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    if not is_frame(frame):
        raise TypeError(f"{argument} must be a data frame (pandas, polars, pyarrow), got {type(frame).__name__}")
    table: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(frame)
    return table


def _collect(table: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    return table.collect() if isinstance(table, nw.LazyFrame) else table


def weights_of(series: nw.Series[Any], where: Callable[[int], str] = "row {}".format) -> NDArray[Any]:
    """A column of weights as float32 or float64, all of them finite. where : what an error calls a row."""
    if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        raise TypeError(
            f"column {series.name!r} was taken as the weight but holds {series.dtype}, not numbers; "
            "pass weight= with a numeric column, or weight=False for none"
        )
    missing = series.is_null().to_numpy()
    if not missing.any():
        values = series.cast(nw.Float32 if series.dtype == nw.Float32 else nw.Float64).to_numpy()
        missing = ~np.isfinite(values)
    if missing.any():
        raise ValueError(
            f"{np.count_nonzero(missing)} of {len(missing)} weights in column {series.name!r} are missing or "
            f"not finite, the first at {where(int(np.argmax(missing)))}; drop those rows or fill them"
        )
    return values
