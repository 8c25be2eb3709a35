"""Ratings judged: predictions of held-out pairs, with the constant and the biases beside them.

Knows predictors by their contract, splits of ratings and their metrics. Must not know any estimator but the baselines.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import clone, is_classifier

from halfstep.core import losses
from halfstep.core.initial import seed_from
from halfstep.data.datasets.ratings import Ratings
from halfstep.data.ids import encode
from halfstep.errors import one_of
from halfstep.judge.rating_metrics import AskedPairs, NotAnswered, wanted_ratings
from halfstep.judge.rating_splits import RATING_PROTOCOLS, RatingSplit
from halfstep.judge.result import Measured, Sums
from halfstep.models.rating_baselines import Biases, Constant

NUMBERS, CLASSES = ("rmse", "mae"), ("log_loss", "accuracy")


@runtime_checkable
class Predictor(Protocol):
    """What a model of ratings must offer. `predict_interval` and `predict_proba` are asked for where it has them."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from pairs (N, 2) and what they are worth (N,)."""

    def predict(self, X: Any) -> Any:
        """(N,) what pairs are worth; pairs of unseen users and items too."""


class RatingJudge:
    """AskedPairs of held-out ratings. See `judge.run.Judge`."""

    contract, offers = Predictor, "fit(pairs, y) and predict(pairs)"
    answering = "predict"

    def __init__(
        self,
        data: Ratings | RatingSplit,
        protocol: str | None,
        options: Mapping[str, Any],
        metrics: Iterable[str] | None,
        k: Any,
        n_splits: int,
        random_state: Any,
    ) -> None:
        if k is not None:
            raise ValueError(f"k={k!r} is the depth of a ranking; ratings have none. Leave it out.")
        self._asked = metrics
        self.splits = _splits(data, protocol, options, n_splits, random_state)
        whole = self.splits[0]
        self._users = encode(np.concatenate([whole.train.pairs[:, 0], whole.test.pairs[:, 0]]), "user")[0]

    def baselines(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """A constant and biases for every loss among the models, so that each meets its own."""
        wanted = list(dict.fromkeys(_loss_of(model) for model in models.values())) or [losses.get("squared")]
        named = {f"{kind.__name__}, {_said(loss)}": kind(loss) for kind in (Constant, Biases) for loss in wanted}
        plain = {kind.__name__: kind(wanted[0]) for kind in (Constant, Biases)}
        return plain if len(wanted) == 1 else named

    def prepare(self, models: Mapping[str, Any]) -> None:
        """Metrics are of classes where the models are."""
        usual = CLASSES if any(is_classifier(model) for model in models.values()) else NUMBERS
        self._wanted = wanted_ratings(usual if self._asked is None else self._asked)

    def measure(self, name: str, model: Any, split: RatingSplit) -> Measured:
        """Fit a clone, predict once, compute every metric that it answers."""
        started = time.perf_counter()
        fitted = clone(model, safe=False).fit(split.train.pairs, split.train.y)
        fit_done = time.perf_counter()
        asked = AskedPairs(fitted, split.test.pairs, split.test.y)
        _check_predictions(name, asked)
        done = time.perf_counter()
        users, places = np.unique(self._users.positions(split.test.pairs[:, 0]), return_inverse=True)
        count = np.bincount(places).astype(np.float64)
        found: dict[str, Any] = {}
        for label, (metric, number) in self._wanted.items():
            try:
                total = np.bincount(places, metric.of(asked, number)).astype(np.float64)
                found[label] = Sums(total, count, metric.finish)
            except NotAnswered:
                continue
        return Measured(found, {}, fit_done - started, done - fit_done, users)

    def check(self, measured: Mapping[str, Measured]) -> None:
        """A metric that nobody answers is a mistake."""
        for label in self._wanted:
            if not any(label in each.per_user for each in measured.values()):
                lacks = {"log_loss": "predict_proba", "coverage": "predict_interval", "width": "predict_interval"}
                needs = lacks.get(label.partition("@")[0], "numbers to predict")
                raise ValueError(f"metrics={label!r} needs {needs}, which none of {list(measured)} has.")

    def facts(self, measured: Measured) -> dict[str, Any]:
        """What the result says of the data."""
        tested, cold = sum(len(split.test) for split in self.splits), sum(split.cold for split in self.splits)
        users = 0 if measured.users is None else len(measured.users)
        times = "" if len(self.splits) == 1 else f" in {len(self.splits)} splits"
        judged = f"{tested:,} ratings of {users:,} users predicted{times}, {cold:,} with an unseen user or item"
        return {"protocol": self.splits[0].protocol, "n_users": users, "left_out": 0, "judged": judged}


def _splits(
    data: Ratings | RatingSplit, protocol: str | None, options: Mapping[str, Any], n_splits: int, random_state: Any
) -> list[RatingSplit]:
    if isinstance(data, RatingSplit):
        if protocol is not None or options or n_splits > 1:
            raise ValueError(
                f"protocol={protocol!r} with protocol_options={dict(options)} and n_splits={n_splits} cannot apply: "
                "data is a RatingSplit already. Leave them out."
            )
        return [data]
    protocol = "random" if protocol is None else protocol
    one_of("protocol", protocol, RATING_PROTOCOLS, "is not a protocol of ratings; it must be one of")
    if protocol == "by_time" and n_splits > 1:
        raise ValueError(f"n_splits={n_splits}, but there is one past and one future; protocol='by_time' takes 1.")
    seed = seed_from(random_state)
    return [RATING_PROTOCOLS[protocol](data, **options, seed=seed + number) for number in range(n_splits)]


def _loss_of(model: Any) -> losses.Loss:
    """What a model minimises: its own loss, or squared errors; log odds for all that have two classes."""
    if is_classifier(model):
        return losses.get("logistic")
    loss = losses.get(getattr(model, "loss", "squared"))
    return losses.get("squared") if loss.has_quantiles else loss  # of ordered levels the mean is predicted


def _said(loss: losses.Loss) -> str:
    values = [f"{value:g}" for key, value in loss.to_dict().items() if isinstance(value, float)]
    return ":".join([loss.name, *values])


def _check_predictions(name: str, asked: AskedPairs) -> None:
    predicted = asked.ask("predict")
    if predicted.shape != asked.y.shape:
        raise ValueError(f"model {name!r}: predict returned shape {predicted.shape}; expected {asked.y.shape}.")
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        raise ValueError(f"model {name!r}: predict returned {int((~np.isfinite(predicted)).sum())} NaN or infinity.")
