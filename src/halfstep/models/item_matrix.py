"""What having an item says for the others: S (items, items), sparse or dense, or nothing but counts.

A user who has x (items,) gets the scores x S. Knows positions, no ids. Large products are never held as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep import _core
from halfstep.data.files import Saved
from halfstep.data.tensors import FACTORS, OFFSETS, PLACES, WEIGHTS, Tensor
from halfstep.engine.local import thread_count
from halfstep.models.recommend import Best, pattern

BLOCK_BYTES = 64 * 2**20
"""Dense scores held at a time; what selecting from them needs is a few times that."""


class ItemMatrix(Protocol):
    """S, as recommenders ask for it. Histories are CSR (rows, items); `order` has the items that may be chosen, and
    decides between equal scores."""

    def scores(self, history: Any) -> NDArray[Any]:
        """history S, (rows, items), dense: ask for a block of rows at a time."""

    def best(self, history: Any, k: int, seen: Any, order: NDArray[np.int32], n_threads: int | None) -> Best: ...
    def column(self, item: int) -> NDArray[Any]:
        """(items,) what each item says for this one."""

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        """(k, k) cosines of the columns of items."""

    def constant(self, item: int) -> float:
        """What the item scores for everybody, whatever they have."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As tensors of a file; `saved_matrix` takes them back."""


@dataclass(frozen=True, eq=False)
class SparseItems:
    """S as CSR (items, items)."""

    values: Any

    def scores(self, history: Any) -> NDArray[Any]:
        return np.asarray((history @ self.values).toarray())

    def best(self, history: Any, k: int, seen: Any, order: NDArray[np.int32], n_threads: int | None) -> Best:
        return best_of_product(history, self.values, k, seen, order, n_threads=n_threads)

    def column(self, item: int) -> NDArray[Any]:
        return np.asarray(self.values[:, [item]].toarray()).ravel()

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        columns = self.values[:, items]
        return cosines(np.asarray((columns.T @ columns).toarray(), np.float64))

    def constant(self, item: int) -> float:
        return 0.0

    def arrays(self) -> dict[str, NDArray[Any]]:
        s = self.values
        indptr, indices = s.indptr.astype(np.int64), s.indices.astype(np.int32)
        return {"similar_indptr": indptr, "similar_indices": indices, "similar_values": s.data}


@dataclass(frozen=True, eq=False)
class DenseItems:
    """S as an array (items, items)."""

    values: NDArray[Any]

    def scores(self, history: Any) -> NDArray[Any]:
        return np.asarray(history @ self.values)

    def best(self, history: Any, k: int, seen: Any, order: NDArray[np.int32], n_threads: int | None) -> Best:
        return best_of_blocks(lambda rows: self.scores(history[rows]), history.shape, k, seen, order)

    def column(self, item: int) -> NDArray[Any]:
        return self.values[:, item]

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        columns = self.values[:, items].astype(np.float64)
        return cosines(columns.T @ columns)

    def constant(self, item: int) -> float:
        return 0.0

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"weights_between": self.values}


@dataclass(frozen=True, eq=False)
class ItemCounts:
    """No S: every item scores its count, whoever asks."""

    counts: NDArray[np.float64]

    def scores(self, history: Any) -> NDArray[Any]:
        return np.tile(self.counts, (history.shape[0], 1))

    def best(self, history: Any, k: int, seen: Any, order: NDArray[np.int32], n_threads: int | None) -> Best:
        return best_of_blocks(lambda rows: self.scores(history[rows]), history.shape, k, seen, order)

    def column(self, item: int) -> NDArray[Any]:
        return np.zeros_like(self.counts)

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        return np.eye(len(items))

    def constant(self, item: int) -> float:
        return float(self.counts[item])

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"item_counts": self.counts}


COUNTS = {"item_counts": Tensor("items", WEIGHTS)}
BETWEEN = {"weights_between": Tensor("items items", FACTORS)}
SIMILAR = {
    "similar_indptr": Tensor("items+1", OFFSETS, of="pairs"),
    "similar_indices": Tensor("pairs", PLACES, of="items"),
    "similar_values": Tensor("pairs", FACTORS),
}


