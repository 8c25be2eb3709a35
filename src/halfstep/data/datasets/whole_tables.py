"""Whole tables of files: all columns as they are, or a dict of values for each id. Must not know what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.data.columns import detect
from halfstep.data.ids import Index
from halfstep.errors import require

from ._archive import plain_suffix
from ._columns import Coded, is_missing, numbers_of
from ._delimited import Delimited
from ._sources import ARROW, JSON_LINES, PARQUET, json_lines

Columns = dict[str, NDArray[Any]]


def read_columns(path: Path, encoding: str | None = None) -> Columns:
    """All columns of a CSV, TSV, JSON lines, Parquet or Arrow file: numbers as floats, whole numbers and text as is."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    suffix = path.suffix.lower()
    if plain_suffix(path.name) in JSON_LINES:
        rows = json_lines(path)
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: _typed(Coded.of([_spelt(row.get(name)) for row in rows])) for name in names}
    if suffix in PARQUET + ARROW:
        kind = "parquet" if suffix in PARQUET else "feather"
        table = require(f"pyarrow.{kind}", "frames").read_table(str(path))
        return {name: table[name].to_numpy() for name in table.column_names}
    text = Delimited.open(path, encoding=encoding)
    table = text.read(dict.fromkeys(text.names))
    if table.broken:
        raise ValueError(f"{path}: {table.broken} of {table.rows} rows have another number of fields than the header")
    return {name: _typed(table[name]) for name in text.names}


def _spelt(value: Any) -> str:
    """A value of JSON as it would stand in a text file."""
    return "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)


def _typed(column: Coded) -> NDArray[Any]:
    """Whole numbers, numbers, or text with None where missing."""
    whole = column.with_whole_numbers()
    if whole.values.dtype.kind == "i" and (whole.codes >= 0).all():
        return np.asarray(whole.values[whole.codes])
    numbers = np.asarray(numbers_of(column))
    text = column.expand()
    return text if (np.isnan(numbers) & ~is_missing(text)).any() else numbers


def rows_by_id(path: Path, side: str) -> tuple[str, dict[Any, dict[str, Any]]]:
    """The column of ids of a table about users or items, and the other columns as a dict for each id."""
    columns = {name: values.tolist() for name, values in read_columns(path).items()}
    key = detect(side, list(columns)) or detect("id", list(columns)) or next(iter(columns), None)
    if key is None:
        raise ValueError(f"{path} has no columns; a table of features needs ids and what is known of them")
    ids = Index(columns.pop(key), side).ids.tolist()
    values = list(zip(*columns.values(), strict=True)) if columns else [()] * len(ids)
    return key, {id: dict(zip(columns, row, strict=True)) for id, row in zip(ids, values, strict=True)}
