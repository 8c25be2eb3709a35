"""Ids in one plain form, whatever column they came in, and row numbers of integers. The floor under `ids.py`.

Integers of any width and integral floats become int64, strings become Python str, other hashables stay as
they are. Null, NaN and booleans are refused: the first two name nobody, and a mask is not a list of ids.
Must not know `Index`, models or files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_HASH = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio spreads consecutive ids evenly


class IntLookup:
    """Positions of distinct int64 ids: a table over their span where that is short, else one hash table.

    The hash table keeps one id a slot. An id that lost its slot is found by binary search.
    """

    def __init__(self, ids: Ints) -> None:
        self.ids = ids
        self.low = int(ids.min()) if len(ids) else 0
        span = int(ids.max()) - self.low + 1 if len(ids) else 0
        self.direct = _is_short(span, len(ids))
        if self.direct:
            self.table = np.full(span, -1, dtype=np.int32)
            self.table[ids - self.low] = np.arange(len(ids), dtype=np.int32)
            return
        self.shift = np.uint64(64 - (4 * len(ids)).bit_length())
        self.table = np.zeros(1 << (64 - int(self.shift)), dtype=np.int32)
        self.table[self._slots(ids)] = np.arange(len(ids), dtype=np.int32)
        self.order = np.argsort(ids, kind="stable")
        self.sorted = ids[self.order]

    def _slots(self, ids: Ints) -> Ints:
        mixed = ids.view(np.uint64) * _HASH
        mixed ^= mixed >> np.uint64(32)  # one product alone would put ids at even distances into few slots
        mixed *= _HASH
        mixed >>= self.shift
        return mixed.view(np.int64)

    def find(self, wanted: Ints) -> Ints:
        """Position of each wanted integer, -1 where it is unknown."""
        if self.direct:
            inside = (wanted >= self.low) & (wanted < self.low + len(self.table))
            if inside.all():
                return self.table[wanted - self.low].astype(np.int64)
            found = np.full(len(wanted), -1, dtype=np.int64)
            found[inside] = self.table[wanted[inside] - self.low]
            return found
        found = self.table[self._slots(wanted)].astype(np.int64)
        missed = np.flatnonzero(self.ids[found] != wanted)
        rest = wanted[missed]
        # the last of equal ids, as in the table, so that a duplicate is never found at its own place
        near = np.maximum(np.searchsorted(self.sorted, rest, side="right") - 1, 0)
        found[missed] = np.where(self.sorted[near] == rest, self.order[near], -1)
        return found


def _is_short(span: int, n: int) -> bool:
    """Whether a table over `span` consecutive integers is worth it for `n` of them."""
    return span <= max(8 * n, 1024)


def sorted_distinct(values: Ints) -> Ints:
    """`np.unique`, in linear time where the span of the values is short."""
    if not len(values):
        return values
    low = int(values.min())
    span = int(values.max()) - low + 1
    if _is_short(span, len(values)):
        present = np.zeros(span, dtype=bool)
        present[values - low] = True
        return np.flatnonzero(present) + low
    ordered = np.sort(values)
    return ordered[np.r_[True, ordered[1:] != ordered[:-1]]]


def number_objects(values: NDArray[Any] | Sequence[Any], name: str) -> tuple[dict[Any, int], Ints]:
    """Number hashables in order of appearance: the numbering, and the number of each value."""
    numbers: defaultdict[Any, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    try:
        codes = np.fromiter(map(numbers.__getitem__, plain), np.int64, len(values))
    except TypeError as error:
        raise TypeError(f"{called(name)} must be hashable: {error}") from error
    return dict(numbers), codes


def factorise(series: nw.Series[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Distinct values of a column of any frame library, in any order, and for each row which it holds; -1 for null."""
    native = series.to_native()
    if series.implementation.is_pandas_like():
        codes, distinct = native.factorize()
        values = np.asarray(distinct)
        return values if values.dtype.kind in "iuf" else objects(values.tolist()), np.asarray(codes)
    if series.implementation.is_pyarrow():
        return factorise_arrow(native)
    distinct = series.drop_nulls().unique().to_list()
    codes = series.replace_strict(distinct, range(len(distinct)), default=-1, return_dtype=nw.Int64) if distinct else ()
    return objects(distinct), np.asarray(codes, np.int64) if distinct else np.full(len(series), -1)


