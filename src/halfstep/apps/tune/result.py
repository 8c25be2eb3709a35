"""What a search found: trials, the best of them, the front of quality and time, the winner on unseen cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from halfstep.apps.tune.subject import Subject
from halfstep.errors import require
from halfstep.figures.tables import frame_of, html_table, text_table
from halfstep.judge import Result


@dataclass(repr=False)
class Tuning:
    """What a search found.

    metric : what was searched for.
    trials : one dict for each finished or pruned trial: number, state, value, seconds, sweeps and the parameters.
        `value` is the metric on the validation cells, for rankings at the best of the judged sweeps; `seconds` the
        time until then.
    study : the Optuna study itself. subject : what was tuned.
    """

    metric: str
    trials: list[dict[str, Any]]
    study: Any
    interrupted: bool
    subject: Subject

    @property
    def finished(self) -> list[dict[str, Any]]:
        """The trials that were not pruned, best first."""
        whole = (trial for trial in self.trials if trial["state"] == "complete")
        return sorted(whole, key=lambda trial: -self.subject.sign * float(trial["value"]))

    @property
    def best_params(self) -> dict[str, Any]:
        """Parameters of the best trial; `weights` is the `weighting` of WALS, `reg_times` a multiple of the learned."""
        return self.subject.params(self.finished[0])

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
        sign = self.subject.sign
        for trial in sorted(self.finished, key=lambda t: (t["seconds"], -sign * t["value"])):
            if not chosen or sign * trial["value"] > sign * chosen[-1]["value"]:
                chosen.append(trial)
        return [_row(t) for t in chosen]

    def importance(self) -> dict[str, float]:
        """Share of the variation of the metric that each parameter explains (fANOVA), largest first."""
        if len({t["value"] for t in self.finished}) < 2:
            return {}
        found = require("optuna", "tune").importance.get_param_importances(self.study)
        return {str(name): float(share) for name, share in found.items()}

    def best_model(self) -> Any:
        """An unfitted model with the best parameters."""
        return self.subject.model(self.best_params)

    def weighted(self, data: Any) -> Any:
        """The data as they are: `best_model` weighs them itself. For code from before it did."""
        return data

    @cached_property
    def test(self) -> Result:
        """The best setting, the default and the baselines on cells that no trial has seen."""
        return self.subject.test(self.best_params)

    @property
    def caption(self) -> str:
        """What was found, in a line."""
        best = ", ".join(f"{name}={value}" for name, value in self.best_params.items())
        return f"best {self.metric} of {len(self.trials)} trials: {self.best_value:.4f} with {best}"

    def __str__(self) -> str:
        return f"{self.caption}\n{text_table(self.ranked())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.ranked(), self.caption)

    def to_frame(self) -> Any:
        """A pandas frame with a row for each trial, in order, parameters as columns."""
        return frame_of(self.trials)

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
