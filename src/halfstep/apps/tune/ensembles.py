"""Which fusion of classifiers, with which parameters: candidates judged by hidden labels, the winner fitted.

Knows ensembles, the baselines of fusing, and `cross_validate`. Few labels say little: the default stays unless another
is ahead beyond chance.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from halfstep.core.arrays import Codes, Floats
from halfstep.core.initial import seed_from
from halfstep.ensemble import CFEnsemble, CFEnsembleCV, baselines
from halfstep.ensemble.inputs import MAX_CLASSES, make_folds
from halfstep.ensemble.naming import instance_index, labels_in_order
from halfstep.ensemble.predictions import PredictionWarning, read_labels
from halfstep.errors import check_number, one_of
from halfstep.figures.tables import frame_of
from halfstep.judge.fusion import AREAS, FUSION_METRICS, Interval, cross_validate, paired

DEFAULT = "CFEnsembleCV"
LEAST_LABELS = 40
"""With fewer, none are put aside for the test."""
TEST_FOLDS = 5


@dataclass(frozen=True)
class EnsembleTuning:
    """The fitted winner and what was tried.

    model : the winner, fitted to all labels. models : all candidates that were tried, unfitted, by name.
    validation : the metric of each on hidden labels among those that chose; ahead : how far each is ahead of the
    default there, paired over instances. test : the metric of the winner, the default and the mean on a fifth of the
    labels that chose nothing; None with fewer than 40 labels. seconds : by candidate.
    """

    metric: str
    winner: str
    model: Any
    models: dict[str, Any]
    validation: dict[str, Interval]
    ahead: dict[str, Interval]
    test: dict[str, float] | None
    seconds: dict[str, float] = field(default_factory=dict)

    def records(self) -> list[dict[str, Any]]:
        """A row for each candidate, the best first."""
        sign = 1 if FUSION_METRICS[self.metric][1] else -1
        order = sorted(self.validation, key=lambda name: -sign * self.validation[name].value)
        return [
            {
                "model": name,
                self.metric: str(self.validation[name]),
                "ahead of the default": str(self.ahead[name]) if name in self.ahead else "",
                "test": "" if self.test is None or name not in self.test else f"{self.test[name]:.4f}",
            }
            for name in order
        ]

    def to_frame(self) -> Any:
        """A pandas frame with a row for each candidate: model, value, low, high, test (NaN where it was not judged)."""
        test = self.test or {}
        return frame_of(
            [
                {"model": name, **vars(found), "test": test.get(name, float("nan"))}
                for name, found in self.validation.items()
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        values = {name: vars(found) for name, found in self.validation.items()}
        ahead = {name: vars(found) for name, found in self.ahead.items()}
        return {
            "metric": self.metric,
            "winner": self.winner,
            "validation": values,
            "ahead": ahead,
            "test": self.test,
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        rows = [f"  {row['model']:<34} {row[self.metric]:<28} test {row['test'] or '-'}" for row in self.records()]
        return "\n".join([f"{self.metric} on hidden labels; the winner is {self.winner}", *rows])

    __repr__ = __str__


def candidates(n_classes: int, positive: Any, random_state: int) -> dict[str, Any]:
    """What is tried, by name, the default first and cheap ones before dear ones."""
    common: dict[str, Any] = {"random_state": random_state}
    if positive is not None:
        common["positive"] = positive
    found: dict[str, Any] = {DEFAULT: CFEnsembleCV(**common)}
    if n_classes == 2:
        names = ("Mean", "WeightedMean", "ShrunkenStacking", "GreedySelection", "BestSingle")
        found |= {name: getattr(baselines, name)(positive=positive) for name in names}
        found["CFEnsemble"] = CFEnsemble(**common)
    for temperature in (1.5, 20.0):
        found[f"{DEFAULT}, temperature {temperature:g}"] = CFEnsembleCV(temperature=temperature, **common)
    for clip in (0.001, 0.05):
        found[f"{DEFAULT}, clip {clip:g}"] = CFEnsembleCV(clip=clip, **common)
    if n_classes == 2:
        own = [("combined loss", CFEnsemble(random_state=random_state)), ("greedy", baselines.GreedySelection())]
        found[f"{DEFAULT}, further members"] = CFEnsembleCV(estimators=own, **common)
    return found


def find_ensemble(
    P: Any,
    y: Any,
    seconds: float = 120.0,
    *,
    positive: Any = None,
    metric: str = "log_loss",
    models: dict[str, Any] | None = None,
    folds: int = 5,
    random_state: int = 0,
    on_trial: Callable[[int, float], Any] | None = None,
) -> EnsembleTuning:
    """The best fusion for these predictions and labels, fitted.

    From 40 labels on a fifth of them is put aside for the test. Each candidate is judged by `cross_validate` on the
    others: labels are hidden by fold, all instances stay. `CFEnsembleCV()` stays the winner unless another is ahead of
    it by more than chance: the 95% interval of their paired difference must leave out 0.

    P, y, positive : as `CFEnsembleCV` takes them. metric : of `FUSION_METRICS`.
    seconds : no candidate is begun after that; the default and the next one always are.
    models : further candidates by name, with `fit(P, y)` and `predict_proba`; they come after the default.
    on_trial : called with (candidates done, best value so far); a true answer ends the search.
    """
    check_number("seconds", seconds, above=0)
    one_of("metric", metric, FUSION_METRICS)
    index = instance_index(P)
    labels = labels_in_order(y, index, getattr(P, "index", None))
    codes, classes = read_labels(labels, len(index), max_classes=MAX_CLASSES)
    if len(classes) > 2 and metric in AREAS:
        raise ValueError(f"metric={metric!r} is for two classes; y has {len(classes)}: {classes[:5].tolist()}")
    known = np.flatnonzero(codes >= 0)
    aside = _aside(codes, known, len(classes), random_state)
    given: Any = np.full(len(codes), None, dtype=object)
    given[known] = classes[codes[known]].tolist()
    chosen_by = given.copy()
    chosen_by[aside] = None
    usual = candidates(len(classes), positive, random_state)
    tried = {DEFAULT: usual[DEFAULT]} | (models or {}) | usual
    begun = time.perf_counter()
    probabilities: dict[str, Floats] = {}
    spent: dict[str, float] = {}
    truth: Codes = np.zeros(0, np.int64)
    judge, more = FUSION_METRICS[metric]
    for name, model in tried.items():
        started = time.perf_counter()
        if started - begun > seconds and len(probabilities) >= 2:
            break
        found = cross_validate(
            model, P, chosen_by, folds=folds, rivals=(), metrics=(metric,), random_state=random_state
        )
        probabilities[name], truth = found.probabilities[found.model], found.labels
        spent[name] = time.perf_counter() - started
        values = [judge(p, truth) for p in probabilities.values()]
        if on_trial is not None and on_trial(len(values), max(values) if more else min(values)):
            break
    validation, differences = paired(DEFAULT, probabilities, truth, (metric,), 0.95, seed_from(random_state))
    sign = 1.0 if more else -1.0
    ahead = {name: _turned(found[metric], -sign) for name, found in differences.items()}
    better = {name: found.value for name, found in ahead.items() if found.low > 0}
    winner = max(better, key=lambda name: better[name]) if better else DEFAULT
    test = None
    if len(aside):
        names = dict.fromkeys([winner, DEFAULT, *(["Mean"] if "Mean" in probabilities else [])])
        test = {name: judge(_answers(tried[name], P, chosen_by, aside, classes), codes[aside]) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PredictionWarning)
        fitted = clone(tried[winner]).fit(P, given)
    own = {name: each[metric] for name, each in validation.items()}
    return EnsembleTuning(
        metric, winner, fitted, {name: tried[name] for name in probabilities}, own, ahead, test, spent
    )


def _aside(codes: Codes, known: Any, n_classes: int, seed: int) -> Any:
    """Row numbers of labelled instances that choose nothing."""
    folds = make_folds(codes[known], n_classes, TEST_FOLDS, seed + 1) if len(known) >= LEAST_LABELS else None
    return known[:0] if folds is None else known[folds == 0]


def _answers(model: Any, P: Any, y: Any, rows: Any, classes: Any) -> Floats:
    """(rows, classes) of instances whose labels are hidden."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PredictionWarning)
        fitted = clone(model).fit(P, y)
        found = np.asarray(fitted.predict_proba(), np.float64)[rows]
    order = [fitted.classes_.tolist().index(label) for label in classes.tolist()]
    return np.asarray(found[:, order])


def _turned(found: Interval, sign: float) -> Interval:
    """An interval, or that of the opposite."""
    low, high = sorted((sign * found.low, sign * found.high))
    return Interval(sign * found.value, low, high)
