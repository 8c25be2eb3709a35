"""Cells of a sampler and what they say of scores: normal targets and weights, some of them drawn anew in every sweep.

A likelihood draws what belongs to cells or to rows of side 0. Numbers of a cell come from the core, by its row and its
place in it, all others from the generator of the sweep; so the bits depend on no thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations


@dataclass(frozen=True)
class Prior:
    """What is believed before any cell is seen, in units of t."""

    shape: float = 1.0
    rate: float = 1.0
    strength: float = 1.0
    width: float = 0.01


class Chance(NamedTuple):
    """Where the random numbers of a sweep come from."""

    seed: int
    sweep: int
    rng: np.random.Generator
    n_threads: int = 1


Oriented = tuple[NDArray[Any], NDArray[Any]]
"""One value for each cell, by rows of side 0 and by rows of side 1."""


@dataclass
class Cells:
    """Cells in both orientations; targets and weights may be drawn. `order` has the place of each cell of the second.

    given : sample weights, or None for 1. weights : drawn, given ones included, or None where `given` holds.
    by_row : (n,), noise precisions of the rows of side 0 relative to alpha.
    """

    sides: tuple[Observations, Observations]
    order: NDArray[np.int64]
    targets: Oriented
    given: Oriented | None
    by_row: Floats
    weights: Oriented | None = None

    @classmethod
    def of(cls, cells: Observations, dtype: Any = np.float32) -> Cells:
        """From targets and sample weights."""
        n, m = cells.shape
        rows = np.repeat(np.arange(n), cells.counts)
        columns = cells.indices.astype(np.int64)
        order = np.argsort(columns, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=m))]).astype(np.int64)
        sides = (
            Observations(cells.shape, cells.indptr, cells.indices),
            Observations((m, n), indptr, rows[order].astype(np.int32)),
        )
        targets, given = (np.broadcast_to(np.asarray(v, dtype), len(cells)) for v in (cells.targets, cells.weights))
        made = cls(sides, order, (targets, targets), None, np.ones(n))
        made.targets = made.turned(targets)
        made.given = None if (given == 1).all() else made.turned(given)
        return made

    def turned(self, values: NDArray[Any]) -> Oriented:
        """Values by rows of side 0 in both orders."""
        return np.ascontiguousarray(values), np.ascontiguousarray(values[self.order])

    @property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of every cell."""
        cells = self.sides[0]
        return np.repeat(np.arange(cells.shape[0]), cells.counts), cells.indices.astype(np.int64)

    @property
    def total(self) -> float:
        """How many cells there are, by their sample weights."""
        return float(len(self.order) if self.given is None else self.given[0].sum(dtype=np.float64))

    @property
    def precisions(self) -> Oriented | None:
        """What multiplies alpha and `by_row`."""
        return self.given if self.weights is None else self.weights


class Residual(NamedTuple):
    """What is left of targets once scores are taken away: sums over the cells of each row, (n, 6).

    Sums are those of w, w e, w x, w e^2, w e x and w x^2; e and x (N,) are kept where cells are drawn. Since they were
    made, scores have risen by `shift` + `stretch` x. `constant` is the intercept now.
    """

    sums: Floats
    e: NDArray[Any]
    x: NDArray[Any]
    constant: float
    shift: float = 0.0
    stretch: float = 0.0

    @property
    def squares(self) -> Floats:
        """(n,): sums of w (t - z)^2."""
        w, e, x, ee, ex, xx = self.sums.T
        a, b = self.shift, self.stretch
        return np.asarray(np.maximum(ee - 2 * a * e - 2 * b * ex + a * a * w + 2 * a * b * x + b * b * xx, 0.0))

    @property
    def each(self) -> NDArray[Any]:
        """(N,): t - z."""
        dtype = self.e.dtype.type
        return np.asarray(self.e - (dtype(self.shift) + dtype(self.stretch) * self.x))


class Drawn(NamedTuple):
    """What a likelihood gives back: alpha, what the intercept gains, and the mean loss of cells."""

    alpha: float
    shift: float
    loss: float


