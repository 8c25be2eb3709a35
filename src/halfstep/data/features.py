"""Features of rows: what is known about users or items beside their interactions, as one sparse matrix with names.

From a frame, dicts, a matrix or an array, encoded so that later rows get the same columns (`feature_columns.py`). Must
not know models: they ask for the rows of their ids, and for new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from halfstep.data.feature_columns import (
    Categories,
    FeatureBlock,
    Lists,
    TextWords,
    block_from_json,
    block_to_json,
    column_kind,
)
from halfstep.data.feature_sources import FeatureRows, is_table, read_features, read_matrix
from halfstep.data.feature_values import Table
from halfstep.data.ids import Index
from halfstep.errors import one_of

TextColumnNames = Sequence[str] | Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """n rows of p features. Made by `Features.of`; immutable.

    Attributes
    ----------
    matrix : CSR of float64, (n, p). What is missing or was never seen is 0.
    names : the p columns, such as "group=25", "title: python", "hot".
    ids : whose rows they are, in their order; None where the source was a matrix without ids.
    blocks : how columns of a table become these columns; empty where the source was a matrix.
    """

    matrix: Any
    names: tuple[str, ...]
    ids: Index | None = None
    blocks: tuple[FeatureBlock, ...] = field(default=())

    @classmethod
    def of(
        cls,
        source: Any,
        *,
        side: str = "item",
        id: str | None = None,
        text: TextColumnNames = (),
        lists: Mapping[str, str] | None = None,
        categories: Sequence[str] = (),
        ids: Any = None,
        names: Sequence[str] | None = None,
    ) -> Features:
        """Features out of any source.

        Parameters
        ----------
        source : a frame (pandas, polars, pyarrow) with one row for each id; a dict of id to a dict of column to value;
            a scipy sparse matrix or an array of shape (n, p); or Features, which are returned as they are.
        side : "user" or "item": whose features they are. Finds the id column of a frame, and names ids in errors.
        id : the id column of a frame. None takes a named or a text index (pandas), else a column with a common name.
        text : text columns, whose words become columns: tf-idf, rows of length 1. They may hold lists of texts. Columns
            are read as one text; in a list of lists, [["title", "names"], ["description"]], each has words of its own,
            which serves short texts beside long ones.
        lists : columns that hold lists as text, and what separates two elements: {"genres": "|"}.
        categories : columns of numbers that are names of groups, not quantities.
        ids : for a matrix or an array, whose rows they are: n ids.
        names : for a matrix or an array, what its p columns are called.

        Of other columns numbers are standardised (a missing one is the mean), booleans are 0 and 1, text is a category
        with a column for each value, and lists have a column for each element and length 1.
        """
        one_of("side", side, ["user", "item"])
        if isinstance(source, Features):
            _refuse("Features", id=id, text=text, lists=lists, categories=categories, ids=ids, names=names)
            return source
        if not is_table(source):
            _refuse("a matrix", id=id, text=text, lists=lists, categories=categories)
            matrix = read_matrix(source, f"{side}_features")
            called = [f"feature {place}" for place in range(matrix.shape[1])] if names is None else list(names)
            return cls._checked(matrix, called, None if ids is None else Index(ids, side))
        _refuse("a frame or a dict", ids=ids, names=names)
        table = read_features(source, side, id)
        if table.ids is None:
            raise ValueError(
                f"no column looks like the id of the {side}s; the columns are {list(table.columns)}: pass id= with one "
                "of them, or a dict of id to dict"
            )
        return cls.of_columns(table.ids, table.columns, text=text, lists=lists, categories=categories)

    @classmethod
    def of_columns(
        cls,
        ids: Index,
        columns: Table,
        *,
        text: TextColumnNames = (),
        lists: Mapping[str, str] | None = None,
        categories: Sequence[str] = (),
    ) -> Self:
        """Features of columns by name, with a value for each id; parameters as in `of`."""
        blocks = _learn(columns, text_columns(text), lists or {}, _listed("categories", categories))
        return cls._encoded(blocks, FeatureRows(ids, columns, len(ids)))

    @classmethod
    def _checked(cls, matrix: Any, names: Sequence[str], ids: Index | None) -> Self:
        for what, given, count in (("names", names, matrix.shape[1]), ("ids", ids, matrix.shape[0])):
            if given is not None and len(given) != count:
                raise ValueError(f"{what} has {len(given)} entries; the matrix of shape {matrix.shape} needs {count}")
        return cls(matrix, tuple(map(str, names)), ids)

    @classmethod
    def _encoded(cls, blocks: tuple[FeatureBlock, ...], table: FeatureRows) -> Self:
        parts = [block.encode(table.columns, table.rows) for block in blocks]
        matrix = sparse.csr_array(sparse.hstack(parts, "csr")) if parts else sparse.csr_array((table.rows, 0))
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return cls(matrix, tuple(name for block in blocks for name in block.names), table.ids, blocks)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    def __len__(self) -> int:
        """The number of rows."""
        return self.shape[0]

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<Features {rows:,} x {columns:,}, {self.matrix.nnz:,} values>"

    def encode(self, rows: Any) -> Features:
        """New rows in the same columns.

        rows : a frame or a dict of dicts like the source; one dict of column to value, or a list of those; or, where
            the source was a matrix, a matrix or an array with as many columns (one row may be 1-D).

        Columns that are left out count as missing; columns that the source did not have raise.
        """
        if isinstance(rows, Features):
            if rows.names != self.names:
                raise ValueError(f"features have other columns: {len(rows.names)} of them, {len(self.names)} expected")
            return rows
        if not self.blocks:
            return self._of_matrix(rows)
        sources = tuple(name for block in self.blocks for name in block.sources)
        if not is_table(rows):
            raise TypeError(
                f"features of type {type(rows).__name__} cannot be encoded; give a frame, a dict of column to value, "
                f"or a list of such dicts, with columns among {list(sources)}"
            )
        table = read_features(rows, "item" if self.ids is None else self.ids.name, known=sources)
        for name in table.columns:
            one_of("column", name, sources, "is none of the columns that features were made of, which are")
        return self._encoded(self.blocks, table)

    def aligned(self, index: Index) -> sparse.csr_array:
        """The rows of `index`, in its order, (len(index), p); zeros where an id has no features.

        Without ids, rows are taken as they lie, which is only clear where the fit has row numbers for ids.
        """
        side = index.name or "item"
        first = _first(index)
        if self.ids is None:
            if len(index) != len(self):
                raise ValueError(
                    f"{side} features have {len(self)} rows and no ids, and the fit has {len(index)} {side}s: give a "
                    "row for each of them, in the order of the matrix"
                )
            if not (index.is_range or np.array_equal(index.ids, np.arange(len(index)))):
                raise ValueError(
                    f"{side} features have no ids, and the fit has, such as {first}: say whose rows they are by a "
                    "frame with an id column, or by Features.of(matrix, ids=...)"
                )
            return sparse.csr_array(self.matrix)
        places = self.ids.find(index.ids)
        known = np.flatnonzero(places >= 0)
        if not len(known) and len(index):
            raise ValueError(
                f"no {side} of the fit has features: the fit has {side} ids such as {first}, the features such as "
                f"{_first(self.ids)}"
            )
        chosen = sparse.csr_array((np.ones(len(known)), (known, places[known])), (len(index), len(self)))
        return sparse.csr_array(chosen @ self.matrix)

    def outside(self, index: Index) -> Features:
        """The rows of ids that `index` lacks: those that are cold."""
        if self.ids is None:
            return self.take(np.arange(0))
        return self.take(np.flatnonzero(index.find(self.ids.ids) < 0))

    def take(self, rows: NDArray[Any]) -> Features:
        """Only these rows, by their place."""
        ids = None if self.ids is None else Index(self.ids.take(rows), self.ids.name)
        return replace(self, matrix=self.matrix[rows], ids=ids)

    def without(self, rows: NDArray[Any]) -> Features:
        """All rows but these, by their place."""
        return self.take(np.setdiff1d(np.arange(len(self)), rows))

    def of_ids(self, ids: Iterable[Any]) -> Features:
        """Only the rows of these ids, in their order; an unknown one raises with close matches."""
        if self.ids is None:
            raise ValueError("these features have no ids; take(rows) gives rows by their place")
        return self.take(self.ids.positions(ids))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a file needs: a JSON-able dict, and tensors. Ids are not in it: files keep them as indexes."""
        state = {"names": list(self.names), "blocks": [block_to_json(block) for block in self.blocks]}
        return state, {"data": self.matrix.data, "indices": self.matrix.indices, "indptr": self.matrix.indptr}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], ids: Index | None) -> Features:
        """The features that `to_state` described; anything inconsistent raises a ValueError. Runs nothing."""
        names = tuple(map(str, state["names"]))
        blocks = tuple(block_from_json(block) for block in state["blocks"])
        if blocks and sum((block.names for block in blocks), ()) != names:
            raise ValueError("the names of the features are not those of their blocks")
        parts = [np.asarray(arrays[name]) for name in ("data", "indices", "indptr")]
        matrix = sparse.csr_array(tuple(parts), shape=(len(parts[2]) - 1, len(names)), dtype=np.float64)
        matrix.check_format()
        return replace(cls._checked(read_matrix(matrix, "features"), names, ids), blocks=blocks)

    def _of_matrix(self, rows: Any) -> Features:
        if is_table(rows):
            raise TypeError(f"these features are a matrix of {self.shape[1]} columns; give new rows as one too")
        flat = not sparse.issparse(rows) and np.ndim(rows) == 1
        matrix = read_matrix(np.asarray(rows)[None, :] if flat else rows, "features")
        if matrix.shape[1] != self.shape[1]:
            raise ValueError(f"features have {matrix.shape[1]} columns; those of the fit have {self.shape[1]}")
        return replace(self, matrix=matrix, ids=None)


