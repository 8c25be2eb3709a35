"""Two recommenders every new one must beat: the most popular items, and items like those a user has.

Knows users x items and scikit-learn's conventions. Knows no metric and no split, and draws no random number.

Both obey the contract of a ranker: `fit(matrix)`, then `rank_items(seen, n, rows=None)` gives item positions, best
first, never a stored cell of `seen`, padded with -1. Equal scores go to the more popular item, then to the
lower position, so a ranking never depends on the machine. Work goes in blocks of rows: dense scores take
`BLOCK_BYTES` at a time, and what selecting from them needs a few times that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from halfstep.core import weighting
from halfstep.core.estimators import BaseEstimator
from halfstep.core.fitted import FromFit
from halfstep.errors import check_number, one_of
from halfstep.metrics import checked_cells, checked_k

BLOCK_BYTES = 64 * 2**20
SIMILARITIES = {"cosine": "none", "bm25": "bm25", "tfidf": "tfidf", "jaccard": "binary"}
"""How cells are weighed for each similarity; items are the rows, the documents, and users their words."""

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Counted:
    """What a baseline learned: the training cells, how often each item occurs, and the likeness of items, if asked."""

    cells: Any
    counts: npt.NDArray[np.int64]
    similarity: Any = None

    @classmethod
    def of(cls, matrix: Any) -> Counted:
        cells = checked_cells("matrix", matrix)
        if not cells.nnz:
            raise ValueError(f"matrix of shape {cells.shape} has no positive cell; there is nothing to learn from.")
        return cls(cells, np.bincount(cells.indices, minlength=cells.shape[1]).astype(np.int64))

    @cached_property
    def by_popularity(self) -> npt.NDArray[np.intp]:
        return np.argsort(-self.counts, kind="stable")

    @property
    def n_items(self) -> int:
        return len(self.counts)


class _CountedRanker(BaseEstimator):
    """What both baselines share: item counts, the order by popularity, and checked arguments of `rank`."""

    fitted_: Counted
    item_counts_ = FromFit[npt.NDArray[np.int64]]("counts")
    by_popularity_ = FromFit[npt.NDArray[np.intp]]("by_popularity")
    n_features_in_ = FromFit[int]("n_items")

    def _checked_seen(self, seen: Any) -> Any:
        check_is_fitted(self)
        if not sparse.issparse(seen):
            raise TypeError(
                f"seen is a {type(seen).__name__}; expected a scipy sparse matrix, rows to rank for x items."
            )
        if seen.shape[1] != self.n_features_in_:
            raise ValueError(
                f"seen has {seen.shape[1]} items but the model was fitted on {self.n_features_in_}; "
                "give rows over the same items, in the same order."
            )
        return sparse.csr_matrix(seen)


class Popularity(_CountedRanker):
    """Recommend to everybody what most users have. The score of item j is its number of stored cells.

    Fitted: `item_counts_` (n_items,), `by_popularity_` (n_items,) item positions, most popular first.
    """

    def fit(self, matrix: Any, y: None = None) -> Self:
        """Count the positive cells of each column of `matrix` (sparse, users x items)."""
        self.fitted_ = replace(Counted.of(matrix), cells=None)
        return self

    def score_rows(self, seen: Any, rows: npt.ArrayLike | None = None) -> Floats:
        """(len, n_items) scores of all items, the same for every row; seen items are not masked."""
        seen = self._checked_seen(seen)
        return np.tile(self.item_counts_.astype(np.float64), (seen.shape[0], 1))

    def rank_items(self, seen: Any, n: int, rows: npt.ArrayLike | None = None) -> Places:
        """(len, n) positions of the most popular items that are not in `seen`; `rows` changes nothing."""
        seen, n = self._checked_seen(seen), checked_k(n, "n")
        ranking = np.full((seen.shape[0], n), -1, dtype=np.int32)
        for block in _blocks(seen.shape[0], seen.shape[1]):
            # Whoever has s items finds n others among the n + s most popular.
            longest = int(np.diff(seen.indptr[block.start : block.stop + 1]).max())
            candidates = self.by_popularity_[: n + longest]
            unseen = _binary(seen[block]).toarray()[:, candidates] == 0
            place = np.cumsum(unseen, axis=1)
            row, column = np.nonzero(unseen & (place <= n))
            ranking[block][row, place[row, column] - 1] = candidates[column]
        return ranking


class ItemKNN(_CountedRanker):
    """Recommend items like those a user has: `score_j = sum_{i in history} x_i s_ij`.

    `s_ij` is kept for the `neighbours` items i most like j, and is 0 for all others. With column i of the
    matrix written `a_i`, and `|i|` its number of cells:

    - "cosine":  `a_i'a_j / (|a_i| |a_j| + shrink)`
    - "tfidf":   the same, each cell first multiplied by `1 + log((1 + n_items) / (1 + n_u))`
    - "bm25":    the same, each cell x first replaced by
      `log(1 + (n_items - n_u + 1/2) / (n_u + 1/2)) * 2.2 x / (x + 1.2 (1/4 + 3/4 L_i / mean L))`
    - "jaccard": `|i and j| / (|i or j| + shrink)`, values ignored

    where `n_u` is the number of items of user u, and `L_i` the sum of column i. `shrink` pulls similarities
    that rest on few users towards 0. `x_i` is the value in the user's history (1 for "jaccard").

    Items without any similarity to the history follow, the most popular first, so lists are full.
    Fitted: `similarity_` CSR (n_items, n_items), column j holding the neighbours of j; `item_counts_`
    (n_items,); `history_matrix_`, the training matrix, which `rank(..., rows=...)` reads.
    """

    similarity_ = FromFit[Any]("similarity")
    history_matrix_ = FromFit[Any]("cells")

    def __init__(self, neighbours: int = 100, similarity: str = "cosine", shrink: float = 0.0) -> None:
        self.neighbours = neighbours
        self.similarity = similarity
        self.shrink = shrink

    def fit(self, matrix: Any, y: None = None) -> Self:
        """Find the neighbours of every item of `matrix` (sparse, users x items, values not negative)."""
        self._check_parameters()
        counted = Counted.of(matrix)
        vectors = self._item_vectors(counted.cells)
        sizes = np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel()
        users = vectors.T.tocsr()
        nearest = [
            _row_maxima(self._similarity(vectors[block] @ users, block, sizes), self.neighbours)
            for block in _blocks(*(vectors.shape[0],) * 2)
        ]
        self.fitted_ = replace(counted, similarity=sparse.vstack(nearest).T.tocsr())
        return self

    def score_rows(self, seen: Any, rows: npt.ArrayLike | None = None) -> Floats:
        """(len, n_items) scores of all items from the histories in `seen`; seen items are not masked.

        With `rows`, positions of training rows, the histories are those of the training matrix. The answer is
        dense: pass a block of rows at a time.
        """
        return np.asarray((self._history(self._checked_seen(seen), rows) @ self.similarity_).toarray())

    def rank_items(self, seen: Any, n: int, rows: npt.ArrayLike | None = None) -> Places:
        """(len, n) positions of the best items that are not stored in `seen`, padded with -1.

        The histories are the rows of `seen`, or with `rows` the training rows at these positions.
        """
        seen, n = self._checked_seen(seen), checked_k(n, "n")
        history = self._history(seen, rows)
        # Columns go by popularity, so that the first of equal scores is the most popular.
        similarity = self.similarity_[:, self.by_popularity_]
        column_of = np.argsort(self.by_popularity_)
        ranking = np.full((seen.shape[0], n), -1, dtype=np.int32)
        for block in _blocks(seen.shape[0], seen.shape[1]):
            scores = (history[block] @ similarity).toarray()
            own = seen[block]
            scores[np.repeat(np.arange(own.shape[0]), np.diff(own.indptr)), column_of[own.indices]] = -np.inf
            columns = first_maxima(scores, min(n, scores.shape[1]))
            is_seen = np.isneginf(np.take_along_axis(scores, columns, axis=1))
            ranking[block, : columns.shape[1]] = np.where(is_seen, -1, self.by_popularity_[columns])
        return ranking

    def _check_parameters(self) -> None:
        one_of("similarity", self.similarity, SIMILARITIES)
        check_number("neighbours", self.neighbours, at_least=1, whole=True)
        check_number("shrink", self.shrink, at_least=0)

    def _history(self, seen: Any, rows: npt.ArrayLike | None) -> Any:
        if rows is None:
            history = checked_cells("seen", seen)
        else:
            positions = np.asarray(rows)
            n_rows = self.history_matrix_.shape[0]
            if positions.shape != (seen.shape[0],):
                raise ValueError(
                    f"rows has shape {positions.shape} but seen has {seen.shape[0]} rows; "
                    "expected the position of one training row for each row of seen."
                )
            if len(positions) and (positions.min() < 0 or positions.max() >= n_rows):
                raise ValueError(
                    f"rows holds positions from {positions.min()} to {positions.max()}; the model was fitted "
                    f"on {n_rows} rows. Use rows=None to rank for rows that are new."
                )
            history = self.history_matrix_[positions]
        return _binary(history) if self.similarity == "jaccard" else history

    def _item_vectors(self, cells: Any) -> Any:
        """CSR items x users, weighted as `similarity` says."""
        items = cells.T.tocsr()
        scheme = weighting.get(SIMILARITIES[self.similarity])
        weights = scheme.weights(items.indptr, items.indices, items.data, items.shape[1])
        return sparse.csr_matrix((weights, items.indices, items.indptr), shape=items.shape)

    def _similarity(self, products: Any, block: slice, sizes: Floats) -> Any:
        """Turn the inner products of the items of `block` with all items into similarities, in place."""
        products.sort_indices()
        own = np.repeat(np.arange(block.start, block.stop), np.diff(products.indptr))
        if self.similarity == "jaccard":  # binary vectors: the size is the number of users
            norm = sizes[own] + sizes[products.indices] - products.data
        else:
            norm = np.sqrt(sizes[own] * sizes[products.indices])
        products.data /= norm + self.shrink
        products.data[own == products.indices] = 0.0  # an item is no neighbour of its own
        return products


def first_maxima(scores: Floats, n: int) -> npt.NDArray[np.intp]:
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


def _row_maxima(matrix: Any, n: int) -> Any:
    """The n largest positive cells of each row of a CSR matrix with sorted columns; ties go to the first.

    Rows of similar length are padded together, so that padding at most doubles the cells.
    """
    lengths = np.diff(matrix.indptr)
    doublings = np.frexp(lengths)[1]
    kept_rows, kept_cells = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    for size in np.unique(doublings[lengths > 0]):
        rows = np.flatnonzero(doublings == size)
        place = np.arange(int(lengths[rows].max()))
        inside = place < lengths[rows, None]
        padded = np.zeros(inside.shape)
        padded[inside] = matrix.data[(matrix.indptr[rows, None] + place)[inside]]
        best = first_maxima(padded, min(n, len(place)))
        row, kept = np.nonzero(np.take_along_axis(padded, best, axis=1) > 0)
        kept_rows.append(rows[row])
        kept_cells.append(matrix.indptr[rows[row]] + best[row, kept])
    row, cell = np.concatenate(kept_rows), np.concatenate(kept_cells)
    return sparse.csr_matrix((matrix.data[cell], (row, matrix.indices[cell])), shape=matrix.shape)


def _binary(matrix: Any) -> Any:
    """Ones at the stored cells, explicit zeros included."""
    return sparse.csr_matrix((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows whose dense float64 block stays within `BLOCK_BYTES`."""
    size = max(1, BLOCK_BYTES // (8 * max(1, n_columns)))
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))
