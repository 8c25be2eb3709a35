"""Rows that are drawn instead of solved: a Gibbs sampler over both sides, their hyperparameters and the noise.

    t_k ~ N(z_k, 1 / (alpha w_k)),   z = u_i . v_j over all columns, column `constant` of side 1 being the intercept
    b_ic ~ N(mu_c, 1 / lam_c)        the free columns of a side; mu_c = 0 for biases, whose mean is the intercept's
    mu_c ~ N(0, 1 / strength),  lam_c ~ Gamma(shape, rate),  alpha ~ Gamma(noise_shape, noise_rate),
    intercept ~ N(0, 1 / width)

Where features of rows are known, mu_c + (F W)_ic stands for mu_c, and W is drawn too (`drawn_features.py`).

Every random number derives from seed and sweep: those of rows and cells in the core, by their number, all others from
one generator for each sweep. So the bits depend on no thread. Between half-steps cells are walked once, by rows of
side 0, and everything else is made of sums over rows. Knows two sides, never users or items; docs/bayes.md has the
conditionals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.drawn_cells import CellsAnywhere, Chance, Prior, Residual
from halfstep.core.drawn_features import DrawnWeights
from halfstep.core.drawn_rows import RowDraw, Stretch
from halfstep.core.likelihoods import Likelihood
from halfstep.errors import RowError


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
    """One draw of everything: rows (n, d) of both sides, means and precisions (f,) of their free columns, noise.

    told : weights of the features of a side, None where it has none.
    """

    rows: list[NDArray[Any]]
    mean: list[Floats]
    precision: list[Floats]
    alpha: float
    told: list[DrawnWeights | None] = field(default_factory=lambda: [None, None])

    def expected(self, side: int) -> Floats:
        """Where free columns are expected: (1, f) for all rows of a side, or (n, f) where features are known."""
        told = self.told[side]
        return self.mean[side][None, :] if told is None else self.mean[side] + told.fitted


@dataclass
class Sampler:
    """Sweeps over a state: hyperparameters and rows of side 0, of side 1, then intercept, scale and noise."""

    cells: CellsAnywhere
    columns: Columns
    likelihood: Likelihood
    prior: Prior
    seed: int
    n_threads: int = 1

    def sweep(self, state: Draw, number: int) -> float:
        """One sweep in place; returns the mean loss of cells, (t - z)^2 or minus the log probability of classes."""
        chance = Chance(self.seed, number, generator(self.seed, number), self.n_threads)
        for side in (0, 1):
            self.draw_hyper(state, side, chance.rng)
            draw_rows(state, side, self.columns, self.cells, chance)
        left = self.residual(state, number % 2)
        left = self.draw_intercept(state, left, chance.rng)
        self.move_means(state, chance.rng)
        left = self.move_scale(state, number % 2, left, chance.rng)
        left = left._replace(constant=float(state.rows[1][0, self.columns.constant]))
        drawn = self.likelihood.draw(self.cells, left, state.alpha, chance, self.prior)
        state.alpha = drawn.alpha
        state.rows[1][:, self.columns.constant] += state.rows[1].dtype.type(drawn.shift)
        return drawn.loss

    def draw_hyper(self, state: Draw, side: int, rng: np.random.Generator) -> None:
        """Mean and precision of every free column, given the rows: normal, then gamma. Then weights of features."""
        start, stop = self.columns.free[side]
        whole, told = state.rows[side][:, start:stop].astype(np.float64), state.told[side]
        rows = whole if told is None else whole - told.fitted
        n, lam = len(rows), state.precision[side]
        held = n * lam + self.prior.strength
        mean = lam * rows.sum(axis=0) / held + rng.standard_normal(stop - start) / np.sqrt(held)
        mean[self.columns.bias[side] - start] = 0.0
        squares = np.sum((rows - mean) ** 2, axis=0)
        if told is not None:  # weights have the precision of their column times eta
            n, squares = n + len(told.weights), squares + told.eta * np.sum(told.weights**2, axis=0)
        state.mean[side] = mean
        state.precision[side] = rng.standard_gamma(self.prior.shape + n / 2, stop - start) / (
            self.prior.rate + squares / 2
        )
        if told is not None:
            told.draw(whole - mean, state.precision[side], self.prior, rng)

    def residual(self, state: Draw, side: int) -> Residual:
        """What scores leave of targets, and how scores change if the factors of a side are scaled about their means."""
        columns, (own, other) = self.columns.factors(side), state.rows
        mean = state.mean[side][columns - self.columns.free[side][0]].astype(own.dtype)
        return self.cells.residual(own, other, Stretch(side, columns, mean), self.likelihood.by_cell, self.n_threads)

    def draw_intercept(self, state: Draw, left: Residual, rng: np.random.Generator) -> Residual:
        """The intercept given all else."""
        w, e, *_ = state.alpha * (self.cells.by_row @ left.sums)
        column = state.rows[1][:, self.columns.constant]
        now, held = float(column[0]), float(w) + self.prior.width
        column[:] = (float(e) + now * float(w)) / held + rng.standard_normal() / np.sqrt(held)
        return left._replace(shift=float(column[0]) - now)

    def move_means(self, state: Draw, rng: np.random.Generator) -> None:
        """What all biases of a side share goes between them and the intercept; no score changes, mixing gets better.

        Features are centred: what they say of biases adds up to zero.
        """
        constant = state.rows[1][:, self.columns.constant]
        for side in (0, 1):
            bias = state.rows[side][:, self.columns.bias[side]]
            lam = float(state.precision[side][self.columns.bias[side] - self.columns.free[side][0]])
            held = len(bias) * lam + self.prior.width
            pull = lam * float(bias.sum(dtype=np.float64)) - self.prior.width * float(constant[0])
            shift = pull / held + rng.standard_normal() / np.sqrt(held)
            bias -= bias.dtype.type(shift)
            constant += constant.dtype.type(shift)

    def move_scale(self, state: Draw, side: int, left: Residual, rng: np.random.Generator) -> Residual:
        """All factors of a side times one number, about their means, and precisions and weights of features with them.

        Precisions given rows hardly move, nor do rows given precisions; together they go far in one step. The number
        is proposed as the cells want it, and accepted as the prior does.
        """
        _, _, x, _, ex, xx = state.alpha * (self.cells.by_row @ left.sums)
        if xx <= 0:
            return left
        times = abs(1 + (ex - left.shift * x) / xx + rng.standard_normal() / np.sqrt(xx))
        columns = self.columns.factors(side)
        places = columns - self.columns.free[side][0]
        lam = state.precision[side][places]
        gain = -(2 * len(lam) * self.prior.shape + 1) * np.log(times) - self.prior.rate * lam.sum() * (times**-2 - 1)
        if np.log(rng.random()) >= gain:
            return left
        dtype = state.rows[side].dtype
        mean = state.mean[side][places].astype(dtype)
        state.rows[side][:, columns] = mean + dtype.type(times) * (state.rows[side][:, columns] - mean)
        state.precision[side][places] = lam / times**2
        told = state.told[side]
        if told is not None:
            told.scale(places, float(times))
        return left._replace(stretch=float(times - 1))


def draw_rows(state: Draw, side: int, columns: Columns, cells: CellsAnywhere, chance: Chance) -> None:
    """Every row of a side in place, given the other side.

    Columns have precisions of their own by a change of units: x_c / sqrt(lam_c) of the other side meets
    b_c sqrt(lam_c), whose precision is 1.
    """
    own, other = state.rows[side], state.rows[1 - side].copy()
    start, stop = columns.free[side]
    dtype, scale = own.dtype, np.sqrt(state.precision[side])
    other[:, start:stop] /= scale.astype(dtype)
    noise = (state.alpha * cells.by_row).astype(dtype)
    prior = np.ascontiguousarray(state.expected(side) * scale, dtype)
    step = RowDraw(side, other, (start, stop), prior, noise, chance.seed, chance.sweep)
    failed = cells.draw_rows(own, step, chance.n_threads)
    if failed >= 0:
        raise RowError(
            f"row {failed} of side {side} has no finite draw; look for huge targets or sample weights in that row."
        )
    own[:, start:stop] /= scale.astype(dtype)


def generator(seed: int, sweep: int) -> np.random.Generator:
    """The random numbers of a sweep that belong to no row and no cell."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, sweep], np.uint64)))