def _learn(
    table: Table, texts: Sequence[Sequence[str]], lists: Mapping[str, str], categories: Sequence[str]
) -> tuple[FeatureBlock, ...]:
    """A block for each column of the table, in their order; then one for each text."""
    text = [name for columns in texts for name in columns]
    for argument, given in (("text", text), ("lists", lists), ("categories", categories)):
        for name in given:
            one_of(argument, name, table, "is not a column of features; the columns are")
    blocks: list[FeatureBlock] = []
    for name, values in table.items():
        if name in lists:
            blocks.append(Lists.learn(name, values, lists[name]))
        elif name in categories:
            blocks.append(Categories.learn(name, values))
        elif name not in text:
            blocks.append(column_kind(name, values)(name, values))
    return (*blocks, *(TextWords.learn(columns, table) for columns in texts))


def _first(index: Index) -> list[Any]:
    return list(index.take(np.arange(min(1, len(index)))).tolist())


def text_columns(text: TextColumnNames) -> list[list[str]]:
    """Which columns are read together: all, or those of each list."""
    if not isinstance(text, str) and any(not isinstance(each, str) for each in text):
        return [_listed("text", each) for each in text]
    return [_listed("text", text)] if len(text) else []


def _listed(argument: str, given: Any) -> list[str]:
    if isinstance(given, str):
        raise TypeError(f"{argument}={given!r} is one name where a list is expected; write [{given!r}].")
    return list(given)


def _refuse(what: str, **given: Any) -> None:
    """Raise where a parameter is given that a source of this kind cannot use."""
    unused = [name for name, value in given.items() if value is not None and len(value)]
    if unused:
        raise ValueError(f"{', '.join(unused)} cannot be used with {what}; leave out what does not belong to it")
