"""Ids of one side and their row numbers: factorise a column, look ids up, turn rows back into ids.

Knows ids of any hashable kind and the columns of any frame library. Must not know factors, models or files.
What counts as the same id is decided in `plain_ids.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from itertools import islice, repeat
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from halfstep.data.plain_ids import (
    IntLookup,
    Ints,
    as_series,
    called,
    factorise,
    is_int64,
    join_text,
    json_keeps,
    number_objects,
    objects,
    plain_ids,
    refuse_null,
    sorted_distinct,
    split_text,
    tuples_from_lists,
)
from halfstep.errors import UnknownIdError, close_matches, did_you_mean

Kind = Literal["range", "int", "str", "object"]

MAX_IDS = 2**31 - 1  # row numbers are int32 in the core
_SUGGEST_AMONG = 2_000  # fuzzy matching is slow; an unknown id must not stall a server with millions of ids
_TENSORS: dict[str, dict[str, type]] = {  # what `Index.to_state` stores for each kind
    "range": {},
    "int": {"ids": np.int64},
    "str": {"bytes": np.uint8, "offsets": np.int64},
    "object": {"json": np.uint8},
}


class Index:
    """The ids of one side, in the order of its factor rows. Immutable.

    Parameters
    ----------
    ids : 1-D array, list or column of n unique ids (int, str or any hashable)
    name : what one of them is called in errors, such as "user"
    """

    def __init__(self, ids: Any, name: str = "") -> None:
        plain = plain_ids(ids, name).copy()
        self._set(plain, len(plain), name)
        _ = self._lookup  # building it finds duplicates

    @classmethod
    def range(cls, n: int, name: str = "") -> Index:
        """The row numbers 0..n-1 as ids, for input without ids. O(1) memory."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n={n!r} is not a number of rows; it must be an integer from 0 to {MAX_IDS}")
        index = cls.__new__(cls)
        index._set(None, int(n), name)
        return index

    @classmethod
    def unique(cls, ids: NDArray[Any], name: str) -> Index:
        """An index of plain ids that should be unique already; checked when first looked up."""
        index = cls.__new__(cls)
        index._set(ids, len(ids), name)
        return index

    def _set(self, ids: NDArray[Any] | None, length: int, name: str) -> None:
        if length > MAX_IDS:
            raise ValueError(f"{length} distinct {called(name)}: one side can have at most {MAX_IDS}")
        if ids is not None:
            ids = ids.view()
            ids.flags.writeable = False
        self._ids, self._length, self.name = ids, length, name

    @property
    def is_range(self) -> bool:
        """Whether the ids are the row numbers."""
        return self._ids is None

    @property
    def kind(self) -> Kind:
        """What the ids are: "range", "int", "str", or "object" for anything else."""
        if self._ids is None:
            return "range"
        if self._ids.dtype == np.int64:
            return "int"
        return "str" if set(map(type, self._ids)) <= {str} else "object"

    @property
    def ids(self) -> NDArray[Any]:
        """The n ids, read-only: int64, or object (Python str for strings)."""
        if self._ids is not None:
            return self._ids
        rows = np.arange(self._length, dtype=np.int64)
        rows.flags.writeable = False
        return rows

    def find(self, ids: Any) -> Ints:
        """Row numbers of `ids`, -1 where unknown. int64, one for each id given."""
        return self._find(plain_ids(ids, self.name))

    def positions(self, ids: Any) -> Ints:
        """Row numbers of `ids` as int64; an unknown one raises `UnknownIdError` with close matches."""
        wanted = plain_ids(ids, self.name)
        found = self._find(wanted)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            raise self._unknown(wanted[unknown[:1]].tolist()[0], len(unknown), len(wanted))
        return found

    def position(self, id: Any) -> int:
        """The row number of one id."""
        return int(self.positions([id])[0])

    def take(self, positions: Any) -> NDArray[Any]:
        """Ids of rows, in the shape of `positions`. -1 stands for no row and gives None."""
        rows = np.array(positions, dtype=np.int64)
        if rows.size and (rows.min() < -1 or rows.max() >= len(self)):
            raise IndexError(
                f"positions must be from -1 to {len(self) - 1}, got {rows.min()} to {rows.max()}: "
                f"there are {len(self)} {called(self.name)}"
            )
        missing = rows < 0
        if not missing.any():
            return rows if self._ids is None else self._ids[rows]
        taken = np.full(rows.shape, None, dtype=object)
        taken[~missing] = self.take(rows[~missing])
        return taken

    def extend(self, new_ids: Any) -> Index:
        """This index with the unseen ones of `new_ids` appended, in order of appearance."""
        new = plain_ids(new_ids, self.name)
        unseen = new[self._find(new) < 0]
        unseen = np.fromiter(number_objects(unseen, self.name)[0], unseen.dtype)  # each once, as they appear
        if not len(unseen):
            return self
        size = len(self) + len(unseen)
        if self.is_range and np.array_equal(unseen, np.arange(len(self), size)):
            return Index.range(size, self.name)
        if not len(self):
            return Index.unique(unseen, self.name)
        return Index.unique(np.concatenate([self.ids, unseen]), self.name)  # int64 with object is object

    def __len__(self) -> int:
        return self._length

    def __contains__(self, id: object) -> bool:
        try:
            return bool(self.find([id])[0] >= 0)
        except (TypeError, ValueError):  # None, NaN, booleans and unhashables are never ids
            return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Index):
            return NotImplemented
        return len(self) == len(other) and bool(np.array_equal(self.ids, other.ids))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Index({self._summary()})"

    def __getstate__(self) -> tuple[NDArray[Any] | None, int, str]:
        return self._ids, self._length, self.name  # the lookup is cheaper to build than to ship

    def __setstate__(self, state: tuple[NDArray[Any] | None, int, str]) -> None:
        self._set(*state)

    @cached_property
    def _lookup(self) -> IntLookup | dict[Any, int] | None:
        """How rows are found: None for row numbers, a table for integers, a dict for the rest."""
        lookup: IntLookup | dict[Any, int]
        if self._ids is None:
            return None
        if self._ids.dtype == np.int64:
            lookup = IntLookup(self._ids)
            rows = lookup.find(self._ids)
        else:
            lookup, rows = number_objects(self._ids, self.name)
        repeated = np.flatnonzero(rows != np.arange(len(self)))
        if len(repeated):
            first = self._ids[repeated[:1]].tolist()[0]
            raise ValueError(
                f"{called(self.name)} must be unique, but {first!r} occurs more than once "
                f"(position {repeated[0]}); pass each id once"
            )
        return lookup

    def _find(self, wanted: NDArray[Any]) -> Ints:
        """`find` for ids in plain form."""
        lookup = self._lookup
        if isinstance(lookup, dict):
            try:
                return np.fromiter(map(lookup.get, wanted.tolist(), repeat(-1)), np.int64, len(wanted))
            except TypeError as error:
                raise TypeError(f"{called(self.name)} must be hashable: {error}") from error
        if wanted.dtype == object:  # a mixed list: only its integers can be here
            found = np.full(len(wanted), -1, dtype=np.int64)
            integers = np.fromiter(map(is_int64, wanted), bool, len(wanted))
            if integers.any():
                found[integers] = self._find(wanted[integers].astype(np.int64))
            return found
        if lookup is None:
            return np.where((wanted >= 0) & (wanted < len(self)), wanted, -1)
        return lookup.find(wanted)

    def _summary(self) -> str:
        first = ", ".join(map(repr, self.take(np.arange(min(3, len(self)))).tolist()))
        link = ", such as " if len(self) > 3 else ": " if first else ""
        return f"{len(self)} {called(self.name)}{link}{first}"

    def _unknown(self, wanted: Any, n_unknown: int, n_wanted: int) -> UnknownIdError:
        near = self._near(wanted)
        many = f" ({n_unknown} of the {n_wanted} given are unknown)" if n_wanted > 1 else ""
        text = f"unknown {called(self.name)[:-1]} {wanted!r}{many}; there are {self._summary()}.{did_you_mean(near)}"
        return UnknownIdError(text, near)

    def _near(self, wanted: Any) -> list[Any]:
        """Up to three known ids near `wanted`: its text as another type if known, else close texts."""
        text = str(wanted)
        digits = text[:20].strip().removeprefix("-")  # int64 has at most 19
        if isinstance(wanted, str) and len(text) <= 20 and digits.isdecimal() and int(text) in self:
            return [int(text)]
        if not isinstance(wanted, str) and text in self:
            return [text]
        known = self.take(np.arange(min(len(self), _SUGGEST_AMONG))).tolist()
        if len(self) > _SUGGEST_AMONG and self._ids is not None and self._ids.dtype == object:
            start = text[:3].casefold()
            alike = (id for id in self._ids if str(id)[:3].casefold() == start)
            known = list(islice(alike, _SUGGEST_AMONG))
        return close_matches(wanted, known)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a file needs: a small JSON-able dict, and tensors.

        Integers are one int64 tensor. Strings are their utf-8 bytes end to end, and n + 1 offsets. Other ids
        are the bytes of a JSON list in which an array stands for a tuple; ids that JSON would change raise.
        """
        kind = self.kind
        state = {"kind": kind, "name": self.name, "length": len(self)}
        if kind == "range":
            return state, {}
        if kind == "int":
            return state, {"ids": self.ids}
        if kind == "str":
            return state, dict(zip(_TENSORS["str"], join_text(self.ids.tolist()), strict=True))
        changed = next((id for id in self.ids if not json_keeps(id)), None)
        if changed is not None:
            raise ValueError(
                f"{called(self.name)[:-1]} {changed!r} of type {type(changed).__name__} cannot be saved; "
                "files keep integers, strings, finite floats and tuples of them: convert the ids, say to str"
            )
        return state, {"json": np.frombuffer(json.dumps(self.ids.tolist()).encode(), np.uint8)}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Index:
        """The index that `to_state` described; anything inconsistent raises a ValueError. Runs nothing."""
        kind, name, length = state.get("kind"), str(state.get("name", "")), state.get("length")
        if kind not in _TENSORS or not isinstance(length, int):
            raise ValueError(f"ids of unknown kind {kind!r} and length {length!r}")
        for key, dtype in _TENSORS[kind].items():
            if key not in arrays or arrays[key].dtype != dtype or arrays[key].ndim != 1:
                raise ValueError(f"ids of kind {kind!r} need a 1-D {np.dtype(dtype)} tensor {key!r}")
        if kind == "range":
            return cls.range(length, name)
        if kind == "int":
            ids = arrays["ids"]
        elif kind == "str":
            ids = objects(split_text(arrays["bytes"], arrays["offsets"]))
        else:
            ids = objects(tuples_from_lists(json.loads(arrays["json"].tobytes())))
        if len(ids) != length:
            raise ValueError(f"{len(ids)} ids where {length} are announced")
        if len(set(ids.tolist())) != length:
            raise ValueError(f"{called(name)} must be unique")
        return cls.unique(ids, name)


def encode(values: Any, name: str = "") -> tuple[Index, NDArray[np.int32]]:
    """Factorise a column of n ids: the index of the distinct ones, and n row numbers as int32.

    `index.take(codes)` gives the column back. Integers and strings are sorted (strings by code point), other
    ids keep the order of appearance; so the result does not depend on the frame library of the column.
    Null and NaN ids raise with their count and the first row.
    """
    series = as_series(values)
    if series is not None and series.dtype == nw.String:
        texts, codes = factorise(series)
        refuse_null(codes < 0, name)
        return _sort_texts(texts.tolist(), codes, name)
    plain = plain_ids(values, name)
    if plain.dtype == np.int64:
        index = Index.unique(sorted_distinct(plain), name)
        return index, index._find(plain).astype(np.int32)
    numbers, codes = number_objects(plain, name)
    distinct = list(numbers)
    if set(map(type, distinct)) <= {str}:
        return _sort_texts(distinct, codes, name)
    return Index.unique(objects(distinct), name), codes.astype(np.int32)


def _sort_texts(texts: Sequence[str], codes: NDArray[Any], name: str) -> tuple[Index, NDArray[np.int32]]:
    """Sort the distinct `texts` and renumber `codes` to match."""
    order = sorted(range(len(texts)), key=texts.__getitem__)
    index = Index.unique(objects([texts[number] for number in order]), name)
    rank = np.empty(len(texts), dtype=np.int32)
    rank[order] = np.arange(len(texts), dtype=np.int32)
    return index, rank[codes]
