"""Rows that are elsewhere, and the sums by which the classifiers know them.

Classifiers never look at rows on a cluster or at a site of a federated fit. They need, for given classifiers, the rows'
quadratics and what they cost; these are sums over rows, so those of parts add up to those of all rows. Must not know
labels or aggregators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.ensemble.columns import FactorArray
from halfstep.ensemble.start import StartSums
from halfstep.ensemble.sums import SummedFields

REPORTED = ("squares", "data", "scores", "change", "size", "gap", "steps", "repaired")
"""What the core reports of solved rows and the loop asks for."""


@dataclass(frozen=True, eq=False)
class PartSums(SummedFields):
    """What rows add up to under given classifiers.

    matrices (m, f, f), vectors (m, f) : the quadratic 1/2 v'Av - r'v of every classifier on its cells, over its f free
        columns; that of a Newton step for the Bernoulli loss.
    data, penalty : sum c phi over the cells, reg sum |u_i|^2 over the rows.
    """

    matrices: Floats
    vectors: Floats
    data: float
    penalty: float


def penalised(matrices: Floats, vectors: Floats, reg: float, prior: Floats | None = None) -> tuple[Floats, Floats]:
    """Quadratics of classifiers with reg |v - prior|^2 added; prior (m, f) or None for 0."""
    f = matrices.shape[1]
    return matrices + reg * np.eye(f), vectors if prior is None else vectors + reg * prior


def best_classifiers(matrices: Floats, vectors: Floats, reg: float, prior: Floats | None = None) -> Floats:
    """(m, f) the minimiser of each classifier's penalised quadratic."""
    A, r = penalised(matrices, vectors, reg, prior)
    return np.asarray(np.linalg.solve(A, r[:, :, None])[:, :, 0], np.float64)


class RowsElsewhere(Protocol):
    """Rows, none of them labelled, that take part in a factorisation without their values being seen."""

    start: StartSums
    n_cells: int
    weights: tuple[Floats, Floats]
    """(m,) each: the summed weights of a classifier's cells, and their number."""

    def solve(self, V: FactorArray) -> dict[str, float]:
        """Every row against the classifiers V (m, d); the `REPORTED` sums over rows."""

    def sums(self, V: FactorArray) -> PartSums:
        """Sums over the rows as last solved, under the classifiers V (m, d)."""

    def residuals(self, V: FactorArray) -> tuple[float, float]:
        """Sum of weighted squared residuals of the cells, and of their weights."""

    def novelty_quantile(self, V: FactorArray, noise: float, here: Floats, level: float) -> float:
        """`np.quantile` of the novelty of these rows and of those that are `here`."""

    def close(self) -> None:
        """Free what is kept of the rows."""
