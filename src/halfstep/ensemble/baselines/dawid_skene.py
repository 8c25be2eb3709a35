"""Dawid and Skene's model of hard votes, with gold labels. Must not know how sure a vote was."""

from __future__ import annotations

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.ensemble.baselines.base import FusionClassifier
from halfstep.ensemble.predictions import Predictions, expit


class DawidSkene(FusionClassifier):
    """EM for p(votes) = prod_i sum_c pi_c prod_{j observed} confusion_j[c, vote_ij].

    Votes are p >= `threshold`. Labelled instances have their true class given throughout (gold labels); with
    none of them the model is unsupervised. Rows of a confusion matrix and pi have a Beta prior of
    `smoothing` extra counts on each outcome. `confusion_` is (m, 2, 2): classifier, true class, vote.
    `history_` has the log posterior (up to a constant) of each step and never falls. `predict_proba` is the
    model's posterior from the votes, also on labelled instances: a gold label does not leak into its own
    prediction.
    """

    def __init__(self, threshold: float = 0.5, smoothing: float = 1.0, max_iter: int = 200, tol: float = 1e-6) -> None:
        self.threshold = threshold
        self.smoothing = smoothing
        self.max_iter = max_iter
        self.tol = tol

    def _learn(self, data: Predictions) -> None:
        if not self.smoothing > 0:
            raise ValueError(f"smoothing={self.smoothing!r} must be positive; 1.0 is one extra count for each outcome")
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold={self.threshold!r} must lie strictly between 0 and 1")
        yes, no = self._votes(data)
        votes = (yes + no).sum(axis=1)
        share = (yes.sum(axis=1) + 0.5) / (votes + 1)  # a start: the share of yes, halfway where nobody voted
        gold = data.y.astype(np.float64)
        posterior = np.where(data.labelled, gold, share)
        self.history_: list[float] = []
        for step in range(self.max_iter):
            self._maximise(posterior, yes, no)
            joint = self._log_joint(yes, no)
            given = np.where(data.labelled, joint[np.arange(len(gold)), data.y], np.logaddexp(*joint.T))
            self.history_.append(float(given.sum()) + self._log_prior())
            posterior = np.where(data.labelled, gold, expit(joint[:, 1] - joint[:, 0]))
            if step and self.history_[-1] - self.history_[-2] <= self.tol * abs(self.history_[-1]):
                break
        self.n_iter_ = len(self.history_)

    def _votes(self, data: Predictions) -> tuple[Floats, Floats]:
        """Two (n, m) indicators: voted yes, voted no; both 0 where missing."""
        yes = data.observed & (np.nan_to_num(data.P) >= self.threshold)
        return yes.astype(np.float64), (data.observed & ~yes).astype(np.float64)

    def _maximise(self, posterior: Floats, yes: Floats, no: Floats) -> None:
        belief = np.stack([1 - posterior, posterior])  # (2, n)
        counts = np.stack([belief @ no, belief @ yes], axis=-1) + self.smoothing  # (2, m, 2)
        self.confusion_ = (counts / counts.sum(axis=-1, keepdims=True)).transpose(1, 0, 2)
        totals = belief.sum(axis=1) + self.smoothing
        self.class_prior_ = totals / totals.sum()

    def _log_joint(self, yes: Floats, no: Floats) -> Floats:
        """(n, 2) log pi_c + log p(votes_i | c)."""
        logs = np.log(self.confusion_)
        joint: Floats = np.log(self.class_prior_) + no @ logs[:, :, 0] + yes @ logs[:, :, 1]
        return joint

    def _log_prior(self) -> float:
        return float(self.smoothing * (np.log(self.confusion_).sum() + np.log(self.class_prior_).sum()))

    def _positive(self, data: Predictions) -> Floats:
        joint = self._log_joint(*self._votes(data))
        positive: Floats = expit(joint[:, 1] - joint[:, 0])
        return positive
