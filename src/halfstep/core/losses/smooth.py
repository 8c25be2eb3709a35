"""Losses with a continuous second derivative that are not piecewise quadratic: logistic, Bernoulli, Poisson."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from halfstep._core import LossKind
from halfstep.core.arrays import Floats
from halfstep.core.losses.base import Loss


def expit(z: ArrayLike) -> Floats:
    """1 / (1 + e^-z). SciPy is loaded when first asked: executors of a cluster solve rows without it."""
    from scipy import special

    return np.asarray(special.expit(z))


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + e^(-t z))."""

    name = "logistic"
    form = "margin"
    kind = LossKind.logistic
    is_smooth = True
    has_probabilities = True

    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(np.logaddexp(0.0, -np.multiply(z, t)))

    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(-np.asarray(t) * expit(-np.multiply(z, t)))

    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        r = np.multiply(z, t)
        return np.asarray(expit(r) * expit(-r))

    def probabilities(self, z: ArrayLike) -> Floats:
        z = np.asarray(z, np.float64)
        return np.stack([expit(-z), expit(z)], axis=-1)


@dataclass(frozen=True)
class Bernoulli(Loss):
    """log(1 + e^z) - t z, for soft targets in [0, 1]; scores are log odds, predictions probabilities."""

    name = "bernoulli"
    kind = LossKind.bernoulli
    is_smooth = True
    target_range = (0.0, 1.0)

    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        z, t = np.asarray(z, dtype=np.float64), np.asarray(t, dtype=np.float64)
        return np.asarray(t * np.logaddexp(0.0, -z) + (1 - t) * np.logaddexp(0.0, z))  # nothing cancels

    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(expit(z) - np.asarray(t))

    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        z = np.asarray(z, dtype=np.float64)
        return np.asarray(np.broadcast_arrays(expit(z) * expit(-z), t)[0])

    def unit(self, constant: float, t: Floats, w: Floats) -> float:
        return 1.0  # of log odds

    def _mean(self, z: Floats) -> Floats:
        return np.asarray(expit(z))


@dataclass(frozen=True)
class Poisson(Loss):
    """e^z - t z, for counts t >= 0; scores are log rates, predictions rates. It is inf beyond z = 709."""

    name = "poisson"
    kind = LossKind.poisson
    is_smooth = True
    target_range = (0.0, math.inf)

    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(self._mean(np.asarray(z, dtype=np.float64)) - np.multiply(t, z))

    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(self._mean(np.asarray(z, dtype=np.float64)) - np.asarray(t))

    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(np.broadcast_arrays(self._mean(np.asarray(z, dtype=np.float64)), t)[0])

    def unit(self, constant: float, t: Floats, w: Floats) -> float:
        return min(1.0, super().unit(constant, t, w) / math.exp(constant)) or 1.0  # of log rates

    def _mean(self, z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(z))
