"""What models answer people with: ranked lists and explanations. Prints itself; computes nothing."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from halfstep.errors import require
from halfstep.figures.tables import html_table, text_table


class _IdsAndScores(NamedTuple):
    ids: NDArray[Any]
    scores: NDArray[Any]


class Ranking(_IdsAndScores):
    """Ids and scores, best first; for several rows both are 2-D, short lists padded with None and NaN.

    A pair: `ids, scores = ranking`. `labels` has the titles, in the shape of `ids`, where the model knows any.
    """

    labels: NDArray[Any] | None
    users: NDArray[Any] | None
    """Whose rows these are, where several users of the fit were asked for."""

    def __new__(
        cls,
        ids: NDArray[Any],
        scores: NDArray[Any],
        labels: NDArray[Any] | None = None,
        users: NDArray[Any] | None = None,
    ) -> Self:
        ranking = super().__new__(cls, ids, scores)
        ranking.labels, ranking.users = labels, users
        return ranking

    def to_frame(self) -> Any:
        """A pandas frame with a row for each item, without padding: user (where several were asked for), rank, item,
        label (where the model has any) and score."""
        return require("pandas", "frames").DataFrame(self._columns())

    def by_user(self) -> dict[Any, Ranking]:
        """The list of each user, without its padding; row numbers where nobody has an id."""
        if np.ndim(self.scores) != 2:
            raise ValueError("this is the list of one user; by_user is for answers about several.")
        users = range(len(self.scores)) if self.users is None else self.users.tolist()
        return {user: self.row(k) for k, user in enumerate(users)}

    def among(self, mine: NDArray[np.bool_], others: Ranking) -> Ranking:
        """Several rows, those where `mine` is true from here and the rest from `others`, in order."""

        def merged(own: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
            rows = np.empty((len(mine), own.shape[1]), np.result_type(own, other))
            rows[mine], rows[~mine] = own, other
            return rows

        labels = None
        if self.labels is not None and others.labels is not None:
            labels = merged(self.labels, others.labels)
        return Ranking(merged(self.ids, others.ids), merged(self.scores, others.scores), labels)

    def padded(self, n: int) -> Ranking:
        """Several rows, `n` wide: None and NaN where there are no more items."""
        wide = n - self.scores.shape[1]
        if wide <= 0:
            return self
        none = np.full((len(self.scores), wide), None)
        labels = None if self.labels is None else np.hstack([self.labels, none])
        nan = np.full(none.shape, np.nan, self.scores.dtype)
        return Ranking(np.hstack([self.ids, none]), np.hstack([self.scores, nan]), labels, self.users)

    def first(self) -> Ranking:
        """The first of several rows, without its padding."""
        return self.row(0)

    def row(self, k: int) -> Ranking:
        """One of several rows, without its padding."""
        there = ~np.isnan(self.scores[k])
        labels = None if self.labels is None else self.labels[k][there]
        return Ranking(self.ids[k][there], self.scores[k][there], labels)

    def _columns(self) -> dict[str, Any]:
        """What `to_frame` has, as lists and arrays."""
        scores, ids = np.atleast_2d(self.scores), np.atleast_2d(self.ids)
        labels = None if self.labels is None else np.atleast_2d(self.labels)
        row, place = np.nonzero(~np.isnan(scores))
        columns: dict[str, Any] = {}
        if np.ndim(self.scores) == 2:
            columns["user"] = row if self.users is None else np.asarray(self.users)[row]
        columns |= {"rank": place + 1, "item": ids[row, place].tolist()}
        if labels is not None:
            columns["label"] = labels[row, place].tolist()
        return columns | {"score": scores[row, place]}

    def _rows(self) -> list[dict[str, Any]]:
        """A row for each item, without padding."""
        columns = {name: np.asarray(values, object).tolist() for name, values in self._columns().items()}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def __str__(self) -> str:
        return text_table(self._rows())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self._rows())


class Parts(NamedTuple):
    """What features add to a score, largest first: their names (k,), and contributions (k,)."""

    names: NDArray[Any]
    contributions: NDArray[np.float64]

    def merged(self, others: Parts | None) -> Parts:
        """With others among them, largest first."""
        if others is None:
            return self
        names, values = (np.concatenate(list(pair)) for pair in zip(self, others, strict=True))
        order = np.argsort(-np.abs(values), kind="stable")
        return Parts(names[order], values[order])


class _ScoreAndParts(NamedTuple):
    score: float
    ids: NDArray[Any]
    contributions: NDArray[np.float64]


class Explanation(_ScoreAndParts):
    """Why an item scores what it scores: what each given item contributes. Contributions sum to the score.

    A triple: `score, ids, contributions = explanation`. `labels` has the titles of `ids` where the model knows any.
    """

    labels: NDArray[Any] | None
    features: Parts | None
    """What each feature of the user contributes, where the model knows them: they and `contributions` sum to the
    score together."""
    item_features: Parts | None
    """The same score in another way, where features of the item are known: what each of them contributes, and what its
    interactions add."""

    def __new__(
        cls,
        score: float,
        ids: Any,
        contributions: Any,
        labels: NDArray[Any] | None = None,
        features: Parts | None = None,
        item_features: Parts | None = None,
    ) -> Self:
        explanation = super().__new__(cls, score, ids, contributions)
        explanation.labels, explanation.features, explanation.item_features = labels, features, item_features
        return explanation

    def to_frame(self) -> Any:
        """A pandas frame with a row for each given item: item, label (where the model has any) and contribution."""
        pandas = require("pandas", "frames")
        labels = {} if self.labels is None else {"label": self.labels.tolist()}
        return pandas.DataFrame({"item": self.ids.tolist(), **labels, "contribution": self.contributions})

    def _rows(self) -> list[dict[str, Any]]:
        labels = [{}] * len(self.ids) if self.labels is None else [{"label": label} for label in self.labels.tolist()]
        parts = zip(self.ids.tolist(), labels, self.contributions.tolist(), strict=True)
        rows = [{"item": id, **label, "contribution": part} for id, label, part in parts]
        told = () if self.features is None else zip(*(each.tolist() for each in self.features), strict=True)
        blank = {} if self.labels is None else {"label": ""}
        return rows + [{"item": name, **blank, "contribution": part} for name, part in told]

    def __str__(self) -> str:
        return f"{text_table(self._rows())}\n{self.score:.4f} together"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self._rows(), f"{self.score:.4f} together")
