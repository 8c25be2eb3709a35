"""What parts of a blend count: their scores on one scale for each user, and the weights that rank best.

Knows scores and cells kept apart, no recommenders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from halfstep.models.held_out import HeldOut, RankingMetric
from halfstep.models.item_matrix import first_maxima

Scores = Sequence[NDArray[np.float64]] | NDArray[np.float64]
"""Of each part."""
STEPS = (0.05, 0.1, 0.2, 0.3, 0.5)
CONTENDERS = 100
"""The best of each part, of which blends are ranked where no other item can come before."""


def chosen_weights(
    scaled: list[NDArray[np.float64]], kept: HeldOut, metric: RankingMetric, trials: list[dict[str, Any]]
) -> NDArray[np.float64]:
    """Weights that rank the cells kept apart best: from the best single part, greedily towards others."""
    depth = min(metric.depth, scaled[0].shape[1])
    contenders = Contenders.of(scaled, kept.seen, depth)

    def value(weights: NDArray[np.float64]) -> float:
        worth = kept.value(metric, contenders.best(weights, depth))
        trials.append({"weights": weights.tolist(), str(metric): worth})
        return worth

    single = np.eye(len(scaled))
    values = [value(each) for each in single]
    weights: NDArray[np.float64] = single[int(np.argmax(values))]
    best = max(values)
    improved = len(scaled) > 1
    for _ in range(3):
        tries = [(1 - t) * weights + t * each for each in single for t in STEPS if improved]
        worth = [value(each) for each in tries]
        improved = bool(worth) and max(worth) > best
        if not improved:
            break
        weights, best = tries[int(np.argmax(worth))], max(worth)
    return weights


@dataclass(frozen=True, eq=False)
class Contenders:
    """Of each user the items that are among the best `CONTENDERS` of some part, so that many blends are ranked quickly.

    columns (users, c) : in order but for -1, which is none. values (parts, users, c) : their scores.
    ceilings (parts, users) : what no other unseen item exceeds. seen : rows and columns of what these users have.
    """

    scaled: list[NDArray[np.float64]]
    seen: tuple[NDArray[Any], NDArray[Any]]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]
    ceilings: NDArray[np.float64]

    @classmethod
    def of(cls, scaled: list[NDArray[np.float64]], seen: Any, n: int) -> Self:
        """scaled : scores (users, items) of every part. seen : CSR, what these users have. n : the most to ask for."""
        where = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr)), seen.indices
        n_items = scaled[0].shape[1]
        most, chosen, ceilings = min(max(CONTENDERS, n), n_items), [], []
        for scores in scaled:
            own = scores.copy()
            own[where] = -np.inf
            places = np.argpartition(own, n_items - most, axis=1)[:, n_items - most :]
            worth = np.take_along_axis(own, places, axis=1)
            ceilings.append(worth.min(axis=1) if most < n_items else np.full(len(own), -np.inf))
            chosen.append(np.where(worth > -np.inf, places, -1))
        columns = np.sort(np.hstack(chosen), axis=1)
        columns[:, 1:][columns[:, 1:] == columns[:, :-1]] = -1
        values = np.stack([np.take_along_axis(scores, columns, axis=1) for scores in scaled])
        return cls(scaled, where, columns, values, np.stack(ceilings))

    def best(self, weights: NDArray[np.float64], n: int) -> NDArray[np.int32]:
        """(users, n) items with the largest blended scores. A user is ranked for among all items where the n-th of the
        contenders does not stand above whatever else there may be."""
        scores = blended(self.values, weights)
        scores[self.columns < 0] = -np.inf
        at = first_maxima(scores, n)
        places = np.take_along_axis(self.columns, at, axis=1)
        least = np.take_along_axis(scores, at[:, -1:], axis=1)[:, 0]
        unsure = np.flatnonzero(~(least > blended(self.ceilings, weights)))
        if len(unsure):
            whole = blended([each[unsure] for each in self.scaled], weights)
            position = np.full(len(scores), -1)
            position[unsure] = np.arange(len(unsure))
            rows, columns = self.seen
            mine = position[rows] >= 0
            whole[position[rows[mine]], columns[mine]] = -np.inf
            places[unsure] = first_maxima(whole, n)
        return places.astype(np.int32)


def scaled_scores(parts: Sequence[Any], seen: Any, rows: Any) -> list[NDArray[np.float64]]:
    """Scores (len, items) of every part, each row divided by its standard deviation."""
    found = [np.asarray(part.score_rows(seen, rows), np.float64) for part in parts]
    return [scores / spread(scores)[:, None] for scores in found]


def blended(
    scaled: Sequence[NDArray[np.float64]] | NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    together = np.zeros_like(scaled[0])
    for scores, weight in zip(scaled, weights, strict=True):
        if weight:
            together += weight * scores
    return together


def spread(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Standard deviation of each row; 1 where all are alike."""
    spread = np.asarray(scores.std(axis=1), np.float64)
    return np.asarray(np.where(spread > 0, spread, 1.0))
