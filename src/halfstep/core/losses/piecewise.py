"""Losses that are quadratic between breaks: those of residuals, those of margins, and any composition of pieces."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep._core import LossForm, LossKind
from halfstep.core.arrays import Floats, HalfStep
from halfstep.core.losses import pieces
from halfstep.core.losses.base import Form, Loss
from halfstep.errors import one_of

Composition = tuple[tuple[ArrayLike, ArrayLike], tuple[ArrayLike, ArrayLike, ArrayLike]]

_NO_RELU: tuple[ArrayLike, ArrayLike] = ((), ())
_NO_REHU: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), ())
_ROOT2 = math.sqrt(2.0)  # ReHU_inf(sqrt(2) x) = max(0, x)^2


class PiecewiseLoss(Loss):
    """A convex loss that is quadratic between breaks. Subclasses only give their ReLU and ReHU pieces."""

    kind = LossKind.plq
    is_plq = True
    keeps_duals = True

    @abstractmethod
    def _composition(self) -> Composition:
        """((u, v), (tau, s, t)) in r."""

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        breaks, coefficients = pieces.expand(*self._composition())
        breaks.flags.writeable = coefficients.flags.writeable = False
        return breaks, coefficients

    def pieces(self) -> tuple[Floats, Floats]:
        """`breaks` (K,) and `coefficients` (K+1, 3), read-only: phi = a r^2 + b r + c on each interval."""
        return self._table

    def bind(self, rows: HalfStep) -> None:
        rows.pieces(LossForm[self.form], *self._table)

    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return pieces.value(*self._table, self._argument(z, t)[0])

    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        r, sign = self._argument(z, t)
        return np.asarray(sign * pieces.slope(*self._table, r))

    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return pieces.curvature(*self._table, self._argument(z, t)[0])

    def prox(self, z: ArrayLike, t: ArrayLike, step: ArrayLike) -> Floats:
        """argmin_x step phi(x; t) + (x - z)^2 / 2, exactly; `step` >= 0 broadcasts with z and t."""
        step = np.asarray(step, dtype=np.float64)
        if not (step >= 0).all():
            raise ValueError(f"step={step!r} must be >= 0 everywhere")
        goal, sign = self._argument(z, t)
        r = pieces.prox(*self._table, *np.broadcast_arrays(goal, step))
        return np.asarray(sign * r if self.form == "margin" else np.asarray(t, dtype=np.float64) + r)

    def _argument(self, z: ArrayLike, t: ArrayLike) -> tuple[Floats, Floats]:
        """r and dr/dz."""
        z, t = np.asarray(z, dtype=np.float64), np.asarray(t, dtype=np.float64)
        return (z * t, t) if self.form == "margin" else (z - t, np.ones(()))


def _check_number(name: str, value: Any, valid: Callable[[float], bool], expected: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not valid(float(value)):
        raise ValueError(f"{name}={value!r} is not valid; it must be {expected}")


@dataclass(frozen=True)
class Squared(PiecewiseLoss):
    """(z - t)^2."""

    name = "squared"
    kind = LossKind.squared
    is_smooth = True
    is_quadratic = True
    keeps_duals = False

    def _composition(self) -> Composition:
        return _NO_RELU, ((math.inf, math.inf), (_ROOT2, -_ROOT2), (0.0, 0.0))

    def bind(self, rows: HalfStep) -> None:
        Loss.bind(self, rows)  # the core has it built in


@dataclass(frozen=True)
class Absolute(PiecewiseLoss):
    """|z - t|."""

    name = "absolute"
    slopes = (1.0, 1.0)

    def _composition(self) -> Composition:
        return ((1.0, -1.0), (0.0, 0.0)), _NO_REHU


@dataclass(frozen=True)
class Huber(PiecewiseLoss):
    """r^2 up to |r| = delta, then delta (2 |r| - delta). Twice the textbook form that starts with r^2/2.

    delta is in units of the targets: whoever multiplies them by a gives Huber(a delta) for the same answers.
    """

    name = "huber"
    delta: float = 1.0

    def __post_init__(self) -> None:
        _check_number("delta", self.delta, lambda delta: delta > 0, "a number > 0 (inf gives Squared)")

    def _composition(self) -> Composition:
        tail = _ROOT2 * self.delta
        return _NO_RELU, ((tail, tail), (_ROOT2, -_ROOT2), (0.0, 0.0))


@dataclass(frozen=True)
class Quantile(PiecewiseLoss):
    """q max(0, t - z) + (1 - q) max(0, z - t): the best constant score is the q-quantile of the targets."""

    name = "quantile"
    q: float = 0.5

    def __post_init__(self) -> None:
        _check_number("q", self.q, lambda q: 0 < q < 1, "a number between 0 and 1, both excluded")

    @property
    def slopes(self) -> tuple[float, float]:  # type: ignore[override]
        return float(self.q), float(1 - self.q)

    @property
    def skew(self) -> float:
        return 1 / (2 * math.sqrt(self.q * (1 - self.q)))

    def _composition(self) -> Composition:
        return ((-self.q, 1 - self.q), (0.0, 0.0)), _NO_REHU


@dataclass(frozen=True)
class Quantiles(Quantile):
    """`Quantile` of the one of several `levels` that is nearest to the middle; the others are fitted beside it."""

    name = "quantiles"
    q: float = field(default=0.5, init=False)
    levels: tuple[float, ...] = (0.05, 0.5, 0.95)

    def __post_init__(self) -> None:
        try:
            levels = tuple(sorted(float(level) for level in self.levels))
        except TypeError:
            raise ValueError(f"levels={self.levels!r} is not valid; give numbers such as (0.05, 0.5, 0.95)") from None
        if not levels or any(not 0 < level < 1 for level in levels) or len(set(levels)) < len(levels):
            raise ValueError(f"levels={self.levels!r} is not valid; give distinct numbers between 0 and 1")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "q", min(levels, key=lambda level: abs(level - 0.5)))

    @property
    def beside(self) -> tuple[Loss, ...]:
        return tuple(Quantile(level) for level in self.levels if level != self.q)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "levels": self.levels}


@dataclass(frozen=True)
class _Tube(PiecewiseLoss):
    """A residual of up to `eps` costs nothing."""

    eps: float = 0.1

    def __post_init__(self) -> None:
        _check_number("eps", self.eps, lambda eps: 0 <= eps < math.inf, "a finite number >= 0")


@dataclass(frozen=True)
class EpsilonInsensitive(_Tube):
    """max(0, |z - t| - eps)."""

    name = "epsilon_insensitive"

    def _composition(self) -> Composition:
        return ((1.0, -1.0), (-self.eps, -self.eps)), _NO_REHU


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(_Tube):
    """max(0, |z - t| - eps)^2."""

    name = "squared_epsilon_insensitive"

    def _composition(self) -> Composition:
        shift = -_ROOT2 * self.eps
        return _NO_RELU, ((math.inf, math.inf), (_ROOT2, -_ROOT2), (shift, shift))


@dataclass(frozen=True)
class Hinge(PiecewiseLoss):
    """max(0, 1 - t z)."""

    name = "hinge"
    form = "margin"

    def _composition(self) -> Composition:
        return ((-1.0,), (1.0,)), _NO_REHU


@dataclass(frozen=True)
class SquaredHinge(PiecewiseLoss):
    """max(0, 1 - t z)^2."""

    name = "squared_hinge"
    form = "margin"

    def _composition(self) -> Composition:
        return _NO_RELU, ((math.inf,), (-_ROOT2,), (_ROOT2,))


@dataclass(frozen=True)
class SmoothedHinge(PiecewiseLoss):
    """With x = max(0, 1 - t z): x^2 / (2 width) up to x = width, then x - width / 2."""

    name = "smoothed_hinge"
    width: float = 1.0
    form = "margin"

    def __post_init__(self) -> None:
        _check_number("width", self.width, lambda width: 0 < width < math.inf, "a finite number > 0")

    def _composition(self) -> Composition:
        root = math.sqrt(self.width)
        return _NO_RELU, ((root,), (-1 / root,), (1 / root,))


@dataclass(frozen=True)
class PLQ(PiecewiseLoss):
    """Any other loss: sum ReLU(u r + v) + sum ReHU_tau(s r + t) with `relu=(u, v)` and `rehu=(tau, s, t)`.

    Each of u, v (and of tau, s, t) is a number or a sequence, all of one length. `Huber(1)` is
    `PLQ(rehu=([2**.5] * 2, [2**.5, -2**.5], [0, 0]))`; `Hinge()` is `PLQ(relu=(-1, 1), form="margin")`.
    """

    name = "plq"
    relu: tuple[ArrayLike, ArrayLike] = _NO_RELU
    rehu: tuple[ArrayLike, ArrayLike, ArrayLike] = _NO_REHU
    form: Form = "residual"

    def __post_init__(self) -> None:
        one_of("form", self.form, ["residual", "margin"])
        for argument, parts in (("relu", "(u, v)"), ("rehu", "(tau, s, t)")):
            rows = _equal_rows(argument, getattr(self, argument), parts)
            object.__setattr__(self, argument, tuple(tuple(row.tolist()) for row in rows))
        if not np.size(self.relu[0]) + np.size(self.rehu[0]):
            raise ValueError("PLQ has no pieces; give relu=(u, v), rehu=(tau, s, t), or both")
        tau = np.asarray(self.rehu[0])
        if (tau <= 0).any():
            raise ValueError(f"rehu has tau={tau.tolist()}; each tau must be > 0 (inf: no linear tail)")
        self.pieces()  # a loss that cannot be expanded fails here, not at its first use

    def _composition(self) -> Composition:
        return self.relu, self.rehu


def _equal_rows(argument: str, given: Any, parts: str) -> list[Floats]:
    """The `parts` of a composition as 1-D arrays of one length."""
    expected = f"expected {parts}, numbers or sequences of one length"
    try:
        rows = [np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in given]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument}={given!r} is not numeric; {expected}") from error
    if len(rows) != parts.count(",") + 1 or any(row.ndim != 1 or row.size != rows[0].size for row in rows):
        raise ValueError(f"{argument}={given!r} has the wrong shape; {expected}")
    infinite_allowed = 1 if argument == "rehu" else 0  # tau alone
    if np.isnan(rows[0]).any() or not all(np.isfinite(row).all() for row in rows[infinite_allowed:]):
        raise ValueError(f"{argument}={given!r} is not finite; {expected}, only tau may be inf")
    return rows