def saved_matrix(saved: Saved, n: int) -> ItemMatrix:
    """The matrix over n items that a file holds."""
    if "item_counts" in saved.arrays:
        return ItemCounts(saved.tensors(COUNTS, items=n)["item_counts"])
    if "weights_between" in saved.arrays:
        return DenseItems(saved.tensors(BETWEEN, items=n)["weights_between"])
    indptr, indices, values = saved.tensors(SIMILAR, items=n).values()
    return SparseItems(sp.csr_array((values, indices, indptr), shape=(n, n)))


# ---------------------------------------------------------------------- products and their best


def best_of_product(
    left: Any,
    right: Any,
    k: int,
    seen: Any,
    order: NDArray[np.int32],
    *,
    positive: bool = False,
    n_threads: int | None = None,
) -> Best:
    """The best k columns of each row of left @ right (both CSR), in the core. The product is never held as a whole."""

    def parts(matrix: Any) -> Any:
        rows = sp.csr_array(matrix)
        values = np.ascontiguousarray(rows.data, right.dtype)
        return rows.indptr.astype(np.int64, copy=False), rows.indices.astype(np.int32, copy=False), values

    best: Best = _core.best_of_product(
        parts(left),
        parts(right),
        np.ascontiguousarray(order, np.int32),
        right.shape[1],
        int(k),
        None if seen is None else pattern(seen),
        positive=positive,
        n_threads=thread_count(n_threads),
    )
    return best


def nearest_columns(left: Any, right: Any, k: int, n_threads: int | None) -> Any:
    """CSR whose column j has the k largest positive cells of row j of left @ right, its own left out."""
    n = left.shape[0]
    k = min(k, max(n - 1, 1))
    itself = sp.eye_array(n, format="csr")
    places, scores = best_of_product(
        left, right, k, itself, np.arange(n, dtype=np.int32), positive=True, n_threads=n_threads
    )
    row, rank = np.nonzero(places >= 0)
    return sp.csr_array((scores[row, rank], (places[row, rank], row)), shape=(n, n))


def best_of_blocks(
    scores_of: Callable[[slice], NDArray[Any]], shape: tuple[int, int], k: int, seen: Any, order: NDArray[np.int32]
) -> Best:
    """The best k of dense scores, a block of rows at a time."""
    k, dtype = int(k), np.float64
    places, values = np.full((shape[0], k), -1, np.int32), np.full((shape[0], k), np.nan, dtype)
    if not len(order):
        return places, values
    column_of = np.full(shape[1], -1, np.int64)
    column_of[order] = np.arange(len(order))
    for block in blocks(*shape):
        scores = np.asarray(scores_of(block), dtype)[:, order]
        if seen is not None:
            own = sp.csr_array(seen)[block]
            row, column = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr)), column_of[own.indices]
            scores[row[column >= 0], column[column >= 0]] = -np.inf
        columns = first_maxima(scores, min(k, scores.shape[1]))
        value = np.take_along_axis(scores, columns, axis=1)
        places[block, : columns.shape[1]] = np.where(np.isneginf(value), -1, order[columns])
        values[block, : columns.shape[1]] = np.where(np.isneginf(value), np.nan, value)
    return places, values


def first_maxima(scores: NDArray[Any], n: int) -> NDArray[np.intp]:
    """(rows, n) columns of the n largest scores of each row, largest first; of equal ones the first columns.

    Needs 1 <= n <= columns. A partition finds the n-th largest, then only n columns are sorted.
    """
    n_rows, n_columns = scores.shape
    last = np.partition(scores, n_columns - n, axis=1)[:, n_columns - n, None]
    chosen = scores >= last
    crowded = np.flatnonzero(np.count_nonzero(chosen, axis=1) > n)  # several columns share the n-th largest score
    if len(crowded):
        better, equal = scores[crowded] > last[crowded], scores[crowded] == last[crowded]
        room = n - np.count_nonzero(better, axis=1, keepdims=True)
        chosen[crowded] = better | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= room))
    columns = np.nonzero(chosen)[1].reshape(n_rows, n)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(columns, order, axis=1))


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows whose dense float64 block stays within `BLOCK_BYTES`."""
    size = max(1, BLOCK_BYTES // (8 * max(1, n_columns)))
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def cosines(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosines of vectors from their inner products (k, k)."""
    size = np.sqrt(np.maximum(np.diag(products), np.finfo(np.float64).tiny))
    return np.asarray(products / np.outer(size, size))
