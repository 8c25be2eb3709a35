"""What a search found: trials, the best of them, the front of quality and time, the winner on unseen cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from halfstep.apps.tune.space import SPACE
from halfstep.errors import require
from halfstep.judge import Result, Split, evaluate
from halfstep.models.wals import WALS


@dataclass
class Tuning:
    """What a search found.

    metric : what was maximised.
    trials : one dict for each finished or pruned trial: number, state, value, seconds, sweeps and the parameters.
        `value` is the metric on the validation cells at the best of the judged sweeps, `seconds` the fitting time
        until then.
    study : the Optuna study itself.
    """

    metric: str
    trials: list[dict[str, Any]]
    study: Any
    interrupted: bool
    _outer: Split
    _n_threads: int | None
    _seed: int

    @property
    def finished(self) -> list[dict[str, Any]]:
        """The trials that were not pruned, best first."""
        return sorted((t for t in self.trials if t["state"] == "complete"), key=lambda t: -t["value"])

    @property
    def best_params(self) -> dict[str, Any]:
        """Parameters of the best trial; `weights` is the `weighting` of WALS."""
        best = self.finished[0]
        return {name: best[name] for name in SPACE} | {"max_iter": best["sweeps"]}

    @property
    def best_value(self) -> float:
        """The metric of the best trial on the validation cells. A little too good: it was chosen for it."""
        return float(self.finished[0]["value"])

    def ranked(self, n: int = 10) -> list[dict[str, Any]]:
        """The best `n` trials as rows of a table."""
        return [_row(t) for t in self.finished[:n]]

    def front(self) -> list[dict[str, Any]]:
        """The trials that no other beats in both quality and time, quickest first."""
        chosen: list[dict[str, Any]] = []
        for trial in sorted(self.finished, key=lambda t: (t["seconds"], -t["value"])):
            if not chosen or trial["value"] > chosen[-1]["value"]:
                chosen.append(trial)
        return [_row(t) for t in chosen]

    def importance(self) -> dict[str, float]:
        """Share of the variation of the metric that each parameter explains (fANOVA), largest first."""
        if len({t["value"] for t in self.finished}) < 2:
            return {}
        found = require("optuna", "tune").importance.get_param_importances(self.study)
        return {str(name): float(share) for name, share in found.items()}

    def best_model(self) -> WALS:
        """An unfitted WALS with the best parameters."""
        params = self.best_params
        params["weighting"] = params.pop("weights")
        return WALS(**params, tol=0.0, n_threads=self._n_threads, random_state=self._seed)

    def weighted(self, data: Any) -> Any:
        """The data as they are: `best_model` weighs them itself. For code from before it did."""
        return data

    @cached_property
    def test(self) -> Result:
        """The best setting, the default WALS and the baselines on cells that no trial has seen."""
        models = {
            "WALS default": WALS(n_threads=self._n_threads, random_state=self._seed),
            "WALS tuned": self.best_model(),
        }
        return evaluate(models, self._outer, metrics=[self.metric], random_state=self._seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        return {
            "metric": self.metric,
            "best": self.best_params,
            "validation": self.best_value,
            "front": self.front(),
            "importance": self.importance(),
            "trials": self.trials,
            "test": self.test.to_dict(),
        }


def _row(trial: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in trial.items() if name != "state"}
