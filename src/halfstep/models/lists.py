"""What every recommender answers: lists for known users, in a file or at once. Knows fits and scorers, no model."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from halfstep.core.estimators import BaseEstimator
from halfstep.models import recommend
from halfstep.models.answers import Ranking
from halfstep.models.recommend import Catalogue, Scorer

Fit = TypeVar("Fit", bound=Catalogue)


class Recommender(BaseEstimator, ABC, Generic[Fit]):
    """Users and items of a fit, and lists of the items that score best."""

    fitted_: Fit

    @abstractmethod
    def _scorer(self, rows: NDArray[Any]) -> Scorer:
        """What scores items for users of the fit, given by row number."""

    @abstractmethod
    def similar_items(self, item: Any, n: int = 10) -> Ranking:
        """The `n` items most like `item`, which is left out."""

    def _fit(self) -> Fit:
        """What was fitted; raises where nothing was."""
        check_is_fitted(self)
        return self.fitted_

    def recommend(
        self,
        users: Any,
        n: int = 10,
        *,
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        keep_seen: bool = False,
        diversity: float = 0.0,
    ) -> Ranking:
        """The best `n` items of one user (1-D arrays) or of several (2-D arrays, one row for each).

        users : one id, or a list or array of ids; labels where the model has them.
        candidates : only these items may be recommended. exclude : these may not.
        keep_seen : also recommend what the user already has.
        diversity : 0 ranks by score; up to 1, items unlike those already chosen are preferred (maximal marginal
            relevance on cosine similarity of the items).

        Lists shorter than `n` (n may exceed the catalogue) are padded with None and NaN where several users are asked
        for, and simply shorter for one user. A seen item is never used as padding.
        """
        fit = self._fit()
        many = recommend.is_many(users)
        rows = self.user_positions(users if many else [users])
        best = recommend.best_items(
            fit,
            self._scorer(rows),
            None if keep_seen else self.seen(rows),
            n,
            candidates=candidates,
            exclude=exclude,
            diversity=diversity,
        )
        return Ranking(best.ids, best.scores, best.labels, fit.users.take(rows)) if many else best.first()

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
