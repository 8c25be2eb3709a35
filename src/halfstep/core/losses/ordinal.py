"""Ordered levels: a latent score with logistic noise, cut by thresholds that are fitted with the factors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep._core import LossKind
from halfstep.core.arrays import Floats, HalfStep
from halfstep.core.losses import targets
from halfstep.core.losses.base import Loss
from halfstep.core.losses.smooth import expit

LEVELS = 200
"""More distinct values are no levels: a threshold for each would be fitted to a handful of cells."""
STEPS, TOLERANCE = 60, 1e-10


@dataclass(frozen=True)
class Ordinal(Loss):
    """-log(s(c_{t+1} - z) - s(c_t - z)), s(x) = 1 / (1 + e^-x), for the level t = 0 .. K - 1 between two thresholds.

    c_0 = -inf < c_1 < ... < c_{K-1} < c_K = inf. `thresholds` are c_1 .. c_{K-1}: solved exactly in every sweep, and
    empty before a fit. It is the cumulative logit: P(t <= k) = s(c_{k+1} - z).
    """

    name = "ordinal"
    kind = LossKind.ordinal
    is_smooth = True
    learns = True
    has_probabilities = True
    has_quantiles = True
    thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        given = tuple(float(c) for c in self.thresholds)
        if any(not math.isfinite(c) for c in given) or any(b <= a for a, b in pairwise(given)):
            raise ValueError(f"thresholds={self.thresholds!r} must be finite numbers that increase")
        object.__setattr__(self, "thresholds", given)

    @property
    def domain(self) -> str:
        return f"at least two and at most {LEVELS} ordered levels, which are numbers"

    @property
    def edges(self) -> Floats:
        """c_0 .. c_K, the outer ones infinite."""
        if not self.thresholds:
            raise ValueError("this ordinal loss has no thresholds yet; `learned` gives one that has, and so does a fit")
        return np.array([-math.inf, *self.thresholds, math.inf])

    def _around(self, z: ArrayLike, t: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """c_t - z, z - c_{t+1}, and the width of the level."""
        edges, level = self.edges, np.asarray(t).astype(np.intp)
        z = np.asarray(z, dtype=np.float64)
        return edges[level] - z, z - edges[level + 1], edges[level + 1] - edges[level]

    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        below, above, width = self._around(z, t)
        return np.asarray(np.logaddexp(0.0, below) + np.logaddexp(0.0, above) - np.log(-np.expm1(-width)))

    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        below, above, _ = self._around(z, t)
        return np.asarray(expit(above) - expit(below))

    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        below, above, _ = self._around(z, t)
        return np.asarray(expit(above) * expit(-above) + expit(below) * expit(-below))

    def bind(self, rows: HalfStep) -> None:
        rows.ordinal(self.edges)

    def unit(self, constant: float, t: Floats, w: Floats) -> float:
        return 1.0  # of the latent noise

    # ------------------------------------------------------------------ levels

    def encode_targets(self, y: ArrayLike, classes: NDArray[Any] | None = None) -> tuple[Floats, NDArray[Any] | None]:
        """The number of the level of each y, and the levels (K,), increasing: `classes`, or those of y."""
        return targets.encode_levels(y, classes, LEVELS, f"{self!r} needs {self.domain}")

    def decode(self, z: ArrayLike, classes: NDArray[Any] | None = None) -> NDArray[Any]:
        """The expected level, sum_k p_k classes_k."""
        return np.asarray(self.probabilities(z) @ np.asarray(classes, np.float64))

    def probabilities(self, z: ArrayLike) -> Floats:
        """(..., K): of each level."""
        z = np.asarray(z, dtype=np.float64)[..., None]
        edges = self.edges
        below, above = edges[:-1] - z, edges[1:] - z
        # s(b) - s(a) = s(b) s(-a) (1 - e^(a - b)): nothing cancels
        found = expit(above) * expit(-below) * -np.expm1(edges[:-1] - edges[1:])
        return np.asarray(found / found.sum(axis=-1, keepdims=True))

    def quantiles(self, z: ArrayLike, classes: NDArray[Any], shares: ArrayLike) -> Floats:
        shares = np.asarray(shares, np.float64)
        cuts = np.array(self.thresholds) - np.log(shares / (1 - shares))[:, None]
        return np.stack([np.asarray(classes)[np.searchsorted(cut, z)] for cut in cuts], axis=1).astype(np.float64)

    # ------------------------------------------------------------------ thresholds

    def learned(self, z: Floats, t: Floats, w: Floats) -> Ordinal:
        """argmin over the thresholds of sum w phi(z; t): convex, and infinite where two of them meet. By Newton steps.

        From where they are; before a fit from the shares of the levels.
        """
        cells = _Scored(np.asarray(z, np.float64), np.asarray(t).astype(np.intp), np.asarray(w, np.float64))
        c = np.array(self.thresholds) if self.thresholds else cells.first()
        now = cells.cost(c)
        for _ in range(STEPS):
            step = -np.linalg.solve(now.hessian, now.gradient)
            fall, times = float(-now.gradient @ step), 1.0
            if fall <= TOLERANCE * cells.w.sum():
                break
            new, found = c, now
            while times > 1e-8 and not found.value <= now.value - 1e-4 * times * fall:
                new = c + times * step
                found = cells.cost(new)
                times /= 2
            if not found.value < now.value:
                break
            c, now = new, found
        return replace(self, thresholds=tuple(c.tolist()))


@dataclass(frozen=True)
class _ThresholdCost:
    """Of thresholds: value, gradient (K-1,), Hessian (K-1, K-1), which is tridiagonal."""

    value: float
    gradient: Floats
    hessian: Floats


@dataclass(frozen=True, eq=False)
class _Scored:
    """Scores, levels and weights of cells, which thresholds are fitted to."""

    z: Floats
    level: NDArray[np.intp]
    w: Floats

    def sums(self, values: Floats, levels: int) -> Floats:
        return np.bincount(self.level, self.w * values, levels).astype(np.float64)

    def first(self) -> Floats:
        """The best thresholds for scores that are all the same."""
        counts = self.sums(np.ones_like(self.z), int(self.level.max()) + 1)
        if (counts <= 0).any():
            raise ValueError(
                f"level {int(np.argmin(counts))} of y, counted from 0, has no pair of positive weight; leave its pairs "
                "out, so that it is no level."
            )
        share = np.cumsum(counts)[:-1] / counts.sum()
        return np.asarray(np.log(share / (1 - share)) + np.average(self.z, weights=self.w))

    def cost(self, c: Floats) -> _ThresholdCost:
        gap, K = np.diff(c), len(c) + 1
        if (gap <= 0).any():
            return _ThresholdCost(math.inf, c, np.eye(len(c)))
        edges = np.array([-math.inf, *c, math.inf])
        below, above = edges[self.level] - self.z, self.z - edges[self.level + 1]
        low, high = expit(below), expit(above)
        inner = self.sums(np.ones_like(self.z), K)[1:-1]
        value = float(self.w @ (np.logaddexp(0.0, below) + np.logaddexp(0.0, above)) - inner @ np.log(-np.expm1(-gap)))
        pull, bend = inner / np.expm1(gap), inner / (4 * np.sinh(gap / 2) ** 2)
        gradient = self.sums(low, K)[1:] - self.sums(high, K)[:-1]
        diagonal = self.sums(low * (1 - low), K)[1:] + self.sums(high * (1 - high), K)[:-1]
        gradient[:-1] += pull
        gradient[1:] -= pull
        diagonal[:-1] += bend
        diagonal[1:] += bend
        return _ThresholdCost(value, gradient, np.diag(diagonal) - np.diag(bend, 1) - np.diag(bend, -1))
