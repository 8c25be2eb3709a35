"""Lists for people who were not in the fit, known by what they have: one, or a table of many. Knows no model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import scipy.sparse as sp

from halfstep.data.features import Features
from halfstep.data.frames import is_frame
from halfstep.data.ids import Index
from halfstep.data.table import CellsHere, placed, read_table, without_cells
from halfstep.errors import one_of
from halfstep.models import recommend
from halfstep.models.answers import Ranking
from halfstep.models.fold_in import somebody_with
from halfstep.models.lists import Fit, Recommender
from halfstep.models.recommend import Catalogue, Scorer
from halfstep.models.rules import ItemRules


class NewcomerRecommender(Recommender[Fit]):
    """Recommenders that need nothing of a user but what they have."""

    _ways: ClassVar[tuple[str, ...]] = ("fold_in",)
    """How somebody new may be taken in."""

    @property
    @abstractmethod
    def _cells_as(self) -> tuple[Any, bool]:
        """Type of the weights of newcomers, and whether they may be below 0."""

    @abstractmethod
    def _new_scorer(self, given: CellsHere, how: str, features: Any = None) -> Scorer:
        """What scores items for new rows that have these cells and, where the model knows any, these features."""

    def _encoded(self, features: Any) -> Features:
        """Features of new users as the model knows them."""
        raise ValueError(f"features={type(features).__name__} cannot be used: {type(self).__name__} knows no features.")

    def recommend_for(
        self,
        items: Any = None,
        n: int = 10,
        *,
        features: Any = None,
        weights: Sequence[float] | None = None,
        how: str = "fold_in",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        diversity: float = 0.0,
        rules: ItemRules | None = None,
        user: str | None = None,
        item: str | None = None,
        weight: str | None = None,
    ) -> Ranking:
        """The best `n` items for somebody new who has `items`, or for everybody in a table of new users.

        items : ids, or labels where the model has them; `weights` has a number for each. Or a frame with a row for each
            pair, whose columns are named by `user`, `item`, `weight` or detected; the answer then has a row for each
            user, in the order of `users`, and `to_frame()` and `by_user()` group by them.
        features : what is known of them beside items, for a `WALS` that was fitted with `user_features`: a dict of
            column to value, or whatever its features were made of. `items` may then be left out. Several rows, such as
            a frame by id, are several users.
        how : "fold_in" takes what somebody has as the fit took that of its users. `WALS` also knows "average", which
            scores by the mean of the item vectors.
        candidates, exclude, diversity, rules : as in `recommend`.
        """
        fit = self._fit()
        one_of("how", how, self._ways)
        if is_frame(items) and weights is not None:
            raise ValueError("weights belong to a list of items; a frame has them in a column, named by weight=.")
        if not is_frame(items) and any((user, item, weight)):
            raise ValueError("user, item and weight name columns of a frame; leave them out for a list of items.")
        dtype, signed = self._cells_as
        told = None if features is None else self._encoded(features)
        if is_frame(items):
            table = read_table(items, user=user, item=item, weight=weight, dtype=dtype, signed=signed)
            new = Newcomers(placed(table, fit.names[1], dtype), True).who(told)
        elif items is not None:
            new = Newcomers(somebody_with(fit, items, weights, dtype, signed), False, told)
        else:
            new = only_features(fit, told)
        options: dict[str, Any] = {"candidates": candidates, "exclude": exclude, "diversity": diversity, "rules": rules}
        scorer = self._new_scorer(new.given, how, new.features)
        best = recommend.best_items(fit, scorer, sp.csr_array(new.given.cells.to_csr()), n, **options)
        return Ranking(best.ids, best.scores, best.labels, new.given.ids[0].ids) if new.many else best.first()


@dataclass(frozen=True, eq=False)
class Newcomers:
    """New rows over the items of a fit: what they have, whether they are several, and their features, where any are
    given, in the order of the rows."""

    given: CellsHere
    many: bool
    features: Features | None = None

    def who(self, told: Features | None) -> Newcomers:
        """With features that say by id whose they are."""
        if told is None:
            return self
        return replace(self, features=Features(told.aligned(self.given.ids[0]), told.names, None, told.blocks))


def only_features(fit: Catalogue, told: Features | None) -> Newcomers:
    """Those of whom nothing but features is known."""
    if told is None:
        raise ValueError("items and features are both left out; give at least one of them.")
    ids = Index.range(len(told), fit.users.name) if told.ids is None else told.ids
    given = replace(without_cells(fit.items, len(told)), ids=(ids, fit.items))
    return Newcomers(given, told.ids is not None or len(told) != 1, told)
