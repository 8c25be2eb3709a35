"""What every recommender answers: lists for known users, in a file or at once. Knows fits and scorers, no model."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from halfstep.core.fitted import fit_of
from halfstep.errors import one_of
from halfstep.figures.shown import Shown
from halfstep.models import recommend
from halfstep.models.answers import Ranking
from halfstep.models.item_index import ItemIndex
from halfstep.models.recommend import Catalogue, Scorer
from halfstep.models.rules import ItemRules

Fit = TypeVar("Fit", bound=Catalogue)


class Recommender(Shown, ABC, Generic[Fit]):
    """Users and items of a fit, and lists of the items that score best."""

    fitted_: Fit

    @abstractmethod
    def _scorer(self, rows: NDArray[Any]) -> Scorer:
        """What scores items for users of the fit, given by row number."""

    @abstractmethod
    def similar_items(self, item: Any, n: int = 10) -> Ranking:
        """The `n` items most like `item`, which is left out."""

    def _facts(self) -> dict[str, str]:
        """What the card says: how many users and items there are."""
        return {"users": f"{len(self._fit().users):,}", "items": f"{len(self._fit().items):,}"} | super()._facts()

    def __sklearn_tags__(self) -> Any:
        """X has a row for each user and a column for each item; weights are not negative, and mostly not there."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags

    def _fit(self) -> Fit:
        """What was fitted; raises where nothing was."""
        fit: Fit = fit_of(self)
        return fit

    def recommend(
        self,
        users: Any,
        n: int = 10,
        *,
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        keep_seen: bool = False,
        diversity: float = 0.0,
        rules: ItemRules | None = None,
        unknown: str = "error",
        index: ItemIndex | None = None,
    ) -> Ranking:
        """The best `n` items of one user (1-D arrays) or of several (2-D arrays, one row for each).

        users : one id, or a list or array of ids; labels where the model has them.
        candidates : only these items may be recommended. exclude : these may not.
        keep_seen : also recommend what the user already has.
        diversity : 0 ranks by score; up to 1, items unlike those already chosen are preferred (maximal marginal
            relevance on cosine similarity of the items).
        rules : `ItemRules`: conditions on what a table says of items, and at most so many of a group.
        unknown : "error", or "popular": users that the model does not know get the items that most users have, each
            scored by the share of users who have it.
        index : from `item_index` of a model with factors: an approximate search where items are millions. Where
            candidates, exclude or conditions leave only some of the items, the search is exact.

        Lists shorter than `n` (n may exceed the catalogue) are padded with None and NaN where several users are asked
        for, and simply shorter for one user. A seen item is never used as padding.
        """
        fit = self._fit()
        one_of("unknown", unknown, ("error", "popular"))
        if index is not None and not hasattr(index, "over"):
            raise TypeError(f"index is a {type(index).__name__}; give what item_index() of this model made.")
        many = recommend.is_many(users)
        asked: Any = users if many else [users]
        rows = self.user_positions(asked) if unknown == "error" else fit.names[0].find(asked)
        known = rows[rows >= 0]
        scorer = self._scorer(known)
        options: dict[str, Any] = {"candidates": candidates, "exclude": exclude, "diversity": diversity, "rules": rules}
        seen = None if keep_seen else self.seen(known)
        best = recommend.best_items(fit, scorer if index is None else index.over(scorer), seen, n, **options)
        if len(known) < len(rows):
            popular = recommend.PopularScorer.of(len(rows) - len(known), fit, scorer)
            best = best.among(rows >= 0, recommend.best_items(fit, popular, None, n, **options))
        if not many:
            return best.first()
        ids = fit.users.take(rows) if len(known) == len(rows) else np.asarray(list(asked), object)
        return Ranking(best.ids, best.scores, best.labels, ids).padded(n)

    def recommend_to_file(self, path: str | os.PathLike[str], users: Iterable[Any] | None = None, n: int = 10) -> int:
        """Write (user, rank, item, score) for many users as a Parquet file, block by block; returns the row count.

        Where the model has labels they follow as user_label and item_label. All users when `users` is None. The file
        appears whole or not at all.
        """
        return recommend.write_lists(self._fit(), path, users, n, self._scorer)

    def seen(self, rows: NDArray[Any]) -> Any:
        """CSR (rows, items) of what these users, given by row number, have."""
        return recommend.seen_by(self._fit(), rows)

    def user_positions(self, users: Iterable[Any]) -> NDArray[np.int64]:
        """Row numbers of users given by id or, where the model has labels, by label (case does not matter)."""
        return self._fit().names[0].positions(users)

    def item_positions(self, items: Iterable[Any]) -> NDArray[np.int64]:
        """Column numbers of items given by id or, where the model has labels, by label (case does not matter)."""
        return self._fit().names[1].positions(items)
