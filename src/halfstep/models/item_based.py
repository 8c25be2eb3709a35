"""Recommenders that are a matrix S applied to what a user has: score of item j = sum_i x_i s_ij. No factors, no sweeps.

`ItemKNN`, `ItemGraph` and `EASE` differ only in how S is made; `Popularity` has counts in its place. Everything that
people ask of a recommender follows from S, and is here.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from halfstep.core.cells import Observations
from halfstep.core.fitted import FromFit
from halfstep.data import files as persistence
from halfstep.data.files import ModelState, Saved
from halfstep.data.ids import Index
from halfstep.data.names import Names, labels_of
from halfstep.data.table import CellsHere, from_saved, read_table, to_arrays
from halfstep.engine.local import thread_count
from halfstep.errors import check_number, expect_sound
from halfstep.metrics import checked_cells, checked_k
from halfstep.models.answers import Explanation, Ranking
from halfstep.models.fold_in import somebody_with
from halfstep.models.item_matrix import ItemMatrix, saved_matrix
from halfstep.models.newcomers import NewcomerRecommender
from halfstep.models.recommend import Best, Scorer


@dataclass(frozen=True, eq=False)
class CellsFit:
    """Who has what, and what people call both sides."""

    table: CellsHere

    @property
    def cells(self) -> Observations:
        return self.table.cells

    @property
    def users(self) -> Index:
        return self.table.ids[0]

    @property
    def items(self) -> Index:
        return self.table.ids[1]

    @property
    def user_labels(self) -> NDArray[Any] | None:
        return self.table.labels[0]

    @property
    def item_labels(self) -> NDArray[Any] | None:
        return self.table.labels[1]

    @cached_property
    def names(self) -> tuple[Names, Names]:
        """Users and items by id or label."""
        users, items = self.table.aliases
        return Names(self.users, self.user_labels, aliases=users), Names(self.items, self.item_labels, aliases=items)

    @cached_property
    def history(self) -> Any:
        """CSR (users, items) of the fitted cells."""
        return sparse.csr_matrix(self.cells.to_csr())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many users have each item."""
        return np.bincount(self.cells.indices, minlength=self.cells.shape[1]).astype(np.int64)

    @cached_property
    def by_popularity(self) -> NDArray[np.int32]:
        """Positions of items, most popular first; of equal ones the lower position."""
        return np.argsort(-self.counts, kind="stable").astype(np.int32)

    @property
    def n_features(self) -> int:
        return self.cells.shape[1]


@dataclass(frozen=True, eq=False)
class ItemFit(CellsFit):
    """The same, and what having an item says for the others."""

    matrix: ItemMatrix


@dataclass(frozen=True, eq=False)
class ItemScorer:
    """Scores of all items for histories (rows, items)."""

    fit: ItemFit
    history: Any
    n_threads: int | None

    def best(self, k: int, seen: Any, allowed: NDArray[np.int64] | None) -> Best:
        order = self.fit.by_popularity
        if allowed is not None:
            order = order[np.isin(order, allowed)]
        return self.fit.matrix.best(self.history, k, seen, order, self.n_threads)

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        return self.fit.matrix.alike(items)


