"""What a sampler of ratings leaves behind: kept draws of both sides and what they say of pairs. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from halfstep import _core
from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.loop import Record, timeless
from halfstep.data.files import ModelFileError, Saved
from halfstep.data.ids import Index
from halfstep.data.table import saved_cells
from halfstep.data.tensors import FACTORS, POSITIVE, SINGLE, WEIGHTS, Tensor, kept_classes
from halfstep.errors import check_number
from halfstep.models import drawn_known
from halfstep.models.drawn_known import KnownSides
from halfstep.models.known import SIDES, need
from halfstep.models.ratings import RatingColumns

BLOCK = 1 << 14
STEPS = 12  # at most so many Newton steps, when a quantile is looked for
_ARRAYS = ("users", "items", "alphas", "noise", "hyper", "cuts", "nus")
DRAWS = {
    "users": Tensor("draws users columns", SINGLE),
    "items": Tensor("draws items columns", SINGLE),
    "alphas": Tensor("draws", POSITIVE),
    "noise": Tensor("draws users", POSITIVE),
    "hyper": Tensor("2 2 draws free", FACTORS),
    "cuts": Tensor("draws cuts"),
    "nus": Tensor("draws", WEIGHTS),
    "user_shift": Tensor("users"),
    "item_shift": Tensor("items"),
}


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
    nus : (K,), degrees of freedom: of "student" by cells, of "gaussian" by users; 0 of classes.
    known : what features of a side weigh, where it has any. unseen : (K, c, f), where the free columns are expected of
    c more ids of a side, behind those that have rows.
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
    nus: Floats
    shift: tuple[Floats, Floats]
    unit: tuple[float, float]
    bounds: tuple[float, float]
    seed: int
    likelihood: str
    history: list[Record]
    diagnostics: dict[str, float]
    classes: NDArray[Any] | None = None
    known: KnownSides = (None, None)
    unseen: tuple[NDArray[np.float32] | None, NDArray[np.float32] | None] = (None, None)

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

    def variance(self, side: int, k: int) -> Floats:
        """(f,): of the free columns of an unknown id about its average, whose features are not known."""
        known = self.known[side]
        return np.asarray(1 / self.hyper[side, 1, k] + (0.0 if known is None else known.spread[k]))

    def with_unseen(self, told: Sequence[Any]) -> DrawnFit:
        """The same with more ids behind those of the fit, which are where their features say. told : by side."""
        ids, unseen = list(self.ids), list(self.unseen)
        for side, given in enumerate(told):
            if given is None:
                continue
            argument = f"{SIDES[side]}_features"
            known = need(self.known[side], side, argument)
            new = known.unseen(given, ids[side], argument)
            assert new.ids is not None
            unseen[side] = self.hyper[side, 0, :, None].astype(np.float32) + known.expected(new)
            ids[side] = ids[side].extend(new.ids.ids)
        return replace(self, ids=(ids[0], ids[1]), unseen=(unseen[0], unseen[1]))

    def _asked(self, side: int, k: int, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of these places, sorted, and an average one behind them for ids of which nothing is known."""
        rows, more, average = self._rows[side][k], self.unseen[side], self.average(side, k)[None]
        cold = places[np.searchsorted(places, len(rows)) :] - len(rows)
        found = [rows[places[: len(places) - len(cold)]]]
        if more is not None and len(cold):
            found.append(np.repeat(average, len(cold), axis=0))
            found[-1][:, slice(*self.free[side])] = more[k, cold]
        return np.concatenate([*found, average])

    def scores(self, pairs: Pairs, n_threads: int) -> DrawnScores:
        """Scores of pairs, in units of the sampler."""
        n, m = len(pairs.users), self.n_draws
        z, extra, noise = np.empty((m, n)), np.zeros((m, n)), np.empty((m, n))
        seen = Pairs(*(np.where(at < rows.shape[1], at, -1) for at, rows in zip(pairs, self._rows, strict=True)))
        shift = [np.append(values, 0.0)[places] for values, places in zip(self.shift, seen, strict=True)]
        known = [np.unique(places[places >= 0]) for places in pairs]
        at = [
            np.where(places < 0, len(own), np.searchsorted(own, places))
            for own, places in zip(known, pairs, strict=True)
        ]
        wider = self._noise_of_unknown()
        for k in range(m):
            sides = [self._asked(side, k, own) for side, own in enumerate(known)]
            z[k] = _core.pair_scores(sides[0], sides[1], at[0], at[1], n_threads=n_threads)
            for side in (0, 1):
                new = seen[side] < 0
                if not new.any():
                    continue
                start, stop = self.free[side]
                met = sides[1 - side][at[1 - side][new], start:stop].astype(np.float64) ** 2
                told = met @ (1 / self.hyper[side, 1, k])
                extra[k, new] += np.where(pairs[side][new] < 0, met @ self.variance(side, k), told)
            noise[k] = np.append(1 / self.noise[k], wider[k])[seen.users] / self.alphas[k]
        return DrawnScores(z + shift[0] + shift[1], extra, noise)

    def _noise_of_unknown(self) -> Floats:
        """(K,): noise variance of an unknown user relative to 1/alpha, as wide between its 5% and 95% as his t law."""
        if self.likelihood != "gaussian":
            return np.ones(self.n_draws)
        return np.asarray((stdtrit(self.nus, 0.95) / ndtri(0.95)) ** 2)

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
        weighed, encoded = drawn_known.to_file(self.known)
        meta = {
            "rank": self.columns.rank,
            "unit": list(self.unit),
            "bounds": None if self.classes is not None else list(self.bounds),
            "seed": self.seed,
            "likelihood": self.likelihood,
            "history": timeless(self.history),
            "diagnostics": self.diagnostics,
            "classes": None if self.classes is None else self.classes.tolist(),
        }
        return arrays | weighed, meta | ({"features": encoded} if encoded else {})

    @classmethod
    def from_parts(cls, saved: Saved) -> Self:
        (table, _), meta = saved_cells(saved), saved.meta
        columns = RatingColumns(int(meta["rank"]), True, True)
        (n, m), d = table.cells.shape, columns.d
        kept = saved.tensors(DRAWS, users=n, items=m, columns=d, free=columns.rank + 1)
        classes = None if meta["classes"] is None else kept_classes(meta["classes"])
        for name in ("unit", "bounds"):
            for value in meta[name] or ():
                check_number(name, value)
        cuts = kept["cuts"]
        if cuts.shape[1] != max(0 if classes is None else len(classes) - 1, 0) or (np.diff(cuts) < 0).any():
            raise ModelFileError(f"{saved.path}: its cuts {cuts.shape} do not fit its classes")
        of_classes = {"gaussian": False, "student": False, "probit": True, "ordinal": True}
        if of_classes.get(meta["likelihood"]) is not (classes is not None):
            raise ModelFileError(f"{saved.path}: likelihood {meta['likelihood']!r} does not fit classes {classes}")
        return cls(
            table.ids,
            table.cells,
            columns,
            kept["users"],
            kept["items"],
            kept["alphas"],
            kept["noise"],
            kept["hyper"],
            with_ends(cuts) if classes is not None else np.empty((len(cuts), 0)),
            kept["nus"],
            (kept["user_shift"], kept["item_shift"]),
            (float(meta["unit"][0]), float(meta["unit"][1])),
            (-np.inf, np.inf) if meta["bounds"] is None else (float(meta["bounds"][0]), float(meta["bounds"][1])),
            int(meta["seed"]),
            str(meta["likelihood"]),
            meta["history"],
            meta["diagnostics"],
            classes,
            drawn_known.from_file(saved, len(kept["alphas"]), columns.rank + 1),
        )


def with_ends(inner: Floats) -> Floats:
    """Inner cuts (..., C - 1) between -inf and inf."""
    ends = np.full((*inner.shape[:-1], 1), np.inf)
    return np.concatenate([-ends, inner, ends], axis=-1)


def quantile(scores: DrawnScores, share: float, nus: Floats | None) -> Floats:
    """(N,): below it lies that share of what the draws expect with their noise; normal, or t with `nus` (K,)."""
    from scipy.stats import t as student_t  # takes a while to import, and few ask for it

    spread, nu = np.sqrt(scores.noise + scores.extra), None if nus is None else nus[:, None]
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
