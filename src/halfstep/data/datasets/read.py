"""`read_interactions`: your own table, from a file, a frame or a database, to `Interactions`."""

from __future__ import annotations

from typing import Any

from halfstep.data.columns import choose_columns, noun
from halfstep.errors import one_of

from ._assemble import DUPLICATES, assemble
from ._sources import read_columns
from .interactions import Interactions, decay


def read_interactions(
    path_or_frame: Any,
    user: Any = None,
    item: Any = None,
    weight: Any = None,
    timestamp: Any = None,
    *,
    duplicates: str = "sum",
    half_life: float | None = None,
    delimiter: str | None = None,
    name: str | None = None,
    source: str = "",
    licence: str = "",
    engine: str | None = None,
    encoding: str | None = None,
    multiline: bool = False,
) -> Interactions:
    """Rows of (user, item[, weight][, timestamp]) to a users x items matrix.

    Parameters
    ----------
    path_or_frame : a CSV or TSV file (also .gz, .bz2, .xz, .zst or alone in a .zip), JSON lines (.jsonl, .ndjson), a
        Parquet (.parquet, .pq) or Arrow IPC file (.arrow, .feather, .ipc), a scipy sparse matrix (.npz); a pandas,
        polars, pyarrow or DuckDB table; a dict of columns; a DB-API cursor, (rows, description), or any iterable of
        tuples or mappings.
    user, item, weight, timestamp : column names, or positions for rows without names. None takes a column
        with a common name (user_id, movieId, rating, clicks, ...); rows without names are taken in this
        order. `report["columns"]` says what was taken for what, `report["columns_not_used"]` what was not taken. False
        takes no weight or timestamp column.
    duplicates : what becomes of a pair that comes more than once: "sum", "mean", "max", "last" (by timestamp
        where there is one, else by row), "count" (how often it comes; the weight column is not used), or
        "error".
    half_life : days; every row weighs 2^(-age / half_life) of its weight, its age counted from the latest timestamp.
        Needs a timestamp.
    delimiter : for text files; None guesses from the file name and the first line.
    engine : "arrow" or "python" for text files; None chooses by size. The result is the same.
    encoding : of text files; None is UTF-8, or UTF-16 where the file begins with its mark.
    multiline : quoted fields of a text file may hold ends of lines; otherwise one that does is refused as a quote that
        was not closed, since it would swallow all lines up to the next quote.

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
        path_or_frame,
        lambda names: choose_columns(given, names),
        delimiter=delimiter,
        engine=engine,
        encoding=encoding,
        multiline=multiline,
    )
    if duplicates == "count":
        report["columns"].pop("weight", None)
    if half_life is not None:
        columns["weight"] = _decayed(columns, half_life, duplicates)
        report["half_life"] = float(half_life)
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
        nouns=(noun("user", report["columns"]["user"]), noun("item", report["columns"]["item"])),
    )


def _decayed(columns: dict[str, Any], half_life: float, duplicates: str) -> Any:
    """Weights of rows, those long ago less."""
    if columns.get("timestamp") is None:
        raise ValueError("half_life needs a timestamp; name its column by timestamp=.")
    if duplicates == "count":
        raise ValueError("duplicates='count' knows no weights, so half_life has nothing to act on; take 'sum'.")
    share = decay(columns["timestamp"], half_life)
    return share if columns.get("weight") is None else columns["weight"] * share
