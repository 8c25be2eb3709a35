"""Search for the parameters of WALS that rank best. Knows the estimator, splits and ranking metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import scipy.sparse as sp

from halfstep.apps.tune.recommenders import rule_for
from halfstep.apps.tune.space import SPACE, space_for, within
from halfstep.apps.tune.trials import FITTED, Objective, fingerprint
from halfstep.data.table import read_table
from halfstep.errors import one_of
from halfstep.judge import PROTOCOLS, Result, evaluate
from halfstep.models.wals import WALS

QUALITY = ("ndcg", "graded_ndcg", "map", "mrr", "precision", "recall", "truncated_recall", "hit_rate")


class WalsSubject:
    """Rankings of held-out cells by WALS. See `Subject`."""

    sign = 1
    names = tuple(SPACE)
    warmup = 1

    def __init__(
        self,
        data: Any,
        model: Any,
        metric: str | None,
        space: Mapping[str, Any] | None,
        max_iter: int,
        protocol: str | None,
        options: Mapping[str, Any],
        n_threads: int | None,
        seed: int,
        optuna: Any,
    ) -> None:
        if model is not None and not isinstance(model, WALS):
            raise TypeError(f"model is a {type(model).__name__}; rankings are tuned with WALS. Leave it out.")
        self.metric = "ndcg@10" if metric is None else metric
        depth = _checked_metric(self.metric)
        protocol = "strong_generalisation" if protocol is None else protocol
        one_of("protocol", protocol, ("strong_generalisation", "leave_k_out"))
        matrix = sp.csr_array(getattr(data, "matrix", data))
        where = space_for(space, matrix, rule_for(read_table(matrix).cells).rank)
        self.outer = PROTOCOLS[protocol](matrix, **options, random_state=seed)
        inner = PROTOCOLS[protocol](self.outer.train, **options, random_state=seed + 1)
        self.objective = Objective(inner, self.metric, depth, where, max_iter, n_threads, seed, optuna)
        self.first = [within(where, _untouched(self.objective.cells.cells))]
        self.settings: dict[str, Any] = {"n_threads": n_threads, "random_state": seed}
        self.fingerprint = fingerprint(matrix, self.metric, protocol, dict(options), seed, FITTED)

    def __call__(self, trial: Any) -> float:
        return self.objective(trial)

    def params(self, trial: dict[str, Any]) -> dict[str, Any]:
        """`weights` is the `weighting` of WALS."""
        return {name: trial[name] for name in SPACE} | {"max_iter": trial["sweeps"]}

    def model(self, params: dict[str, Any]) -> WALS:
        known = dict(params)
        return WALS(weighting=known.pop("weights"), **known, **FITTED, **self.settings)

    def test(self, params: dict[str, Any]) -> Result:
        models = {"WALS default": WALS(**self.settings), "WALS tuned": self.model(params)}
        return evaluate(models, self.outer, metrics=[self.metric], random_state=self.settings["random_state"])


def _untouched(cells: Any) -> dict[str, Any]:
    """What `WALS()` is in terms of the space."""
    rule = rule_for(cells)
    return {
        "rank": rule.rank,
        "background": rule.background,
        "reg": rule.reg,
        "reg_scaling": rule.reg_scaling,
        "weights": "given",
    }


def _checked_metric(metric: str) -> int:
    """The depth of a ranking metric, 10 where none is given."""
    key, at, depth = metric.partition("@")
    if key not in QUALITY:
        raise ValueError(
            f"metric={metric!r} does not measure ranking quality; choose one of {list(QUALITY)}, such as 'ndcg@10'. "
            "RMSE over observed cells rewards predicting 1 everywhere; for ratings give `Ratings`."
        )
    if at and not (depth.isdecimal() and int(depth) > 0):
        raise ValueError(f"metric={metric!r} needs a whole number after the @, such as '{key}@10'.")
    return int(depth) if at else 10
