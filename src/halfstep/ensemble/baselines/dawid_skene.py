"""Dawid and Skene's model of hard votes, with gold labels. Must not know how sure a vote was."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.core.fitted import FromFit
from halfstep.ensemble.baselines.base import FusionBaseline
from halfstep.ensemble.predictions import Predictions, expit
from halfstep.errors import check_number


@dataclass(frozen=True, eq=False)
class ConfusionRule:
    """confusion (m, 2, 2): classifier, true class, vote; class_prior (2,) pi; history: log posteriors of the steps."""

    threshold: float
    confusion: Floats
    class_prior: Floats
    history: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, posterior: Floats, yes: Floats, no: Floats, threshold: float, smoothing: float) -> ConfusionRule:
        """The best one where instance i is positive with probability posterior_i."""
        belief = np.stack([1 - posterior, posterior])  # (2, n)
        counts = np.stack([belief @ no, belief @ yes], axis=-1) + smoothing  # (2, m, 2)
        totals = belief.sum(axis=1) + smoothing
        confusion = (counts / counts.sum(axis=-1, keepdims=True)).transpose(1, 0, 2)
        return cls(threshold, confusion, totals / totals.sum())

    def log_joint(self, yes: Floats, no: Floats) -> Floats:
        """(n, 2) log pi_c + log p(votes_i | c)."""
        logs = np.log(self.confusion)
        joint: Floats = np.log(self.class_prior) + no @ logs[:, :, 0] + yes @ logs[:, :, 1]
        return joint

    def positive(self, data: Predictions) -> Floats:
        joint = self.log_joint(*votes_of(data, self.threshold))
        positive: Floats = expit(joint[:, 1] - joint[:, 0])
        return positive


@dataclass(eq=False, repr=False)
class DawidSkene(FusionBaseline):
    """EM for p(votes) = prod_i sum_c pi_c prod_{j observed} confusion_j[c, vote_ij].

    Votes are p >= `threshold`. Labelled instances have their true class given throughout (gold labels); with
    none of them the model is unsupervised. Rows of a confusion matrix and pi have a Beta prior of
    `smoothing` extra counts on each outcome. `confusion_` is (m, 2, 2): classifier, true class, vote.
    `history_` has the log posterior (up to a constant) of each step and never falls. `predict_proba` is the
    model's posterior from the votes, also on labelled instances: a gold label does not leak into its own
    prediction.
    """

    threshold: float = 0.5
    smoothing: float = 1.0
    max_iter: int = 200
    tol: float = 1e-6

    confusion_ = FromFit[Floats]("rule.confusion")
    class_prior_ = FromFit[Floats]("rule.class_prior")
    history_ = FromFit[list[float]]("rule.history")

    @property
    def n_iter_(self) -> int:
        return len(self.history_)

    def _learn(self, data: Predictions) -> ConfusionRule:
        if not self.smoothing > 0:
            raise ValueError(f"smoothing={self.smoothing!r} must be positive; 1.0 is one extra count for each outcome")
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold={self.threshold!r} must lie strictly between 0 and 1")
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        yes, no = votes_of(data, self.threshold)
        share = (yes.sum(axis=1) + 0.5) / ((yes + no).sum(axis=1) + 1)  # a start: halfway where nobody voted
        gold = data.y.astype(np.float64)
        posterior = np.where(data.labelled, gold, share)
        history: list[float] = []
        for _ in range(self.max_iter):
            rule = ConfusionRule.of(posterior, yes, no, self.threshold, self.smoothing)
            joint = rule.log_joint(yes, no)
            given = np.where(data.labelled, joint[np.arange(len(gold)), data.y], np.logaddexp(*joint.T))
            prior = self.smoothing * (np.log(rule.confusion).sum() + np.log(rule.class_prior).sum())
            history.append(float(given.sum()) + float(prior))
            posterior = np.where(data.labelled, gold, expit(joint[:, 1] - joint[:, 0]))
            if len(history) > 1 and history[-1] - history[-2] <= self.tol * abs(history[-1]):
                break
        return replace(rule, history=history)


def votes_of(data: Predictions, threshold: float) -> tuple[Floats, Floats]:
    """Two (n, m) indicators: voted yes, voted no; both 0 where missing."""
    yes = data.observed & (np.nan_to_num(data.P) >= threshold)
    return yes.astype(np.float64), (data.observed & ~yes).astype(np.float64)
