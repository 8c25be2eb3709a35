"""What an evaluation found: means, bootstrap intervals over users, paired differences, and tables of them.

Knows one value for each user, model and metric. Knows neither models nor how the values came about.
"""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from halfstep.errors import one_of

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean over users with its bootstrap interval; `low` and `high` are None where none is meaningful."""

    mean: float
    low: float | None = None
    high: float | None = None

    def text(self, digits: int = 4) -> str:
        """The mean, and its interval in brackets where there is one."""
        interval = "" if self.low is None else f" [{self.low:.{digits}f}, {self.high:.{digits}f}]"
        return f"{self.mean:.{digits}f}{interval}"

    __str__ = text


@dataclass(frozen=True)
class Measured:
    """One model's values: `per_user` has one for each ranked user, `overall` metrics of one number."""

    per_user: dict[str, Floats]
    overall: dict[str, float]
    fit_seconds: float
    rank_seconds: float


class Comparison:
    """`a - b` for each metric, over the same users: mean difference and its bootstrap interval."""

    def __init__(self, a: str, b: str, differences: dict[str, Estimate], confidence: float) -> None:
        self.a, self.b = a, b
        self.differences = differences
        self.confidence = confidence

    def __getitem__(self, metric: str) -> Estimate:
        one_of("metric", metric, self.differences)
        return self.differences[metric]

    def verdict(self, metric: str) -> str:
        """Whose value is higher: "a" or "b" if the interval leaves 0 out, else "undecided"."""
        low, high = self[metric].low, self[metric].high
        if low is not None and low > 0:
            return "a"
        return "b" if high is not None and high < 0 else "undecided"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "confidence": self.confidence,
            "differences": {metric: asdict(value) for metric, value in self.differences.items()},
        }

    def __str__(self) -> str:
        higher = {"a": f"{self.a} is higher", "b": f"{self.b} is higher", "undecided": "undecided"}
        cells = [["metric", "difference", ""]]
        cells += [[name, str(value), higher[self.verdict(name)]] for name, value in self.differences.items()]
        return f"{self.a} minus {self.b}, {self.confidence:.0%} intervals\n{_text_table(cells)}"

    __repr__ = __str__


class Result:
    """One row for each model. `str(result)` is a text table, `to_dict()` plain data, notebooks show HTML.

    models      dict of name to `Measured`
    protocol    name of the split
    n_users     number of ranked users
    left_out    number of users the protocol could not rank for
    confidence  probability mass of the intervals
    """

    def __init__(
        self,
        models: dict[str, Measured],
        *,
        protocol: str,
        n_users: int,
        left_out: int,
        confidence: float = 0.95,
        n_bootstrap: int = 1000,
        seed: int = 0,
    ) -> None:
        self.models = models
        self.protocol = protocol
        self.n_users = n_users
        self.left_out = left_out
        self.confidence = confidence
        self.n_bootstrap = n_bootstrap
        self._seed = seed
        first = next(iter(models.values()))
        self._averaged = list(first.per_user)
        self.metrics = [*first.per_user, *first.overall]
        self.table = self._estimates()

    def _estimates(self) -> dict[str, dict[str, Estimate]]:
        names = [(model, metric) for model in self.models for metric in self._averaged]
        table: dict[str, dict[str, Estimate]] = {name: {} for name in self.models}
        if names:
            values = np.column_stack([self.models[model].per_user[metric] for model, metric in names])
            for (model, metric), estimate in zip(names, self._bootstrap(values), strict=True):
                table[model][metric] = estimate
        for model, measured in self.models.items():
            table[model].update({metric: Estimate(value) for metric, value in measured.overall.items()})
        return table

    def _bootstrap(self, values: Floats) -> list[Estimate]:
        """Estimates for the columns of `values` (n_users, m): percentiles of the means of resampled users.

        Every column sees the same resamples, and every call does, so differences are paired.
        """
        means = bootstrap_means(values, self.n_bootstrap, self._seed)
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(means, [tail, 1 - tail], axis=0)
        numbers = zip(values.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)
        return [Estimate(*each) for each in numbers]

    def compare(self, a: str, b: str) -> Comparison:
        """Paired bootstrap of `a - b` over users, for every metric that has one value for each user.

        Two intervals of single models may overlap although the difference is clear: both models are judged on
        the same users, and hard users are hard for both. This interval takes that into account.
        """
        one_of("a", a, self.models)
        one_of("b", b, self.models)
        if not self._averaged:
            raise ValueError(
                f"metrics={self.metrics} have no value for each user, so there is nothing to pair; "
                "evaluate with a metric such as 'ndcg'."
            )
        first, second = self.models[a].per_user, self.models[b].per_user
        values = np.column_stack([first[metric] - second[metric] for metric in self._averaged])
        differences = dict(zip(self._averaged, self._bootstrap(values), strict=True))
        return Comparison(a, b, differences, self.confidence)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        models = {
            name: {
                "metrics": {metric: asdict(self.table[name][metric]) for metric in self.metrics},
                "fit_seconds": measured.fit_seconds,
                "rank_seconds": measured.rank_seconds,
            }
            for name, measured in self.models.items()
        }
        return {
            "protocol": self.protocol,
            "n_users": self.n_users,
            "left_out": self.left_out,
            "confidence": self.confidence,
            "n_bootstrap": self.n_bootstrap,
            "models": models,
        }

    def _cells(self) -> list[list[str]]:
        rows = [["model", *self.metrics, "fit s", "rank s"]]
        for name, measured in self.models.items():
            estimates = [str(self.table[name][metric]) for metric in self.metrics]
            rows.append([name, *estimates, f"{measured.fit_seconds:.2f}", f"{measured.rank_seconds:.2f}"])
        return rows

    def records(self, digits: int = 4) -> list[dict[str, Any]]:
        """A row for each model: its name, its metrics with their intervals, and the seconds of its fit."""
        return [
            {"model": name, **{metric: self.table[name][metric].text(digits) for metric in self.metrics}}
            | {"fit s": round(measured.fit_seconds, 3)}
            for name, measured in self.models.items()
        ]

    @property
    def caption(self) -> str:
        """What the numbers are: the protocol, how many were judged, what stands in brackets."""
        judged = f"{self.n_users:,} users ranked, {self.left_out:,} left out"
        return f"{self.protocol}: {judged}; mean [{self.confidence:.0%} interval over users]"

    def __str__(self) -> str:
        return f"{self.caption}\n{_text_table(self._cells())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def line(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        head, *body = self._cells()
        rows = "".join(line(cells, "td") for cells in body)
        caption = f"<caption>{html.escape(self.caption)}</caption>"
        return f"<table>{caption}<thead>{line(head, 'th')}</thead><tbody>{rows}</tbody></table>"


def bootstrap_means(values: Floats, n_bootstrap: int, seed: int) -> Floats:
    """(n_bootstrap, m) means of the columns of `values` (n, m), each over n rows drawn with replacement."""
    random = np.random.default_rng(seed)
    n = len(values)
    means = np.empty((n_bootstrap, values.shape[1]))
    for replicate in range(n_bootstrap):  # one resample at a time: n_bootstrap x n would not fit for many users
        times_drawn = np.bincount(random.integers(n, size=n), minlength=n)
        means[replicate] = times_drawn @ values / n
    return means


def _text_table(rows: list[list[str]]) -> str:
    """Aligned columns, the first to the left and the others to the right, with a rule below the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
