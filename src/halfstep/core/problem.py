"""What is minimised, as data: the cells, their loss, the background, and the two sides with their penalties.

    sum_obs w phi(z; t)  +  background * sum_unobserved a_i c_j z^2
        +  sum_i lam_i |u_i - mu_i|^2  +  sum_j lam_j |v_j - mu_j|^2

with a and c the factors of the background of both sides, 1 unless given, and z = u_i . v_j over all columns, pinned
ones included; penalties run over the free columns only. Where rows have features F, (|u_i - W'f_i|^2 + |u_i|^2) / 2
stands for |u_i|^2, W being one more unknown, held by eta |W|^2. Where a column is `constant`, what side 1 pins there is
one unknown more, which nothing holds; a loss may have unknowns of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import HalfStep
from halfstep.core.cells import DenseCells, Observations, Values, plain
from halfstep.core.losses import Loss, Squared
from halfstep.core.regression import HALF, LEARNED, Regression
from halfstep.errors import one_of

COARSE_STEPS = 2
COARSE_TOLERANCE = 1e-5
COARSE_SHARE = 0.75
"""Of the work of an exact sweep: a coarse one that costs more gains less than it is worth."""
METHODS = tuple(name for name in _core.Method.__members__ if name != "draw")
"""How a row can be solved. Drawing one is no solver: `core/draw.py` does it."""


@dataclass(frozen=True)
class Solver:
    """How a row is solved.

    method : "exact" takes, row by row, the cheaper of "cholesky" (primal) and "dual"; "cg" is warm-started conjugate
        gradients stopped by `tolerance`; "subspace" solves blocks of `block` columns in turn. "auto" extrapolates
        sweeps, and in the coarse ones a row takes at most COARSE_STEPS of "cg" where "exact" would cost more.
    tolerance : relative residual (cg), relative duality gap (PLQ losses) or relative decrement (smooth losses).
    max_steps : bound on inner iterations.
    settled : None, or the tolerance of rows when a fit has settled: before that, rows are worth solving to a fifth of
        what the last sweep gained, and to `tolerance` at first.
    exact_after, exact_below : "auto" turns to "exact" after so many sweeps, or after one that gained less than this
        share of the objective.
    """

    method: str = "exact"
    tolerance: float = 1e-4
    max_steps: int = 1000
    block: int = 64
    settled: float | None = None
    exact_after: int | None = None
    exact_below: float = 1e-3

    def __post_init__(self) -> None:
        one_of("solver", self.method, METHODS)

    @property
    def reads_old_rows(self) -> bool:
        """Whether a quadratic row is solved from where it was."""
        return self.method in ("cg", "subspace", "auto")

    @property
    def extrapolates(self) -> bool:
        """Whether a sweep may begin where the ones before it point."""
        return self.method == "auto"

    def after(self, past: Sequence[Mapping[str, float]]) -> Solver:
        """How rows are solved in the sweep that follows those recorded."""
        if self.method == "auto":
            late = self.exact_after is not None and len(past) >= self.exact_after
            late = late or any(_gain(*pair) < self.exact_below for pair in pairwise(past))
            return self.exactly() if late else replace(self, tolerance=COARSE_TOLERANCE, max_steps=COARSE_STEPS)
        if self.settled is None or len(past) < 2:
            return self
        return replace(self, tolerance=min(max(_gain(*past[-2:]) / 5, self.settled), self.tolerance))

    def exactly(self) -> Solver:
        """The same where sweeps are not extrapolated, nor left coarse."""
        return replace(self, method="exact") if self.method == "auto" else self

    def fully(self) -> Solver:
        """How rows are solved that may not start from where they were: as far as numbers go."""
        tolerance = self.tolerance if self.settled is None else min(self.settled, self.tolerance)
        return replace(self, method="exact" if self.reads_old_rows else self.method, tolerance=tolerance)

    @property
    def likes_diagonals(self) -> bool:
        """Whether a diagonal background makes a quadratic row cheaper."""
        return self.method != "cholesky"

    def bind(self, rows: HalfStep) -> None:
        """Tell the core how rows are solved."""
        rows.method(_core.Method[self.method], self.tolerance, self.max_steps, self.block)


def _gain(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """What a sweep has taken off the objective, as a share of it."""
    now = after["objective"]
    return (before["objective"] - now) / abs(now) if now else 0.0


@dataclass(frozen=True)
class Side:
    """One side: how strongly its rows are held, and where.

    penalty : lam of every row, one number or (n,).
    free : range of columns that are solved; None is all of them. The others are data.
    prior : mu, (1, f) or (n, f) over the free columns, or None for zero.
    features : in place of a prior: F and what holds W, one more unknown; half of the penalty is about F W.
    nonnegative : range of columns, within the whole row, kept >= 0; None is none.
    background : (n,) factor of the weight of unobserved cells of every row, > 0; None is 1.
    """

    penalty: Values
    free: tuple[int, int] | None = None
    prior: NDArray[Any] | None = None
    nonnegative: tuple[int, int] | None = None
    background: NDArray[Any] | None = None
    features: Regression | None = None

    def columns(self, d: int) -> tuple[int, int]:
        return self.free if self.free is not None else (0, d)

    def take(self, rows: NDArray[np.int64]) -> Side:
        """The same for some of the rows, held where they are held now."""
        penalty, prior, background = self.penalty, self.mean, self.background
        return replace(
            self,
            penalty=penalty[rows] if isinstance(penalty, np.ndarray) and len(penalty) > 1 else penalty,
            prior=prior[rows] if prior is not None and len(prior) > 1 else prior,
            background=None if background is None else background[rows],
            features=None,
        )

    def expecting(self, matrix: sp.csr_array, strength: float, share: float = HALF) -> Side:
        """The same with features F of its rows. Weights are held by eta = strength * share * mean_i lam_i |f_i|^2.

        share : of the penalty, that about F W.
        """
        lam = np.broadcast_to(np.asarray(self.penalty, np.float64), matrix.shape[0])
        if not (lam > 0).all():
            raise ValueError("features say where rows are held, and a penalty of 0 holds none; give reg above 0.")
        squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
        return replace(
            self, features=Regression.of(matrix, strength * share * float(np.mean(lam * squares)), lam, share)
        )

    def can_turn(self, d: int) -> bool:
        """Whether rows may be turned: every column is solved, may take any sign, and is held at what turns with it."""
        return self.columns(d) == (0, d) and self.nonnegative is None and self.prior is None

    def turned(self, basis: NDArray[Any]) -> Side:
        """The same where rows b have become b' basis."""
        return self if self.features is None else replace(self, features=self.features.turned(basis))

    def learned(self, factors: NDArray[Any], n_threads: int) -> Side:
        """The same with the weights of features that are best for these rows; rows at zero are none yet."""
        start, stop = self.columns(factors.shape[1])
        rows = factors[:, start:stop]
        if self.features is None or not rows.any():
            return self
        return replace(self, features=self.features.learned(rows, n_threads))

    @property
    def mean(self) -> NDArray[Any] | None:
        """mu, (1, f) or (n, f): the prior, or half of where features say that rows are; None is zero."""
        return self.prior if self.features is None else self.features.means

    def bind(self, rows: HalfStep, d: int, dtype: Any) -> None:
        """Tell the core how rows are held."""
        rows.columns(*self.columns(d))
        if self.nonnegative is not None:
            rows.nonnegative(*self.nonnegative)
        rows.penalty(plain(self.penalty, dtype))
        mean = self.mean
        if mean is not None:
            rows.prior(np.ascontiguousarray(mean, dtype))

    def cost(self, factors: NDArray[Any], gram: NDArray[np.float64] | None = None) -> float:
        """sum_i lam_i |u_i - mu_i|^2 and what weights of features cost, from the Gram matrix where that is enough."""
        start, stop = self.columns(factors.shape[1])
        mean = self.mean
        plain = mean is None and self.background is None and not isinstance(self.penalty, np.ndarray)
        if plain and gram is not None:
            return float(self.penalty * np.trace(gram[start:stop, start:stop]))
        rows = factors[:, start:stop]
        if mean is not None:
            rows = rows - mean
        sizes = np.einsum("ij,ij->i", rows, rows)  # in float64 at once it would take ten times as long
        weights = 0.0 if self.features is None else self.features.cost()
        return float(np.sum(self.penalty * sizes, dtype=np.float64)) + weights