def factorise_arrow(column: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same of a column of pyarrow."""
    import pyarrow

    column = column if isinstance(column, pyarrow.ChunkedArray) else pyarrow.chunked_array([column])
    coded = column if pyarrow.types.is_dictionary(column.type) else column.dictionary_encode()
    coded = coded.unify_dictionaries().combine_chunks()
    if isinstance(coded, pyarrow.ChunkedArray):
        coded = coded.chunk(0) if coded.num_chunks else pyarrow.array([], coded.type)
    return _distinct_of_arrow(coded.dictionary), _codes_of_arrow(coded.indices)


def _codes_of_arrow(indices: Any) -> NDArray[Any]:
    """Whole numbers with -1 for null, from the buffers: to_numpy() would import pandas, which takes half a second."""
    if not len(indices):
        return np.empty(0, np.int64)
    valid, numbers = indices.buffers()
    here = slice(indices.offset, indices.offset + len(indices))
    codes = np.frombuffer(numbers, np.dtype(str(indices.type)))[here]
    if not indices.null_count:
        return codes
    there = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[here]
    return np.where(there, codes.astype(np.int64), -1)


def _distinct_of_arrow(values: Any) -> NDArray[Any]:
    import pyarrow

    if not len(values) or not pyarrow.types.is_string(values.type) or values.null_count:
        return np.asarray(values.to_numpy(zero_copy_only=False))
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].tolist()
    text = b"" if data is None else data.to_pybytes()
    return objects([text[first:last].decode() for first, last in pairwise(ends)])


def as_series(values: Any) -> nw.Series[Any] | None:
    """A column of a frame library as narwhals sees it, None for anything else."""
    if isinstance(values, list | tuple | np.ndarray):  # asking narwhals costs more than finding one id
        return None
    series = nw.from_native(values, series_only=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def plain_ids(values: Any, name: str) -> NDArray[Any]:
    """Any 1-D column of ids as int64 or as an object array of plain Python values."""
    series = as_series(values)
    if series is not None:
        refuse_null(series.is_null().to_numpy(), name)
        values = series.to_numpy()
    elif isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{called(name)} must be a list, an array or a column, got the one value {values!r}")
    array = values if isinstance(values, np.ndarray) else objects(list(values))
    if array.ndim != 1:
        raise ValueError(f"{called(name)} must be one-dimensional, got an array of shape {array.shape}")
    if array.dtype.kind == "b":
        raise TypeError(f"{called(name)} cannot be booleans; to select by a mask, pass ids[mask]")
    if array.dtype.kind in "iu":
        fits = array.dtype != np.uint64 or not len(array) or int(array.max()) < 2**63
        return array.astype(np.int64, copy=False) if fits else array.astype(object)
    if array.dtype.kind == "f":
        return _plain_floats(array, name)
    if array.dtype.kind in "UST":
        array = array.astype(object)
    return _plain_objects(array if array.dtype == object else objects(list(array)), name)


def _plain_floats(array: NDArray[Any], name: str) -> NDArray[Any]:
    refuse_null(np.isnan(array), name)
    integral = np.all((np.floor(array) == array) & (array >= -(2.0**63)) & (array < 2.0**63))
    return array.astype(np.int64) if integral else array.astype(object)


def _plain_objects(array: NDArray[Any], name: str) -> NDArray[Any]:
    types = set(map(type, array))
    if types <= {str}:
        return array
    if types <= {int} or all(issubclass(t, np.integer) for t in types):
        try:
            return array.astype(np.int64)
        except OverflowError:  # integers of more than 64 bits stay Python objects
            return array
    if all(issubclass(t, float | np.floating) for t in types):
        return _plain_floats(array.astype(np.float64), name)
    refuse_null(np.fromiter(map(is_null, array), bool, len(array)), name)
    if types & {bool, np.bool_}:
        raise TypeError(f"{called(name)} cannot be booleans; to select by a mask, pass ids[mask]")
    plain = objects(list(map(_plain_value, array)))
    if set(map(type, plain)) <= {int} and all(map(is_int64, plain)):
        return plain.astype(np.int64)
    return plain


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.str_ | np.bytes_ | np.integer | np.floating):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_int64(value: Any) -> bool:
    """Whether a plain value is an integer of 64 bits."""
    return type(value) is int and -(2**63) <= value < 2**63


def is_null(value: Any) -> bool:
    """Whether a value stands for nothing: None, NaN, NaT, NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas.NA has no truth value
        return True
    return isinstance(value, float | Decimal | np.generic) and bool(value != value)


def refuse_null(null: NDArray[np.bool_], name: str) -> None:
    """Raise if any id is missing; `null` marks the missing ones."""
    count = int(np.count_nonzero(null))
    if count:
        raise ValueError(
            f"{count} of {len(null)} {called(name)} are missing (null or NaN), the first at row "
            f"{int(np.argmax(null))}; drop those rows or give them an id"
        )


def called(name: str) -> str:
    """What errors call the ids of a side."""
    return f"{name} ids" if name else "ids"


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """A 1-D object array of the values, whatever they are."""
    return np.fromiter(values, dtype=object, count=len(values))  # np.array would unpack tuples


def json_keeps(id: Any) -> bool:
    """Whether JSON gives an id back unchanged, tuples written as arrays."""
    if type(id) is tuple:
        return all(map(json_keeps, id))
    return type(id) in (str, int, bool, type(None)) or (type(id) is float and np.isfinite(id))


def tuples_from_lists(value: Any) -> Any:
    """A parsed JSON list of ids with its inner arrays as tuples."""
    if not isinstance(value, list):
        raise ValueError("ids must be a JSON list")
    return [tuple(tuples_from_lists(item)) if isinstance(item, list) else item for item in value]


def join_text(texts: list[str]) -> tuple[NDArray[np.uint8], Ints]:
    """utf-8 bytes of n strings end to end, and the n + 1 offsets at which they start and end."""
    raw = np.frombuffer("".join(texts).encode("utf-8", "surrogatepass"), np.uint8)
    ends = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=ends[1:])
    return raw, ends if ends[-1] == len(raw) else np.append(_characters(raw), len(raw))[ends]


def split_text(raw: NDArray[np.uint8], offsets: Ints) -> list[str]:
    """The strings that `join_text` joined."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(raw) or np.any(np.diff(offsets) < 0):
        raise ValueError("the offsets of the string ids do not fit their bytes")
    text = raw.tobytes().decode("utf-8", "surrogatepass")
    if len(text) < len(raw):  # the offsets count bytes
        starts = np.append(_characters(raw), len(raw))
        places = np.searchsorted(starts, offsets)
        if np.any(starts[places] != offsets):
            raise ValueError("the offsets of the string ids cut through a character")
        offsets = places
    return [text[a:b] for a, b in pairwise(offsets.tolist())]


def _characters(raw: NDArray[np.uint8]) -> Ints:
    """Where characters begin in utf-8 bytes."""
    return np.flatnonzero(raw & 0xC0 != 0x80)
