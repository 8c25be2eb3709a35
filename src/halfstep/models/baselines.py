"""Two recommenders every new one must beat: the most popular items, and items like those a user has.

Knows users x items and scikit-learn's conventions. Knows no metric and no split, and draws no random number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from halfstep.core import weighting
from halfstep.core.fitted import FromFit
from halfstep.errors import check_number, one_of
from halfstep.models.item_based import ItemRecommender
from halfstep.models.item_matrix import ItemCounts, ItemMatrix, SparseItems, blocks, first_maxima

SIMILARITIES = {"cosine": "none", "bm25": "bm25", "tfidf": "tfidf", "jaccard": "binary"}
"""How cells are weighed for each similarity; items are the rows, the documents, and users their words."""

Floats = npt.NDArray[np.float64]


class Popularity(ItemRecommender):
    """Recommend to everybody what most users have. The score of item j is its number of stored cells.

    Fitted: `item_counts_` (n_items,), `by_popularity_` (n_items,) item positions, most popular first. It knows no
    likeness: every item is as unlike another (0), and `similar_items` lists the most popular.
    """

    _kind = "Popularity"
    n_threads = None

    def _check_parameters(self) -> None:
        """There are none."""

    def _matrix(self, cells: Any) -> ItemMatrix:
        return ItemCounts(np.bincount(cells.indices, minlength=cells.shape[1]).astype(np.float64))


class ItemKNN(ItemRecommender):
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
    (n_items,); `history_matrix_`, the training matrix, which `rank_items(..., rows=...)` reads.
    """

    similarity_ = FromFit[Any]("matrix.values")
    _kind = "ItemKNN"

    def __init__(
        self, neighbours: int = 100, similarity: str = "cosine", shrink: float = 0.0, *, n_threads: int | None = None
    ) -> None:
        self.neighbours = neighbours
        self.similarity = similarity
        self.shrink = shrink
        self.n_threads = n_threads

    def _check_parameters(self) -> None:
        one_of("similarity", self.similarity, SIMILARITIES)
        check_number("neighbours", self.neighbours, at_least=1, whole=True)
        check_number("shrink", self.shrink, at_least=0)

    def _matrix(self, cells: Any) -> ItemMatrix:
        vectors = self._item_vectors(cells)
        sizes = np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel()
        users = vectors.T.tocsr()
        nearest = [
            _row_maxima(self._similarity(vectors[block] @ users, block, sizes), self.neighbours)
            for block in blocks(*(vectors.shape[0],) * 2)
        ]
        return SparseItems(sparse.vstack(nearest).T.tocsr())

    def _heard(self, history: Any) -> Any:
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
