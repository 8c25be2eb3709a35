"""ItemGraph: two steps over the graph of users and items, from items to users who have them to what else these have."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from halfstep.core.fitted import FromFit
from halfstep.errors import check_number
from halfstep.models.item_based import ItemRecommender
from halfstep.models.item_matrix import ItemMatrix, SparseItems, nearest_columns


class ItemGraph(ItemRecommender):
    """Scores R S with S = Di^-a (R' Du^-2b R) Di^-c, its diagonal left out. Closed form, sparse, one product.

    R (users, items) holds the values given, Du and Di their sums over users and items: for plain pairs, how much a user
    has and how many users have an item. Without the diagonal an item says nothing for itself; no other score changes.

    Parameters
    ----------
    a : how little a popular item of the user's says. b : how little a user with many items says. c : how much less an
        item scores because it is popular; 0 favours popular items, 1 rare ones. docs/recommenders.md says where
        the defaults come from.
    neighbours : keep the so many largest s_ij of each item j; None keeps all. Few neighbours save memory and time.
    n_threads : None for all cores. The result has the same bits for any number.

    Attributes
    ----------
    similarity_ : S, CSR (items, items), float32. user_ids_, item_ids_, item_counts_ : as in every recommender.
    """

    similarity_ = FromFit[Any]("matrix.values")
    _kind = "ItemGraph"
    _number = np.float32

    def __init__(
        self,
        a: float = 0.7,
        b: float = 0.25,
        c: float = 0.3,
        *,
        neighbours: int | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.a = a
        self.b = b
        self.c = c
        self.neighbours = neighbours
        self.n_threads = n_threads

    def _check_parameters(self) -> None:
        for name in ("a", "b", "c"):
            check_number(name, getattr(self, name))
        if self.neighbours is not None:
            check_number("neighbours", self.neighbours, at_least=1, whole=True)

    def _matrix(self, cells: Any) -> ItemMatrix:
        user, item = (_powers(cells.sum(axis=axis)) for axis in (1, 0))
        spoken = cells @ sparse.diags(item(-self.a))
        heard = (sparse.diags(user(-2 * self.b)) @ cells @ sparse.diags(item(-self.c))).T
        if self.neighbours is not None:
            return SparseItems(nearest_columns(heard.tocsr(), spoken.tocsr(), self.neighbours, self.n_threads))
        s = (spoken.T.tocsr() @ heard.T.tocsr()).astype(self._number)
        s.setdiag(0)
        s.eliminate_zeros()
        s.sort_indices()
        return SparseItems(sparse.csr_array(s))


def _powers(sums: Any) -> Any:
    """Powers of sums; a row of zeros, which has no cell to scale, counts as 1."""
    size = np.asarray(sums, np.float64).ravel()
    size[size == 0] = 1.0
    return lambda exponent: size**exponent
