"""Where features come from: frames, dicts and matrices, as ids with columns of values, or as one sparse matrix.

Must not know what becomes of a column: `feature_columns.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from scipy import sparse

from halfstep.data.columns import detect
from halfstep.data.feature_values import FARTHEST, Table
from halfstep.data.frames import is_frame
from halfstep.data.ids import Index
from halfstep.errors import expect_plain, expect_sound, one_of

NOT_A_COLUMN = "is not a column; the columns are"


class FeatureRows(NamedTuple):
    """Columns of values with n rows, and whose rows they are, where the source says so."""

    ids: Index | None
    columns: Table
    rows: int


def is_table(source: object) -> bool:
    """Whether features have columns with names here: a frame, dicts, or a list of dicts."""
    return isinstance(source, Mapping) or is_frame(source) or _are_dicts(source)


def read_features(source: Any, side: str, id: str | None = None, known: Sequence[str] = ()) -> FeatureRows:
    """A frame with an id column or without; a dict of id to dict; one dict of column to value, or a list of those.

    id : the id column of a frame; None takes a named or a text index (pandas), else a column with a common name that is
    not among those `known` to be features.
    """
    if is_frame(source):
        return _of_frame(source, side, id, known)
    if id is not None:
        raise ValueError(f"id={id!r} is for frames; in a dict of dicts the keys are the ids")
    if _are_dicts(source):
        return FeatureRows(None, _columns_of(source), len(source))
    rows = list(source.values())
    if not _are_dicts(rows):
        if any(isinstance(row, Mapping) for row in rows):
            raise TypeError(f"{side} features are a dict with dicts and other values; give a dict of id to dict")
        return FeatureRows(None, {name: [value] for name, value in source.items()}, 1)
    return FeatureRows(Index(list(source), side), _columns_of(rows), len(rows))


def id_column(side: str, names: Sequence[str]) -> str | None:
    """The column that is called like the ids of a side, or like ids; None where there is none."""
    found: str | None = detect(side, names)
    other: str | None = detect("id", names)
    return other if found is None else found


def read_matrix(source: Any, argument: str) -> sparse.csr_array:
    """A matrix or an array as CSR of float64, nothing beyond `FARTHEST`."""
    if sparse.issparse(source):
        expect_sound(argument, source)
    else:
        expect_plain(argument, source)
        source = np.asarray(source)
        if source.dtype.kind not in "biuf" or source.ndim != 2:
            raise TypeError(
                f"{argument} must be a frame, a dict of id to dict, a scipy matrix, or an array of numbers with two "
                f"dimensions; got {source.dtype} with shape {source.shape}"
            )
    matrix = sparse.csr_array(source, dtype=np.float64)
    matrix.sum_duplicates()
    bad = np.flatnonzero(~(np.abs(matrix.data) <= FARTHEST))
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right") - 1)
        raise ValueError(
            f"{argument} has {len(bad)} values that are not finite or beyond {FARTHEST:g}, the first in row {row}, "
            f"column {int(matrix.indices[bad[0]])}; 0 stands for what is not known, or give a frame, where gaps are "
            "allowed"
        )
    return matrix


def _of_frame(frame: Any, side: str, id: str | None, known: Sequence[str]) -> FeatureRows:
    native = nw.from_native(frame)
    eager = native.collect() if isinstance(native, nw.LazyFrame) else native
    found = list(eager.columns)
    held = _held_in_index(eager)
    if id is not None:
        one_of("id", id, found, NOT_A_COLUMN)
    elif held is None:
        id = id_column(side, [name for name in found if name not in known])
    ids = held if id is None else eager[id]
    columns = {name: _values(eager[name]) for name in found if name != id}
    return FeatureRows(None if ids is None else Index(ids, side), columns, len(eager))


def _held_in_index(frame: nw.DataFrame[Any]) -> list[Any] | None:
    """The index of a pandas frame where it holds ids: it has a name, or is text. Plain numbers may be mere places."""
    index = nw.maybe_get_index(frame)
    if index is None or (index.name is None and index.dtype.kind in "iu"):
        return None
    return list(index.tolist())


def _values(series: nw.Series[Any]) -> Any:
    return series.to_numpy() if series.dtype.is_numeric() and not series.null_count() else series.to_list()


def _are_dicts(rows: object) -> bool:
    return isinstance(rows, list | tuple) and len(rows) > 0 and all(isinstance(row, Mapping) for row in rows)


def _columns_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
