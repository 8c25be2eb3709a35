"""Tables in any form people keep them in, to columns. Knows files, frames and cursors, not their use."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from halfstep.errors import require

from ._columns import Coded, numbers_of, seconds_of
from ._delimited import Delimited

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")

Chooser = Callable[[list[Any]], dict[str, Any]]


def read_columns(
    source: Any, choose: Chooser, *, delimiter: str | None, engine: str | None
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The columns that `choose(names)` assigns to roles, the counts of rows, and what the source is called.

    `choose` gets the column names (positions 0, 1, ... where rows have no names) and returns role to name.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(
                f"path_or_frame={str(source)!r} is not a file; give a CSV, TSV, Parquet or Arrow file"
            )
        if path.suffix.lower() in PARQUET + ARROW:
            return (*_from_frame(_binary_file(path, choose), choose), path.name)
        return (*_from_text(path, choose, delimiter, engine), path.name)
    if isinstance(source, Mapping):
        lengths = {name: len(column) for name, column in source.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"path_or_frame has columns of different lengths: {lengths}")
        return (*_take(choose(list(source)), source.__getitem__, max(lengths.values(), default=0)), "columns")
    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        return (*_from_frame(frame, choose), f"{frame.implementation.name.lower()} table")
    return (*_from_rows(source, choose), "rows")


def _binary_file(path: Path, choose: Chooser) -> Any:
    """A lazy or eager frame of a Parquet or Arrow IPC file; only the columns asked for are read."""
    parquet = path.suffix.lower() in PARQUET
    if importlib.util.find_spec("pyarrow") is None:
        polars = require("polars", extra="frames")
        return nw.from_native(polars.scan_parquet(path) if parquet else polars.scan_ipc(path))
    if parquet:
        import pyarrow.parquet

        schema = pyarrow.parquet.read_schema(path)
        roles = choose(list(schema.names))
        # Text ids are most often stored as a dictionary: keep it instead of spelling every row out.
        text = [roles[r] for r in ("user", "item") if pyarrow.types.is_string(schema.field(roles[r]).type)]
        with pyarrow.parquet.ParquetFile(path, read_dictionary=text) as file:
            return nw.from_native(file.read(columns=list(roles.values())))
    import pyarrow.feather

    with pyarrow.memory_map(str(path)) as handle:
        names = list(pyarrow.ipc.open_file(handle).schema.names)
    return nw.from_native(pyarrow.feather.read_table(path, columns=list(choose(names).values())))


def _from_frame(frame: Any, choose: Chooser) -> tuple[dict[str, Any], dict[str, Any]]:
    roles = choose(list(frame.collect_schema().names()))
    if isinstance(frame, nw.LazyFrame):
        frame = frame.select(list(roles.values())).collect()
    return _take(roles, frame.__getitem__, len(frame))


def _from_text(
    path: Path, choose: Chooser, delimiter: str | None, engine: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    text = Delimited.open(path, delimiter)
    roles = choose(text.names)
    numeric = {"weight": numbers_of, "timestamp": seconds_of}
    table = text.read({name: numeric.get(role) for role, name in roles.items()}, engine)
    columns = {
        role: table[name] if role in numeric else table[name].with_whole_numbers() for role, name in roles.items()
    }
    return columns, table.report(columns=roles)


def _from_rows(source: Any, choose: Chooser) -> tuple[dict[str, Any], dict[str, Any]]:
    """A DB-API cursor, (rows, description), or any iterable of tuples, lists or mappings."""
    description = getattr(source, "description", None)
    if isinstance(source, tuple) and len(source) == 2 and _holds_rows(source[0]):
        source, description = source
    if isinstance(source, (bytes, np.ndarray)) or not isinstance(source, Iterable):
        raise TypeError(
            f"path_or_frame of type {type(source).__name__} is not a table; give a path, a pandas, polars, "
            "pyarrow or DuckDB table, a dict of columns, a database cursor, or rows such as "
            "[(user, item, weight), ...]"
        )
    rows = list(source)
    if rows and isinstance(rows[0], Mapping):
        names = list(rows[0])
        rows = [tuple(map(row.get, names)) for row in rows]
    elif description is not None:
        names = [one if isinstance(one, str) else one[0] for one in description]
    else:
        names = list(range(len(rows[0]))) if rows else list(range(2))
    good = [row for row in rows if len(row) == len(names)]
    across: list[Any] = list(zip(*good, strict=True)) or [()] * len(names)
    columns, report = _take(choose(names), lambda name: across[names.index(name)], len(rows))
    report["broken_rows"] = len(rows) - len(good)
    return columns, report


def _holds_rows(value: Any) -> bool:
    """Whether this is a collection of rows: a pair of rows must not be taken for (rows, description)."""
    if not isinstance(value, (list, tuple)):
        return isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    return not value or isinstance(value[0], (tuple, list))


def _take(roles: dict[str, Any], column: Callable[[Any], Any], rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The role of a column decides how it is read: ids coded, weights as numbers, times as seconds."""
    read = {"user": Coded.of, "item": Coded.of, "weight": numbers_of, "timestamp": seconds_of}
    return {role: read[role](column(name)) for role, name in roles.items()}, {"rows": rows, "columns": roles}