class ItemRecommender(NewcomerRecommender[ItemFit]):
    """A user who has x (items,) gets the scores x S. Equal scores go to the more popular item, then the lower position.

    Items that nothing the user has speaks for score 0 and follow, the most popular first, so lists are full; somebody
    without anything gets the most popular items.
    """

    n_threads: int | None
    user_ids_ = FromFit[NDArray[Any]]("users.ids")
    item_ids_ = FromFit[NDArray[Any]]("items.ids")
    user_labels_ = FromFit["NDArray[Any] | None"]("user_labels")
    item_labels_ = FromFit["NDArray[Any] | None"]("item_labels")
    item_counts_ = FromFit[NDArray[np.int64]]("counts")
    by_popularity_ = FromFit[NDArray[np.int32]]("by_popularity")
    history_matrix_ = FromFit[Any]("history")
    n_features_in_ = FromFit[int]("n_features")

    _kind: ClassVar[str]
    """Under which name of `kinds.ESTIMATORS` the model is saved."""
    _number: ClassVar[Any] = np.float64

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _matrix(self, cells: Any) -> ItemMatrix:
        """S from CSR (users, items), values > 0."""

    def _heard(self, history: Any) -> Any:
        """What S is applied to, from what users have."""
        return history

    # ------------------------------------------------------------------ fitting

    def fit(
        self, X: Any, y: Any = None, *, user: str | None = None, item: str | None = None, weight: str | None = None
    ) -> Self:
        """Fit to interactions.

        X : scipy sparse matrix or 2-D array of weights (users x items, 0 is unobserved), `Interactions`, or a frame
            (pandas, polars, pyarrow) with a row for each pair. `user`, `item`, `weight` name its columns; they are
            detected from common names when left out, and weights are 1 without such a column.
        y : ignored, for scikit-learn.
        """
        self._check_parameters()
        thread_count(self.n_threads)
        table = read_table(X, user=user, item=item, weight=weight, dtype=self._number)
        cells = sparse.csr_matrix(table.cells.to_csr(), dtype=self._number)
        self.fitted_ = ItemFit(table, self._matrix(cells))
        return self

    # ------------------------------------------------------------------ answers

    def _scorer(self, rows: NDArray[Any]) -> Scorer:
        return ItemScorer(self._fit(), self._heard(self._fit().history[rows]), self.n_threads)

    @property
    def _cells_as(self) -> tuple[Any, bool]:
        return self._number, False

    def _new_scorer(self, given: CellsHere, how: str, features: Any = None) -> Scorer:
        row = sparse.csr_matrix(given.cells.to_csr(), dtype=self._number)
        return ItemScorer(self._fit(), self._heard(row), self.n_threads)

    def similar_items(self, item: Any, n: int = 10) -> Ranking:
        """The `n` items i with the largest s_ij, where j is `item`: those that say most for it. j is left out."""
        fit = self._fit()
        check_number("n", n, at_least=1, whole=True)
        place = int(self.item_positions([item])[0])
        order = fit.by_popularity[fit.by_popularity != place]
        said = fit.matrix.column(place)[order]
        best = np.argsort(-said, kind="stable")[:n]
        return Ranking(fit.items.take(order[best]), said[best], labels_of(fit.item_labels, order[best]))

    def explain(self, user: Any = None, item: Any = None, *, items: Iterable[Any] | None = None) -> Explanation:
        """What each item the user has contributes to the score of `item`, x_i s_ij, largest first; they sum to it.

        For somebody new give `items` instead of `user`. What an item scores for everybody stands under "popularity".
        """
        fit = self._fit()
        if item is None or (user is None) == (items is None):
            raise ValueError("explain needs `item` and either `user` (an id) or `items` (what somebody new has).")
        if items is None:
            history = fit.history[self.user_positions([user])]
        else:
            history = sparse.csr_matrix(somebody_with(fit, items, None, self._number).cells.to_csr())
        place = int(self.item_positions([item])[0])
        constant = fit.matrix.constant(place)
        if constant:
            return Explanation(constant, np.array(["popularity"], object), np.array([constant]))
        heard = self._heard(history)
        parts = np.asarray(heard.data * fit.matrix.column(place)[heard.indices], np.float64)
        order = np.argsort(-np.abs(parts), kind="stable")
        given = heard.indices[order]
        return Explanation(float(parts.sum()), fit.items.take(given), parts[order], labels_of(fit.item_labels, given))

    def score_rows(self, seen: Any, rows: Any = None) -> NDArray[np.float64]:
        """(len, n_items) scores of all items from the histories in `seen`; seen items are not masked.

        With `rows`, positions of training rows, the histories are those of the fit. The answer is dense: pass a block
        of rows at a time.
        """
        return np.asarray(self._fit().matrix.scores(self._histories(self._checked_seen(seen), rows)), np.float64)

    def rank_items(self, seen: Any, n: int, rows: Any = None) -> NDArray[np.int32]:
        """(len, n) positions of the best items that are not stored in `seen`, padded with -1.

        The histories are the rows of `seen`, or with `rows` the training rows at these positions.
        """
        seen, n = self._checked_seen(seen), checked_k(n, "n")
        history = self._histories(seen, rows)
        places, _ = ItemScorer(self._fit(), history, self.n_threads).best(min(n, seen.shape[1]), seen, None)
        return np.pad(places, ((0, 0), (0, n - places.shape[1])), constant_values=-1)

    def _checked_seen(self, seen: Any) -> Any:
        fit = self._fit()
        if not sparse.issparse(seen):
            raise TypeError(
                f"seen is a {type(seen).__name__}; expected a scipy sparse matrix, rows to rank for x items."
            )
        expect_sound("seen", seen)
        if seen.shape[1] != fit.n_features:
            raise ValueError(
                f"seen has {seen.shape[1]} items but the model was fitted on {fit.n_features}; "
                "give rows over the same items, in the same order."
            )
        return sparse.csr_matrix(seen)

    def _histories(self, seen: Any, rows: Any) -> Any:
        if rows is None:
            return self._heard(checked_cells("seen", seen))
        history, positions = self._fit().history, np.asarray(rows)
        if positions.shape != (seen.shape[0],):
            raise ValueError(
                f"rows has shape {positions.shape} but seen has {seen.shape[0]} rows; "
                "expected the position of one training row for each row of seen."
            )
        if len(positions) and (positions.min() < 0 or positions.max() >= history.shape[0]):
            raise ValueError(
                f"rows holds positions from {positions.min()} to {positions.max()}; the model was fitted "
                f"on {history.shape[0]} rows. Use rows=None to rank for rows that are new."
            )
        return self._heard(history[positions])

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, its ids and who has what as one safetensors file; `halfstep.load` reads it back."""
        self._check_parameters()
        fit, kept = self._fit(), self.to_state()
        arrays = to_arrays(fit.table, self._number) | kept.arrays
        persistence.save(path, self._kind, kept.params, arrays, kept.meta, {"user": fit.users, "item": fit.items})

    def to_state(self) -> ModelState:
        """What a file keeps of the model besides ids and cells."""
        return ModelState(self.get_params(deep=False), self._fit().matrix.arrays(), {})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """The model that a file holds; `halfstep.load` calls this of the right class."""
        model: Self = saved.made(cls)
        model._check_parameters()
        table = from_saved(saved)
        model.fitted_ = ItemFit(table, saved_matrix(saved, len(table.ids[1])))
        return model
