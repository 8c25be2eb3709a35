"""Is a fused answer any good: labels hidden by fold, or whole instances, and the simple things beside it.

Knows classifiers of predictions by their contract (`fit(P, y)`, `predict_proba`), labels and the baselines of fusing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from halfstep.core.arrays import Codes, Floats
from halfstep.core.initial import seed_from
from halfstep.ensemble import baselines
from halfstep.ensemble.inputs import MAX_CLASSES, make_folds
from halfstep.ensemble.naming import auc, codes_of, instance_index, labels_in_order, read_named
from halfstep.ensemble.predictions import PredictionWarning, read_labels
from halfstep.errors import check_number, one_of
from halfstep.figures.tables import frame_of, html_table, text_table

HOW = ("transductive", "inductive")
RIVALS = ("Mean", "ShrunkenStacking", "GreedySelection")
BOOTSTRAPS = 400
FLOOR = 1e-6

Judged = Callable[[Floats, Codes], float]


def _log_loss(p: Floats, y: Codes) -> float:
    return float(-np.log(np.clip(p[np.arange(len(y)), y], FLOOR, 1)).mean())


def _brier(p: Floats, y: Codes) -> float:
    return float(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()) / (2 if p.shape[1] == 2 else 1)


def _accuracy(p: Floats, y: Codes) -> float:
    return float((p.argmax(axis=1) == y).mean())


def _roc_auc(p: Floats, y: Codes) -> float:
    return auc(p[:, 1], y == 1) if 0 < y.sum() < len(y) else 0.5


def _pr_auc(p: Floats, y: Codes) -> float:
    """Average precision; ties count as one step."""
    score, truth = p[:, 1], y == 1
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])), len(y) - 1)
    hits = np.cumsum(truth[order])[ends]
    return float((np.diff(hits, prepend=0) * hits / (ends + 1)).sum() / max(truth.sum(), 1))


FUSION_METRICS: dict[str, tuple[Judged, bool]] = {
    "log_loss": (_log_loss, False),
    "brier": (_brier, False),
    "accuracy": (_accuracy, True),
    "roc_auc": (_roc_auc, True),
    "pr_auc": (_pr_auc, True),
}
"""What probabilities (n, classes) and codes of labels are judged by, and whether more is better. Areas: two classes."""
AREAS = ("roc_auc", "pr_auc")


@dataclass(frozen=True)
class Interval:
    """A value and its bounds over labelled instances drawn again."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """What held-out labels say.

    scores : method, metric to its value with an interval. differences : rival, metric to (model - rival), paired over
    instances. probabilities : method to (labelled, classes), each from fits that have not seen the label; the mean over
    repeats. labels (labelled,) codes, instances (labelled,) row numbers. model : the name of what was judged.
    """

    model: str
    how: str
    scores: dict[str, dict[str, Interval]]
    differences: dict[str, dict[str, Interval]]
    probabilities: dict[str, Floats]
    labels: Codes
    instances: NDArray[np.intp]

    def records(self) -> list[dict[str, Any]]:
        """A row for each method."""
        return [
            {"method": name, **{metric: str(found) for metric, found in row.items()}}
            for name, row in self.scores.items()
        ]

    def to_frame(self) -> Any:
        """A pandas frame with a row for each method and metric: method, metric, value, low, high."""
        return frame_of(
            [
                {"method": name, "metric": metric, **asdict(found)}
                for name, row in self.scores.items()
                for metric, found in row.items()
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        scores, differences = (
            {name: {metric: asdict(found) for metric, found in row.items()} for name, row in table.items()}
            for table in (self.scores, self.differences)
        )
        return {"model": self.model, "how": self.how, "labels": len(self.labels)} | {
            "scores": scores,
            "differences": differences,
        }

    @property
    def caption(self) -> str:
        """What the numbers are."""
        return f"{self.how}, {len(self.labels)} labels"

    def __str__(self) -> str:
        return f"{self.caption}\n{text_table(self.records())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.records(), self.caption)


def cross_validate(
    model: Any,
    P: Any,
    y: Any,
    *,
    how: str = "transductive",
    folds: int = 5,
    repeats: int = 1,
    rivals: Sequence[str] = RIVALS,
    metrics: Sequence[str] | None = None,
    level: float = 0.95,
    random_state: Any = 0,
) -> CrossValidation:
    """Judge an ensemble on labels it has not seen, beside the mean, stacking and greedy selection.

    model : anything with `fit(P, y)` and `predict_proba`, such as `CFEnsembleCV()`; it is cloned. P, y as in it.
    how : "transductive": all instances stay, the labels of a fold are hidden, and answers are those of the fitted
        instances. "inductive": the instances of a fold are left out and answered as new ones.
    folds, repeats : stratified folds of the labelled instances, drawn so often.
    rivals : names in `halfstep.baselines`; with more than two classes there are none.
    metrics : of `FUSION_METRICS`; all that go with the classes when left out.
    level : of the intervals: percentiles over labelled instances drawn with replacement, paired in differences.
    """
    one_of("how", how, HOW)
    check_number("folds", folds, at_least=2, whole=True)
    check_number("repeats", repeats, at_least=1, whole=True)
    for rival in rivals:
        one_of("rivals", rival, baselines.__all__)
    index = instance_index(P)
    labels = labels_in_order(y, index, getattr(P, "index", None))
    codes, classes = read_labels(labels, len(index), max_classes=MAX_CLASSES)
    known = np.flatnonzero(codes >= 0)
    chosen = list(FUSION_METRICS) if metrics is None else list(metrics)
    for metric in chosen:
        one_of("metrics", metric, FUSION_METRICS)
    if len(classes) > 2:
        chosen = [metric for metric in chosen if metric not in AREAS]
    methods = _methods(model, P, labels, codes, classes, rivals)
    seed = seed_from(random_state)
    found = {name: np.zeros((len(known), len(classes))) for name in methods}
    for repeat in range(repeats):
        parts = make_folds(codes[known], len(classes), folds, seed + repeat)
        if parts is None:
            raise ValueError(
                f"y has labelled instances {np.bincount(codes[known], minlength=len(classes)).tolist()} of "
                f"{classes.tolist()}; two of each class are needed to hide one"
            )
        for part in range(parts.max() + 1):
            held = parts == part
            for name, answer in methods.items():
                found[name][held] += answer(known[held], how) / repeats
    truth = codes[known]
    scores, differences = paired(type(model).__name__, found, truth, chosen, level, seed)
    return CrossValidation(type(model).__name__, how, scores, differences, found, truth, known)


def _methods(
    model: Any, P: Any, y: Any, codes: Codes, classes: NDArray[Any], rivals: Sequence[str]
) -> dict[str, Callable[[NDArray[np.intp], str], Floats]]:
    """By name: probabilities of held instances from a fit without their labels, or without them."""
    given: NDArray[Any] = np.full(len(codes), None, dtype=object)
    given[codes >= 0] = classes[codes[codes >= 0]].tolist()
    methods = {type(model).__name__: _answers(model, P, given, classes)}
    if len(classes) == 2:
        positive = getattr(model, "positive", None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PredictionWarning)  # the model itself says it
            rows, _ = read_named(P, y, None, positive)
        numbers = codes.astype(object)
        numbers[codes < 0] = None
        for name in rivals:
            methods[name] = _answers(getattr(baselines, name)(), rows.P, numbers, np.array([0, 1]))
    return methods


def _answers(model: Any, P: Any, y: NDArray[Any], classes: NDArray[Any]) -> Callable[[NDArray[np.intp], str], Floats]:
    def answer(held: NDArray[np.intp], how: str) -> Floats:
        hidden = y.copy()
        hidden[held] = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PredictionWarning)
            if how == "transductive":
                fitted = clone(model).fit(P, hidden)
                proba = fitted.predict_proba()[held]
            else:
                kept = np.setdiff1d(np.arange(len(y)), held)
                fitted = clone(model).fit(take_rows(P, kept), hidden[kept])
                proba = fitted.predict_proba(take_rows(P, held))
        order = [fitted.classes_.tolist().index(label) for label in classes.tolist()]
        return np.asarray(proba, np.float64)[:, order]

    return answer


def take_rows(P: Any, rows: NDArray[np.intp]) -> Any:
    """Some instances of predictions in any form."""
    if isinstance(P, Mapping):
        return {name: take_rows(part, rows) for name, part in P.items()}
    if isinstance(P, list | tuple) and len(P) and (hasattr(P[0], "__array__") or hasattr(P[0], "iloc")):
        return [take_rows(part, rows) for part in P]
    if hasattr(P, "iloc"):
        return P.iloc[rows]
    return (P if hasattr(P, "__array__") and hasattr(P, "columns") else np.asarray(P))[rows]


def paired(
    own: str, found: dict[str, Floats], y: Codes, metrics: Sequence[str], level: float, seed: int
) -> tuple[dict[str, dict[str, Interval]], dict[str, dict[str, Interval]]]:
    """Scores of each method by metric, and differences `own` minus each other, over the same instances drawn again."""
    if not 0 < level < 1:
        raise ValueError(f"level={level!r} must lie strictly between 0 and 1; 0.95 is usual")
    random = np.random.default_rng(seed)
    draws = random.integers(len(y), size=(BOOTSTRAPS, len(y)))
    values = {
        (name, metric): np.array([judge(p, y), *(judge(p[draw], y[draw]) for draw in draws)])
        for name, p in found.items()
        for metric, (judge, _) in ((metric, FUSION_METRICS[metric]) for metric in metrics)
    }

    def interval(all_: Floats) -> Interval:
        low, high = np.quantile(all_[1:], [(1 - level) / 2, (1 + level) / 2])
        return Interval(float(all_[0]), float(low), float(high))

    scores = {name: {metric: interval(values[name, metric]) for metric in metrics} for name in found}
    differences = {
        name: {metric: interval(values[own, metric] - values[name, metric]) for metric in metrics}
        for name in found
        if name != own
    }
    return scores, differences


# ---------------------------------------------------------------------- inside scikit-learn


@dataclass(frozen=True)
class LabelledFolds:
    """Folds of the labelled instances, for `cv=` of scikit-learn: the unlabelled ones are always trained on.

    n_splits, random_state : of stratified folds. -1, NaN and None are no labels; folds of
    scikit-learn take them for a class, or refuse them.
    """

    n_splits: int = 5
    random_state: Any = 0

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """(train, test) row numbers; test instances are labelled."""
        n = len(instance_index(X))
        codes, classes = read_labels(y, n, max_classes=MAX_CLASSES)
        known = np.flatnonzero(codes >= 0)
        parts = make_folds(codes[known], len(classes), self.n_splits, seed_from(self.random_state))
        if parts is None:
            raise ValueError("y needs two labelled instances of each class to be split")
        for part in range(parts.max() + 1):
            test = known[parts == part]
            yield np.setdiff1d(np.arange(n), test), test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return self.n_splits


def labelled_scorer(metric: str = "log_loss") -> Callable[[Any, Any, Any], float]:
    """A `scoring=` for scikit-learn that leaves unlabelled rows out; losses are negative, so that more is better.

    metric : of `FUSION_METRICS`.
    """
    one_of("metric", metric, FUSION_METRICS)
    judge, more = FUSION_METRICS[metric]

    def score(model: Any, P: Any, y: Any) -> float:
        codes = codes_of(model.classes_, y, instance_index(P))
        known = codes >= 0
        if not known.any():
            raise ValueError("y has no label to judge by; keep labelled instances in every fold: cv=LabelledFolds()")
        value = judge(np.asarray(model.predict_proba(P))[known], codes[known])
        return value if more else -value

    return score
