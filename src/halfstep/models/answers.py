"""What models answer people with: ranked lists and explanations. Prints itself; computes nothing."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from halfstep.errors import require


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
        pandas = require("pandas", "frames")
        scores = np.atleast_2d(self.scores)
        row, place = np.nonzero(~np.isnan(scores))
        columns: dict[str, Any] = {}
        if np.ndim(self.scores) == 2:
            columns["user"] = row if self.users is None else np.asarray(self.users)[row]
        columns |= {"rank": place + 1, "item": np.atleast_2d(self.ids)[row, place].tolist()}
        if self.labels is not None:
            columns["label"] = np.atleast_2d(self.labels)[row, place].tolist()
        return pandas.DataFrame(columns | {"score": scores[row, place]})

    def first(self) -> Ranking:
        """The first of several rows, without its padding."""
        there = ~np.isnan(self.scores[0])
        labels = None if self.labels is None else self.labels[0][there]
        return Ranking(self.ids[0][there], self.scores[0][there], labels)

    def __str__(self) -> str:
        return "\n".join(f"{score:8.4f}  {name}" for _, name, score in self._lines())

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><td>{rank}</td><td>{html.escape(name)}</td><td>{score:.4f}</td></tr>"
            for rank, name, score in self._lines()
        )
        return (
            f"<table><tr><th></th><th>{'id' if self.labels is None else 'label'}</th><th>score</th></tr>{body}</table>"
        )

    def _lines(self) -> Iterator[tuple[int, str, float]]:
        names = np.atleast_2d(self.ids if self.labels is None else self.labels)
        for row, scores in zip(names, np.atleast_2d(self.scores), strict=True):
            for k in np.flatnonzero(~np.isnan(scores)):
                yield int(k) + 1, str(row[k]), float(scores[k])


class _ScoreAndParts(NamedTuple):
    score: float
    ids: NDArray[Any]
    contributions: NDArray[np.float64]


class Explanation(_ScoreAndParts):
    """Why an item scores what it scores: what each given item contributes. Contributions sum to the score.

    A triple: `score, ids, contributions = explanation`. `labels` has the titles of `ids` where the model knows any.
    """

    labels: NDArray[Any] | None

    def __new__(cls, score: float, ids: Any, contributions: Any, labels: NDArray[Any] | None = None) -> Self:
        explanation = super().__new__(cls, score, ids, contributions)
        explanation.labels = labels
        return explanation

    def to_frame(self) -> Any:
        """A pandas frame with a row for each given item: item, label (where the model has any) and contribution."""
        pandas = require("pandas", "frames")
        labels = {} if self.labels is None else {"label": self.labels.tolist()}
        return pandas.DataFrame({"item": self.ids.tolist(), **labels, "contribution": self.contributions})

    def __str__(self) -> str:
        names = self.ids if self.labels is None else self.labels
        parts = [f"{part:8.4f}  {name}" for name, part in zip(names, self.contributions, strict=True)]
        return "\n".join([*parts, f"{self.score:8.4f}  together"])
