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
| `Quantiles(levels)` | that of the level nearest to the middle; the others are fitted beside it | numbers |
| `EpsilonInsensitive(eps)` | max(0, abs(r) - eps) | numbers |
| `SquaredEpsilonInsensitive(eps)` | max(0, abs(r) - eps)^2 | numbers |
| `PLQ(relu, rehu, "residual")` | sum ReLU(u r + v) + sum ReHU_tau(s r + t) | numbers |
| `Bernoulli()` | log(1 + e^z) - t z | numbers in [0, 1] |
| `Poisson()` | e^z - t z | numbers >= 0 |
| `Ordinal()` | -log(s(c_{t+1} - z) - s(c_t - z)), s(x) = 1 / (1 + e^-x) | ordered levels t = 0, 1, ... |
| `Coarse(below, above, step)` | below max(0, -r) + above max(0, r), averaged over r - step/2 .. r + step/2 | a grid |

Margin form, r = t z with t = -1 or +1:

| loss | phi | targets |
| --- | --- | --- |
| `Hinge()` | max(0, 1 - r) | two classes |
| `SquaredHinge()` | max(0, 1 - r)^2 | two classes |
| `SmoothedHinge(width)` | x = max(0, 1-r): x^2 / (2 width) if x <= width, else x - width/2 | two classes |
| `PLQ(relu, rehu, "margin")` | sum ReLU(u r + v) + sum ReHU_tau(s r + t) | two classes |
| `Logistic()` | log(1 + e^-r) | two classes |

with ReLU(x) = max(0, x), and ReHU_tau(x) = 0 for x <= 0, x^2/2 up to tau, tau (x - tau/2) beyond; tau may
be inf. The thresholds c of `Ordinal` are fitted. All but `Logistic`, `Bernoulli`, `Poisson` and
`Ordinal` are piecewise linear-quadratic (PLQ).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from halfstep.core.losses.base import Loss
from halfstep.core.losses.coarse import Coarse
from halfstep.core.losses.ordinal import Ordinal
from halfstep.core.losses.piecewise import (
    PLQ,
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    PiecewiseLoss,
    Quantile,
    Quantiles,
    SmoothedHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from halfstep.core.losses.smooth import Bernoulli, Logistic, Poisson
from halfstep.errors import one_of

__all__ = [
    "Absolute",
    "Bernoulli",
    "Coarse",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Ordinal",
    "PLQ",
    "PiecewiseLoss",
    "Poisson",
    "Quantile",
    "Quantiles",
    "SmoothedHinge",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "get",
]

_OWN: tuple[type[Loss], ...] = (
    *(Squared, Absolute, Huber, Quantile, Quantiles, EpsilonInsensitive, SquaredEpsilonInsensitive),
    *(Hinge, SquaredHinge, SmoothedHinge, PLQ, Logistic, Bernoulli, Poisson, Ordinal, Coarse),
)
_ELSEWHERE: dict[str, type[Loss]] = {
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
    "cumulative_logit": Ordinal,
}
"""What other libraries call them."""

NAMES: dict[str, type[Loss]] = {loss.name: loss for loss in _OWN} | _ELSEWHERE


def get(loss: str | Mapping[str, Any] | Loss) -> Loss:
    """A loss from its name ("huber"), from name and parameters ({"name": "huber", "delta": 2.0}), or itself.

    Parameters may follow a name as text, in their order or by name: "huber:2", "quantile:q=0.9". Case, spaces and
    dashes do not matter: "Squared Hinge" is "squared_hinge".
    """
    if isinstance(loss, Loss):
        return loss
    parameters = dict(loss) if isinstance(loss, Mapping) else _from_text(loss) if isinstance(loss, str) else {}
    given = parameters.pop("name", None)
    if not isinstance(given, str):
        raise TypeError(
            f"loss={loss!r} is not a loss; give a name such as 'absolute', a dict with 'name' and "
            "parameters, or a Loss object such as Huber(2.0)"
        )
    name = _key(given)
    one_of("loss", name, NAMES)
    factory = NAMES[name]
    accepted = [field.name for field in fields(factory) if field.init]  # type: ignore[arg-type]
    for parameter in parameters:
        one_of(f"parameter of loss {name!r}", parameter, accepted)
    return factory(**parameters)


def _from_text(text: str) -> dict[str, Any]:
    """Name and parameters of "name:value" or "name:parameter=value,..."; all parameters are numbers."""
    name, colon, given = text.partition(":")
    parameters: dict[str, Any] = {"name": name}
    key = _key(name)
    if not colon or key not in NAMES:
        return parameters
    given_ones = () if NAMES[key].learns else fields(NAMES[key])  # type: ignore[arg-type]
    accepted = [field.name for field in given_ones if field.init]
    parts = given.split(",")
    if accepted == ["levels"]:
        try:
            return parameters | {"levels": tuple(float(part) for part in parts)}
        except ValueError:
            raise ValueError(f"loss={text!r} must list numbers, such as '{key}:0.05,0.5,0.95'.") from None
    if len(parts) > len(accepted):
        takes = f"takes {', '.join(accepted)}" if accepted else "takes no parameters"
        raise ValueError(f"loss={text!r} gives {len(parts)} parameters; {key!r} {takes}.")
    for place, part in enumerate(parts):
        parameter, equals, value = part.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            like = f"{key}:{accepted[place]}=0.5"
            raise ValueError(f"loss={text!r}: {value!r} is not a number; write for example {like!r}.") from None
        parameters[parameter.strip() if equals else accepted[place]] = number
    return parameters


def _key(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")
