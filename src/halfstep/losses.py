"""What one observed cell costs: phi(z; t) of a score z and a target t. Knows no rows, weights or factors.

One scale for all: `phi` is the number that the reported objective sums, `sum w phi(z; t)`, and a square
has no factor 1/2. So related losses meet: `Huber(inf)` and `SquaredEpsilonInsensitive(0)` are `Squared`,
`EpsilonInsensitive(0)` is `Absolute`, and `SmoothedHinge(width)` tends to `Hinge` as width goes to 0.

Residual form, r = z - t:

| loss | phi | targets |
| --- | --- | --- |
| `Squared()` | r^2 | numbers |
| `Absolute()` | abs(r) | numbers |
| `Huber(delta)` | r^2 if abs(r) <= delta, else delta (2 abs(r) - delta) | numbers |
| `Quantile(q)` | q max(0, -r) + (1 - q) max(0, r) | numbers |
| `EpsilonInsensitive(eps)` | max(0, abs(r) - eps) | numbers |
| `SquaredEpsilonInsensitive(eps)` | max(0, abs(r) - eps)^2 | numbers |
| `PLQ(relu, rehu, "residual")` | sum ReLU(u r + v) + sum ReHU_tau(s r + t) | numbers |
| `Bernoulli()` | log(1 + e^z) - t z | numbers in [0, 1] |
| `Poisson()` | e^z - t z | numbers >= 0 |

Margin form, r = t z with t = -1 or +1:

| loss | phi | targets |
| --- | --- | --- |
| `Hinge()` | max(0, 1 - r) | two classes |
| `SquaredHinge()` | max(0, 1 - r)^2 | two classes |
| `SmoothedHinge(width)` | x = max(0, 1-r): x^2 / (2 width) if x <= width, else x - width/2 | two classes |
| `PLQ(relu, rehu, "margin")` | sum ReLU(u r + v) + sum ReHU_tau(s r + t) | two classes |
| `Logistic()` | log(1 + e^-r) | two classes |

with ReLU(x) = max(0, x), and ReHU_tau(x) = 0 for x <= 0, x^2/2 up to tau, tau (x - tau/2) beyond; tau may
be inf. All but `Logistic`, `Bernoulli` and `Poisson` are piecewise linear-quadratic (PLQ).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from halfstep import _pieces, _targets
from halfstep.errors import one_of

Floats = NDArray[np.float64]
Form = Literal["residual", "margin"]
Composition = tuple[tuple[ArrayLike, ArrayLike], tuple[ArrayLike, ArrayLike, ArrayLike]]

_NO_RELU: tuple[ArrayLike, ArrayLike] = ((), ())
_NO_REHU: tuple[ArrayLike, ArrayLike, ArrayLike] = ((), (), ())
_ROOT2 = math.sqrt(2.0)  # ReHU_inf(sqrt(2) x) = max(0, x)^2


class Loss(ABC):
    """One loss. Methods take arrays that broadcast: scores z, targets t as `encode_targets` gives them."""

    form: Form = "residual"  # Bernoulli and Poisson: says only that targets are numbers
    kind: ClassVar[int]  # its number in the compiled core
    is_plq: ClassVar[bool] = False  # has `pieces` and `prox`
    is_smooth: ClassVar[bool] = False  # has a continuous second derivative
    is_quadratic: ClassVar[bool] = False  # one piece: row problems are linear systems
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

    def native(self) -> tuple[int, int, Floats, Floats]:
        """(kind, form, breaks, coefficients) for the compiled core; the table is empty unless kind is 1.

        kind: 0 squared, 1 PLQ, 2 logistic, 3 Bernoulli, 4 Poisson. form: 0 residual, 1 margin.
        """
        return self.kind, int(self.form == "margin"), np.empty(0), np.empty((0, 3))

    @property
    def name(self) -> str:
        """The name by which `get` finds this loss."""
        return next(name for name, factory in _NAMES.items() if factory is type(self))

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
            return _targets.encode_classes(y, classes, expected)
        return _targets.encode_numbers(y, *self.target_range, expected), None

    def decode(self, z: ArrayLike, classes: NDArray[Any] | None = None) -> NDArray[Any]:
        """Predictions in the units of y: the class (z > 0: the second), or the number that z stands for."""
        z = np.asarray(z, dtype=np.float64)
        if self.form == "residual":
            return self._mean(z)
        if classes is None or len(classes) != 2:
            raise ValueError(f"classes={classes!r}; {self!r} needs the two classes that encode_targets returned")
        return np.asarray(np.asarray(classes)[(z > 0).astype(np.intp)])

    def _mean(self, z: Floats) -> Floats:
        return z


class PiecewiseLoss(Loss):
    """A convex loss that is quadratic between breaks. Subclasses only give their ReLU and ReHU pieces."""

    kind = 1
    is_plq = True

    @abstractmethod
    def _composition(self) -> Composition:
        """((u, v), (tau, s, t)) in r."""

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        breaks, coefficients = _pieces.expand(*self._composition())
        breaks.flags.writeable = coefficients.flags.writeable = False
        return breaks, coefficients

    def pieces(self) -> tuple[Floats, Floats]:
        """`breaks` (K,) and `coefficients` (K+1, 3), read-only: phi = a r^2 + b r + c on each interval."""
        return self._table

    def native(self) -> tuple[int, int, Floats, Floats]:
        breaks, coefficients = self._table
        return self.kind, int(self.form == "margin"), breaks.copy(), coefficients.copy()

    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return _pieces.value(*self._table, self._argument(z, t)[0])

    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        r, sign = self._argument(z, t)
        return np.asarray(sign * _pieces.slope(*self._table, r))

    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return _pieces.curvature(*self._table, self._argument(z, t)[0])

    def prox(self, z: ArrayLike, t: ArrayLike, step: ArrayLike) -> Floats:
        """argmin_x step phi(x; t) + (x - z)^2 / 2, exactly; `step` >= 0 broadcasts with z and t."""
        step = np.asarray(step, dtype=np.float64)
        if not (step >= 0).all():
            raise ValueError(f"step={step!r} must be >= 0 everywhere")
        goal, sign = self._argument(z, t)
        r = _pieces.prox(*self._table, *np.broadcast_arrays(goal, step))
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

    kind = 0
    is_smooth = True
    is_quadratic = True

    def _composition(self) -> Composition:
        return _NO_RELU, ((math.inf, math.inf), (_ROOT2, -_ROOT2), (0.0, 0.0))

    def native(self) -> tuple[int, int, Floats, Floats]:
        return Loss.native(self)  # the core has it built in


@dataclass(frozen=True)
class Absolute(PiecewiseLoss):
    """|z - t|."""

    def _composition(self) -> Composition:
        return ((1.0, -1.0), (0.0, 0.0)), _NO_REHU


@dataclass(frozen=True)
class Huber(PiecewiseLoss):
    """r^2 up to |r| = delta, then delta (2 |r| - delta). Twice the textbook form that starts with r^2/2."""

    delta: float = 1.0

    def __post_init__(self) -> None:
        _check_number("delta", self.delta, lambda delta: delta > 0, "a number > 0 (inf gives Squared)")

    def _composition(self) -> Composition:
        tail = _ROOT2 * self.delta
        return _NO_RELU, ((tail, tail), (_ROOT2, -_ROOT2), (0.0, 0.0))


@dataclass(frozen=True)
class Quantile(PiecewiseLoss):
    """q max(0, t - z) + (1 - q) max(0, z - t): the best constant score is the q-quantile of the targets."""

    q: float = 0.5

    def __post_init__(self) -> None:
        _check_number("q", self.q, lambda q: 0 < q < 1, "a number between 0 and 1, both excluded")

    def _composition(self) -> Composition:
        return ((-self.q, 1 - self.q), (0.0, 0.0)), _NO_REHU


@dataclass(frozen=True)
class EpsilonInsensitive(PiecewiseLoss):
    """max(0, |z - t| - eps)."""

    eps: float = 0.1

    def __post_init__(self) -> None:
        _check_number("eps", self.eps, lambda eps: 0 <= eps < math.inf, "a finite number >= 0")

    def _composition(self) -> Composition:
        return ((1.0, -1.0), (-self.eps, -self.eps)), _NO_REHU


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(PiecewiseLoss):
    """max(0, |z - t| - eps)^2."""

    eps: float = 0.1

    def __post_init__(self) -> None:
        _check_number("eps", self.eps, lambda eps: 0 <= eps < math.inf, "a finite number >= 0")

    def _composition(self) -> Composition:
        shift = -_ROOT2 * self.eps
        return _NO_RELU, ((math.inf, math.inf), (_ROOT2, -_ROOT2), (shift, shift))


@dataclass(frozen=True)
class Hinge(PiecewiseLoss):
    """max(0, 1 - t z)."""

    form = "margin"

    def _composition(self) -> Composition:
        return ((-1.0,), (1.0,)), _NO_REHU


@dataclass(frozen=True)
class SquaredHinge(PiecewiseLoss):
    """max(0, 1 - t z)^2."""

    form = "margin"

    def _composition(self) -> Composition:
        return _NO_RELU, ((math.inf,), (-_ROOT2,), (_ROOT2,))


@dataclass(frozen=True)
class SmoothedHinge(PiecewiseLoss):
    """With x = max(0, 1 - t z): x^2 / (2 width) up to x = width, then x - width / 2."""

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


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + e^(-t z))."""

    form = "margin"
    kind = 2
    is_smooth = True

    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(np.logaddexp(0.0, -np.multiply(z, t)))

    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(-np.asarray(t) * expit(-np.multiply(z, t)))

    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        r = np.multiply(z, t)
        return np.asarray(expit(r) * expit(-r))


