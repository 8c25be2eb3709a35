"""Greedy ensemble selection with replacement, bagged. Must not know how missing predictions are filled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state

from halfstep.core.arrays import Floats
from halfstep.core.fitted import FromFit
from halfstep.ensemble.baselines.base import FusionBaseline
from halfstep.ensemble.baselines.impute import FilledLogits
from halfstep.ensemble.predictions import CLIP, Predictions, expit
from halfstep.errors import one_of


@dataclass(frozen=True, eq=False)
class PickedRule:
    """The mean of filled predictions under `weights` (m,), which sum to 1."""

    filling: FilledLogits
    weights: Floats

    def positive(self, data: Predictions) -> Floats:
        positive: Floats = expit(self.filling.of(data)) @ self.weights
        return positive


@dataclass(eq=False, repr=False)
class GreedySelection(FusionBaseline):
    """Caruana's forward selection: add, with replacement, the classifier that lowers the loss of the mean most.

    Each of `bags` runs sees a random `bag_fraction` of the classifiers, starts from its `initial` best, adds
    up to `rounds` more and keeps the best prefix. `weights_` (m,) is the share of picks over all runs. The
    loss is "log_loss" or "brier" of the averaged probabilities on labelled instances.
    """

    rounds: int = 30
    bags: int = 20
    bag_fraction: float = 0.5
    initial: int = 2
    metric: str = "log_loss"
    impute: str = "column_mean"
    clip: float = CLIP
    random_state: int | RandomState | None = 0

    _needs_labels = True
    weights_ = FromFit[Floats]("rule.weights")

    def _learn(self, data: Predictions) -> PickedRule:
        self._check_parameters()
        filling = FilledLogits.fit(self.impute, data, self.clip)
        filled = expit(filling.of(data)[data.labelled])
        truth = data.y[data.labelled].astype(np.float64)
        random = check_random_state(self.random_state)
        m = filled.shape[1]
        size = max(1, round(self.bag_fraction * m))
        picks = np.zeros(m)
        for _ in range(self.bags):
            bag = random.choice(m, size, replace=False)
            picks[bag] += self._select(filled[:, bag], truth)
        return PickedRule(filling, picks / picks.sum())

    def _select(self, P: Floats, truth: Floats) -> Floats:
        """(size,) how often each column of P is picked; the counts of the best prefix, scaled to sum to 1."""
        chosen = np.argsort(self._losses(P, truth), kind="stable")[: self.initial].tolist()
        total = P[:, chosen].sum(axis=1)
        best_loss, best_length = self._losses(total[:, None] / len(chosen), truth)[0], len(chosen)
        for _ in range(self.rounds):
            losses = self._losses((total[:, None] + P) / (len(chosen) + 1), truth)
            pick = int(losses.argmin())
            chosen.append(pick)
            total = total + P[:, pick]
            if losses[pick] < best_loss:
                best_loss, best_length = losses[pick], len(chosen)
        counts: Floats = np.bincount(chosen[:best_length], minlength=P.shape[1]) / best_length
        return counts

    def _losses(self, P: Floats, truth: Floats) -> Floats:
        """(columns,) mean loss of each column of P, which lies in [clip, 1 - clip]."""
        right = np.where(truth[:, None] == 1, P, 1 - P)
        losses: Floats = (-np.log(right) if self.metric == "log_loss" else (1 - right) ** 2).mean(axis=0)
        return losses

    def _check_parameters(self) -> None:
        one_of("metric", self.metric, ("brier", "log_loss"))
        for name in ("rounds", "bags", "initial"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r} must be at least 1")
        if not 0 < self.bag_fraction <= 1:
            raise ValueError(f"bag_fraction={self.bag_fraction!r} must lie in (0, 1]: a share of the classifiers")
