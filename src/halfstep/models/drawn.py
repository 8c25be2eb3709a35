"""What a sampler of ratings leaves behind: kept draws of both sides and what they say of pairs. Draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from halfstep import _core
from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.loop import Record
from halfstep.data.ids import Index
from halfstep.models.ratings import RatingColumns

BLOCK = 1 << 16
STEPS = 30  # halvings of a bracket, when a quantile is looked for


class Pairs(NamedTuple):
    """Places of pairs in both sides, -1 for unknown ids."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]


class DrawnScores(NamedTuple):
    """Scores of pairs under every kept draw, (K, N), what unknown ids add to their variance, and noise variances."""

    z: Floats
    extra: Floats
    noise: Floats

    @property
    def std(self) -> Floats:
        """Of the score, noise left out."""
        return np.asarray(np.sqrt(self.z.var(axis=0) + self.extra.mean(axis=0)))


@dataclass(frozen=True, eq=False)
class DrawnFit:
    """K kept draws. Rows are float32, laid out by `columns`; y = unit[0] + unit[1] * score.

    users, items : (K, n, d), (K, m, d). alphas : (K,). noise : (K, n), of users relative to alpha.
    hyper : (2, 2, K, f): means and precisions of the free columns of users, then of items.
    shift : (n,), (m,): what means over all draws, not only the kept ones, add to biases and intercept.
    """

    ids: tuple[Index, Index]
    cells: Observations
    columns: RatingColumns
    users: NDArray[np.float32]
    items: NDArray[np.float32]
    alphas: Floats
    noise: NDArray[np.float32]
    hyper: Floats
    shift: tuple[Floats, Floats]
    unit: tuple[float, float]
    bounds: tuple[float, float]
    seed: int
    history: list[Record]
    diagnostics: dict[str, float]
    classes: NDArray[Any] | None = None

    @property
    def free(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The columns that are drawn, of users and of items."""
        factors, d = self.columns.factors, self.columns.d
        return (factors.start, d), (factors.start - 1, d - 1)

    @property
    def users_index(self) -> Index:
        return self.ids[0]

    @property
    def items_index(self) -> Index:
        return self.ids[1]

    @property
    def n_draws(self) -> int:
        return len(self.users)

    @property
    def n_iter(self) -> int:
        return len(self.history)

    @property
    def n_features(self) -> int:
        return 2

    def average(self, side: int, k: int) -> NDArray[np.float32]:
        """The row (d,) of an unknown id: the mean of its prior."""
        rows = (self.users, self.items)[side][k]
        row: NDArray[np.float32] = rows[0].copy()
        row[slice(*self.free[side])] = self.hyper[side, 0, k]
        return row

    def scores(self, pairs: Pairs, n_threads: int) -> DrawnScores:
        """Scores of pairs, in units of the sampler."""
        n, m = len(pairs.users), self.n_draws
        z, extra, noise = np.empty((m, n)), np.zeros((m, n)), np.empty((m, n))
        new = [places < 0 for places in pairs]
        shift = [np.append(values, 0.0)[places] for values, places in zip(self.shift, pairs, strict=True)]
        for k in range(m):
            sides = [np.concatenate([rows[k], self.average(side, k)[None]]) for side, rows in enumerate(self._rows)]
            places = [np.where(unknown, len(rows) - 1, at) for unknown, rows, at in zip(new, sides, pairs, strict=True)]
            z[k] = _core.pair_scores(sides[0], sides[1], places[0], places[1], n_threads=n_threads)
            for side in (0, 1):
                start, stop = self.free[side]
                met = sides[1 - side][places[1 - side][new[side]], start:stop].astype(np.float64)
                extra[k, new[side]] += met**2 @ (1 / self.hyper[side, 1, k])
            noise[k] = 1 / (self.alphas[k] * np.append(self.noise[k], 0.5)[pairs.users])
        return DrawnScores(z + shift[0] + shift[1], extra, noise)

    @property
    def _rows(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self.users, self.items

    def in_blocks(self, pairs: Pairs, n_threads: int) -> Iterator[tuple[slice, DrawnScores]]:
        """Scores of many pairs, some at a time."""
        for start in range(0, len(pairs.users), BLOCK):
            block = slice(start, start + BLOCK)
            yield block, self.scores(Pairs(pairs.users[block], pairs.items[block]), n_threads)

    def numbers(self, z: Floats) -> Floats:
        """Scores in the units of y, within its range."""
        return np.clip(self.unit[0] + self.unit[1] * z, *self.bounds)


def quantile(scores: DrawnScores, share: float, nu: float | None) -> Floats:
    """(N,): below it lies that share of what the draws expect with their noise; normal, or t with `nu` degrees."""
    law: Callable[[Floats], Any] = ndtr if nu is None else lambda x: stdtr(nu, x)
    spread = np.sqrt(scores.noise + scores.extra)
    width = 40 * spread.max(axis=0) + np.ptp(scores.z, axis=0)
    low, high = scores.z.min(axis=0) - width, scores.z.max(axis=0) + width
    for _ in range(STEPS):
        middle = (low + high) / 2
        below = law((middle - scores.z) / spread).mean(axis=0) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)
