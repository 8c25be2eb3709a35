"""Tables in any form people keep them in, to columns. Knows files, frames and cursors, not their use."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from halfstep.data.row_groups import RowGroups
from halfstep.errors import expect_sound, require

from ._archive import RATIO, Archive, most_unpacked, plain_suffix
from ._columns import Coded, numbers_of, seconds_of
from ._delimited import Delimited

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
JSON_LINES, MATRIX = (".jsonl", ".ndjson"), (".npz",)

Chooser = Callable[[list[Any]], dict[str, Any]]


def read_columns(
    source: Any,
    choose: Chooser,
    *,
    delimiter: str | None = None,
    engine: str | None = None,
    encoding: str | None = None,
    multiline: bool = False,
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The columns that `choose(names)` assigns to roles, the counts of rows, and what the source is called.

    `choose` gets the column names (positions 0, 1, ... where rows have no names) and returns role to name. The report
    names the columns taken, by role, and those that were not.
    """
    there: list[Any] = []

    def seen(names: list[Any]) -> dict[str, Any]:
        there[:] = names
        return choose(names)

    opened = partial(Delimited.open, delimiter=delimiter, encoding=encoding, multiline=multiline)
    columns, report, name = _read(source, seen, opened, engine)
    report["columns_not_used"] = [each for each in there if each not in report["columns"].values()]
    return columns, report, name


def _read(
    source: Any, choose: Chooser, opened: Callable[[Path], Delimited], engine: str | None
) -> tuple[dict[str, Any], dict[str, Any], str]:
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(
                f"path_or_frame={str(source)!r} is not a file; give a CSV, TSV, JSON lines, Parquet, Arrow or .npz file"
            )
        suffix = plain_suffix(path.name)
        if path.suffix.lower() in PARQUET and importlib.util.find_spec("pyarrow") is not None:
            return (*_from_parquet(path, choose), path.name)
        if path.suffix.lower() in PARQUET + ARROW:
            return (*_from_frame(_binary_file(path, choose), choose), path.name)
        if suffix in JSON_LINES:
            return (*_from_rows(json_lines(path), choose), path.name)
        if suffix in MATRIX:
            return (*_from_matrix(path, choose), path.name)
        return (*_from_text(opened(path), choose, engine), path.name)
    if isinstance(source, Mapping):
        lengths = {name: len(column) for name, column in source.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"path_or_frame has columns of different lengths: {lengths}")
        return (*_take(choose(list(source)), source.__getitem__, max(lengths.values(), default=0)), "columns")
    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        return (*_from_frame(frame, choose), f"{frame.implementation.name.lower()} table")
    return (*_from_rows(source, choose), "rows")


def _from_parquet(path: Path, choose: Chooser) -> tuple[dict[str, Any], dict[str, Any]]:
    """Column after column, ids a row group at a time."""
    table = RowGroups(path, "path_or_frame")
    roles = choose(table.names)
    streamed = {role: Coded.streamed(table, roles[role]) for role in ("user", "item") if table.streams(roles[role])}
    columns, report = _take({k: v for k, v in roles.items() if k not in streamed}, table.whole, table.n_rows)
    return {role: (streamed | columns)[role] for role in roles}, report | {"columns": roles}


def _binary_file(path: Path, choose: Chooser) -> Any:
    """A lazy or eager frame of a Parquet or Arrow IPC file; only the columns asked for are read."""
    parquet = path.suffix.lower() in PARQUET
    if importlib.util.find_spec("pyarrow") is None:
        polars = require("polars", extra="frames")
        return nw.from_native(polars.scan_parquet(path) if parquet else polars.scan_ipc(path))
    import pyarrow.feather

    with pyarrow.memory_map(str(path)) as handle:
        names = list(pyarrow.ipc.open_file(handle).schema.names)
    return nw.from_native(pyarrow.feather.read_table(path, columns=list(choose(names).values())))


def whole_file(path: Path) -> Any:
    """All columns of a Parquet or Arrow IPC file, as a frame of whatever library reads it."""
    parquet = path.suffix.lower() in PARQUET
    if importlib.util.find_spec("pyarrow") is None:
        polars = require("polars", extra="frames")
        return polars.read_parquet(path) if parquet else polars.read_ipc(path)
    module = importlib.import_module("pyarrow.parquet" if parquet else "pyarrow.feather")
    return module.read_table(path)


def _from_frame(frame: Any, choose: Chooser) -> tuple[dict[str, Any], dict[str, Any]]:
    roles = choose(list(frame.collect_schema().names()))
    if isinstance(frame, nw.LazyFrame):
        frame = frame.select(list(roles.values())).collect()
    return _take(roles, frame.__getitem__, len(frame))


def json_lines(path: Path) -> list[Any]:
    """The objects of a file with one in each line, which may be packed."""
    rows = []
    for number, line in enumerate(Archive(path, "table").read(path.name).splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path.name}: line {number} is not JSON: {error}") from None
        if not isinstance(rows[-1], dict):
            raise ValueError(f'{path.name}: line {number} is no object; each line must be one, such as {{"user": 1}}')
    return rows


def _from_matrix(path: Path, choose: Chooser) -> tuple[dict[str, Any], dict[str, Any]]:
    """A scipy sparse matrix: row numbers are users, column numbers items, stored values weights."""
    from scipy import sparse

    try:
        with zipfile.ZipFile(path) as archive:
            size, most = sum(info.file_size for info in archive.infolist()), most_unpacked(path.stat().st_size)
        if size > most:
            raise zipfile.BadZipFile
        matrix = sparse.load_npz(path)
        expect_sound(path.name, matrix)
        cells = matrix.tocoo()
    except zipfile.BadZipFile:
        raise ValueError(
            f"{path.name} is no zip of arrays, or holds over {RATIO} times its size; write one with "
            "scipy.sparse.save_npz(compressed=False)"
        ) from None
    except Exception:  # of NumPy or of scipy, whatever is wrong with it
        raise ValueError(f"{path.name} holds no sparse matrix; write one with scipy.sparse.save_npz") from None
    columns = {"user": cells.row, "item": cells.col, "weight": cells.data}
    return _take(choose(list(columns)), columns.__getitem__, cells.nnz)


def _from_text(text: Delimited, choose: Chooser, engine: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
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
        names = list(dict.fromkeys(name for row in rows for name in row))
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
