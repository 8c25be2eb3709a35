"""Rows that are drawn instead of solved: a Gibbs sampler over both sides, their hyperparameters and the noise.

    t_k ~ N(z_k, 1 / (alpha w_k)),   z = u_i . v_j over all columns, column `constant` of side 1 being the intercept
    b_ic ~ N(mu_c, 1 / lam_c)        the free columns of a side; mu_c = 0 for biases, whose mean is the intercept's
    mu_c ~ N(0, 1 / strength),  lam_c ~ Gamma(shape, rate),  alpha ~ Gamma(shape, rate),  intercept ~ N(0, 1 / width)

Every random number derives from the seed and the sweep: those of rows in the core, by their number, all others from one
generator for each sweep. So the bits depend on no thread. Knows two sides, never users or items; docs/bayes.md has the
conditionals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations, Values, plain
from halfstep.errors import RowError


@dataclass(frozen=True)
class Prior:
    """What is believed before any cell is seen, in units of t."""

    shape: float = 1.0
    rate: float = 1.0
    strength: float = 1.0
    width: float = 0.01


@dataclass(frozen=True)
class Columns:
    """Where things lie in rows of both sides: the ranges that are drawn, their biases, and the intercept in side 1."""

    free: tuple[tuple[int, int], tuple[int, int]]
    bias: tuple[int, int]
    constant: int

    def factors(self, side: int) -> NDArray[np.int64]:
        """The drawn columns that are no bias."""
        columns = np.arange(*self.free[side])
        return np.asarray(columns[columns != self.bias[side]], np.int64)


@dataclass
class Draw:
    """One draw of everything: rows (n, d) of both sides, means and precisions (f,) of their free columns, noise."""

    rows: list[NDArray[Any]]
    mean: list[Floats]
    precision: list[Floats]
    alpha: float


class Likelihood(Protocol):
    """What cells say of scores, as normal targets and weights that may change with every draw."""

    by_row: Floats | None
    """Noise precisions of the rows of side 0, relative to alpha, where they have their own."""

    def draw(self, cells: Cells, z: Floats, alpha: float, rng: np.random.Generator, prior: Prior) -> float:
        """Draw targets or weights of all cells into `cells`, given scores; returns the noise precision."""
        ...


@dataclass
class Cells:
    """Cells in both orientations whose targets and weights change; `given` are the sample weights, one number or (N,).

    `order` has, for each cell of the second orientation, its place in the first.
    """

    by_row: Observations
    targets: Floats
    given: Floats
    weights: Floats
    order: NDArray[np.int64] = field(init=False)
    by_column: Observations = field(init=False)
    places: tuple[NDArray[np.int64], NDArray[np.int64]] = field(init=False)

    def __post_init__(self) -> None:
        n, m = self.by_row.shape
        rows = np.repeat(np.arange(n), self.by_row.counts)
        columns = self.by_row.indices.astype(np.int64)
        self.places = rows, columns
        self.order = np.argsort(columns, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=m))]).astype(np.int64)
        self.by_column = Observations((m, n), indptr, rows[self.order].astype(np.int32))

    @classmethod
    def of(cls, cells: Observations) -> Cells:
        t, w = (np.broadcast_to(np.asarray(v, np.float64), len(cells)) for v in (cells.targets, cells.weights))
        return cls(cells, t.copy(), w.copy(), w.copy())

    def oriented(self, side: int, alpha: float, dtype: Any) -> tuple[Observations, NDArray[Any], Values]:
        """Structure, targets and precisions of the cells, grouped by the rows of a side."""
        cells = self.by_row if side == 0 else self.by_column
        alike = len(self.weights) > 0 and self.weights.min() == self.weights.max()
        weights: Values = float(alpha * self.weights[0]) if alike else (alpha * self.weights).astype(dtype)
        targets = self.targets.astype(dtype)
        if side == 1:
            targets = targets[self.order]
            weights = weights[self.order] if isinstance(weights, np.ndarray) else weights
        return cells, targets, weights


@dataclass
class Gaussian:
    """t_ij ~ N(z_ij, 1 / (alpha h_i w_ij)), every row i of side 0 with its own h_i ~ Gamma(nu/2, nu/2).

    A cell of weight w counts as w cells. Without h, factors would be spent on telling steady rows from fickle ones.
    """

    nu: float = 4.0
    by_row: Floats | None = None

    def draw(self, cells: Cells, z: Floats, alpha: float, rng: np.random.Generator, prior: Prior) -> float:
        rows, n = cells.places[0], cells.by_row.shape[0]
        squares = np.bincount(rows, cells.given * (cells.targets - z) ** 2, n)
        counts = np.bincount(rows, cells.given, n)
        self.by_row = rng.standard_gamma((self.nu + counts) / 2) / ((self.nu + alpha * squares) / 2)
        cells.weights = cells.given * self.by_row[rows]
        return _noise(cells, z, rng, prior)


@dataclass
class Student:
    """Normal cells whose weights are drawn, so that scores see a t distribution with `nu` degrees of freedom.

    A cell of weight w counts as w cells that share one drawn weight.
    """

    nu: float = 4.0
    by_row: Floats | None = None

    def draw(self, cells: Cells, z: Floats, alpha: float, rng: np.random.Generator, prior: Prior) -> float:
        rate = (self.nu + alpha * cells.given * (cells.targets - z) ** 2) / 2
        cells.weights = cells.given * rng.standard_gamma((self.nu + cells.given) / 2) / rate
        return _noise(cells, z, rng, prior)


@dataclass(eq=False)
class Probit:
    """Two classes -1 and +1: the sign of a normal with mean z and variance 1 (Albert and Chib). Weights are 1."""

    signs: Floats
    by_row: Floats | None = None

    def draw(self, cells: Cells, z: Floats, alpha: float, rng: np.random.Generator, prior: Prior) -> float:
        from scipy.special import ndtr, ndtri

        below = ndtr(np.maximum(self.signs * z, -35.0))
        cells.targets = z - self.signs * ndtri(below * (1.0 - rng.random(len(z))))
        return 1.0


def _noise(cells: Cells, z: Floats, rng: np.random.Generator, prior: Prior) -> float:
    squares = float(np.sum(cells.weights * (cells.targets - z) ** 2))
    return float(rng.gamma(prior.shape + cells.given.sum() / 2) / (prior.rate + squares / 2))


@dataclass
class Sampler:
    """Sweeps over a state: hyperparameters and rows of side 0, of side 1, then intercept and noise."""

    cells: Cells
    columns: Columns
    likelihood: Likelihood
    prior: Prior
    seed: int
    n_threads: int = 1

    def sweep(self, state: Draw, number: int) -> Floats:
        """One sweep in place; returns the scores (N,) of the new rows, intercept included."""
        rng = generator(self.seed, number)
        for side in (0, 1):
            self.draw_hyper(state, side, rng)
            cells, targets, weights = self.cells.oriented(side, state.alpha, state.rows[side].dtype)
            draw_rows(
                state,
                side,
                self.columns,
                (cells, targets, weights),
                (self.seed, number),
                n_threads=self.n_threads,
            )
        z = self.scores(state)
        z += self.draw_intercept(state, z, rng)
        self.move_means(state, rng)
        z += self.move_scale(state, number % 2, z, rng)
        state.alpha = self.likelihood.draw(self.cells, z, state.alpha, rng, self.prior)
        return z

    def draw_hyper(self, state: Draw, side: int, rng: np.random.Generator) -> None:
        """Mean and precision of every free column, given the rows: normal, then gamma."""
        start, stop = self.columns.free[side]
        rows = state.rows[side][:, start:stop].astype(np.float64)
        n, lam = len(rows), state.precision[side]
        held = n * lam + self.prior.strength
        mean = lam * rows.sum(axis=0) / held + rng.standard_normal(stop - start) / np.sqrt(held)
        mean[self.columns.bias[side] - start] = 0.0
        squares = np.sum((rows - mean) ** 2, axis=0)
        state.mean[side] = mean
        state.precision[side] = rng.standard_gamma(self.prior.shape + n / 2, stop - start) / (
            self.prior.rate + squares / 2
        )

    def draw_intercept(self, state: Draw, z: Floats, rng: np.random.Generator) -> float:
        """The intercept given all else; returns how far it moved."""
        w = state.alpha * self.cells.weights
        column = state.rows[1][:, self.columns.constant]
        now, held = float(column[0]), float(w.sum()) + self.prior.width
        pull = float(np.sum(w * (self.cells.targets - z))) + now * (held - self.prior.width)
        column[:] = pull / held + rng.standard_normal() / np.sqrt(held)
        return float(column[0]) - now

    def move_means(self, state: Draw, rng: np.random.Generator) -> None:
        """What all biases of a side share goes between them and the intercept; no score changes, mixing gets better."""
        constant = state.rows[1][:, self.columns.constant]
        for side in (0, 1):
            bias = state.rows[side][:, self.columns.bias[side]]
            lam = float(state.precision[side][self.columns.bias[side] - self.columns.free[side][0]])
            held = len(bias) * lam + self.prior.width
            pull = lam * float(bias.sum(dtype=np.float64)) - self.prior.width * float(constant[0])
            shift = pull / held + rng.standard_normal() / np.sqrt(held)
            bias -= bias.dtype.type(shift)
            constant += constant.dtype.type(shift)

    def move_scale(self, state: Draw, side: int, z: Floats, rng: np.random.Generator) -> Floats:
        """All factors of a side times one number, about their means, and precisions with them; returns the change of z.

        Precisions given rows hardly move, nor do rows given precisions; together they go far in one step. The number
        is proposed as the cells want it, and accepted as the prior does.
        """
        columns = self.columns.factors(side)
        places = columns - self.columns.free[side][0]
        own, other = (np.ascontiguousarray(state.rows[k][:, columns]) for k in (side, 1 - side))
        mean = state.mean[side][places].astype(own.dtype)
        own -= mean
        rows, others = self.cells.places if side == 0 else self.cells.places[::-1]
        x = np.asarray(_core.pair_scores(own, other, rows, others, n_threads=self.n_threads), np.float64)
        w = state.alpha * self.cells.weights
        held = float(np.sum(w * x * x))
        if held == 0:
            return np.zeros_like(x)
        times = abs(1 + float(np.sum(w * x * (self.cells.targets - z))) / held + rng.standard_normal() / np.sqrt(held))
        lam = state.precision[side][places]
        gain = -(2 * len(lam) * self.prior.shape + 1) * np.log(times) - self.prior.rate * lam.sum() * (times**-2 - 1)
        if np.log(rng.random()) >= gain:
            return np.zeros_like(x)
        state.rows[side][:, columns] = mean + own.dtype.type(times) * own
        state.precision[side][places] = lam / times**2
        return np.asarray((times - 1) * x)

    def scores(self, state: Draw) -> Floats:
        own, other = state.rows
        return np.asarray(_core.pair_scores(own, other, *self.cells.places, n_threads=self.n_threads), np.float64)


def draw_rows(
    state: Draw,
    side: int,
    columns: Columns,
    cells: tuple[Observations, Values, Values],
    numbers: tuple[int, int],
    *,
    n_threads: int = 1,
) -> None:
    """Every row of a side in place, given the other side: cells with targets and precisions; seed and sweep.

    Columns have precisions of their own by a change of units: x_c / sqrt(lam_c) of the other side meets
    b_c sqrt(lam_c), whose precision is 1.
    """
    own, other = state.rows[side], state.rows[1 - side].copy()
    start, stop = columns.free[side]
    dtype, scale = own.dtype, np.sqrt(state.precision[side])
    other[:, start:stop] /= scale.astype(dtype)
    structure, targets, weights = cells
    rows = _core.half_step(own, other)
    rows.cells(structure.indptr, structure.indices, plain(targets, dtype), plain(weights, dtype))
    rows.columns(start, stop)
    rows.penalty(1.0)
    rows.prior(np.ascontiguousarray((state.mean[side] * scale)[None, :], dtype))
    rows.method(_core.Method.draw, 1e-5, 1, 64)
    rows.noise(numbers[0], numbers[1], side, 0)
    failed = int(rows.solve(False, n_threads)["failed"])
    if failed >= 0:
        raise RowError(
            f"row {failed} of side {side} has no finite draw; look for huge targets or sample weights in that row."
        )
    own[:, start:stop] /= scale.astype(dtype)


def generator(seed: int, sweep: int) -> np.random.Generator:
    """The random numbers of a sweep that belong to no row."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, sweep], np.uint64)))


# ---------------------------------------------------------------------- how well a chain has mixed


def effective_size(trace: Floats) -> float:
    """How many independent draws a trace is worth, by Geyer's initial positive sequence of pairs."""
    x = np.asarray(trace, np.float64)
    x = x - x.mean()
    n = len(x)
    if n < 4 or not np.any(x):
        return float(n)
    spectrum = np.fft.rfft(x, 2 * n)
    rho = np.fft.irfft(spectrum * spectrum.conj())[:n]
    rho /= rho[0]
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: ends[0] if len(ends) else None])
    return float(min(n / max(2 * pairs.sum() - 1, 1 / n), n))


def split_r_hat(trace: Floats) -> float:
    """Between and within the two halves of a trace: near 1 where it has settled."""
    half = len(trace) // 2
    if half < 2:
        return float("nan")
    halves = np.stack([trace[:half], trace[-half:]]).astype(np.float64)
    within = float(halves.var(axis=1, ddof=1).mean())
    if within == 0:
        return 1.0
    between = half * float(halves.mean(axis=1).var(ddof=1))
    return float(np.sqrt((half - 1) / half + between / (half * within)))
