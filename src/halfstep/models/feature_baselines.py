"""Recommenders for what has never been seen, by features alone: what a model with features must beat.

Popular in the same group, neighbours by features, a ridge regression from features to interactions, and one from
features to the factors of a fit. Each serves new users and new items alike: the sides change places.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.fitted import FromFit
from halfstep.data.feature_columns import Categories, Lists
from halfstep.data.features import Features
from halfstep.data.table import read_table
from halfstep.errors import check_number
from halfstep.metrics import checked_k
from halfstep.models import recommend
from halfstep.models.answers import Ranking
from halfstep.models.factor import SIDES
from halfstep.models.item_based import CellsFit
from halfstep.models.item_matrix import best_of_blocks, cosines
from halfstep.models.lists import Recommender
from halfstep.models.recommend import Best, Scorer
from halfstep.models.smoothers import GroupRows, NearestRows, RidgeRows, Smoothed, SmoothedLevels, Smoother
from halfstep.models.wals import WALS

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OneSide:
    """What is expected of new rows of a side: `smoothed` (new, c), times `other` (c, other side) where there is one."""

    features: Features
    smoothed: Smoothed
    other: NDArray[Any] | None = None

    def scores(self, given: Any) -> Floats:
        """(new, other side) scores of rows with these features."""
        expected = self.smoothed.expected(self.features.encode(given).matrix)
        return expected if self.other is None else expected @ self.other


@dataclass(frozen=True, eq=False)
class FeatureFit(CellsFit):
    """Who has what, and what features say of each side that has any."""

    sides: tuple[OneSide | None, OneSide | None]


@dataclass(frozen=True, eq=False)
class DenseScorer:
    """Scores (rows, items) as they are; likeness of items is the cosine of what users have of them."""

    fit: FeatureFit
    scores: Floats

    def best(self, k: int, seen: Any, allowed: NDArray[np.int64] | None) -> Best:
        order = self.fit.by_popularity if allowed is None else allowed.astype(np.int32)
        return best_of_blocks(lambda rows: self.scores[rows], self.scores.shape, k, seen, order)

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        columns = self.fit.history[:, items]
        return cosines((columns.T @ columns).toarray().astype(np.float64))


class FeatureRecommender(Recommender[FeatureFit]):
    """Scores from features alone. With F the features of n rows and T (n, c) what is known of them, new rows f get

        A T + (1 - A 1) m',     A = A(f, F),     m the mean of the rows of T

    so that where no known row speaks for a new one it gets the mean, which ranks by popularity. Subclasses differ in A
    and in T. Cells count 1 each, whatever they weigh.
    """

    user_ids_ = FromFit[NDArray[Any]]("users.ids")
    item_ids_ = FromFit[NDArray[Any]]("items.ids")

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _smoother(self, features: Features) -> Smoother:
        """A, from the features of the known rows."""

    def _smoothed(self, smoother: Smoother, targets: Any) -> Smoothed:
        return Smoothed(smoother, targets)

    def _targets(self, cells: Any) -> tuple[tuple[Any, NDArray[Any] | None], tuple[Any, NDArray[Any] | None]]:
        """For users and for items, T and what makes scores of it."""
        return (cells, None), (sp.csr_array(cells.T.tocsr()), None)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
        user: str | None = None,
        item: str | None = None,
        weight: str | None = None,
    ) -> Self:
        """Fit to interactions and the features of users, of items, or of both.

        X : as in `Popularity.fit`. user_features, item_features : whatever `Features.of` takes; rows of ids that are
            not in X are not used.
        """
        self._check_parameters()
        if user_features is None and item_features is None:
            raise ValueError(
                f"{type(self).__name__} needs user_features, item_features or both; it knows nothing else."
            )
        table = read_table(X, user=user, item=item, weight=weight, dtype=np.float64)
        cells = sp.csr_array(table.cells.to_csr(), dtype=np.float64)
        cells.data[:] = 1.0
        sides: list[OneSide | None] = []
        targets = self._targets(cells)
        asked = zip(SIDES, (user_features, item_features), table.ids, targets, strict=True)
        for side, given, index, (known, other) in asked:
            if given is None:
                sides.append(None)
                continue
            features = Features.of(given, side=side)  # an index may be called otherwise, such as occupation
            matched = Features(features.aligned(index), features.names, index, features.blocks)
            sides.append(OneSide(matched, self._smoothed(self._smoother(matched), known), other))
        self.fitted_ = FeatureFit(table, (sides[0], sides[1]))
        return self

    def recommend_for(
        self, features: Any, n: int = 10, *, candidates: Iterable[Any] | None = None, exclude: Iterable[Any] = ()
    ) -> Ranking:
        """The best `n` items for somebody new of whom nothing but features is known: {column: value}, or one row."""
        fit = self._fit()
        scorer = DenseScorer(fit, self._side(0, "features").scores(features))
        return recommend.best_items(fit, scorer, None, n, candidates=candidates, exclude=exclude).first()

    def rank_items(self, seen: Any, n: int, rows: NDArray[Any] | None = None) -> NDArray[np.int32]:
        """(len, n) positions of the best items that are not stored in `seen`, padded with -1.

        rows : training rows, scored by their features; None knows nothing of the rows, and ranks by popularity.
        """
        fit, n = self._fit(), checked_k(n, "n")
        mean = fit.counts / len(fit.users)
        scores = np.tile(mean, (seen.shape[0], 1)) if rows is None else self._known(np.asarray(rows))
        return _padded(DenseScorer(fit, scores).best(min(n, len(fit.items)), sp.csr_array(seen), None), n)

    def rank_new(
        self,
        seen: Any,
        n: int,
        rows: NDArray[Any] | None = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
    ) -> NDArray[np.int32]:
        """(len, n) positions of the best items for new users, or of the best new items; see `judge.rankings`."""
        n = checked_k(n, "n")
        if item_features is None:
            fit, scores = self._fit(), self._side(0, "user_features").scores(user_features)
            return _padded(DenseScorer(fit, scores).best(min(n, len(fit.items)), sp.csr_array(seen), None), n)
        scores = self._side(1, "item_features").scores(item_features).T[rows]
        order = np.arange(scores.shape[1], dtype=np.int32)
        taken = best_of_blocks(lambda block: scores[block], scores.shape, min(n, len(order)), sp.csr_array(seen), order)
        return _padded(taken, n)

    def similar_items(self, item: Any, n: int = 10) -> Ranking:
        """The `n` items with the largest cosine of who has them."""
        fit = self._fit()
        check_number("n", n, at_least=1, whole=True)
        place = int(self.item_positions([item])[0])
        together = np.asarray((fit.history.T @ fit.history[:, [place]]).toarray()).ravel()
        alike = together / np.sqrt(np.maximum(fit.counts * fit.counts[place], 1))
        alike[place] = -np.inf
        best = np.argsort(-alike, kind="stable")[: min(n, len(alike) - 1)]
        labels = None if fit.item_labels is None else fit.item_labels[best]
        return Ranking(fit.items.take(best), alike[best], labels)

    def _scorer(self, rows: NDArray[Any]) -> Scorer:
        return DenseScorer(self._fit(), self._known(rows))

    def _known(self, rows: NDArray[Any]) -> Floats:
        """(rows, items) scores of training rows by features: theirs, or those of the items."""
        users, items = self._fit().sides
        if users is not None:
            return users.scores(users.features.take(rows))
        assert items is not None
        return np.asarray(items.scores(items.features).T[rows])

    def _side(self, side: int, argument: str) -> OneSide:
        fitted = self._fit().sides[side]
        if fitted is None:
            name = ("user", "item")[side]
            raise ValueError(f"{argument} cannot be used: the fit had no {name}_features. Fit with {name}_features=.")
        return fitted


class GroupPopularity(FeatureRecommender):
    """What most rows of the same group have: the smallest group of a row that at least `least` known rows share.

    Groups are categories and elements of lists (every column, where features were given as a matrix). The score is
    (cells of the group + shrink * expected share) / (members + shrink), where the share expected of a cell is that of
    its column times how much rows of the group have compared with all.
    """

    def __init__(self, least: int = 5, shrink: float = 1.0) -> None:
        self.least = least
        self.shrink = shrink

    def _check_parameters(self) -> None:
        check_number("least", self.least, at_least=1, whole=True)
        check_number("shrink", self.shrink, at_least=0)

    def _smoother(self, features: Features) -> Smoother:
        grouping = np.concatenate(
            [np.full(len(block.names), block.kind in (Categories.kind, Lists.kind)) for block in features.blocks]
            or [np.ones(features.shape[1], np.bool_)]
        )
        return GroupRows(features.matrix, np.flatnonzero(grouping), self.least, self.shrink)

    def _smoothed(self, smoother: Smoother, targets: Any) -> Smoothed:
        return SmoothedLevels(smoother, targets)


class FeatureKNN(FeatureRecommender):
    """What the `neighbours` rows most like a new one have, each by the cosine of features."""

    def __init__(self, neighbours: int = 20) -> None:
        self.neighbours = neighbours

    def _check_parameters(self) -> None:
        check_number("neighbours", self.neighbours, at_least=1, whole=True)

    def _smoother(self, features: Features) -> Smoother:
        return NearestRows(features.matrix, self.neighbours)


class FeatureRidge(FeatureRecommender):
    """A ridge regression from features to interactions: sum_ij (r_ij - m_j - f_i'b_j)^2 + reg |B|^2, r_ij 0 or 1.

    Solved as n x n or as p x p, whichever is smaller; the p x items matrix B is never made.
    """

    def __init__(self, reg: float = 1.0) -> None:
        self.reg = reg

    def _check_parameters(self) -> None:
        check_number("reg", self.reg, above=0)

    def _smoother(self, features: Features) -> Smoother:
        return RidgeRows(features.matrix, self.reg)


class FactorRidge(FeatureRecommender):
    """Two steps: factors of a `WALS` that knows no features, then a ridge regression from features to these factors.

    model : the WALS to fit; None is WALS(random_state=0).
    """

    def __init__(self, reg: float = 1.0, model: WALS | None = None) -> None:
        self.reg = reg
        self.model = model

    def _check_parameters(self) -> None:
        check_number("reg", self.reg, above=0)

    def _smoother(self, features: Features) -> Smoother:
        return RidgeRows(features.matrix, self.reg)

    def _targets(self, cells: Any) -> tuple[tuple[Any, NDArray[Any] | None], tuple[Any, NDArray[Any] | None]]:
        from sklearn.base import clone

        model = WALS(random_state=0) if self.model is None else clone(self.model)
        users, items = (np.asarray(rows, np.float64) for rows in model.fit(cells).fitted_.rows)
        return (users, items.T), (items, users.T)


def _padded(best: Best, n: int) -> NDArray[np.int32]:
    places = best[0]
    return np.pad(places, ((0, 0), (0, n - places.shape[1])), constant_values=-1)
