"""Lists of a model that keeps draws, `BayesMF`: by their mean, by one of them, or by mean and spread. Knows no HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.serve.listed import scored, with_labels
from halfstep.apps.serve.problems import FieldError, at_most
from halfstep.apps.serve.rating import RatingAnswers


class DrawnLists:
    """What `RankingAnswers` gives as lists, where every draw scores all items."""

    def __init__(self, rating: RatingAnswers) -> None:
        self.model = rating.model
        self.users, self.items, self.settings = rating.users, rating.items, rating.settings

    def cost(self, rows: int = 1) -> int:
        """Multiply-adds to score every item for so many rows."""
        return rows * int(self.model.fitted_.items.size)

    def allow(self, n: int) -> None:
        """Raise where a list of `n` is above the limit; nobody can ask for more than there is."""
        at_most("n", min(n, len(self.items)), self.settings.max_n)

    def recommend(self, users: list[Any], n: int, **options: Any) -> list[dict[str, Any]]:
        """The best items of known users, one entry for each user."""
        self.allow(n)
        at_most("users", len(users), self.settings.max_list, "entries are")
        return self.recommend_rows(self.users.rows(users, "users"), n, **options)

    def recommend_rows(
        self,
        users: NDArray[np.int64] | list[int],
        n: int,
        *,
        keep_seen: bool = False,
        strategy: str | None = None,
        **others: Any,
    ) -> list[dict[str, Any]]:
        """The best items of rows of users."""
        self._refuse(others)
        rows = np.asarray(users, np.int64)
        best = self.model.recommend(
            self.users.index.take(rows), min(n, len(self.items)), keep_seen=keep_seen, strategy=strategy or "mean"
        )
        lists = [self._list(ids, scores) for ids, scores in zip(best.ids, best.scores, strict=True)]
        return [{"user": user, "items": items} for user, items in zip(self.users.describe(rows), lists, strict=True)]

    def recommend_for(
        self,
        items: list[Any] | None,
        n: int,
        *,
        ratings: list[float] | None = None,
        how: str = "fold_in",
        strategy: str | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """The best items for somebody new who rated `items`."""
        self.allow(n)
        items = items or []
        at_most("items", len(items), self.settings.max_list, "entries are")
        if not items:
            raise FieldError("items", "is missing; give what somebody has rated, and `ratings`")
        self._refuse(others | ({} if how == "fold_in" else {"how": how}))
        if ratings is None or len(ratings) != len(items):
            raise FieldError("ratings", f"this model needs a rating for each of the {len(items)} items")
        given = self.items.index.take(self.items.rows(items, "items")).tolist()
        best = self.model.recommend_for(given, ratings, n, strategy=strategy or "mean")
        return {"items": self._list(best.ids, best.scores)}

    def _list(self, ids: NDArray[Any], scores: NDArray[Any]) -> list[dict[str, Any]]:
        there = ~np.isnan(scores)  # the padding of short lists is left out
        labels = None if self.items.labels is None else self.items.labels[self.items.index.positions(ids[there])]
        return scored(with_labels(ids[there], labels), scores[there])

    def _refuse(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            if value:
                raise FieldError(name, f"lists of a {type(self.model).__name__} know nothing of it; leave it out")
