"""What an evaluation found: means, bootstrap intervals over users, paired differences, and tables of them.

Knows the sums of each user, model and metric. Knows neither models nor how they came about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from halfstep.errors import one_of
from halfstep.figures.tables import frame_of, html_table, text_table

Floats = npt.NDArray[np.float64]
Finish = Callable[[Floats], Floats]


def as_it_is(values: Floats) -> Floats:
    return values


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
class Sums:
    """A metric by user: `finish(sum of total / sum of count)` over users; both (n_users,)."""

    total: Floats
    count: Floats
    finish: Finish = as_it_is

    @classmethod
    def of(cls, values: Floats | Sums) -> Sums:
        """One value for each user is a sum of one."""
        return values if isinstance(values, Sums) else cls(values, np.ones(len(values)))

    @property
    def value(self) -> float:
        return float(self.finish(np.asarray(self.total.sum() / self.count.sum())))


@dataclass(frozen=True)
class Measured:
    """One model's values: `per_user` has one, or sums, for each judged user, `overall` metrics of one number.

    users : which users they are, needed to put several splits together. splits : `per_user` metrics of each split.
    """

    per_user: dict[str, Floats | Sums]
    overall: dict[str, float]
    fit_seconds: float
    rank_seconds: float
    users: npt.NDArray[Any] | None = None
    splits: tuple[dict[str, float], ...] = ()

    def value(self, metric: str) -> float:
        """One metric over all users."""
        return Sums.of(self.per_user[metric]).value

    @classmethod
    def together(cls, parts: Sequence[Measured]) -> Measured:
        """Several splits as one: sums of the same user are added, metrics of one number and seconds averaged."""
        of_each = tuple({name: part.value(name) for name in part.per_user} for part in parts)
        first = parts[0]
        if len(parts) == 1:
            return cls(first.per_user, first.overall, first.fit_seconds, first.rank_seconds, first.users, of_each)
        users, places = np.unique(np.concatenate([part.users for part in parts]), return_inverse=True)

        def added(name: str) -> Sums:
            all_of = [Sums.of(part.per_user[name]) for part in parts]
            total, count = np.zeros(len(users)), np.zeros(len(users))
            np.add.at(total, places, np.concatenate([each.total for each in all_of]))
            np.add.at(count, places, np.concatenate([each.count for each in all_of]))
            return Sums(total, count, all_of[0].finish)

        def mean(values: list[float]) -> float:
            return float(np.mean(values))

        return cls(
            {name: added(name) for name in first.per_user},
            {name: mean([part.overall[name] for part in parts]) for name in first.overall},
            mean([part.fit_seconds for part in parts]),
            mean([part.rank_seconds for part in parts]),
            users,
            of_each,
        )


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

    def to_frame(self) -> Any:
        """A pandas frame with a row for each metric: metric, mean, low, high, verdict."""
        found = self.differences.items()
        return frame_of([{"metric": name, **asdict(value), "verdict": self.verdict(name)} for name, value in found])

    @property
    def caption(self) -> str:
        """What the numbers are."""
        return f"{self.a} minus {self.b}, {self.confidence:.0%} intervals"

    def records(self) -> list[dict[str, str]]:
        """A row for each metric, with the verdict."""
        higher = {"a": f"{self.a} is higher", "b": f"{self.b} is higher", "undecided": "undecided"}
        found = self.differences.items()
        return [{"metric": name, "difference": str(value), "": higher[self.verdict(name)]} for name, value in found]

    def __str__(self) -> str:
        return f"{self.caption}\n{text_table(self.records())}"

    def _repr_html_(self) -> str:
        return html_table(self.records(), self.caption)

    __repr__ = __str__


class Result:
    """One row for each model. `str(result)` is a text table, `to_dict()` plain data, notebooks show HTML.

    models      dict of name to `Measured`
    protocol    name of the split
    n_users     number of judged users
    left_out    number of users the protocol could not judge
    confidence  probability mass of the intervals
    answering   what models did: "rank" or "predict"
    judged      what was judged, in words; None counts users
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
        answering: str = "rank",
        judged: str | None = None,
    ) -> None:
        self.models = models
        self.protocol = protocol
        self.n_users = n_users
        self.left_out = left_out
        self.confidence = confidence
        self.n_bootstrap = n_bootstrap
        self.answering = answering
        self.judged = f"{n_users:,} users ranked, {left_out:,} left out" if judged is None else judged
        self._seed = seed
        self._sums = {
            name: {metric: Sums.of(values) for metric, values in measured.per_user.items()}
            for name, measured in models.items()
        }
        self._averaged = list(dict.fromkeys(metric for sums in self._sums.values() for metric in sums))
        self.metrics = list(dict.fromkeys([*self._averaged, *(m for each in models.values() for m in each.overall)]))
        self.table = self._estimates()

    def _estimates(self) -> dict[str, dict[str, Estimate]]:
        names = [(model, metric) for model, sums in self._sums.items() for metric in sums]
        table: dict[str, dict[str, Estimate]] = {name: {} for name in self.models}
        if names:
            values, drawn = self._bootstrap([self._sums[model][metric] for model, metric in names])
            for (model, metric), estimate in zip(names, self._summary(values, drawn), strict=True):
                table[model][metric] = estimate
        for model, measured in self.models.items():
            table[model].update({metric: Estimate(value) for metric, value in measured.overall.items()})
        return table

    def _bootstrap(self, sums: list[Sums]) -> tuple[Floats, Floats]:
        """(m,) metrics, and (n_bootstrap, m) the same over resampled users.

        Every column sees the same resamples, and every call does, so differences are paired.
        """
        m = len(sums)
        columns = np.column_stack([*(each.total for each in sums), *(each.count for each in sums)])
        means = bootstrap_means(columns, self.n_bootstrap, self._seed)
        drawn = [each.finish(means[:, k] / means[:, m + k]) for k, each in enumerate(sums)]
        return np.array([each.value for each in sums]), np.column_stack(drawn)

    def _summary(self, values: Floats, drawn: Floats) -> list[Estimate]:
        """Values with the percentiles of their resamples."""
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
        return [Estimate(*each) for each in zip(values.tolist(), low.tolist(), high.tolist(), strict=True)]

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
        both = [metric for metric in self._averaged if metric in self._sums[a] and metric in self._sums[b]]
        values, drawn = self._bootstrap([self._sums[model][metric] for model in (a, b) for metric in both])
        m = len(both)
        estimates = self._summary(values[:m] - values[m:], drawn[:, :m] - drawn[:, m:])
        return Comparison(a, b, dict(zip(both, estimates, strict=True)), self.confidence)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        models = {
            name: {
                "metrics": {metric: asdict(value) for metric, value in self.table[name].items()},
                "splits": list(measured.splits),
                "fit_seconds": measured.fit_seconds,
                f"{self.answering}_seconds": measured.rank_seconds,
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

    def to_frame(self) -> Any:
        """A pandas frame with a row for each model and metric: model, metric, mean, low, high (NaN where there is no
        interval)."""
        return frame_of(
            [
                {"model": name, "metric": metric, **asdict(value)}
                for name, found in self.table.items()
                for metric, value in found.items()
            ]
        )

    def _rows(self) -> list[dict[str, str]]:
        times = {"fit s": "fit_seconds", f"{self.answering} s": "rank_seconds"}
        return [
            {"model": name}
            | {metric: self._text(name, metric) for metric in self.metrics}
            | {head: f"{getattr(measured, seconds):.2f}" for head, seconds in times.items()}
            for name, measured in self.models.items()
        ]

    def records(self, digits: int = 4) -> list[dict[str, Any]]:
        """A row for each model: its name, its metrics with their intervals, and the seconds of its fit."""
        return [
            {"model": name, **{metric: self._text(name, metric, digits) for metric in self.metrics}}
            | {"fit s": round(measured.fit_seconds, 3)}
            for name, measured in self.models.items()
        ]

    @property
    def caption(self) -> str:
        """What the numbers are: the protocol, how many were judged, what stands in brackets."""
        return f"{self.protocol}: {self.judged}; mean [{self.confidence:.0%} interval over users]"

    def _text(self, model: str, metric: str, digits: int = 4) -> str:
        """An estimate in words, or a dash where the model does not answer what the metric asks."""
        return self.table[model][metric].text(digits) if metric in self.table[model] else "-"

    def __str__(self) -> str:
        return f"{self.caption}\n{text_table(self._rows())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self._rows(), self.caption)


def bootstrap_means(values: Floats, n_bootstrap: int, seed: int) -> Floats:
    """(n_bootstrap, m) means of the columns of `values` (n, m), each over n rows drawn with replacement."""
    random = np.random.default_rng(seed)
    n = len(values)
    means = np.empty((n_bootstrap, values.shape[1]))
    for replicate in range(n_bootstrap):  # one resample at a time: n_bootstrap x n would not fit for many users
        times_drawn = np.bincount(random.integers(n, size=n), minlength=n)
        means[replicate] = times_drawn @ values / n
    return means