@dataclass(frozen=True)
class Bernoulli(Loss):
    """log(1 + e^z) - t z, for soft targets in [0, 1]; scores are log odds, predictions probabilities."""

    kind = 3
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

    def _mean(self, z: Floats) -> Floats:
        return np.asarray(expit(z))


@dataclass(frozen=True)
class Poisson(Loss):
    """e^z - t z, for counts t >= 0; scores are log rates, predictions rates. It is inf beyond z = 709."""

    kind = 4
    is_smooth = True
    target_range = (0.0, math.inf)

    def value(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(self._mean(np.asarray(z, dtype=np.float64)) - np.multiply(t, z))

    def gradient(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(self._mean(np.asarray(z, dtype=np.float64)) - np.asarray(t))

    def curvature(self, z: ArrayLike, t: ArrayLike) -> Floats:
        return np.asarray(np.broadcast_arrays(self._mean(np.asarray(z, dtype=np.float64)), t)[0])

    def _mean(self, z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(z))


# The one table of names. The first name of a class is its own; the rest are what other libraries call it.
_NAMES: dict[str, type[Loss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "huber": Huber,
    "quantile": Quantile,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "smoothed_hinge": SmoothedHinge,
    "plq": PLQ,
    "logistic": Logistic,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
    "mse": Squared,
    "squared_error": Squared,
    "mae": Absolute,
    "absolute_error": Absolute,
    "check": Quantile,
    "pinball": Quantile,
    "qr": Quantile,
    "svr": EpsilonInsensitive,
    "svm": Hinge,
    "squared_svm": SquaredHinge,
    "hinge_square": SquaredHinge,
    "smooth_svm": SmoothedHinge,
    "smooth_hinge": SmoothedHinge,
    "ssvm": SmoothedHinge,
    "log_loss": Logistic,
}


def get(loss: str | Mapping[str, Any] | Loss) -> Loss:
    """A loss from its name ("huber"), from name and parameters ({"name": "huber", "delta": 2.0}), or itself.

    Case, spaces and dashes do not matter: "Squared Hinge" is "squared_hinge".
    """
    if isinstance(loss, Loss):
        return loss
    parameters = dict(loss) if isinstance(loss, Mapping) else {"name": loss}
    given = parameters.pop("name", None)
    if not isinstance(given, str):
        raise TypeError(
            f"loss={loss!r} is not a loss; give a name such as 'absolute', a dict with 'name' and "
            "parameters, or a Loss object such as Huber(2.0)"
        )
    name = given.strip().lower().replace(" ", "_").replace("-", "_")
    one_of("loss", name, _NAMES)
    factory = _NAMES[name]
    accepted = [field.name for field in fields(factory)]  # type: ignore[arg-type]
    for parameter in parameters:
        one_of(f"parameter of loss {name!r}", parameter, accepted)
    return factory(**parameters)
