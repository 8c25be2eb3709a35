"""What stays of a chain while it runs: kept draws, sums over all of them, and the error on cells held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from halfstep import _core
from halfstep.core.arrays import Floats
from halfstep.core.draw import Columns, Draw
from halfstep.core.likelihoods import Likelihood
from halfstep.core.loop import Record
from halfstep.core.losses import Loss
from halfstep.data.features import Features
from halfstep.data.frames import pairs_from
from halfstep.data.pairs import same_length
from halfstep.engine.drawing import CellsToDraw
from halfstep.models.drawn import Pairs
from halfstep.models.drawn_known import DrawnFeatures, KnownSides


class Units(Protocol):
    """How scores become y."""

    @property
    def unit(self) -> tuple[float, float]: ...
    @property
    def bounds(self) -> tuple[float, float]: ...
    @property
    def classes(self) -> NDArray[Any] | None: ...
    @property
    def cuts(self) -> Floats: ...


@dataclass
class Kept:
    """Draws kept so far, in room for all of them, and sums over all draws of what is the same in every one.

    numbers : the sweeps that are kept. sums : biases of users; biases of items with the intercept; total : how often.
    probes : some cells, (P,) rows and (P,) columns, whose scores `traces` (draws, P) follows from draw to draw.
    """

    columns: Columns
    numbers: list[int]
    rows: tuple[NDArray[np.float32], NDArray[np.float32]]
    alphas: Floats
    noise: NDArray[np.float32]
    hyper: Floats
    cuts: Floats
    nus: Floats
    sums: list[Floats]
    probes: Pairs
    traces: Floats
    known: KnownSides
    total: int = 0
    filled: int = 0

    @classmethod
    def room(
        cls,
        numbers: NDArray[np.int64],
        draws: int,
        state: Draw,
        columns: Columns,
        law: Likelihood,
        probes: Pairs,
        features: Sequence[Features | None],
    ) -> Self:
        k, f = len(numbers), len(state.mean[0])
        users, items = (np.empty((k, *side.shape), np.float32) for side in state.rows)
        n, m = len(state.rows[0]), len(state.rows[1])
        left, right = (DrawnFeatures.room(*each, k) for each in zip(features, state.told, strict=True))
        return cls(
            columns,
            numbers.tolist(),
            (users, items),
            np.empty(k),
            np.empty((k, n), np.float32),
            np.empty((2, 2, k, f)),
            np.empty((k, len(law.cuts))),
            np.empty(k),
            [np.zeros(n), np.zeros(m)],
            probes,
            np.empty((draws, len(probes.users))),
            (left, right),
        )

    def _main_effects(self, users: NDArray[Any], items: NDArray[Any]) -> list[Floats]:
        left, right = self.columns.bias
        constant = items[:, self.columns.constant].astype(np.float64)
        return [users[:, left].astype(np.float64), items[:, right] + constant]

    def count(self, number: int, state: Draw, by_row: Floats, law: Likelihood) -> None:
        """A draw after the burn-in."""
        for total, effect in zip(self.sums, self._main_effects(*state.rows), strict=True):
            total += effect
        users, items = (side[places] for side, places in zip(state.rows, self.probes, strict=True))
        self.traces[self.total] = np.sum(users * items, axis=1)
        self.total += 1
        k = self.filled
        if k == len(self.numbers) or number != self.numbers[k]:
            return
        self.filled += 1
        for side in (0, 1):
            self.rows[side][k] = state.rows[side]
            self.hyper[side, :, k] = state.mean[side], state.precision[side]
            known, told = self.known[side], state.told[side]
            if known is not None and told is not None:
                known.keep(k, told)
        self.alphas[k], self.noise[k], self.cuts[k], self.nus[k] = state.alpha, by_row, law.cuts, law.nu

    @property
    def shift(self) -> tuple[Floats, Floats]:
        """Means over all draws less those over the kept ones."""
        kept = [np.zeros_like(total) for total in self.sums]
        for users, items in zip(*self.rows, strict=True):
            for total, effect in zip(kept, self._main_effects(users, items), strict=True):
                total += effect
        k = len(self.numbers)
        return self.sums[0] / self.total - kept[0] / k, self.sums[1] / self.total - kept[1] / k

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint. Room that is not filled yet is left out."""
        done = self.filled
        weighed: dict[str, NDArray[Any]] = {}
        for side, known in enumerate(self.known):
            if known is not None:
                weighed |= {f"kept_weights{side}": known.weights[:done], f"kept_spread{side}": known.spread[:done]}
        return weighed | {
            "kept_users": self.rows[0][:done],
            "kept_items": self.rows[1][:done],
            "kept_alphas": self.alphas[:done],
            "kept_noise": self.noise[:done],
            "kept_hyper": self.hyper[:, :, :done],
            "kept_cuts": self.cuts[:done],
            "kept_nus": self.nus[:done],
            "kept_sums0": self.sums[0],
            "kept_sums1": self.sums[1],
            "kept_total": np.array([self.total]),
            "kept_traces": self.traces[: self.total],
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """From what `arrays` gave."""
        done = self.filled = len(arrays["kept_alphas"])
        self.rows[0][:done], self.rows[1][:done] = arrays["kept_users"], arrays["kept_items"]
        self.alphas[:done], self.noise[:done] = arrays["kept_alphas"], arrays["kept_noise"]
        self.hyper[:, :, :done], self.cuts[:done] = arrays["kept_hyper"], arrays["kept_cuts"]
        self.nus[:done] = arrays["kept_nus"]
        self.sums, self.total = [arrays["kept_sums0"], arrays["kept_sums1"]], int(arrays["kept_total"][0])
        self.traces[: self.total] = arrays["kept_traces"]
        for side, known in enumerate(self.known):
            if known is not None:
                known.weights[:done], known.spread[:done] = arrays[f"kept_weights{side}"], arrays[f"kept_spread{side}"]


@dataclass
class Watched:
    """Pairs held out, and how well the mean over draws so far does on them; in the burn-in, each draw alone.

    y : numbers, or places of classes. Unknown ids are answered by the mean of their prior.
    """

    pairs: Pairs
    y: NDArray[Any]
    total: int = 0
    sums: Floats = field(default_factory=lambda: np.zeros(0))
    said: str = ""

    @classmethod
    def of(cls, validation: Any, given: CellsToDraw, loss: Loss, likelihood: str) -> Self:
        """From (X, y), beside the pairs that are fitted."""
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise ValueError(f"validation must be a pair (X, y); got {type(validation).__name__}.")
        pairs = Pairs(*(index.find(ids) for index, ids in zip(given.ids, pairs_from(validation[0]), strict=True)))
        y, _ = loss.encode_targets(validation[1], given.classes)
        same_length("the y of validation", y, len(pairs.users))
        if not len(y):
            raise ValueError("validation has no pairs; leave it out, or give some.")
        if likelihood in ("gaussian", "student"):
            return cls(pairs, y)
        values = np.array([-1.0, 1.0])
        if likelihood == "ordinal":
            values = np.unique(given.here("validation").given.cells.targets)
        codes = np.minimum(np.searchsorted(values, y), len(values) - 1)
        if (values[codes] != y).any():
            raise ValueError("the y of validation holds classes that y has not.")
        return cls(pairs, codes)

    def look(self, state: Draw, columns: Columns, units: Units, counts: bool, n_threads: int) -> Record:
        """The record of a sweep: validation_rmse, or validation_log_loss of classes."""
        sides, at = [], []
        for side, places in enumerate(self.pairs):
            rows = state.rows[side]
            average = rows[:1].copy()
            average[0, slice(*columns.free[side])] = state.mean[side]
            sides.append(np.concatenate([rows, average]))
            at.append(np.where(places < 0, len(rows), places))
        z = np.asarray(_core.pair_scores(sides[0], sides[1], at[0], at[1], n_threads=n_threads), np.float64)
        cuts = units.cuts
        value = z if not len(cuts) else ndtr(cuts[self.y + 1] - z) - ndtr(cuts[self.y] - z)
        if counts:
            self.sums = value if not self.total else self.sums + value
            self.total += 1
            value = self.sums / self.total
        if len(cuts):
            name, error = "log_loss", float(-np.mean(np.log(np.maximum(value, 1e-12))))
        else:
            p = np.clip(units.unit[0] + units.unit[1] * value, *units.bounds)
            name, error = "rmse", float(np.sqrt(np.mean((p - self.y) ** 2)))
        self.said = f"held out: {name.replace('_', ' ')} {error:.4f}"
        return {f"validation_{name}": error}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint."""
        return {"watched_sums": self.sums, "watched_total": np.array([self.total])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.sums, self.total = arrays["watched_sums"], int(arrays["watched_total"][0])
