"""How far predictions are from ratings: one number for each rating. Knows what a model answers; no split, no bootstrap.

Smaller is better for "rmse", "mae", "pinball", "log_loss" and "width"; "coverage" should be the level it is asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from halfstep.core import losses
from halfstep.errors import UnknownIdWarning, one_of
from halfstep.judge.result import Finish, as_it_is
from halfstep.metrics import Floats

LEAST = 1e-15
"""The least probability that a log loss takes seriously."""


class NotAnswered(Exception):
    """A model does not offer what a metric asks for."""


@dataclass(eq=False)
class AskedPairs:
    """What a fitted model says of pairs; each question is asked once."""

    model: Any
    pairs: NDArray[Any]
    y: NDArray[Any]
    _answers: dict[Any, NDArray[Any]] = field(default_factory=dict)

    def ask(self, method: str, *arguments: Any) -> NDArray[Any]:
        key = (method, *arguments)
        if key not in self._answers:
            if not hasattr(self.model, method):
                raise NotAnswered(method)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnknownIdWarning)  # the split counts them
                self._answers[key] = np.asarray(getattr(self.model, method)(self.pairs, *arguments))
        return self._answers[key]

    @property
    def missed(self) -> Floats:
        """y minus prediction; classes have none."""
        if is_classifier(self.model):
            raise NotAnswered("numbers")
        return np.asarray(np.asarray(self.y, np.float64) - self.ask("predict"))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        if is_classifier(self.model):
            raise NotAnswered("predict_interval")
        levels = getattr(losses.get(getattr(self.model, "loss", "squared")), "levels", None)
        ends = ((1 - level) / 2, (1 + level) / 2)
        if levels and not all(np.isclose(levels, end, rtol=0, atol=1e-9).any() for end in ends):
            raise NotAnswered("predict_interval")  # a model of other quantiles
        bounds = self.ask("predict_interval", level)
        return bounds[:, 0], bounds[:, 1]

    def quantile(self, q: float) -> Floats:
        """The q-quantile: the prediction of a model whose loss asks for it, a bound of an interval of any other."""
        loss = losses.get(getattr(self.model, "loss", "squared"))
        if q in (getattr(loss, "q", None), 0.5):
            return self.ask("predict")
        return self.interval(abs(2 * q - 1))[int(q > 0.5)]

    @property
    def truth(self) -> Floats:
        """The probability that was given to the class that came true."""
        proba = self.ask("predict_proba")
        classes = np.asarray(self.model.classes_)
        place = np.minimum(np.searchsorted(classes, self.y), len(classes) - 1)
        known = classes[place] == self.y  # a class that training has not seen was given nothing
        return np.where(known, proba[np.arange(len(proba)), place], 0.0)


class RatingMetric(NamedTuple):
    """A number for each rating, averaged, and what is made of the mean; `usual` is the number after the @, if any."""

    of: Callable[[AskedPairs, float], Floats]
    finish: Finish = as_it_is
    usual: float | None = None


def _pinball(asked: AskedPairs, q: float) -> Floats:
    missed = np.asarray(asked.y, np.float64) - asked.quantile(q)
    return np.maximum(q * missed, (q - 1) * missed)


def _covered(asked: AskedPairs, level: float) -> Floats:
    low, high = asked.interval(level)
    y = np.asarray(asked.y, np.float64)
    return ((low <= y) & (y <= high)).astype(np.float64)


def _width(asked: AskedPairs, level: float) -> Floats:
    low, high = asked.interval(level)
    return high - low


RATING_METRICS: dict[str, RatingMetric] = {
    "rmse": RatingMetric(lambda asked, _: asked.missed**2, np.sqrt),
    "mae": RatingMetric(lambda asked, _: np.abs(asked.missed)),
    "pinball": RatingMetric(_pinball, usual=0.5),
    "coverage": RatingMetric(_covered, usual=0.9),
    "width": RatingMetric(_width, usual=0.9),
    "log_loss": RatingMetric(lambda asked, _: -np.log(np.maximum(asked.truth, LEAST))),
    "accuracy": RatingMetric(lambda asked, _: (asked.ask("predict") == asked.y).astype(np.float64)),
}


def wanted_ratings(metrics: Iterable[str]) -> dict[str, tuple[RatingMetric, float]]:
    """Labels such as "coverage@0.9" to the metric and its number."""
    wanted: dict[str, tuple[RatingMetric, float]] = {}
    for name in [metrics] if isinstance(metrics, str) else metrics:
        key, at, given = name.partition("@")
        one_of("metrics", key, RATING_METRICS)
        metric = RATING_METRICS[key]
        if at and metric.usual is None:
            raise ValueError(f"metrics={name!r}: {key!r} has no number after an @; write {key!r}.")
        try:
            number = float(given) if at else metric.usual or 0.0
        except ValueError:
            number = float("nan")
        if metric.usual is not None and not 0 < number < 1:
            raise ValueError(f"metrics={name!r} needs a number between 0 and 1 after the @, such as '{key}@0.9'.")
        wanted[key if metric.usual is None else f"{key}@{number:g}"] = metric, number
    if not wanted:
        raise ValueError(f"metrics names nothing to compute; choose among {list(RATING_METRICS)}.")
    return wanted