class Likelihood(Protocol):
    """What cells say of scores."""

    by_cell: bool
    """Whether cells have something drawn, so that each residual is wanted."""

    def draw(self, cells: Cells, left: Residual, alpha: float, chance: Chance, prior: Prior) -> Drawn:
        """All that the cells draw: what `refresh` does, and the noise."""
        ...

    def refresh(self, cells: Cells, left: Residual, alpha: float, chance: Chance) -> None:
        """Draw what belongs to cells or rows of side 0 into `cells`, given the noise."""
        ...


def slice_draw(log_density: Callable[[float], float], at: float, step: float, rng: np.random.Generator) -> float:
    """One number from its density, given the present one: stepping out and shrinking (Neal, 2003)."""
    level = log_density(at) - rng.exponential()
    low = at - step * rng.random()
    high = low + step
    while log_density(low) > level:
        low -= step
    while log_density(high) > level:
        high += step
    while True:
        found = low + (high - low) * rng.random()
        if log_density(found) > level:
            return float(found)
        low, high = (found, high) if found < at else (low, found)


def draw_alpha(squares: float, count: float, chance: Chance, prior: Prior) -> float:
    """The noise precision given squares = sum w e^2 over all cells."""
    return float(chance.rng.standard_gamma(prior.shape + count / 2) / (prior.rate + squares / 2))


def redraw_alpha(alpha: float, total: float, number: int, nu: float, chance: Chance, prior: Prior) -> float:
    """The same given all alpha h, for scales h ~ Gamma(nu/2, nu/2) with sum `total`: given h alone it would creep.

    The caller multiplies h by alpha over the answer.
    """
    half = nu / 2
    shape, held = prior.shape - half * number, half * total * alpha

    def log_density(a: float) -> float:
        return shape * a - prior.rate * float(np.exp(a)) - held * float(np.exp(-a))

    return float(np.exp(slice_draw(log_density, float(np.log(alpha)), 4 / np.sqrt(half * number), chance.rng)))


@dataclass
class Gaussian:
    """t_ij ~ N(z_ij, 1 / (alpha h_i w_ij)), every row i of side 0 with its own h_i ~ Gamma(nu/2, nu/2).

    A cell of weight w counts as w cells. Without h, factors would be spent on telling steady rows from fickle ones.
    """

    nu: float = 4.0
    by_cell: bool = False

    def draw(self, cells: Cells, left: Residual, alpha: float, chance: Chance, prior: Prior) -> Drawn:
        self.refresh(cells, left, alpha, chance)
        squares, h = left.squares, cells.by_row
        fresh = draw_alpha(float(h @ squares), cells.total, chance, prior)
        again = redraw_alpha(fresh, float(h.sum()), len(h), self.nu, chance, prior)
        cells.by_row = h * (fresh / again)
        return Drawn(again, 0.0, float(squares.sum()) / cells.total)

    def refresh(self, cells: Cells, left: Residual, alpha: float, chance: Chance) -> None:
        shape, rate = (self.nu + left.sums[:, 0]) / 2, (self.nu + alpha * left.squares) / 2
        cells.by_row = chance.rng.standard_gamma(shape) / rate


@dataclass
class Student:
    """Normal cells whose weights are drawn, so that scores see a t distribution with `nu` degrees of freedom.

    A cell of weight w counts as w cells that share one drawn weight.
    """

    nu: float = 4.0
    by_cell: bool = True

    def draw(self, cells: Cells, left: Residual, alpha: float, chance: Chance, prior: Prior) -> Drawn:
        weights = self._weights(cells, left, alpha, chance)
        square, given = left.each**2, None if cells.given is None else cells.given[0]
        fresh = draw_alpha(float(np.dot(weights, square)), cells.total, chance, prior)
        scales = weights if given is None else weights[given > 0] / given[given > 0]
        again = redraw_alpha(fresh, float(scales.sum(dtype=np.float64)), len(scales), self.nu, chance, prior)
        cells.weights = cells.turned(weights * weights.dtype.type(fresh / again))
        loss = square.sum(dtype=np.float64) if given is None else np.dot(given, square)
        return Drawn(again, 0.0, float(loss) / cells.total)

    def refresh(self, cells: Cells, left: Residual, alpha: float, chance: Chance) -> None:
        cells.weights = cells.turned(self._weights(cells, left, alpha, chance))

    def _weights(self, cells: Cells, left: Residual, alpha: float, chance: Chance) -> NDArray[Any]:
        (seed, sweep, _, n_threads), indptr = chance, cells.sides[0].indptr
        given = None if cells.given is None else cells.given[0]
        return np.asarray(_core.draw_weights(indptr, left.each, given, self.nu, alpha, seed, sweep, 0, n_threads))


