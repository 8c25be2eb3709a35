"""Where rows that are drawn are expected from what is known about them, the weights of features being drawn too.

    b_ic ~ N(mu_c + (f_i - fbar)'w_c, 1 / lam_c),   w_c ~ N(0, 1 / (eta_c lam_c)),   eta_c ~ Gamma(shape, rate / s)

s is the mean of |f_i - fbar|^2, so that units of features do not count. Features are centred, which keeps w_c and mu_c
apart. Given rows, w_c is normal with mean A_c^-1 F'(b_c - mu_c) and precision lam_c A_c, A_c = F'F + eta_c I. Up to
FACTORED features F'F is taken apart once, into eigenvectors that serve every eta; beyond, conjugate gradients solve
A_c w = F'(b_c - mu_c + noise) + sqrt(eta_c) noise, whose solution has just that law. All of it runs on one thread, so
bits depend on no number of threads. Knows rows of one side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from halfstep.core.arrays import Floats
from halfstep.core.blas import one_blas_thread
from halfstep.core.drawn_cells import Prior

FACTORED = 4096
STEPS, TOLERANCE = 300, 1e-5
"""Of conjugate gradients: at most so many, and where the residual has this share of the right-hand side."""


@dataclass(frozen=True, eq=False)
class CentredFeatures:
    """F - 1 fbar', (n, p), which is never made: `matrix` stays sparse."""

    matrix: sp.csr_array

    @cached_property
    def mean(self) -> Floats:
        """fbar, (p,)."""
        return np.asarray(self.matrix.sum(axis=0) / self.matrix.shape[0], np.float64)

    @cached_property
    def size(self) -> float:
        """The mean square length of a row; 1 where all rows are the same."""
        return float(self._squares.sum() / self.matrix.shape[0]) or 1.0

    @cached_property
    def _squares(self) -> Floats:
        """(p,): sums of squares of columns."""
        squares = self.matrix.multiply(self.matrix).sum(axis=0)
        return np.asarray(np.maximum(squares - self.matrix.shape[0] * self.mean**2, 0.0), np.float64)

    def times(self, weights: Floats) -> Floats:
        """(n, f)."""
        return np.asarray(self.matrix @ weights - self.mean @ weights)

    def across(self, rows: Floats) -> Floats:
        """(p, f): the transpose times rows (n, f)."""
        return np.asarray(self.matrix.T @ rows - np.outer(self.mean, rows.sum(axis=0)))

    def draw(self, rows: Floats, precision: Floats, eta: Floats, rng: np.random.Generator) -> Floats:
        """W (p, f), given what rows (n, f) are beside their means."""
        return (self._factored if self.matrix.shape[1] <= FACTORED else self._descended)(rows, precision, eta, rng)

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of F'F."""
        system = (self.matrix.T @ self.matrix).toarray() - self.matrix.shape[0] * np.outer(self.mean, self.mean)
        values, vectors = eigh(system, overwrite_a=True, check_finite=False)
        return np.maximum(values, 0.0), vectors

    @one_blas_thread
    def _factored(self, rows: Floats, precision: Floats, eta: Floats, rng: np.random.Generator) -> Floats:
        values, vectors = self._parts
        held = values[:, None] + eta
        noise = rng.standard_normal(held.shape) / np.sqrt(precision * held)
        return np.asarray(vectors @ (vectors.T @ self.across(rows) / held + noise))

    @one_blas_thread
    def _descended(self, rows: Floats, precision: Floats, eta: Floats, rng: np.random.Generator) -> Floats:
        spread = 1 / np.sqrt(precision)
        right = self.across(rows + spread * rng.standard_normal(rows.shape))
        right += np.sqrt(eta) * spread * rng.standard_normal(right.shape)
        diagonal = self._squares[:, None] + eta
        weights, left = np.zeros_like(right), right.copy()
        along = left / diagonal
        gain, enough = np.sum(left * along, axis=0), TOLERANCE**2 * np.sum(right**2, axis=0)
        for _ in range(STEPS):
            if (np.sum(left**2, axis=0) <= enough).all():
                break
            image = self.across(self.times(along)) + eta * along
            step = gain / np.maximum(np.sum(along * image, axis=0), np.finfo(float).tiny)
            weights, left = weights + step * along, left - step * image
            scaled = left / diagonal
            before, gain = gain, np.sum(left * scaled, axis=0)
            along = scaled + gain / np.maximum(before, np.finfo(float).tiny) * along
        return weights


@dataclass
class DrawnWeights:
    """One draw for a side: W (p, f) over its free columns, eta (f,), and F W (n, f). drawn : whether eta is.

    Begins at W = 0 and an eta under which features are expected to say as much of rows as is left beside them.
    """

    features: CentredFeatures
    weights: Floats
    eta: Floats
    fitted: Floats
    drawn: bool = True

    @classmethod
    def start(cls, matrix: Any, free: int) -> DrawnWeights:
        features = CentredFeatures(sp.csr_array(matrix, dtype=np.float64))
        n, p = features.matrix.shape
        return cls(features, np.zeros((p, free)), np.full(free, features.size), np.zeros((n, free)))

    def draw(self, rows: Floats, precision: Floats, prior: Prior, rng: np.random.Generator) -> None:
        """W given rows (n, f) beside their means and given eta; then eta given W."""
        self.weights = self.features.draw(rows, precision, self.eta, rng)
        self.fitted = self.features.times(self.weights)
        if self.drawn:
            rate = prior.rate / self.features.size + precision * np.sum(self.weights**2, axis=0) / 2
            self.eta = rng.standard_gamma(prior.shape + len(self.weights) / 2, len(rate)) / rate

    def scale(self, columns: NDArray[np.int64], times: float) -> None:
        """Some columns times one number."""
        self.weights[:, columns] *= times
        self.fitted[:, columns] *= times

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint."""
        return {"weights": self.weights, "eta": self.eta, "fitted": self.fitted}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.weights, self.eta, self.fitted = arrays["weights"], arrays["eta"], arrays["fitted"]
