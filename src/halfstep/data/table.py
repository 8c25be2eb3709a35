"""Who has what, on this machine: cells with the ids of both sides. From any input, merged, and as tensors of a file.

Takes scipy sparse matrices, arrays, frames and `Interactions`. Knows no models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.cells import Observations, Values, check_size
from halfstep.core.weighting import Margins, Weighting
from halfstep.data.columns import choose_columns, noun
from halfstep.data.files import Saved
from halfstep.data.frames import interactions_from_frame, is_frame
from halfstep.data.ids import Index, encode
from halfstep.data.mapped import is_matrix_file, read_matrix
from halfstep.data.names import Aliases, Names
from halfstep.data.plain_ids import join_text, split_text
from halfstep.data.row_groups import RowGroups, is_parquet
from halfstep.data.tensors import BYTES, OFFSETS, PLACES, REAL, WEIGHTS, Tensor
from halfstep.errors import expect_plain, expect_sound

SIDES = ("user", "item")
OtherNames = tuple[Aliases | None, Aliases | None]
Labels = tuple[NDArray[Any] | None, NDArray[Any] | None]


@dataclass(frozen=True, eq=False)
class CellsHere:
    """Cells with the ids of both sides and, where known, titles to show people and other names to find rows by.

    total_weight, classes : of pairs with values; the sum of the weights as given, the two classes of losses with them.
    """

    cells: Observations
    ids: tuple[Index, Index]
    labels: Labels = (None, None)
    total_weight: float = 0.0
    classes: NDArray[Any] | None = None
    aliases: OtherNames = (None, None)

    @property
    def n_rows(self) -> int:
        return len(self.cells)

    def sample(self, n_cells: int) -> Observations:
        """All cells: they are here."""
        return self.cells

    def astype(self, dtype: Any) -> CellsHere:
        """The same with weights of another precision; itself, with what is known of its columns, where they have it."""
        weights = self.cells.weights
        same = not isinstance(weights, np.ndarray) or weights.dtype == dtype
        return self if same else replace(self, cells=self.cells.astype(dtype))

    def weighed(self, weighting: Weighting, margins: Margins | None, dtype: Any) -> CellsHere:
        return replace(self, cells=weighting.apply(self.cells, margins, dtype))


# ---------------------------------------------------------------------- from any input


def read_table(
    X: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    weight: str | None = None,
    dtype: Any = np.float32,
    signed: bool = False,
) -> CellsHere:
    """Users x items with weights from whatever holds them; targets are 1.

    Sparse matrix or 2-D array: rows are users, columns items, values weights, ids are row and column numbers; a zero
    is an unobserved cell. Frame: a row for each cell, columns named or detected. Repeated cells are summed. The path of
    a Parquet file, or of a folder of some: as the frame, but read a row group at a time. The path of an .npz file of
    scipy: as the matrix, its arrays mapped. What this has returned: itself, so that several fits share it.
    signed : whether weights may be below 0.
    """
    if isinstance(X, CellsHere):
        return X.astype(dtype)
    named = {"user": user, "item": item, "weight": weight}
    if is_parquet(X):
        return _from_parquet(RowGroups(X), named, dtype, signed)
    if is_matrix_file(X):
        X = read_matrix(X)
    if any(named.values()) and not is_frame(X):
        given = ", ".join(f"{role}={name!r}" for role, name in named.items() if name)
        raise ValueError(
            f"{given} name columns of a frame, but X is a {type(X).__name__}; leave them out or pass a frame."
        )
    if hasattr(X, "matrix") and hasattr(X, "item_ids"):  # Interactions
        ids = Index(X.user_ids, X.nouns[0]), Index(X.item_ids, X.nouns[1])
        told: dict[str, Any] = {
            "labels": (X.user_labels, X.item_labels),
            "aliases": getattr(X, "aliases", (None, None)),
        }
        return CellsHere(_from_matrix(X.matrix, dtype, signed), ids, **told)
    if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        cells = _from_matrix(X, dtype, signed)
        return CellsHere(cells, (Index.range(cells.shape[0], "user"), Index.range(cells.shape[1], "item")))
    if is_frame(X):
        columns = interactions_from_frame(X, user, item, weight)
        users, rows = encode(columns.users, noun("user", columns.names["user"]))
        items, places = encode(columns.items, noun("item", columns.names["item"]))
        if columns.weights is not None:
            _check_weights(columns.weights, lambda k: f"row {k} of the frame", signed)
        if not len(rows):
            raise _no_rows()
        values = 1.0 if columns.weights is None else columns.weights
        cells = summed(rows, places, (len(users), len(items)), values, dtype)
        return CellsHere(_not_empty(cells), (users, items))
    raise TypeError(
        "X must be a scipy sparse matrix, a 2-D array of weights, a frame with user and item columns, the path of a "
        "Parquet file or of an .npz file of scipy, or Interactions (hs.datasets.read_interactions reads text); "
        f"got {type(X).__name__}"
        + (f" of shape {X.shape}. Rows are users and columns are items." if hasattr(X, "shape") else ".")
    )


def _from_parquet(table: RowGroups, named: Mapping[str, Any], dtype: Any, signed: bool) -> CellsHere:
    """What the frame of the same columns would give, without ever holding it."""
    if not table.n_rows:
        raise _no_rows()
    names = choose_columns(named, table.names)
    users, rows = table.ids(names["user"], noun("user", names["user"]))
    items, columns = table.ids(names["item"], noun("item", names["item"]))
    weights: Values = 1.0
    if "weight" in names:
        weights = table.numbers(names["weight"], dtype, partial(_check_weights, signed=signed))
    grouped = Observations.by_column(rows, columns, (len(users), len(items)), 1.0, weights, dtype)
    del rows, columns, weights  # before the next copy is made
    cells = grouped.by_row()
    del grouped
    return CellsHere(_not_empty(cells.summed(dtype).settled(dtype)), (users, items))


def _no_rows() -> ValueError:
    return ValueError("X has no rows; a fit needs at least one interaction.")


def summed(
    rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int], weights: NDArray[Any] | float, dtype: Any
) -> Observations:
    """Cells from their places; repeated ones are summed, and those of weight zero left out."""
    cells = Observations.from_cells(rows, columns, shape, weights=weights, duplicates="sum", dtype=dtype)
    return cells.settled(dtype)  # summing can make zeros or constants


def _from_matrix(X: Any, dtype: Any, signed: bool) -> Observations:
    check_size(X.shape)  # before anything as long as a side is made
    if sp.issparse(X):
        expect_sound("X", X)
    else:
        expect_plain("X", X)
    if X.dtype.kind not in "biuf":
        raise TypeError(
            f"X is a matrix of {X.dtype}; it must hold weights, which are real numbers, users x items. "
            "Pairs of ids go into a frame with a user and an item column."
        )
    if not sp.issparse(X) and X.dtype.kind == "f" and not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"X has {X[row, column]} at row {row}, column {column}; weights must be finite. Unobserved cells are 0."
        )
    if X.dtype not in (np.float32, np.float64):  # narrow integers would overflow where repeated cells are summed
        X = X.astype(dtype)
    matrix = X.tocsr() if sp.issparse(X) else sp.csr_array(X)
    if min(matrix.shape) == 0 or matrix.nnz == 0:
        raise ValueError(f"X of shape {matrix.shape} has no stored cell; a fit needs at least one interaction.")

    def where(k: int) -> str:
        return f"row {int(np.searchsorted(matrix.indptr, k, side='right')) - 1}, column {int(matrix.indices[k])}"

    _check_weights(matrix.data, where, signed)
    return _not_empty(Observations.from_weights(matrix, dtype))


def _not_empty(cells: Observations) -> Observations:
    if not len(cells):
        raise ValueError("every stored weight of X is zero; a fit needs at least one interaction.")
    return cells


def _check_weights(values: NDArray[Any], where: Callable[[int], str], signed: bool) -> None:
    bad = ~np.isfinite(values) | ((values < 0) & (not signed))
    if bad.any():
        first, limit = int(np.argmax(bad)), "" if signed else " and >= 0"
        raise ValueError(
            f"weights must be finite{limit}; {int(bad.sum())} are not, first {values[first]} at {where(first)}. "
            "A weight says how much a cell counts; leave a cell out if it should not count."
            + ("" if signed else " Dislikes are for WALS(dislikes=True).")
        )


def placed(new: CellsHere, names: Names, dtype: Any) -> CellsHere:
    """Rows of another table over the columns of a fit, by id or label; a column that the fit does not know raises."""
    cells = new.cells.to_csr().tocoo()
    columns = names.positions(new.ids[1].ids)[cells.col]
    known = summed(cells.row, columns, (len(new.ids[0]), len(names)), cells.data, dtype)
    return CellsHere(known, (new.ids[0], names.index), (new.labels[0], names.labels))


# ---------------------------------------------------------------------- merged


def without_cells(columns: Index, n: int = 1) -> CellsHere:
    """n rows that have nothing, over these columns."""
    nothing = Observations((n, len(columns)), np.zeros(n + 1, np.int64), np.zeros(0, np.int32))
    return CellsHere(nothing, (Index.range(n), columns))


def merge(old: CellsHere, new: CellsHere, dtype: Any) -> CellsHere:
    """Old cells and new ones over all ids, new ids appended; where both have a cell the new weight holds."""
    for side, a, b in zip(("rows", "columns"), old.ids, new.ids, strict=True):
        if a.is_range and b.is_range and len(b) < len(a):
            raise ValueError(f"X has {len(b)} {side}; without ids it needs at least the {len(a)} of the fit.")
    users, items = (a.extend(b.ids) for a, b in zip(old.ids, new.ids, strict=True))

    def spread(given: CellsHere) -> Any:
        cells = given.cells.to_csr().tocoo()
        rows, columns = users.positions(given.ids[0].ids)[cells.row], items.positions(given.ids[1].ids)[cells.col]
        return sp.csr_array((cells.data, (rows, columns)), shape=(len(users), len(items)))

    before, after = spread(old), spread(new)
    replaced = after.copy()
    replaced.data = np.ones_like(replaced.data)
    merged = sp.csr_array(before - before.multiply(replaced) + after)
    labels = (_merged_labels(old, new, 0, users), _merged_labels(old, new, 1, items))
    aliases = (_merged_aliases(old, new, 0, users), _merged_aliases(old, new, 1, items))
    return CellsHere(Observations.from_weights(merged, dtype), (users, items), labels, aliases=aliases)


def _merged_labels(old: CellsHere, new: CellsHere, side: int, merged: Index) -> NDArray[Any] | None:
    """Old titles hold; an id without one is its own."""
    known = [(given.ids[side], given.labels[side]) for given in (new, old) if given.labels[side] is not None]
    labels = merged.ids.astype(object)
    for index, titles in known:
        labels[merged.positions(index.ids)] = titles
    return labels if known else None


def _merged_aliases(old: CellsHere, new: CellsHere, side: int, merged: Index) -> Aliases | None:
    known = [
        (each.texts, merged.positions(given.ids[side].ids)[each.rows])
        for given in (old, new)
        if (each := given.aliases[side]) is not None
    ]
    return Aliases(*map(np.concatenate, zip(*known, strict=True))) if known else None


# ---------------------------------------------------------------------- in a model file


def to_arrays(given: CellsHere, dtype: Any) -> dict[str, NDArray[Any]]:
    """Cells and labels as tensors for `files.save`; ids travel as its `indexes`."""
    cells = given.cells
    arrays: dict[str, NDArray[Any]] = {
        "indptr": cells.indptr,
        "indices": cells.indices,
        "weights": np.atleast_1d(np.asarray(cells.weights, dtype)),
    }
    for side, labels in zip(SIDES, given.labels, strict=True):
        if labels is not None:
            arrays[f"{side}_label_bytes"], arrays[f"{side}_label_offsets"] = join_text([str(x) for x in labels])
    for side, other in zip(SIDES, given.aliases, strict=True):
        if other is not None:
            arrays[f"{side}_alias_bytes"], arrays[f"{side}_alias_offsets"] = join_text(other.texts.tolist())
            arrays[f"{side}_alias_rows"] = other.rows
    return arrays


PATTERN = {"indptr": Tensor("users+1", OFFSETS, of="cells"), "indices": Tensor("cells", PLACES, of="items")}


def from_saved(saved: Saved, signed: bool = False) -> CellsHere:
    """The cells that `to_arrays` took apart. signed : whether weights may be below 0."""
    which, (weights,) = saved_cells(saved, PATTERN | {"weights": Tensor("cells|1", REAL if signed else WEIGHTS)})
    labels = tuple(_saved_labels(saved, side, len(ids)) for side, ids in zip(SIDES, which.ids, strict=True))
    aliases = tuple(_saved_aliases(saved, side, len(ids)) for side, ids in zip(SIDES, which.ids, strict=True))
    named: dict[str, Any] = {"labels": labels, "aliases": aliases}
    return CellsHere(replace(which.cells, weights=weights), which.ids, **named)


def saved_cells(saved: Saved, declared: Mapping[str, Tensor] = PATTERN) -> tuple[CellsHere, list[Any]]:
    """Ids, and which cells there are, each of weight 1; then what else is declared, one number or one for each cell."""
    users, items = saved.index("user"), saved.index("item")
    found = saved.tensors(declared, users=len(users), items=len(items))
    indptr, indices = found.pop("indptr"), found.pop("indices")
    values = [float(each[0]) if len(each) == 1 else each for each in found.values()]
    cells = Observations((len(users), len(items)), indptr, indices.astype(np.int32, copy=False))
    return CellsHere(cells, (users, items)), values


def _saved_labels(saved: Saved, side: str, n: int) -> NDArray[Any] | None:
    text, offsets = f"{side}_label_bytes", f"{side}_label_offsets"
    if text not in saved.arrays:
        return None
    declared = {text: Tensor("bytes", BYTES), offsets: Tensor("labels+1", OFFSETS, of="bytes")}
    return np.array(split_text(*saved.tensors(declared, labels=n).values()), object)


def _saved_aliases(saved: Saved, side: str, n: int) -> Aliases | None:
    text, offsets, rows = (f"{side}_alias_{part}" for part in ("bytes", "offsets", "rows"))
    if text not in saved.arrays:
        return None
    declared = {
        text: Tensor("bytes", BYTES),
        offsets: Tensor("names+1", OFFSETS, of="bytes"),
        rows: Tensor("names", PLACES, of="named"),
    }
    found = saved.tensors(declared, named=n)
    return Aliases(np.array(split_text(found[text], found[offsets]), object), found[rows].astype(np.int64))
