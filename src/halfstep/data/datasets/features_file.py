"""`read_features`: a table about users or items, from a file or a frame, to `Features`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from halfstep.data.feature_sources import NOT_A_COLUMN, id_column
from halfstep.data.features import Features, TextColumnNames, text_columns
from halfstep.data.ids import Index
from halfstep.errors import one_of

from ._columns import Coded
from ._delimited import Delimited
from ._sources import ARROW, PARQUET, whole_file

FLAGS = {"true": True, "false": False}


def read_features(
    path_or_frame: Any,
    side: str = "item",
    *,
    id: str | None = None,
    text: TextColumnNames = (),
    lists: Mapping[str, str] | None = None,
    categories: Sequence[str] = (),
) -> Features:
    """Features of users or items from a CSV, TSV, Parquet or Arrow file, or from whatever `Features.of` takes.

    In a text file a column of numbers is one of numbers (unless a code such as "007" is among them), one of true and
    false holds flags, an empty field is missing; ids are whole numbers where all are. The rest as in `Features.of`.
    """
    given: dict[str, Any] = {"text": text, "lists": lists, "categories": categories}
    if not isinstance(path_or_frame, str | os.PathLike):
        return Features.of(path_or_frame, side=side, id=id, **given)
    path = Path(path_or_frame)
    if not path.is_file():
        raise FileNotFoundError(f"{side}_features={str(path)!r} is not a file; give a CSV, TSV, Parquet or Arrow file")
    if path.suffix.lower() in PARQUET + ARROW:
        return Features.of(whole_file(path), side=side, id=id, **given)
    file = Delimited.open(path)
    if id is not None:
        one_of("id", id, file.names, NOT_A_COLUMN)
    chosen = id_column(side, file.names) if id is None else id
    if chosen is None:
        raise ValueError(f"no column of {path.name} looks like the id of the {side}s; it has {file.names}: say id=")
    table = file.read(dict.fromkeys(file.names))
    ids = table[chosen].with_whole_numbers()
    plain = {*categories, *(lists or {}), *chain.from_iterable(text_columns(text))}
    columns = {
        name: table[name].expand() if name in plain else _typed(table[name]) for name in file.names if name != chosen
    }
    return Features.of_columns(Index(ids.expand(), side), columns, **given)


def _typed(column: Coded) -> Any:
    """Numbers or flags where all values are; text otherwise."""
    values = [str(value).strip() for value in column.values]
    if values and all(value.casefold() in FLAGS for value in values):
        return Coded(column.codes, np.array([FLAGS[value.casefold()] for value in values], object)).expand()
    if any(value[:1] == "0" and value[1:2].isdigit() for value in values):
        return column.expand()
    try:
        numbers = np.array(values, np.float64)
    except ValueError:
        return column.expand()
    return np.append(numbers, np.nan)[column.codes]