@dataclass(frozen=True)
class Problem:
    """Both sides and the cells between them; `sides[0]` has the rows of `observations`, `sides[1]` its columns."""

    observations: Observations
    sides: tuple[Side, Side]
    loss: Loss = field(default_factory=Squared)
    background: float = 0.0
    constant: int | None = None
    """A column that side 0 pins to 1 and side 1 to one number: an intercept, solved before each half-step of side 1."""

    def cells(self, side: int) -> Observations:
        """The cells grouped by the rows of the given side."""
        return self.observations if side == 0 else self.observations.T

    def rotates(self, solver: Solver, d: int) -> bool:
        """Whether half-steps turn both sides so that the background gets diagonal: nobody may have pinned a column."""
        wanted = self.background > 0 and self.loss.is_quadratic and solver.likes_diagonals
        return wanted and all(side.can_turn(d) for side in self.sides)

    @property
    def extrapolates(self) -> bool:
        """Whether rows on the line through two that were found are rows as well, and nothing else is to be found."""
        plain = all(side.nonnegative is None and side.features is None for side in self.sides)
        return plain and not self.loss.learns

    def coarse_pays(self, d: int) -> bool:
        """Whether rows of many cells are worth a coarse sweep: what it saves there is lost on turning all rows thrice
        more, which the exact sweep does not read. Multiply-adds, as cpp/dual.hpp counts them."""
        if not self.loss.is_quadratic or any(side.nonnegative is not None for side in self.sides):
            return False
        exact = coarse = 0.0
        for side in (0, 1):
            n = self.cells(side).counts.astype(np.float64)
            primal = d * d * (n + d / 3) / 2 + n * d
            dual = np.where(n <= d, n * n * (d + n / 3) / 2 + 6 * n * d, np.inf)
            row = np.minimum(primal, dual)
            exact += float(row.sum())
            coarse += float(np.minimum(row, 3 * n * d * (4 + 2 * COARSE_STEPS)).sum()) + 3.0 * d * d * len(n)
        return coarse < COARSE_SHARE * exact

    @property
    def plain(self) -> Problem:
        """The same under squared loss, every row held at zero and free to take any value."""
        users, items = (Side(side.penalty, background=side.background) for side in self.sides)
        return replace(self, sides=(users, items), loss=Squared())

    def learned(self, side: int, factors: NDArray[Any], n_threads: int) -> Problem:
        """The same with the best weights for the features of a side, given its rows."""
        sides = [held.learned(factors, n_threads) if k == side else held for k, held in enumerate(self.sides)]
        return self if sides[side] is self.sides[side] else replace(self, sides=(sides[0], sides[1]))

    def turned(self, basis: NDArray[Any]) -> Problem:
        """The same where the rows b of both sides have become b' basis."""
        if all(side.features is None for side in self.sides):
            return self
        return replace(self, sides=(self.sides[0].turned(basis), self.sides[1].turned(basis)))

    def state(self) -> dict[str, NDArray[Any] | None]:
        """What the sides have learned so far, for a checkpoint."""
        both = ((k, side.features) for k, side in enumerate(self.sides))
        return {f"{name}{k}": getattr(held, name) for k, held in both if held is not None for name in LEARNED}

    def restored(self, state: Mapping[str, Any]) -> Problem:
        """The same with what `state` gave."""
        users, items = (
            side
            if side.features is None
            else replace(side, features=side.features.restored({name: state.get(f"{name}{k}") for name in LEARNED}))
            for k, side in enumerate(self.sides)
        )
        return replace(self, sides=(users, items))

    def rows(
        self,
        side: int,
        own: NDArray[Any],
        other: NDArray[Any],
        solver: Solver,
        *,
        gram: NDArray[np.float64] | None = None,
        spectrum: NDArray[np.float64] | None = None,
        cells: Observations | DenseCells | None = None,
    ) -> HalfStep:
        """The half-step of a side, ready to be solved: the rows of `own`, in place, against those of `other`.

        gram : sum_j c_j x_j x_j' over `other`, where there is a background.
        spectrum : its diagonal, where both sides were turned.
        cells : in place of those of the problem, for other rows.
        """
        d, dtype = own.shape[1], own.dtype
        rows = rows_of(self.cells(side) if cells is None else cells, self.loss, own, other)
        self.sides[side].bind(rows, d, dtype)
        solver.bind(rows)
        if self.background > 0:
            matrices = (None if matrix is None else np.ascontiguousarray(matrix, dtype) for matrix in (gram, spectrum))
            rows.background(self.background, *matrices)
            self.bind_factors(rows, side, dtype)
        return rows

    def bind_factors(self, rows: HalfStep, side: int, dtype: Any) -> None:
        """Tell the core by what the background of a row and of a column is multiplied."""
        both = [self.sides[k].background for k in (side, 1 - side)]
        if any(factors is not None for factors in both):
            rows.background_factors(*(None if f is None else np.ascontiguousarray(f, dtype) for f in both))


def rows_of(cells: Observations | DenseCells, loss: Loss, own: NDArray[Any], other: NDArray[Any]) -> HalfStep:
    """The cells of the rows of `own` and what they cost, without what holds the rows."""
    rows: HalfStep = _core.half_step(own, other)
    cells.bind(rows, own.dtype)
    loss.bind(rows)
    return rows


def scaled_penalty(
    reg: float, scaling: str | float, counts: NDArray[np.int64], background: float, n_other: int
) -> NDArray[np.float64] | float:
    """lam of every row: reg ("constant"), reg * n_i ("count") or reg * (n_i + background * n_other)^nu (a number nu).

    n_i is the number of observed cells of row i. A row for which that would be nothing counts as one cell, so that it
    stays put.
    """
    if scaling == "constant" or scaling == 0:
        return reg
    if scaling == "count":
        return reg * np.maximum(counts, 1).astype(np.float64)
    if isinstance(scaling, str):
        raise ValueError(f"reg_scaling={scaling!r} is not known; use 'constant', 'count' or a number such as 1.0.")
    size = counts + background * n_other
    scaled: NDArray[np.float64] = reg * np.where(size > 0, size, 1.0) ** float(scaling)
    return scaled
