"""The spectral meta-learner: classifier accuracies from the covariance of their votes, without labels.

Knows votes and a mask. Must not look at labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.core.fitted import FromFit
from halfstep.ensemble.baselines.base import FusionBaseline, row_mean
from halfstep.ensemble.predictions import Predictions
from halfstep.errors import one_of


@dataclass(frozen=True, eq=False)
class VotingRule:
    """Votes under `weights` (m,), against those of a negative one; `fallback` is the score where nobody voted."""

    votes: str
    weights: Floats
    fallback: float
    n_iter: int

    def scores(self, data: Predictions) -> Floats:
        """(n,) in [-1, 1]."""
        signed = np.where(self.weights < 0, -1.0, 1.0) * votes_of(data, self.votes)
        return row_mean(signed, data.observed * np.abs(self.weights), self.fallback)

    def positive(self, data: Predictions) -> Floats:
        return (1 + self.scores(data)) / 2


@dataclass(eq=False, repr=False)
class SpectralMetaLearner(FusionBaseline):
    """Parisi et al.: if errors are independent given the class, votes have a rank-one covariance off the diagonal.

    Votes are z = sign(p - 1/2) ("hard") or 2p - 1 ("soft"). `weights_` v minimises
    sum_{j != k} N_jk (Q_jk - v_j v_k)^2, where Q_jk is the covariance over the N_jk instances that both
    classifiers predicted; v_j is proportional to balanced accuracy minus 1/2. Its sign is the one under
    which most classifiers are better than chance. The probability is (1 + sum_j v_j z_ij / sum_j |v_j|) / 2
    over observed j. Labels are not used.
    """

    votes: str = "hard"
    max_iter: int = 500
    tol: float = 1e-8

    weights_ = FromFit[Floats]("rule.weights")
    n_iter_ = FromFit[int]("rule.n_iter")

    def _learn(self, data: Predictions) -> VotingRule:
        one_of("votes", self.votes, ("hard", "soft"))
        votes, seen = votes_of(data, self.votes), data.observed.any(axis=1)
        covariance, together = pairwise_covariance(votes, data.observed.astype(np.float64))
        weights, n_iter = rank_one(covariance, together, self.max_iter, self.tol)
        if not weights.any():  # votes without covariance carry no evidence against equal weights
            weights = np.ones(len(weights))
        rule = VotingRule(self.votes, weights, 0.0, n_iter)
        return replace(rule, fallback=float(np.mean(rule.scores(data)[seen]))) if seen.any() else rule


def votes_of(data: Predictions, votes: str) -> Floats:
    """(n, m) votes in [-1, 1], 0 where missing."""
    soft = np.where(data.observed, 2 * np.nan_to_num(data.P) - 1, 0.0)
    return soft if votes == "soft" else np.sign(soft)


def pairwise_covariance(votes: Floats, mask: Floats) -> tuple[Floats, Floats]:
    """(m, m) covariances over the instances both columns have, 0 if there are none, and their number."""
    together = mask.T @ mask
    count = np.maximum(together, 1)
    filled = votes * mask
    mean = (filled.T @ mask) / count  # [j, k]: mean of column j where k is there too
    return (filled.T @ filled) / count - mean * mean.T, together


def rank_one(covariance: Floats, weight: Floats, max_iter: int, tol: float) -> tuple[Floats, int]:
    """(m,) v minimising sum_{j != k} weight_jk (covariance_jk - v_j v_k)^2, and the number of iterations.

    Half-steps of v_j = sum_k weight_jk covariance_jk v_k / sum_k weight_jk v_k^2, averaged with the old v,
    which keeps the simultaneous update from oscillating. The sum of v is not negative.
    """
    weight = weight.copy()
    np.fill_diagonal(weight, 0.0)
    values, vectors = np.linalg.eigh(np.where(weight > 0, covariance, 0.0))
    v: Floats = vectors[:, -1] * np.sqrt(max(values[-1], 0.0))
    steps = 0
    while steps < max_iter:
        steps += 1
        scale = weight @ v**2
        target = (weight * covariance) @ v / np.where(scale > 0, scale, 1)
        change = np.abs(target - v).max()
        v = (v + target) / 2
        if change <= tol * max(1.0, np.abs(v).max()):
            break
    return (v if v.sum() >= 0 else -v), steps
