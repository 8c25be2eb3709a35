"""Columns of ids, numbers and times in one form, whatever library held them.

Must not know files, users or items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from halfstep.data.ids import encode

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
    def from_arrow(cls, column: Any) -> Coded:
        """From a pyarrow array or chunked array; null and, for strings, the empty string are missing."""
        import pyarrow

        if not isinstance(column, pyarrow.ChunkedArray):
            column = pyarrow.chunked_array([column])
        if not pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        column = column.unify_dictionaries().combine_chunks()
        if isinstance(column, pyarrow.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pyarrow.array([], column.type)
        codes = column.indices
        codes = codes.fill_null(-1) if codes.null_count else codes
        values = column.dictionary.to_numpy(zero_copy_only=False)
        return cls(codes.to_numpy(zero_copy_only=False), values).without(is_missing(values))

    @classmethod
    def from_values(cls, values: Any) -> Coded:
        """From an array or list; None, NaN and the empty string are missing."""
        array = values if isinstance(values, np.ndarray) else object_array(list(values))
        if array.dtype == object:
            return code_strings(array.tolist())
        if array.dtype.kind in "iu":  # never missing, and `encode` needs no sort
            index, codes = encode(array)
            return cls(codes, index.ids)
        distinct, places = np.unique(array, return_inverse=True)
        return cls(places, distinct).without(is_missing(distinct))

    def without(self, missing: npt.NDArray[np.bool_]) -> Coded:
        """The same column with the marked values turned into missing ones."""
        if not missing.any():
            return self
        renumbered = np.where(missing, -1, np.cumsum(~missing) - 1)
        # The extra last entry is where code -1 lands.
        return Coded(np.append(renumbered, -1)[self.codes], self.values[~missing])

    def used_only(self) -> Coded:
        """The same column with the values no row holds left out."""
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))
        used = counts > 0
        return self if used.all() else Coded(np.append(np.cumsum(used) - 1, -1)[self.codes], self.values[used])

    def rows(self, keep: npt.NDArray[Any]) -> Coded:
        """The column of the rows `keep` marks or lists."""
        return Coded(self.codes[keep], self.values)

    def expand(self) -> npt.NDArray[Any]:
        """One value for every row; None where missing."""
        return np.asarray(object_array([*self.values.tolist(), None])[self.codes])

    def with_whole_numbers(self) -> Coded:
        """Strings that all are plain whole numbers become int64; a "007" or "1.0" keeps all as text."""
        try:
            numbers = self.values.astype(np.int64)
        except (ValueError, TypeError, OverflowError):
            return self
        same = len(numbers) > 0 and bool(np.all(numbers.astype(str).astype(object) == self.values))
        return Coded(self.codes, numbers) if same else self


class _Codebook(dict[Any, int]):
    """A dictionary that gives every new key the next number."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code


def code_strings(values: Sequence[Any]) -> Coded:
    """`Coded` from Python objects, in one pass through a dictionary."""
    book = _Codebook()
    codes = np.fromiter(map(book.__getitem__, values), np.int64, len(values))
    distinct = object_array(book)
    return Coded(codes, distinct).without(is_missing(distinct))


def object_array(values: Iterable[Any]) -> npt.NDArray[Any]:
    """A 1-D object array, also when the values are tuples."""
    values = list(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def label_map(ids: Coded, labels: Coded) -> dict[Any, str]:
    """Id to label over the rows that have both; of an id that comes twice the last label stays."""
    both = (ids.codes >= 0) & (labels.codes >= 0)
    return dict(zip(ids.rows(both).expand(), labels.rows(both).expand(), strict=True))


def is_missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which values stand for nothing: None, NaN, NaT, the empty string."""
    if values.dtype == object:
        return np.fromiter((v is None or v == "" or v != v for v in values), np.bool_, len(values))
    if values.dtype.kind in "fcmM":
        return np.asarray(np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values))
    return np.zeros(len(values), np.bool_) if values.dtype.kind not in "US" else values == values.dtype.type()


def numbers_of(column: Any) -> FloatArray:
    """A column as float64; NaN where the value is missing or is no number."""
    if not isinstance(column, Coded):
        array = np.asarray(column)
        if array.dtype.kind in "fiub":
            return array.astype(np.float64, copy=False)
        column = Coded.from_values(array)
    return np.asarray(np.append(_parse(column.values, float), np.nan)[column.codes])


def seconds_of(column: Any) -> FloatArray:
    """Times as seconds since 1970 (UTC): numbers as they are, dates and ISO 8601 text converted."""
    if not isinstance(column, Coded):
        array = np.asarray(column)
        if array.dtype.kind == "M":
            since = array.astype("datetime64[us]").astype(np.int64) / 1e6
            return np.where(np.isnat(array), np.nan, since)
        if array.dtype.kind in "fiub":
            return array.astype(np.float64, copy=False)
        column = Coded.from_values(array)
    return np.asarray(np.append(_parse(column.values, _one_time), np.nan)[column.codes])


def _one_time(value: Any) -> float:
    from datetime import UTC, date, datetime

    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _parse(values: npt.NDArray[Any], one: Any) -> FloatArray:
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    try:
        return np.asarray(values.astype(np.float64))  # the whole column in C; falls through where a value is no number
    except (TypeError, ValueError):
        pass

    def safe(value: Any) -> float:
        try:
            return float(one(value))
        except (TypeError, ValueError):
            return float("nan")

    return np.fromiter(map(safe, values), np.float64, len(values))
