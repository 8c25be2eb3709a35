"""Users known by what they have: rows solved against fitted items, lists for somebody new, reasons for a score.

Knows implicit feedback, where a cell has a weight and unobserved cells a background. Not how factors were fitted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from halfstep.core.cells import Observations
from halfstep.data.inputs import read_table
from halfstep.data.names import labels_of
from halfstep.engine import Problem, Side, Solver
from halfstep.engine.local import gram_matrix, solve_rows, thread_count
from halfstep.errors import one_of
from halfstep.models.answers import Explanation, Ranking
from halfstep.models.factor import FactorModel
from halfstep.models.recommend import top_k


class FoldIn(FactorModel):
    """A factor model that solves rows of new users exactly, as the fit solved those it knew."""

    background: float
    _gram: NDArray[np.float64] | None

    @abstractmethod
    def _side(self, cells: Observations) -> Side:
        """The penalty of rows that have these cells."""

    def transform(self, X: Any) -> Any:
        """Factors of new users from their interactions, (rows, rank): the exact row problem against the fitted items.

        X : sparse matrix or array of weights over the fitted items, in their order. After a fit by `SparkEngine`: a
            Spark DataFrame like that of the fit; the answer is a DataFrame (user, factors).
        """
        check_is_fitted(self)
        if self._cluster is not None:
            return self._cluster.fold_in(X)
        X = with_columns(X, len(self._items))
        if not _any(X):  # the best row without interactions is zero
            return np.zeros((X.shape[0], self.rank), self._number())
        return self._fold_in(read_table(X, dtype=self._number()).observations)

    def recommend_for(
        self,
        items: Iterable[Any],
        n: int = 10,
        *,
        weights: Sequence[float] | None = None,
        how: str = "fold_in",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        diversity: float = 0.0,
    ) -> Ranking:
        """The best `n` items for somebody new who has `items` (ids, or labels where the model has them).

        how : "fold_in" solves the row problem exactly; "average" scores by the mean of the item vectors.
        """
        vector, seen = self._vector_for(items, weights, how)
        ranking = self._rank(vector, seen, n, candidates, exclude, diversity)
        return ranking.first()

    def explain(self, user: Any = None, item: Any = None, *, items: Iterable[Any] | None = None) -> Explanation:
        """What each item the user has contributes to the score of `item`, largest first; the parts sum to the score.

        For somebody new give `items` instead of `user`. With A the row's matrix, item k contributes
        w_k v_item' A^-1 v_k, since the user's vector is A^-1 sum_k w_k v_k. Squared loss only.
        """
        check_is_fitted(self)
        if not self._loss().is_quadratic:
            raise ValueError(f"explain needs loss='squared'; this model has loss={self.loss!r}.")
        if item is None or (user is None) == (items is None):
            raise ValueError("explain needs `item` and either `user` (an id) or `items` (what somebody new has).")
        cells = self._cells.take(self.user_positions([user])) if items is None else self._cells_for(items, None)
        target = int(self.item_positions([item])[0])
        x = self.item_factors_[cells.indices].astype(np.float64)
        w = np.broadcast_to(np.asarray(cells.weights, np.float64), (len(cells),))
        lam = float(np.ravel(self._side(cells).penalty)[0])
        A = lam * np.eye(self.rank) + self.background * self._item_gram() + (x.T * (w - self.background)) @ x
        parts = w * (x @ np.linalg.solve(A, self.item_factors_[target].astype(np.float64)))
        order = np.argsort(-np.abs(parts), kind="stable")
        given = cells.indices[order]
        labels = labels_of(self.item_labels_, given)
        return Explanation(float(parts.sum()), self._items.take(given), parts[order], labels)

    def rank_items(self, seen: Any, n: int, rows: NDArray[Any] | None = None) -> NDArray[np.int32]:
        """Item positions (len, n), best first, padded with -1, cells of `seen` left out.

        rows : training rows whose fitted factors are used; None folds the rows of `seen` in.
        """
        check_is_fitted(self)
        left = self.transform(seen) if rows is None else self.user_factors_[rows]
        places, _ = top_k(left, self.item_factors_, min(n, len(self._items)), seen, self.n_threads)
        return np.pad(places, ((0, 0), (0, n - places.shape[1])), constant_values=-1)

    def _solve(
        self,
        cells: Observations,
        side: int,
        own: NDArray[Any],
        other: NDArray[Any],
        gram: NDArray[np.float64] | None = None,
    ) -> None:
        """Rows that have `cells`, exactly, in place. gram : of `other`, where it is known."""
        rows = self._side(cells)
        problem = Problem(cells, (rows, rows), self._loss(), float(self.background))
        threads = thread_count(self.n_threads)
        if gram is None and self.background > 0:
            gram = gram_matrix(other, threads)
        solve_rows(problem, side, own, other, Solver("exact"), gram=gram, n_threads=threads, cells=cells)

    def _fold_in(self, cells: Observations) -> NDArray[Any]:
        own = np.zeros((cells.shape[0], self.rank), self._number())
        items = np.ascontiguousarray(self.item_factors_, self._number())
        self._solve(cells, 0, own, items, self._item_gram() if self.background > 0 else None)
        return own

    def _item_gram(self) -> NDArray[np.float64]:
        if self._gram is None:  # computed when first needed
            self._gram = gram_matrix(self.item_factors_, thread_count(self.n_threads))
        return self._gram

    def _cells_for(self, items: Iterable[Any], weights: Sequence[float] | None) -> Observations:
        """One new row that has `items`."""
        places = self.item_positions(items)
        if not len(places):
            raise ValueError("items is empty; give at least one item that the new user has.")
        values = np.ones(len(places), self._number()) if weights is None else np.asarray(weights, self._number())
        if values.shape != places.shape or not np.isfinite(values).all() or (values < 0).any():
            raise ValueError(f"weights must be {len(places)} finite numbers >= 0, one for each item.")
        zeros = np.zeros(len(places), np.int64)
        cells = Observations.from_cells(
            zeros, places, (1, len(self._items)), weights=values, duplicates="sum", dtype=self._number()
        )
        known = Observations.from_weights(cells.to_csr(), self._number())  # a weight of zero counts as unobserved
        if not len(known):
            raise ValueError("every weight is zero; give at least one item a weight above 0.")
        return known

    def _vector_for(self, items: Iterable[Any], weights: Sequence[float] | None, how: str) -> tuple[NDArray[Any], Any]:
        check_is_fitted(self)
        one_of("how", how, ("fold_in", "average"))
        cells = self._cells_for(items, weights)
        if how == "fold_in":
            return self._fold_in(cells), cells.to_csr()
        share = np.broadcast_to(np.asarray(cells.weights, np.float64), (len(cells),))
        mean = (share / share.sum()) @ self.item_factors_[cells.indices]
        return np.ascontiguousarray(mean[None, :], self._number()), cells.to_csr()


def _any(X: Any) -> bool:
    return bool(X.count_nonzero()) if sp.issparse(X) else bool(np.any(X))


def with_columns(X: Any, n: int) -> Any:
    """X itself, if it has a column for each of `n` items."""
    shape = np.shape(X)
    if len(shape) != 2 or shape[1] != n:
        raise ValueError(f"X has shape {shape}; it must have {n} columns, one for each fitted item. Rows are users.")
    return X
