"""Who has what, as models keep it: cells, the ids of both sides, titles. Merging, and the tensors of a model file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.data.files import ModelFileError, Saved
from halfstep.data.ids import Index
from halfstep.data.plain_ids import join_text, split_text


@dataclass(frozen=True, eq=False)
class CellTable:
    """Observed cells, users x items, the ids of both sides and, where known, titles to show people."""

    observations: Observations
    users: Index
    items: Index
    user_labels: NDArray[Any] | None = None
    item_labels: NDArray[Any] | None = None


def merge(old: CellTable, new: CellTable, dtype: Any) -> CellTable:
    """Old cells and new ones over all ids, new ids appended; where both have a cell the new weight holds."""
    for side, a, b in (("rows", old.users, new.users), ("columns", old.items, new.items)):
        if a.is_range and b.is_range and len(b) < len(a):
            raise ValueError(f"X has {len(b)} {side}; without ids it needs at least the {len(a)} of the fit.")
    users, items = old.users.extend(new.users.ids), old.items.extend(new.items.ids)

    def spread(table: CellTable) -> Any:
        cells = table.observations.to_csr().tocoo()
        rows = users.positions(table.users.ids)[cells.row]
        columns = items.positions(table.items.ids)[cells.col]
        return sp.csr_array((cells.data, (rows, columns)), shape=(len(users), len(items)))

    before, after = spread(old), spread(new)
    replaced = after.copy()
    replaced.data = np.ones_like(replaced.data)
    merged = sp.csr_array(before - before.multiply(replaced) + after)
    return CellTable(
        Observations.from_weights(merged, dtype),
        users,
        items,
        _merged_labels(old.users, old.user_labels, new.users, new.user_labels, users),
        _merged_labels(old.items, old.item_labels, new.items, new.item_labels, items),
    )


def _merged_labels(old: Index, old_labels: Any, new: Index, new_labels: Any, merged: Index) -> NDArray[Any] | None:
    if old_labels is None and new_labels is None:
        return None
    labels = merged.ids.astype(object)
    for index, given in ((new, new_labels), (old, old_labels)):
        if given is not None:
            labels[merged.positions(index.ids)] = given
    return labels


def to_arrays(table: CellTable, dtype: Any) -> dict[str, NDArray[Any]]:
    """Cells and labels as tensors for `persistence.save`; ids travel as its `indexes`."""
    cells = table.observations
    arrays: dict[str, NDArray[Any]] = {
        "indptr": cells.indptr,
        "indices": cells.indices,
        "weights": np.atleast_1d(np.asarray(cells.weights, dtype)),
    }
    for side, labels in (("user", table.user_labels), ("item", table.item_labels)):
        if labels is not None:
            arrays[f"{side}_label_bytes"], arrays[f"{side}_label_offsets"] = join_text([str(x) for x in labels])
    return arrays


def from_saved(saved: Saved) -> CellTable:
    """The table that `to_arrays` took apart; every length is checked."""
    which, weights = pattern_from_saved(saved), saved.array("weights", (None,))
    cells = which.observations
    if len(weights) not in (1, len(cells)):
        raise _misfit(saved)
    weight = float(weights[0]) if len(weights) == 1 else weights
    labels = [_saved_labels(saved, "user", len(which.users)), _saved_labels(saved, "item", len(which.items))]
    weighted = Observations(cells.shape, cells.indptr, cells.indices, 1.0, weight)
    return CellTable(weighted, which.users, which.items, *labels)


def pattern_from_saved(saved: Saved) -> CellTable:
    """Ids, and which cells there are, each of weight 1; every length is checked."""
    users, items = saved.index("user"), saved.index("item")
    indptr, indices = saved.array("indptr", (None,)), saved.array("indices", (None,))
    fits = (
        len(indptr) == len(users) + 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and bool(np.all(np.diff(indptr) >= 0))
        and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < len(items)))
    )
    if not fits:
        raise _misfit(saved)
    return CellTable(Observations((len(users), len(items)), indptr, indices), users, items)


def _misfit(saved: Saved) -> ModelFileError:
    return ModelFileError(f"{saved.path}: its interactions do not fit its users and items")


def _saved_labels(saved: Saved, side: str, n: int) -> NDArray[Any] | None:
    if f"{side}_label_bytes" not in saved.arrays:
        return None
    labels = split_text(saved.array(f"{side}_label_bytes"), saved.array(f"{side}_label_offsets"))
    if len(labels) != n:
        raise ModelFileError(f"{saved.path}: it has {len(labels)} {side} labels for {n} {side}s")
    return np.array(labels, object)
