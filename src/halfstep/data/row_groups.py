"""Parquet files a row group at a time: a column of ids into row numbers, one of weights into numbers. Never all of it.

Knows files and columns, not what they are of. What comes out is what `ids.encode` makes of the whole column.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from halfstep.core.cells import Values, fitting
from halfstep.data.frames import weights_of
from halfstep.data.ids import Index, encode
from halfstep.data.plain_ids import IntLookup, called, objects
from halfstep.errors import require

ENDINGS = (".parquet", ".pq")
AT_ONCE = 2**22
"""Rows that are held of one column; groups are seldom larger."""


def is_parquet(path: Any) -> bool:
    """Whether this is the path of a Parquet file, or of a folder with some."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    return Path(path).suffix.lower() in ENDINGS or (Path(path).is_dir() and bool(_inside(Path(path))))


def _inside(folder: Path) -> list[Path]:
    """The files of a data set, without those that say how they were written."""
    found = (each for each in folder.rglob("*") if each.suffix.lower() in ENDINGS and each.is_file())
    return sorted(each for each in found if not each.relative_to(folder).as_posix().startswith(("_", ".")))


class Group(NamedTuple):
    """A row group: its file, its number there, its first row among all rows."""

    file: int
    number: int
    first: int


class RowGroups:
    """The rows of a Parquet file, or of all of a folder in the order of their paths."""

    def __init__(self, path: str | os.PathLike[str], argument: str = "X") -> None:
        self._pq = require("pyarrow.parquet", "frames")
        if not Path(path).exists():
            raise FileNotFoundError(f"{argument}={str(path)!r} does not exist; give a Parquet file or a folder")
        self.paths = _inside(Path(path)) if Path(path).is_dir() else [Path(path)]
        self.groups: list[Group] = []
        self.n_rows = 0
        for number, each in enumerate(self.paths):
            with self._opened(each) as file:
                schema, meta = file.schema_arrow, file.metadata
            if number == 0:
                self.schema = schema
            elif not schema.equals(self.schema):
                raise ValueError(
                    f"{each} has the columns {_listed(schema)}, {self.paths[0].name} {_listed(self.schema)}; the files "
                    f"of {argument} must have the same columns of the same types."
                )
            for k in range(meta.num_row_groups):
                self.groups.append(Group(number, k, self.n_rows))
                self.n_rows += meta.row_group(k).num_rows
        self.names: list[str] = list(self.schema.names)

    def where(self, row: int) -> str:
        """What an error calls a row."""
        group = self.groups[bisect_right([each.first for each in self.groups], row) - 1]
        return f"row {row}, in row group {group.number} of {self.paths[group.file].name}"

    def ids(self, column: str, name: str) -> tuple[Index, NDArray[np.int32]]:
        """What `encode` gives for the column: the sorted distinct ids, and the row number of every row.

        Integers and text go through `coded`; a column of ids of another type is read at once.
        """
        if not self.streams(column):
            return encode(self.whole(column), name)
        known, codes = self.coded(column)
        missing = codes < 0
        if missing.any():
            raise ValueError(
                f"{np.count_nonzero(missing)} of {self.n_rows} {called(name)} in column {column!r} are missing (null), "
                f"the first at {self.where(int(np.argmax(missing)))}; drop those rows or give them an id"
            )
        return Index.unique(known, name), codes

    def coded(self, column: str) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Distinct values of a column of integers or text, sorted, and for every row which it holds; -1 for null."""
        codes = np.empty(self.n_rows, np.int32)
        known = self._numbered(column, codes) if self._form(column) == "int" else self._spelt(column, codes)
        return known, codes

    def numbers(self, column: str, dtype: Any, check: Callable[[NDArray[Any], Callable[[int], str]], None]) -> Values:
        """A column of weights in `dtype`, one number where all are equal. check : told values and where they are."""
        kept: NDArray[Any] | None = None
        one: Any = None
        for first, part in self._parts(column):

            def where(k: int, first: int = first) -> str:
                return self.where(first + k)

            given = weights_of(nw.new_series(column, _decoded(part), backend="pyarrow"), where)
            check(given, where)
            values = np.asarray(fitting("weights", given, dtype))
            if kept is None and one is None and len(values):
                one = values[0]
            if kept is None and not np.all(values == one):
                kept = np.full(self.n_rows, one, dtype)
            if kept is not None:
                kept[first : first + len(values)] = values
        return float(1.0 if one is None else one) if kept is None else kept

    def whole(self, column: str) -> Any:
        """All of a column, as an Arrow array in chunks."""
        import pyarrow

        return pyarrow.chunked_array([part for _, part in self._parts(column)], self.schema.field(column).type)

    def streams(self, column: str) -> bool:
        """Whether `coded` takes the column."""
        return self._form(column) is not None

    # ------------------------------------------------------------------ inside

    def _opened(self, path: Path, **more: Any) -> Any:
        try:
            return self._pq.ParquetFile(path, **more)
        except Exception as error:  # of pyarrow, whatever is wrong with it
            raise ValueError(f"{path} is no whole Parquet file: {error}") from error

    def _form(self, column: str) -> str | None:
        """How the ids of a column are streamed; None where they are not."""
        from pyarrow import types

        kind = self.schema.field(column).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_integer(kind) and kind != "uint64":
            return "int"
        return "text" if types.is_string(kind) or types.is_large_string(kind) else None

    def _parts(self, column: str, text: bool = False) -> Iterator[tuple[int, Any]]:
        """First row and values of some rows at a time: an Arrow array, of text with a dictionary, of ids as numbers."""
        import pyarrow

        opened: int = -1
        file: Any = None
        for group in self.groups:
            if group.file != opened:
                opened = group.file
                file = self._opened(self.paths[opened], read_dictionary=[column] if text else None)
            first = group.first
            try:
                for batch in file.iter_batches(AT_ONCE, row_groups=[group.number], columns=[column]):
                    yield first, batch.column(0)
                    first += len(batch)
            except Exception as error:  # of pyarrow, whatever is wrong with it
                raise ValueError(
                    f"row group {group.number} of {self.paths[group.file]} cannot be read: {error}; write it again"
                ) from error
        pyarrow.default_memory_pool().release_unused()  # it would keep what the next steps could use

    def _numbered(self, column: str, codes: NDArray[np.int32]) -> NDArray[np.int64]:
        """The integers of a column, sorted; codes are filled in. Reading them twice is quicker than renumbering."""
        import pyarrow

        known, new, n_new = pyarrow.array([], "int64"), [], 0
        for _, part in self._parts(column):
            new.append(_decoded(part.unique()).cast("int64").drop_null())
            n_new += len(new[-1])
            if n_new > max(AT_ONCE, len(known)):
                known, new, n_new = pyarrow.chunked_array([known, *new]).unique(), [], 0
        distinct = np.sort(pyarrow.chunked_array([known, *new]).unique().to_numpy())
        lookup = IntLookup(distinct)
        for first, part in self._parts(column):
            places = lookup.find(_decoded(part).cast("int64").fill_null(0).to_numpy())
            if part.null_count:
                places[part.is_null().to_numpy(zero_copy_only=False)] = -1
            codes[first : first + len(part)] = places
        return distinct

    def _spelt(self, column: str, codes: NDArray[np.int32]) -> NDArray[Any]:
        """The texts of a column, sorted by code point; codes are filled in. Texts are costly to read, so once."""
        import pyarrow

        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        for first, part in self._parts(column, text=True):
            coded = part if hasattr(part, "dictionary") else part.dictionary_encode()
            n = len(coded.dictionary)
            places = coded.indices.fill_null(n).to_numpy()
            used = np.zeros(n + 1, np.bool_)
            used[places] = True
            found = np.full(n + 1, -1, np.int32)  # the last is where null lands
            texts = coded.dictionary.filter(pyarrow.array(used[:-1])).to_pylist()
            found[:-1][used[:-1]] = [-1 if text is None else numbers[text] for text in texts]
            codes[first : first + len(part)] = found[places]
        texts = objects(list(numbers))
        order = sorted(range(len(texts)), key=texts.__getitem__)
        rank = np.full(len(texts) + 1, -1, np.int32)
        rank[order] = np.arange(len(texts), dtype=np.int32)
        for first in range(0, self.n_rows, AT_ONCE):
            codes[first : first + AT_ONCE] = rank[codes[first : first + AT_ONCE]]
        return np.asarray(texts[order])


def _decoded(part: Any) -> Any:
    """An array of the values themselves."""
    return part.dictionary_decode() if hasattr(part, "dictionary") else part


def _listed(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
