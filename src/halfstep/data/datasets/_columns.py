"""Columns of ids, numbers and times in one form, whatever library held them.

Must not know files, users or items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from halfstep.data.ids import encode
from halfstep.data.plain_ids import as_series, factorise, factorise_arrow, is_null, number_objects, objects
from halfstep.data.row_groups import RowGroups

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Coded:
    """A column as its distinct values and, for every row, which of them it holds: `values[codes]`.

    The order of `values` means nothing; code -1 is a missing value.
    """

    codes: IntArray
    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, column: Any) -> Coded:
        """From a list, an array or a column of any frame library; null, NaN and the empty string are missing."""
        series = as_series(column)
        if series is not None and not (series.dtype.is_integer() and not series.null_count()):
            values, codes = factorise(series)
            return cls(codes, values).without(is_missing(values))
        array = column if series is None else series.to_numpy()
        if not isinstance(array, np.ndarray) or array.dtype == object:
            numbers, codes = number_objects(array, "")
            values = objects(list(numbers))
        elif array.dtype.kind in "iu":  # never missing, and `encode` needs no sort
            index, codes = encode(array)
            values = index.ids
        else:
            values, codes = np.unique(array, return_inverse=True)
        return cls(codes, values).without(is_missing(values))

    @classmethod
    def of_arrow(cls, column: Any) -> Coded:
        """The same from a column of text of pyarrow; narwhals would import its compute functions, which takes long."""
        values, codes = factorise_arrow(column)
        return cls(codes, values).without(is_missing(values))

    @classmethod
    def streamed(cls, table: RowGroups, column: str) -> Coded:
        """The same from a column of a Parquet file, a row group at a time."""
        values, codes = table.coded(column)
        return cls(codes, values).without(is_missing(values))

    def without(self, missing: npt.NDArray[np.bool_]) -> Coded:
        """The same column with the marked values turned into missing ones."""
        if not missing.any():
            return self
        renumbered = np.where(missing, -1, np.cumsum(~missing) - 1)
        # The extra last entry is where code -1 lands.
        return Coded(np.append(renumbered, -1)[self.codes], self.values[~missing])

    def used_only(self) -> Coded:
        """The same column with the values no row holds left out."""
        unused = np.ones(len(self.values) + 1, np.bool_)  # code -1 lands on the last
        unused[self.codes] = False
        return self.without(unused[:-1])

    def rows(self, keep: npt.NDArray[Any]) -> Coded:
        """The column of the rows `keep` marks or lists."""
        return Coded(self.codes[keep], self.values)

    def expand(self) -> npt.NDArray[Any]:
        """One value for every row; None where missing."""
        return np.asarray(objects([*self.values.tolist(), None])[self.codes])

    def with_whole_numbers(self) -> Coded:
        """Strings that all are plain whole numbers become int64; a "007" or "1.0" keeps all as text."""
        try:
            numbers = self.values.astype(np.int64)
        except (ValueError, TypeError, OverflowError):
            return self
        same = len(numbers) > 0 and bool(np.all(numbers.astype(str).astype(object) == self.values))
        return Coded(self.codes, numbers) if same else self


def label_map(ids: Coded, labels: Coded) -> dict[Any, str]:
    """Id to label over the rows that have both; of an id that comes twice the last label stays."""
    both = (ids.codes >= 0) & (labels.codes >= 0)
    return dict(zip(ids.rows(both).expand(), labels.rows(both).expand(), strict=True))


def is_missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which values stand for nothing: None, NaN, NaT, the empty string."""
    if values.dtype == object and set(map(type, values)) == {str}:
        return np.asarray(values == "")
    if values.dtype == object:
        return np.fromiter((is_null(v) or v == "" for v in values), np.bool_, len(values))
    if values.dtype.kind in "fcmM":
        return np.asarray(values != values)
    return np.zeros(len(values), np.bool_) if values.dtype.kind not in "US" else values == values.dtype.type()


def numbers_of(column: Any) -> FloatArray:
    """A column as float64; NaN where the value is missing or is no number."""
    return _parsed(column, float)


def seconds_of(column: Any) -> FloatArray:
    """Times as seconds since 1970 (UTC): numbers as they are, dates and ISO 8601 text converted."""
    series = None if isinstance(column, Coded) else as_series(column)
    if series is not None and series.dtype in (nw.Date, nw.Datetime):
        moments = series.cast(nw.Datetime("us")) if series.dtype == nw.Date else series
        column = (moments.dt.timestamp("us") / 1e6).to_numpy()
    elif isinstance(column, np.ndarray) and column.dtype.kind == "M":
        since = column.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(column), np.nan, since)
    return _parsed(column, _one_time)


def _one_time(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _parsed(column: Any, one: Callable[[Any], float]) -> FloatArray:
    """A number for each row: those of a numeric column, else what `one` makes of each distinct value."""
    if not isinstance(column, Coded):
        series = as_series(column)
        array = np.asarray(column) if series is None else series.to_numpy()
        if array.dtype.kind in "fiub":
            return array.astype(np.float64, copy=False)
        column = Coded.of(array)

    def safe(value: Any) -> float:
        try:
            return float(one(value))
        except (TypeError, ValueError):
            return float("nan")

    try:
        numbers = np.asarray(column.values.astype(np.float64))  # in C; falls through where a value is no number
    except (TypeError, ValueError):
        numbers = np.fromiter(map(safe, column.values), np.float64, len(column.values))
    return np.asarray(np.append(numbers, np.nan)[column.codes])
