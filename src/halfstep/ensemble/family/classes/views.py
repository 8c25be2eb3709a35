"""What can be seen of instances without labels, class by class: a score, latent factors, log ratios without gaps.

A view is learned from predictions alone, so all folds share it and new instances are looked at through it. Knows
predictions; must not know labels, members or weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.ensemble.family.analysis import FactorAnalysis
from halfstep.ensemble.family.classes.cells import ClassCells, held_logs
from halfstep.ensemble.family.views import MEAN_CLIP
from halfstep.ensemble.learned import Learned


@dataclass(frozen=True, eq=False)
class ClassSight:
    """Instances seen through a view.

    centre (n, K) scores of all classifiers taken together; latent (n, K, k) what they differ in; filled (n, K, m) log
    ratios, reconstructed where missing; variance (n,) of a score of the centre, as far as factors are not known.
    """

    centre: Floats
    latent: Floats
    filled: Floats
    variance: Floats

    @classmethod
    def of_centre(cls, centre: Floats) -> ClassSight:
        nothing = np.zeros((*centre.shape, 0))
        return cls(centre, nothing, nothing, np.zeros(len(centre)))


class ClassView(Learned, ABC):
    """`fit` learns from all instances; `look` answers for any."""

    name: str

    def fit(self, cells: ClassCells) -> Self:
        return self

    @abstractmethod
    def look(self, cells: ClassCells) -> ClassSight: ...


class ArithmeticView(ClassView):
    """The log of the mean observed probability; nothing to learn."""

    name = "arithmetic mean"

    def look(self, cells: ClassCells) -> ClassSight:
        weight = cells.observed / np.maximum(cells.observed.sum(axis=1, keepdims=True), 1)
        return ClassSight.of_centre(pooled_logs(cells.probabilities, weight))


class GeometricView(ClassView):
    """The mean observed log ratio; nothing to learn."""

    name = "geometric mean"

    def look(self, cells: ClassCells) -> ClassSight:
        weight = cells.observed / np.maximum(cells.observed.sum(axis=1, keepdims=True), 1)
        return ClassSight.of_centre(pool(cells.ratios, weight))


class RatioFactorView(ClassView):
    """Factor analysis of the log ratios: a class of an instance is a row, so that loadings serve all classes.

    biases (m, K): the mean log ratio of a classifier and a class beyond that of all classifiers, counted with
    BIAS_CELLS cells of none. A classifier that leans to some class is put right before it is compared with others.
    """

    learned = ("means", "loadings", "noise", "biases")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.name = f"factors {rank}"

    def fit(self, cells: ClassCells) -> Self:
        self.biases = _biases(cells)
        z = cells.ratios - self.biases.T
        n, K, m = z.shape
        found = FactorAnalysis.fit(z.reshape(n * K, m), np.repeat(cells.observed, K, axis=0), self.rank)
        self.means, self.loadings, self.noise = found.means, found.loadings, found.noise
        return self

    @property
    def model(self) -> FactorAnalysis:
        return FactorAnalysis(self.means, self.loadings, self.noise)

    def look(self, cells: ClassCells) -> ClassSight:
        z = cells.ratios - self.biases.T
        factors, covariance = self.model.posterior_together(z, cells.observed)
        reconstructed = self.model.reconstruct(factors)
        direction = self.loadings.mean(axis=0)
        apart = self.loadings - direction
        values, vectors = np.linalg.eigh(apart.T @ apart / len(apart))
        return ClassSight(
            reconstructed.mean(axis=2),
            factors @ (vectors * np.sqrt(np.maximum(values, 0.0))),
            np.where(cells.observed[:, None, :], z, reconstructed),
            np.broadcast_to(np.einsum("i,nij,j->n", direction, covariance, direction), len(z)),
        )


BIAS_CELLS = 20.0


def _biases(cells: ClassCells) -> Floats:
    """(m, K)."""
    counts = cells.observed.sum(axis=0)[:, None]
    total = cells.ratios.sum(axis=0).T
    overall = total.sum(axis=0) / max(counts.sum(), 1)
    return np.asarray((total - counts * overall) / (counts + BIAS_CELLS))


def pool(scores: Floats, weights: Floats) -> Floats:
    """(n, K) sums of scores (n, K, m) under weights (n, m) or (m,)."""
    if weights.ndim == 1:
        return np.asarray(scores @ weights)
    return np.asarray((scores @ weights[:, :, None])[:, :, 0])


def pooled_logs(p: Floats, weights: Floats) -> Floats:
    """(n, K) centred log ratios of weighted mean probabilities; p (n, K, m)."""
    return held_logs(pool(p, weights), MEAN_CLIP)
