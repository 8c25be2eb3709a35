"""Search for what predicts ratings best. Knows which parameters of PLQMF and BayesMF are worth searching.

Penalties are searched as multiples of what the model learns from the ratings it is fitted to, so that a setting means
the same for a part of the data and for all of it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.base import clone, is_classifier

from halfstep.apps.tune.space import suggest, within
from halfstep.core import losses
from halfstep.data.datasets.ratings import Ratings
from halfstep.errors import one_of
from halfstep.judge import RATING_PROTOCOLS, RatingSplit, Result, evaluate
from halfstep.judge.rating_metrics import wanted_ratings
from halfstep.judge.ratings import RatingJudge

FOLDS = 3
"""Splits that a trial is judged on; one where time decides them."""
SIGNS = {"rmse": -1, "mae": -1, "pinball": -1, "log_loss": -1, "accuracy": 1}


class Recipe(Protocol):
    """How a kind of model is searched. space : where; a pair is a range, a list a choice."""

    space: ClassVar[dict[str, Any]]

    def check(self, model: Any) -> None:
        """Refuse a model whose parameters leave nothing to search."""

    def start(self, model: Any, train: Ratings) -> dict[str, Any]:
        """What the untouched model amounts to, in terms of the space."""

    def make(self, model: Any, params: dict[str, Any], train: Ratings) -> Any:
        """An unfitted model with these parameters, for these ratings."""


class PlqRecipe:
    """Rank, and penalties of factors and of biases as multiples of the learned ones."""

    space: ClassVar[dict[str, Any]] = {"rank": (2, 64), "reg_times": (0.2, 5.0), "reg_bias_times": (0.2, 5.0)}

    def check(self, model: Any) -> None:
        fixed = [name for name in ("C", "rho", "reg_user", "reg_item", "reg_bias") if getattr(model, name) is not None]
        if fixed:
            raise ValueError(f"model={model!r} fixes {', '.join(fixed)}, which the search is about; leave it out.")

    def start(self, model: Any, train: Ratings) -> dict[str, Any]:
        sketch = clone(model).set_params(max_iter=1).fit(train.pairs, train.y)
        return {"rank": sketch.user_factors_.shape[1], "reg_times": 1.0, "reg_bias_times": 1.0}

    def make(self, model: Any, params: dict[str, Any], train: Ratings) -> Any:
        learned = clone(model).set_params(rank=1, max_iter=1).fit(train.pairs, train.y).penalty_
        factors, biases = params["reg_times"], params["reg_bias_times"]
        return clone(model).set_params(
            rank=params["rank"],
            reg_user=factors * learned.user,
            reg_item=factors * learned.item,
            reg_bias=(biases * learned.user_bias, biases * learned.item_bias),
        )


class BayesRecipe:
    """Rank and, for numbers, whether outliers are expected; everything else is drawn."""

    space: ClassVar[dict[str, Any]] = {"rank": (2, 32), "likelihood": ["gaussian", "student"]}

    def check(self, model: Any) -> None:
        """Nothing is fixed: penalties are drawn."""

    def start(self, model: Any, train: Ratings) -> dict[str, Any]:
        sketch = clone(model).set_params(n_sweeps=4, keep=1, verbose=0)
        return {"rank": sketch.fit(train.pairs, train.y).fitted_.columns.rank, "likelihood": model.likelihood}

    def make(self, model: Any, params: dict[str, Any], train: Ratings) -> Any:
        return clone(model).set_params(**params)


RECIPES: dict[str, Recipe] = {"PLQMF": PlqRecipe(), "BayesMF": BayesRecipe()}


class RatingSubject:
    """Predictions of ratings. See `Subject`."""

    warmup = 0

    def __init__(
        self,
        data: Ratings,
        model: Any,
        metric: str | None,
        space: Mapping[str, Any] | None,
        protocol: str | None,
        options: Mapping[str, Any],
        n_threads: int | None,
        seed: int,
        optuna: Any,
    ) -> None:
        from halfstep.models.plqmf import PLQMF

        model = PLQMF() if model is None else model
        kind = type(model).__name__
        one_of("model", kind, RECIPES, "cannot be tuned on ratings; it must be one of")
        self.recipe, self.data, self.optuna = RECIPES[kind], data, optuna
        self.recipe.check(model)
        self.base = clone(model).set_params(n_threads=n_threads, random_state=seed)
        self.kind = kind
        self.metric = _checked(metric or _usual_metric(model))
        self.sign = SIGNS[self.metric.partition("@")[0]]
        protocol = "random" if protocol is None else protocol
        one_of("protocol", protocol, RATING_PROTOCOLS, "is not a protocol of ratings; it must be one of")
        split = RATING_PROTOCOLS[protocol]
        self.outer = split(data, **options, seed=seed)
        folds = 1 if protocol == "by_time" else FOLDS
        self.inner = [split(self.outer.train, **options, seed=seed + 1 + fold) for fold in range(folds)]
        self.space = self._space(space or {})
        self.names = tuple(self.space)
        self.first = [within(self.space, self.recipe.start(self.base, self.outer.train))]
        choices = (kind, {k: v for k, v in model.get_params(deep=False).items() if k != "callbacks"})
        self.fingerprint = f"{_digest(data)} {choices} {self.metric} {protocol} {dict(options)} {seed}"

    def _space(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        space = dict(self.recipe.space)
        for name in changes:
            one_of("space", name, space)
        most = max(1, min(self.outer.train.shape) - 1)
        low, high = space["rank"]
        space["rank"] = (min(low, most), min(high, most))
        if "likelihood" in space and self.base.likelihood not in space["likelihood"]:
            space["likelihood"] = self.base.likelihood
        return space | dict(changes)

    def __call__(self, trial: Any) -> float:
        """Fit and judge on one split after the other; given up where it is worse than the median of earlier trials."""
        params = {name: suggest(trial, name, spec) for name, spec in self.space.items()}
        seconds, values = 0.0, []
        for fold, split in enumerate(self.inner):
            begun = time.perf_counter()
            model = self.recipe.make(self.base, params, split.train)
            values.append(self._value(model, split))
            seconds += time.perf_counter() - begun
            trial.set_user_attr("seconds", seconds)
            trial.report(float(np.mean(values)), fold)
            if fold + 1 < len(self.inner) and trial.should_prune():
                raise self.optuna.TrialPruned
        return float(np.mean(values))

    def _value(self, model: Any, split: RatingSplit) -> float:
        judge = RatingJudge(split, None, {}, [self.metric], None, 1, 0)
        judge.prepare({self.kind: model})
        measured = {self.kind: judge.measure(self.kind, model, split)}
        judge.check(measured)
        return measured[self.kind].value(self.metric)

    def params(self, trial: dict[str, Any]) -> dict[str, Any]:
        return {name: trial[name] for name in self.names}

    def model(self, params: dict[str, Any]) -> Any:
        return self.recipe.make(self.base, params, self.data)

    def test(self, params: dict[str, Any]) -> Result:
        models = {
            f"{self.kind} default": self.base,
            f"{self.kind} tuned": self.recipe.make(self.base, params, self.outer.train),
        }
        return evaluate(models, self.outer, metrics=[self.metric], random_state=0)


def _usual_metric(model: Any) -> str:
    """The metric that goes with the loss of a model."""
    if is_classifier(model):
        return "log_loss" if hasattr(model, "predict_proba") else "accuracy"
    loss = losses.get(getattr(model, "loss", "squared"))
    if isinstance(loss, losses.Quantile):
        return f"pinball@{loss.q:g}"
    return "mae" if isinstance(loss, losses.Absolute | losses.Huber) else "rmse"


def _checked(metric: str) -> str:
    label = next(iter(wanted_ratings([metric])))
    one_of("metric", label.partition("@")[0], SIGNS, "says nothing about errors alone; tune one of")
    return label


def _digest(data: Ratings) -> str:
    crc = 0
    for values in (data.pairs, data.y):
        known = values if values.dtype.kind != "O" else values.astype(str)
        crc = zlib.crc32(np.ascontiguousarray(known).tobytes(), crc)
    return f"{crc:08x} {len(data)}"