@dataclass(eq=False)
class Ordered:
    """Classes 0 .. K - 1 (N,), cut out of a normal with mean z and variance 1 (Albert and Chib). Weights are 1.

    cuts : (K + 1,), -inf, 0, rising, inf: the first inner one is 0, for the intercept is its. They are drawn with the
    normals integrated out (as by Cowles, 1996), proposed by a Newton step from where they are.
    """

    codes: NDArray[np.int32]
    cuts: Floats
    by_cell: bool = True

    def draw(self, cells: Cells, left: Residual, alpha: float, chance: Chance, prior: Prior) -> Drawn:
        z = cells.targets[0] - left.each
        shift, value = self._draw_cuts(z, left.constant, chance, prior)
        self._latent(cells, z + z.dtype.type(shift), chance)
        return Drawn(1.0, shift, -value / len(z))

    def refresh(self, cells: Cells, left: Residual, alpha: float, chance: Chance) -> None:
        self._latent(cells, cells.targets[0] - left.each, chance)

    def _latent(self, cells: Cells, z: NDArray[Any], chance: Chance) -> None:
        (seed, sweep, _, n_threads), indptr = chance, cells.sides[0].indptr
        targets = np.asarray(_core.draw_latent(indptr, z, self.codes, self.cuts, seed, sweep, 0, n_threads))
        cells.targets = cells.turned(targets)

    def _draw_cuts(self, z: NDArray[Any], constant: float, chance: Chance, prior: Prior) -> tuple[float, float]:
        """New cuts; returns what the intercept gains by them, and the log likelihood that goes with them."""
        inner, rng = self.cuts[1:-1], chance.rng
        value, mean, root = self._newton(z, inner, constant, chance, prior)
        noise = rng.standard_normal(len(inner))
        found = mean + np.linalg.solve(root.T, noise)
        if (np.diff(found) <= 0).any():
            return 0.0, value
        other, back, root_back = self._newton(z, found, constant, chance, prior)
        forward = np.log(np.diag(root)).sum() - noise @ noise / 2
        behind = root_back.T @ (inner - back)
        backward = np.log(np.diag(root_back)).sum() - behind @ behind / 2
        held = prior.width * ((constant - found[0]) ** 2 - (constant - inner[0]) ** 2) / 2
        if np.log(rng.random()) >= other - value - held + backward - forward:
            return 0.0, value
        self.cuts = np.concatenate([[-np.inf], found - found[0], [np.inf]])
        return -float(found[0]), other

    def _newton(
        self, z: NDArray[Any], inner: Floats, constant: float, chance: Chance, prior: Prior
    ) -> tuple[float, Floats, Floats]:
        """Log likelihood of the classes, where a Newton step leads, and the Cholesky factor of the curvature."""
        n = len(inner)
        sums = _core.class_sums(z, self.codes, np.concatenate([[-np.inf], inner, [np.inf]]), chance.n_threads)
        gradient = sums[1 : n + 1].copy()
        curvature = -np.diag(sums[n + 1 : 2 * n + 1])
        places = np.arange(n - 1)
        curvature[places, places + 1] = curvature[places + 1, places] = -sums[2 * n + 1 :]
        curvature[0, 0] += prior.width
        gradient[0] += prior.width * (constant - inner[0])
        root: Floats = np.linalg.cholesky(curvature + 1e-6 * np.eye(n)).astype(np.float64)
        return float(sums[0]), inner + np.linalg.solve(root.T, np.linalg.solve(root, gradient)), root
