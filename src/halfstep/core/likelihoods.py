"""What cells say of scores: the noise of numbers, of rows and of single cells, and the cuts of ordered classes.

A likelihood draws what belongs to cells or to rows of side 0. Numbers of a cell come from the core, by its row and its
place in it, all others from the generator of the sweep; so the bits depend on no thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from halfstep import _core
from halfstep.core.arrays import Floats
from halfstep.core.drawn_cells import Cells, CellsAnywhere, Chance, Prior, Residual

FEWEST, MOST = 2.0, 1e4  # degrees of freedom: a variance exists, and the largest is as good as normal


class Drawn(NamedTuple):
    """What a likelihood gives back: alpha, what the intercept gains, and the mean loss of cells."""

    alpha: float
    shift: float
    loss: float


class Likelihood(Protocol):
    """What cells say of scores. Which cells it can be given, `Cells` or any `CellsAnywhere`, its heirs say.

    nu : degrees of freedom now, 0 where it has none. cuts : (C + 1,), bounds of the scores of classes; (0,) of numbers.
    """

    nu: float
    cuts: Floats
    by_cell: bool
    """Whether cells have something drawn, so that each residual is wanted."""

    def draw(self, cells: Any, left: Residual, alpha: float, chance: Chance, prior: Prior) -> Drawn:
        """All that the cells draw: what `refresh` does, the noise, and what the likelihood itself has."""
        ...

    def refresh(self, cells: Any, left: Residual, alpha: float, chance: Chance) -> None:
        """Draw what belongs to cells or rows of side 0 into `cells`, given the noise."""
        ...


def slice_draw(log_density: Callable[[float], float], at: float, step: float, rng: np.random.Generator) -> float:
    """One number from its density, given the present one: stepping out and shrinking (Neal, 2003)."""
    level = log_density(at) - rng.exponential()
    if not np.isfinite(level):
        raise ArithmeticError(f"the noise has no density at {at:g}; look for huge weights or targets")
    low = at - step * rng.random()
    high = low + step
    while log_density(low) > level:
        low -= step
    while log_density(high) > level:
        high += step
    while True:
        found = low + (high - low) * rng.random()
        if log_density(found) >= level:  # equal where the density is so large that rounding takes the exponential
            return float(found)
        low, high = (found, high) if found < at else (low, found)


@dataclass(frozen=True)
class Scales:
    """Scales h ~ Gamma(nu/2, nu/2), one for each group of `counts` cells with precision alpha h and sum of squares S.

    With all h integrated out, groups have multivariate t distributions: alpha and nu then move freely, where given h
    they would creep. counts : (n,), or one number for all. levels : its distinct values, and how often each occurs.
    """

    number: int
    counts: Floats | float
    levels: tuple[Floats, Floats]

    @classmethod
    def of(cls, counts: Floats) -> Scales:
        values, times = np.unique(counts, return_counts=True)
        return cls(len(counts), float(values[0]) if len(values) == 1 else counts, (values, times.astype(np.float64)))

    def _spread(self, nu: float, ratio: NDArray[Any]) -> float:
        """sum (nu + count)/2 log(1 + alpha S / nu), for ratio = alpha S / nu."""
        logs = np.log1p(ratio)
        if isinstance(self.counts, float):
            return (nu + self.counts) / 2 * float(logs.sum(dtype=np.float64))
        return float((nu + self.counts) @ logs) / 2

    def draw_alpha(self, alpha: float, nu: float, squares: NDArray[Any], chance: Chance, prior: Prior) -> float:
        """The precision given nu and S (n,)."""
        values, times = self.levels
        shape = prior.noise_shape + float(values @ times) / 2
        width = 3 / np.sqrt(prior.noise_shape + float(times @ (values * nu / (values + nu))) / 2)
        ratio = squares / squares.dtype.type(nu)

        def log_density(a: float) -> float:
            precision = float(np.exp(a))
            return shape * a - prior.noise_rate * precision - self._spread(nu, ratio * ratio.dtype.type(precision))

        return float(np.exp(slice_draw(log_density, float(np.log(alpha)), width, chance.rng)))

    def draw_nu(self, alpha: float, nu: float, squares: NDArray[Any], chance: Chance) -> float:
        """nu given alpha and S (n,); 1/nu is uniform before."""
        values, times = self.levels
        residual = squares * squares.dtype.type(alpha)

        def log_density(x: float) -> float:
            nu = float(np.exp(x))
            if not FEWEST < nu < MOST:
                return -np.inf
            rise = gammaln((nu + values) / 2) - gammaln(nu / 2) - values / 2 * np.log(nu / 2)
            return float(times @ rise) - self._spread(nu, residual / residual.dtype.type(nu)) - x

        return float(np.exp(slice_draw(log_density, float(np.log(nu)), 0.5, chance.rng)))


@dataclass
class Gaussian:
    """t_ij ~ N(z_ij, 1 / (alpha h_i w_ij)), every row i of side 0 with its own h_i ~ Gamma(nu/2, nu/2).

    A cell of weight w counts as w cells. Without h, factors would be spent on telling steady rows from fickle ones;
    with nu drawn (`free`), rows that are all alike are found to be.
    """

    nu: float = 4.0
    free: bool = False
    by_cell: bool = False
    cuts: Floats = field(default_factory=lambda: np.empty(0))
    _scales: Scales | None = None

    def draw(self, cells: CellsAnywhere, left: Residual, alpha: float, chance: Chance, prior: Prior) -> Drawn:
        scales = self._scales = self._scales or Scales.of(left.sums[:, 0])
        squares = left.squares
        if self.free:
            self.nu = scales.draw_nu(alpha, self.nu, squares, chance)
        alpha = scales.draw_alpha(alpha, self.nu, squares, chance, prior)
        self.refresh(cells, left, alpha, chance)
        return Drawn(alpha, 0.0, float(squares.sum()) / cells.total)

    def refresh(self, cells: CellsAnywhere, left: Residual, alpha: float, chance: Chance) -> None:
        shape, rate = (self.nu + left.sums[:, 0]) / 2, (self.nu + alpha * left.squares) / 2
        cells.by_row = chance.rng.standard_gamma(shape) / rate


@dataclass
class Student:
    """Normal cells whose weights are drawn, so that scores see a t distribution with `nu` degrees of freedom.

    A cell of weight w counts as w cells that share one drawn weight. nu is drawn too if it is `free`.
    """

    nu: float = 4.0
    free: bool = False
    by_cell: bool = True
    cuts: Floats = field(default_factory=lambda: np.empty(0))
    _scales: Scales | None = None

    def draw(self, cells: Cells, left: Residual, alpha: float, chance: Chance, prior: Prior) -> Drawn:
        given = np.ones(len(left.e)) if cells.given is None else cells.given[0].astype(np.float64)
        scales = self._scales = self._scales or Scales.of(given)
        square = left.each**2
        if cells.given is not None:
            square = square * cells.given[0]
        if self.free:
            self.nu = scales.draw_nu(alpha, self.nu, square, chance)
        alpha = scales.draw_alpha(alpha, self.nu, square, chance, prior)
        self.refresh(cells, left, alpha, chance)
        return Drawn(alpha, 0.0, float(square.sum(dtype=np.float64)) / cells.total)

    def refresh(self, cells: Cells, left: Residual, alpha: float, chance: Chance) -> None:
        (seed, sweep, _, n_threads), indptr = chance, cells.sides[0].indptr
        given = None if cells.given is None else cells.given[0]
        drawn = _core.draw_weights(indptr, left.each, given, self.nu, alpha, seed, sweep, 0, n_threads)
        cells.weights = cells.turned(np.asarray(drawn))


@dataclass(eq=False)
class Ordered:
    """Classes 0 .. K - 1 (N,), cut out of a normal with mean z and variance 1 (Albert and Chib). Weights are 1.

    cuts : (K + 1,), -inf, 0, rising, inf: the first inner one is 0, for the intercept is its. They are drawn with the
    normals integrated out (as by Cowles, 1996), proposed by a Newton step from where they are.
    """

    codes: NDArray[np.int32]
    cuts: Floats
    by_cell: bool = True
    nu: float = 0.0

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
