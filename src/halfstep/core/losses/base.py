"""What every loss can do: value, slope and curvature, checking targets, telling the core about itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep._core import LossForm, LossKind
from halfstep.core.arrays import Floats, HalfStep
from halfstep.core.losses import targets

Form = Literal["residual", "margin"]


class Loss(ABC):
    """One loss. Methods take arrays that broadcast: scores z, targets t as `encode_targets` gives them."""

    name: ClassVar[str]
    """By which `get` finds this loss."""
    form: Form = "residual"  # Bernoulli and Poisson: says only that targets are numbers
    kind: ClassVar[LossKind]  # what it is in the compiled core
    is_plq: ClassVar[bool] = False  # has `pieces` and `prox`
    is_smooth: ClassVar[bool] = False  # has a continuous second derivative
    is_quadratic: ClassVar[bool] = False  # one piece: row problems are linear systems
    keeps_duals: ClassVar[bool] = False  # a sweep starts from the dual variables of the one before
    learns: ClassVar[bool] = False  # has parameters of its own, which are solved in every sweep by `learned`
    has_probabilities: ClassVar[bool] = False  # of its classes
    has_quantiles: ClassVar[bool] = False  # of its classes, which are ordered
    slopes: tuple[float, float] | None = None  # of a loss with one kink, at its target: how steep it is on both sides
    target_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    @abstractmethod
    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        """phi(z; t)."""

    @abstractmethod
    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        """d phi / dz; at a kink the subgradient nearest to 0."""

    @abstractmethod
    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        """d^2 phi / dz^2; at a break the value to its left in r."""

    def bind(self, rows: HalfStep) -> None:
        """Tell the core what a cell costs."""
        rows.loss(self.kind, LossForm[self.form])

    @property
    def skew(self) -> float:
        """Mean of both slopes over their geometric mean: 1 unless the loss is a quantile's."""
        return 1.0

    def learned(self, z: Floats, t: Floats, w: Floats) -> Loss:
        """This loss with its own parameters solved for the scores of all cells; itself where it has none."""
        return self

    def unit(self, constant: float, t: Floats, w: Floats) -> float:
        """A scale of scores: how far targets are from the best constant; 1 where scores are not in units of y."""
        if self.form == "margin":
            return 1.0
        return float(np.average(np.abs(t - self.decode(constant)), weights=w)) or 1.0

    def rounded(self, z: ArrayLike) -> Floats:
        """The scores that answers stand for: those of the fit, unless targets lie on a grid."""
        return np.asarray(z, np.float64)

    def probabilities(self, z: ArrayLike) -> Floats:
        """(..., K): of each class at these scores."""
        raise TypeError(f"{self!r} has no probabilities; 'logistic' and 'ordinal' have")

    def quantiles(self, z: ArrayLike, classes: NDArray[Any], shares: ArrayLike) -> Floats:
        """(N, len(shares)): the lowest class such that it and those below have at least that probability."""
        raise TypeError(f"{self!r} has no ordered classes; 'ordinal' has")

    @property
    def beside(self) -> tuple[Loss, ...]:
        """Losses that are fitted beside this one, each by itself, to the same cells."""
        return ()

    @property
    def domain(self) -> str:
        """Which targets the loss takes, in words."""
        if self.form == "margin":
            return "exactly two classes"
        low, high = self.target_range
        if math.isinf(low):
            return "finite numbers"
        return f"numbers >= {low:g}" if math.isinf(high) else f"numbers in [{low:g}, {high:g}]"

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters; `get` turns it back into an equal loss."""
        return {"name": self.name, **{field.name: getattr(self, field.name) for field in fields(self)}}  # type: ignore[arg-type]

    def encode_targets(self, y: ArrayLike, classes: NDArray[Any] | None = None) -> tuple[Floats, NDArray[Any] | None]:
        """Check `y` (n,) and return (targets (n,) float64, classes).

        Margin losses: the two labels, sorted, become -1 and +1, and `classes` (2,) holds them. Pass the
        `classes` of a fit to encode later data, which may then hold only one of them. Other losses: targets
        are the numbers themselves and `classes` is None.
        """
        expected = f"{self!r} needs {self.domain}"
        if self.form == "margin":
            return targets.encode_classes(y, classes, expected)
        return targets.encode_numbers(y, *self.target_range, expected), None

    def decode(self, z: ArrayLike, classes: NDArray[Any] | None = None) -> NDArray[Any]:
        """Predictions in the units of y: the class (z > 0: the second), or the number that z stands for."""
        z = np.asarray(z, dtype=np.float64)
        if self.form == "residual":
            return self._mean(self.rounded(z))
        if classes is None or len(classes) != 2:
            raise ValueError(f"classes={classes!r}; {self!r} needs the two classes that encode_targets returned")
        return np.asarray(np.asarray(classes)[(z > 0).astype(np.intp)])

    def _mean(self, z: Floats) -> Floats:
        return z
