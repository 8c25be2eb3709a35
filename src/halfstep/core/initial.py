"""Where factors start. Every row derives from the seed and its number alone, so any machine can make any part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.errors import one_of

INITS = ("power", "scaled", "normal", "svd")
BLOCK_ROWS = 4096


def random_rows(seed: int, side: int, start: int, stop: int, d: int, dtype: Any = np.float32) -> NDArray[Any]:
    """Standard normal rows start..stop of one side, (stop - start, d): the same whichever part is asked for."""
    out = np.empty((stop - start, d), dtype)
    for block in range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS)):
        first = block * BLOCK_ROWS
        rows = np.random.Generator(np.random.Philox(key=[seed, 2 * block + side])).standard_normal((BLOCK_ROWS, d))
        low, high = max(start, first), min(stop, first + BLOCK_ROWS)
        out[low - start : high - start] = rows[low - first : high - first]
    return out


def initial_scale(init: str, d: int) -> float:
    """Standard deviation of the random starts: 0.1/sqrt(d), or 0.1 ("normal"). "power" is led from there."""
    one_of("init", init, INITS)
    return 0.1 if init == "normal" else 0.1 / np.sqrt(d)


@dataclass(frozen=True)
class OneSideAtRandom:
    """A start with one side filled at random, row by row from the seed, and the other at zero.

    led : whether the first sweep begins elsewhere, where `core/leading.py` leads from here. Checkpoints know it.
    """

    side: int
    d: int
    scale: float
    seed: int
    dtype: Any
    led: bool = False

    def rows(self, side: int, first: int, last: int) -> NDArray[Any] | None:
        """Any range of rows of a side; None where all are zero."""
        if side != self.side:
            return None
        rows = random_rows(self.seed, side, first, last, self.d, self.dtype)
        rows *= np.asarray(self.scale, self.dtype)
        return rows


@dataclass(frozen=True)
class AtZero:
    """A start where all rows of both sides are zero."""

    d: int
    dtype: Any

    def rows(self, side: int, first: int, last: int) -> None:
        return None


@dataclass(frozen=True, eq=False)
class AtRows:
    """A start of one side at rows that are given, (n, d)."""

    given: NDArray[Any]

    @property
    def d(self) -> int:
        return int(self.given.shape[1])

    @property
    def dtype(self) -> Any:
        return self.given.dtype

    def rows(self, side: int, first: int, last: int) -> NDArray[Any]:
        return self.given[first:last].copy()


def random_start(
    shape: tuple[int, int], rank: int, init: str, seed: int, dtype: Any
) -> tuple[OneSideAtRandom, tuple[int, int]]:
    """Where factors start, and the order of half-steps of a sweep.

    The small side is filled and the large one, left at zero, is solved first: that ends lower than the other way round.
    """
    small = 0 if shape[0] <= shape[1] else 1
    scale = float(initial_scale(init, rank))
    return OneSideAtRandom(small, rank, scale, seed, np.dtype(dtype), led=init == "power"), (1 - small, small)


def widened(rows: NDArray[Any], d: int, side: int, seed: int) -> NDArray[Any]:
    """Rows of a side with as many columns as asked for, new ones at random as in a "scaled" start."""
    n, known = rows.shape
    if known == d:
        return rows
    scale = rows.dtype.type(initial_scale("scaled", d))
    return np.hstack([rows, scale * random_rows(seed, side, 0, n, d - known, rows.dtype)])


def initial_factors(
    observations: Observations, rank: int, init: str, seed: int, dtype: Any
) -> tuple[list[NDArray[Any]], tuple[int, int]]:
    """Factors of both sides as `random_start` has them.

    "svd" fills the small side with the singular vectors of the weighted targets, scaled by the roots of their values.
    """
    shape = observations.shape
    start, order = random_start(shape, rank, init, seed, dtype)
    factors = [all_rows(start, side, n) for side, n in enumerate(shape)]
    if init == "svd" and rank < min(shape):  # a rank that no truncated SVD reaches starts at random
        factors[start.side] = np.ascontiguousarray(_singular(observations, start.side, rank, seed).astype(dtype))
    return factors, order


def all_rows(start: Any, side: int, n: int) -> NDArray[Any]:
    """All n rows of a side as they start."""
    rows: NDArray[Any] | None = start.rows(side, 0, n)
    return np.zeros((n, start.d), start.dtype) if rows is None else rows


def _singular(observations: Observations, side: int, rank: int, seed: int) -> NDArray[np.float64]:
    from sklearn.utils.extmath import randomized_svd

    matrix = observations.to_csr()
    matrix.data = matrix.data * np.asarray(observations.targets, np.float32)
    left, values, right = randomized_svd(matrix, n_components=rank, random_state=seed % 2**32)
    vectors = left if side == 0 else right.T
    return np.asarray(vectors * np.sqrt(values), np.float64)


def seed_from(random_state: Any) -> int:
    """A 63-bit seed from None, an int, a RandomState or a Generator."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**63 - 1))
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state={random_state} must not be negative.")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise TypeError(f"random_state={random_state!r} must be None, an int, a Generator or a RandomState.")
