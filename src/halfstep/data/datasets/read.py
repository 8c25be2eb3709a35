"""`read_interactions`: your own table, from a file, a frame or a database, to `Interactions`."""

from __future__ import annotations

from typing import Any

from halfstep.data.columns import choose_columns
from halfstep.errors import one_of

from ._assemble import DUPLICATES, assemble
from ._sources import read_columns
from .interactions import Interactions


def read_interactions(
    path_or_frame: Any,
    user: Any = None,
    item: Any = None,
    weight: Any = None,
    timestamp: Any = None,
    *,
    duplicates: str = "sum",
    delimiter: str | None = None,
    name: str | None = None,
    source: str = "",
    licence: str = "",
    engine: str | None = None,
) -> Interactions:
    """Rows of (user, item[, weight][, timestamp]) to a users x items matrix.

    Parameters
    ----------
    path_or_frame : a CSV or TSV file (also .gz or alone in a .zip), a Parquet (.parquet, .pq) or Arrow IPC
        file (.arrow, .feather, .ipc); a pandas, polars, pyarrow or DuckDB table; a dict of columns; a DB-API
        cursor, (rows, description), or any iterable of tuples or mappings.
    user, item, weight, timestamp : column names, or positions for rows without names. None takes a column
        with a common name (user_id, movieId, rating, clicks, ...); rows without names are taken in this
        order. `report["columns"]` says what was taken for what. False takes no weight or timestamp column.
    duplicates : what becomes of a pair that comes more than once: "sum", "mean", "max", "last" (by timestamp
        where there is one, else by row), "count" (how often it comes; the weight column is not used), or
        "error".
    delimiter : for text files; None guesses from the file name and the first line.
    engine : "arrow" or "python" for text files; None chooses by size. The result is the same.

    Returns
    -------
    Interactions. Weights are 1 where there is no weight column. Ids are int64 where all are plain whole
    numbers, so "007" stays text; they are sorted. Timestamps are seconds since 1970, dates and ISO 8601 text
    converted. Rows without an id, a finite weight or a timestamp are left out, counted in `report`, and
    mentioned in a warning.
    """
    one_of("duplicates", duplicates, DUPLICATES)
    one_of("engine", engine, [None, "arrow", "python"])
    given = {"user": user, "item": item, "weight": weight, "timestamp": timestamp}
    columns, report, called = read_columns(
        path_or_frame, lambda names: choose_columns(given, names), delimiter=delimiter, engine=engine
    )
    if duplicates == "count":
        report["columns"].pop("weight", None)
    return assemble(
        columns["user"],
        columns["item"],
        columns.get("weight"),
        columns.get("timestamp"),
        duplicates=duplicates,
        name=name or called,
        source=source or called,
        licence=licence,
        report=report,
    )
