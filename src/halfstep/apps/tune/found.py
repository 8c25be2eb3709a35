"""What a search over recommenders found: the fitted winner, the best of each kind on unseen cells, all trials.

Prints itself, and writes a page. Computes nothing.
"""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfstep.data.files import atomic_write
from halfstep.figures.tables import frame_of, html_table, text_table


@dataclass(frozen=True)
class RecommenderTuning:
    """The fitted winner and what was tried.

    model : the winner, fitted to all data. winner : its kind. models : the best of each kind, unfitted.
    validation : the metric on the cells that chose parameters, weights and winner; a little too good.
    test : the same on cells that chose nothing. trials : one dict for each fit, in order.
    """

    metric: str
    trials: list[dict[str, Any]]
    validation: dict[str, float]
    winner: str
    models: dict[str, Any]
    test: dict[str, float]
    model: Any
    seconds: float

    def kinds(self) -> list[dict[str, Any]]:
        """A row for each kind of recommender, best on the test cells first."""
        tried = {name: sum(t["model"] == name for t in self.trials) for name in self.models}
        rows = [
            {"model": name, "test": value, "validation": self.validation[name], "trials": tried[name] or ""}
            for name, value in self.test.items()
        ]
        return sorted(rows, key=lambda row: -row["test"])

    def ranked(self, n: int = 10) -> list[dict[str, Any]]:
        """The best `n` trials."""
        return sorted(self.trials, key=lambda t: -t["value"])[:n]

    def to_frame(self) -> Any:
        """A pandas frame with a row for each trial, in order: model, value, seconds, and its parameters as columns."""
        return frame_of([{k: v for k, v in t.items() if k != "params"} | t["params"] for t in self.trials])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        return {
            "metric": self.metric,
            "winner": self.winner,
            "kinds": self.kinds(),
            "seconds": self.seconds,
            "trials": [t | {"params": {k: str(v) for k, v in t["params"].items()}} for t in self.trials],
        }

    def __str__(self) -> str:
        lines = [f"{self.metric}: {len(self.trials)} trials in {self.seconds:.0f} s; the winner is {self.winner}"]
        return "\n".join([*lines, text_table(self.kinds())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        kinds = html_table(self.kinds())
        tried = [t | {"params": ", ".join(f"{k}={v}" for k, v in t["params"].items())} for t in self.ranked(50)]
        columns = ("model", "value", "seconds", "sweeps", "params")
        trials = html_table([{name: t.get(name, "") for name in columns} for t in tried], most=50)
        about = f"{self.metric}; {len(self.trials)} trials in {self.seconds:.0f} s; the winner is {self.winner}."
        return (
            f"<p>{html.escape(about)} Parameters, weights and winner were chosen on validation cells; test cells "
            f"chose nothing.</p><h2>The best of each kind</h2>{kinds}<h2>What was tried</h2>{trials}"
        )

    def page(self, path: str | os.PathLike[str] = "tuning.html") -> Path:
        """Write what was tried as one HTML page."""
        style = "body{font:16px sans-serif;margin:2em;max-width:60em}td,th{padding:.2em .8em;text-align:left}"
        with atomic_write(path) as temporary:
            temporary.write_text(
                f"<!doctype html><html lang=en><meta charset=utf-8><title>Tuning</title><style>{style}</style>"
                f"<h1>Tuning</h1>{self._repr_html_()}</html>",
                encoding="utf-8",
            )
        return Path(path)
