"""From factors to log odds of instances: the aggregator, its tasks and its calibration.

Knows fitted factors and labels of instances. Must not know how the factors were found, nor parameters of estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.core.logistic import FREE_PENALTY, fit_logistic
from halfstep.ensemble.aggregators import Aggregator, Design
from halfstep.ensemble.factors import EnsembleFactors, Residuals
from halfstep.ensemble.inputs import expand_labels, make_folds

FOLDS = 5
TASK_STRENGTH = 10.0
"""How strongly a task's own aggregator is pulled towards the common one, in labelled rows."""


@dataclass(frozen=True, eq=False)
class Fusion:
    """An aggregator on one form of the factors.

    `shifts` (n_channels,) are added to every row of a class; `task_coefficients` correct the common aggregator:
    log odds of task a = common + intercepts_a + slope_a mean + deviations'w_a. `noise` is that of fitted instances.
    """

    form: str
    aggregator: Aggregator
    shifts: Floats
    noise: float = 0.0
    task_coefficients: Mapping[Any, Floats] = field(default_factory=dict)

    @property
    def n_channels(self) -> int:
        return len(self.shifts)

    def _log_odds(self, design: Design, tasks: NDArray[Any] | None) -> Floats:
        score = self.aggregator.log_odds(design) + self.shifts[design.channel]
        if tasks is not None and self.task_coefficients:
            X = _task_features(design)
            for name, coefficients in self.task_coefficients.items():
                here = tasks == name
                score[here] += X[here] @ coefficients
        return score

    def log_odds(self, factors: EnsembleFactors, tasks: NDArray[Any] | None = None) -> Floats:
        """(N,) of every row; tasks (n,) name the label set of each instance; unknown ones get the common answer."""
        score = np.empty(len(factors.row_factors))
        by_row = None if tasks is None else np.repeat(tasks, self.n_channels)
        for rows in factors.chunks():
            score[rows] = self._log_odds(factors.design(rows, self.form), None if by_row is None else by_row[rows])
        return score

    def novelty(self, factors: EnsembleFactors) -> Floats:
        """(n,) novelty of instances: the mean over their rows."""
        return self.by_instance(factors.residuals())

    def by_instance(self, residuals: Residuals) -> Floats:
        novelty: Floats = residuals.novelty(self.noise).reshape(-1, self.n_channels).mean(axis=1)
        return novelty


def learn_fusion(
    factors: EnsembleFactors,
    form: str,
    aggregator: Aggregator,
    y: Codes,
    weigh: Callable[[Codes], Floats],
    *,
    tasks: NDArray[Any] | None = None,
    calibrate: bool = True,
    seed: int = 0,
) -> Fusion:
    """Train on labelled instances. y (n,) classes or -1; `weigh` gives the weights of labelled classes."""
    k = factors.columns.n_channels
    fusion = Fusion(form, aggregator, np.zeros(k))
    seen = (~np.isnan(factors.table.targets).all(axis=1)).reshape(-1, k).all(axis=1)
    instances = np.flatnonzero((y >= 0) & seen)
    if not len(instances):
        return fusion
    design = factors.design((instances[:, None] * k + np.arange(k)).ravel(), form)
    truth = expand_labels(y[instances], k).astype(np.float64)
    weights = np.repeat(weigh(y[instances]), k)
    folds = make_folds(y[instances], max(2, k), FOLDS, seed)
    aggregator.fit(design, truth, weights, None if folds is None else np.repeat(folds, k))
    by_row = None if tasks is None else np.repeat(tasks[instances], k)
    if by_row is not None:
        fusion = replace(fusion, task_coefficients=_learn_tasks(aggregator, design, truth, weights, by_row))
    if calibrate:
        few = np.full(k, FREE_PENALTY)
        known = fusion._log_odds(design, by_row)
        fusion = replace(
            fusion, shifts=fit_logistic(design.intercepts, truth, np.ones(len(truth)), few, 0 * few, known)
        )
    return fusion


def _learn_tasks(
    aggregator: Aggregator, design: Design, truth: Floats, weights: Floats, tasks: NDArray[Any]
) -> dict[Any, Floats]:
    common, X = aggregator.log_odds(design), _task_features(design)
    strength = np.full(X.shape[1], TASK_STRENGTH)

    def solve(here: NDArray[np.bool_]) -> Floats:
        return fit_logistic(X[here], truth[here], weights[here], strength, 0 * strength, common[here])

    return {name.item(): solve(tasks == name) for name in np.unique(tasks)}


def _task_features(design: Design) -> Floats:
    return np.column_stack([design.intercepts, design.mean, design.deviations])


def by_class(positive: Floats, n_channels: int) -> Floats:
    """(n, classes) from the (N,) probability of each row: its complement, or each class against the rest normalised."""
    if n_channels == 1:
        return np.column_stack([1 - positive, positive])
    table = np.maximum(positive.reshape(-1, n_channels), 1e-12)
    normalised: Floats = table / table.sum(axis=1, keepdims=True)
    return normalised


def unlabelled_gains(factors: EnsembleFactors, positive: Floats, y: Codes, n: int) -> NDArray[np.intp]:
    """Greedy choice of n unlabelled instances by information; see `CFEnsemble.query`."""
    design = factors.design(slice(None), "latent")
    return most_informative(_task_features(design), positive, y, factors.columns.n_channels, n)


def most_informative(X: Floats, positive: Floats, y: Codes, n_channels: int, n: int) -> NDArray[np.intp]:
    """Greedy choice of n unlabelled instances: largest p (1 - p) x'H^-1 x, H the information of all that are known.

    X (N, features) and positive (N,) of the rows, n_channels of them for each instance; y (n,) codes, -1 unlabelled.
    """
    weight = positive * (1 - positive)
    labelled = np.repeat(y >= 0, n_channels)
    information = np.eye(X.shape[1]) + (X[labelled] * weight[labelled, None]).T @ X[labelled]
    free = y < 0
    chosen: list[int] = []
    for _ in range(n):
        reach = np.einsum("ij,ij->i", X @ np.linalg.inv(information), X)
        gain = (weight * reach).reshape(-1, n_channels).sum(axis=1)
        best = int(np.argmax(np.where(free, gain, -np.inf)))
        rows = slice(best * n_channels, (best + 1) * n_channels)
        information += (X[rows] * weight[rows, None]).T @ X[rows]
        free[best] = False
        chosen.append(best)
    return np.array(chosen, np.intp)
