"""`read_interactions`: your own table, from a file, a frame or a database, to `Interactions`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from halfstep.errors import close_matches, one_of

from ._assemble import DUPLICATES, assemble
from ._sources import read_columns
from .interactions import Interactions

# Names people give such columns, best first. Compared in lower case without blanks, dashes and underscores.
COMMON_NAMES: dict[str, tuple[str, ...]] = {
    "user": (
        "user", "userid", "users", "customer", "customerid", "client", "clientid", "visitor", "visitorid",
        "member", "memberid", "account", "accountid", "session", "sessionid", "reader", "readerid", "uid",
        "occupation", "occupationid", "occupationuri", "onetsoccode", "soccode", "position", "job", "jobid",
    ),
    "item": (
        "item", "itemid", "items", "movie", "movieid", "product", "productid", "article", "articleid", "book",
        "bookid", "isbn", "song", "songid", "track", "trackid", "artist", "artistid", "sku", "asin", "page",
        "content", "contentid", "iid", "skill", "skillid", "skilluri", "technology", "activity", "task",
        "taskid",
    ),
    "weight": (
        "weight", "rating", "score", "stars", "importance", "count", "counts", "clicks", "views", "plays",
        "playcount", "listens", "purchases", "quantity", "value", "confidence", "datavalue", "strength",
    ),
    "timestamp": ("timestamp", "time", "datetime", "date", "unixtime", "createdat", "eventtime", "ts"),
}  # fmt: skip


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
        path_or_frame, lambda names: choose_columns(names, given), delimiter=delimiter, engine=engine
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


def choose_columns(names: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Role to column name: those given, and for the others the first common name that is there.

    A role whose given value is False has no column. `user` and `item` must be found, `weight` and `timestamp`
    need not be.
    """
    chosen: dict[str, Any] = {}
    for role, wanted in given.items():
        if wanted is None or wanted is False:
            continue
        if wanted not in names:
            near = close_matches(wanted, names, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{role}={wanted!r} is not a column; the columns are {list(names)}.{hint}")
        chosen[role] = wanted
    without_names = all(isinstance(one, int) for one in names)
    for place, (role, wanted) in enumerate(given.items()):
        if wanted is not None:
            continue
        free = [one for one in names if one not in chosen.values()]
        if without_names:
            found = [place] if place in free else []
        else:
            plain = {re.sub(r"[^a-z0-9]", "", str(one).lower()): one for one in reversed(free)}
            found = [plain[common] for common in COMMON_NAMES[role] if common in plain]
        if found:
            chosen[role] = found[0]
        elif role in ("user", "item"):
            raise ValueError(f"no column looks like the {role}; the columns are {list(names)}. Say which: {role}='...'")
    if chosen["user"] == chosen["item"]:
        raise ValueError(f"user and item are both {chosen['user']!r}; they must be two columns")
    return {role: chosen[role] for role in given if role in chosen}
