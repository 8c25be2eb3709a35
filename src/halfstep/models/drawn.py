"""What a sampler of ratings leaves behind: kept draws of both sides and what they say of pairs. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr
from scipy.stats import t as student_t

from halfstep import _core
from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.loop import Record
from halfstep.data.files import Saved
from halfstep.data.ids import Index
from halfstep.data.table import pattern_from_saved
from halfstep.models.ratings import RatingColumns

BLOCK = 1 << 14
STEPS = 12  # at most so many Newton steps, when a quantile is looked for
_ARRAYS = ("users", "items", "alphas", "noise", "hyper", "cuts")


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
    cuts : (K, C + 1), bounds of the scores of C classes, -inf and inf among them; (K, 0) where y is a number.
    shift : (n,), (m,): what means over all draws, not only the kept ones, add to biases and intercept.
    law : likelihood and degrees of freedom.
    """

    ids: tuple[Index, Index]
    cells: Observations
    columns: RatingColumns
    users: NDArray[np.float32]
    items: NDArray[np.float32]
    alphas: Floats
    noise: NDArray[np.float32]
    hyper: Floats
    cuts: Floats
    shift: tuple[Floats, Floats]
    unit: tuple[float, float]
    bounds: tuple[float, float]
    seed: int
    law: tuple[str, float]
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
        rows = self._rows[side][k]
        row: NDArray[np.float32] = rows[0].copy()
        row[slice(*self.free[side])] = self.hyper[side, 0, k]
        return row

    def scores(self, pairs: Pairs, n_threads: int) -> DrawnScores:
        """Scores of pairs, in units of the sampler."""
        n, m = len(pairs.users), self.n_draws
        z, extra, noise = np.empty((m, n)), np.zeros((m, n)), np.empty((m, n))
        new = [places < 0 for places in pairs]
        shift = [np.append(values, 0.0)[places] for values, places in zip(self.shift, pairs, strict=True)]
        known = [np.unique(places[places >= 0]) for places in pairs]
        # Rows that are asked for, and an average one behind them for ids without a row.
        at = [
            np.where(unknown, len(own), np.searchsorted(own, places))
            for unknown, own, places in zip(new, known, pairs, strict=True)
        ]
        for k in range(m):
            sides = [
                np.concatenate([rows[k, own], self.average(side, k)[None]])
                for side, (rows, own) in enumerate(zip(self._rows, known, strict=True))
            ]
            z[k] = _core.pair_scores(sides[0], sides[1], at[0], at[1], n_threads=n_threads)
            for side in (0, 1):
                if not new[side].any():
                    continue
                start, stop = self.free[side]
                met = sides[1 - side][at[1 - side][new[side]], start:stop].astype(np.float64)
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

    def below(self, scores: DrawnScores) -> Floats:
        """(K, N, C + 1): the probability under each draw that the class lies below each cut."""
        spread = np.sqrt(1 + scores.extra)[:, :, None]
        return np.asarray(ndtr((self.cuts[:, None, :] - scores.z[:, :, None]) / spread))

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and the rest, as a file keeps them."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {"user_shift": self.shift[0], "item_shift": self.shift[1]}
        arrays |= {"indptr": self.cells.indptr, "indices": self.cells.indices}
        arrays["cuts"] = self.cuts[:, 1:-1]  # a file holds no infinity
        meta = {
            "rank": self.columns.rank,
            "unit": list(self.unit),
            "bounds": None if self.classes is not None else list(self.bounds),
            "seed": self.seed,
            "law": list(self.law),
            "history": self.history,
            "diagnostics": self.diagnostics,
            "classes": None if self.classes is None else self.classes.tolist(),
        }
        return arrays, meta

    @classmethod
    def from_parts(cls, saved: Saved) -> Self:
        table, meta = pattern_from_saved(saved), saved.meta
        columns = RatingColumns(int(meta["rank"]), True, True)
        n, m, d, f = len(table.ids[0]), len(table.ids[1]), columns.d, columns.rank + 1
        users = saved.array("users", (None, n, d))
        k = len(users)
        classes = None if meta["classes"] is None else np.asarray(meta["classes"])
        return cls(
            table.ids,
            table.cells,
            columns,
            users,
            saved.array("items", (k, m, d)),
            saved.array("alphas", (k,)),
            saved.array("noise", (k, n)),
            saved.array("hyper", (2, 2, k, f)),
            with_ends(saved.array("cuts", (k, None))) if classes is not None else np.empty((k, 0)),
            (saved.array("user_shift", (n,)), saved.array("item_shift", (m,))),
            (float(meta["unit"][0]), float(meta["unit"][1])),
            (-np.inf, np.inf) if meta["bounds"] is None else (float(meta["bounds"][0]), float(meta["bounds"][1])),
            int(meta["seed"]),
            (str(meta["law"][0]), float(meta["law"][1])),
            meta["history"],
            meta["diagnostics"],
            classes,
        )


def with_ends(inner: Floats) -> Floats:
    """Inner cuts (..., C - 1) between -inf and inf."""
    ends = np.full((*inner.shape[:-1], 1), np.inf)
    return np.concatenate([-ends, inner, ends], axis=-1)


def quantile(scores: DrawnScores, share: float, nu: float | None) -> Floats:
    """(N,): below it lies that share of what the draws expect with their noise; normal, or t with `nu` degrees."""
    spread = np.sqrt(scores.noise + scores.extra)
    width = 40 * spread.max(axis=0) + np.ptp(scores.z, axis=0)
    low, high = scores.z.min(axis=0) - width, scores.z.max(axis=0) + width
    at = scores.z.mean(axis=0) + ndtri(share) * np.sqrt(scores.z.var(axis=0) + (spread**2).mean(axis=0))
    for _ in range(STEPS):
        x = (at - scores.z) / spread
        gap = (ndtr(x) if nu is None else stdtr(nu, x)).mean(axis=0) - share
        if np.abs(gap).max(initial=0) < 1e-7:
            break
        low, high = np.where(gap < 0, at, low), np.where(gap < 0, high, at)
        density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) if nu is None else student_t.pdf(x, nu)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = at - gap / (density / spread).mean(axis=0)
        at = np.where((step > low) & (step < high), step, (low + high) / 2)
    return np.asarray(at)
