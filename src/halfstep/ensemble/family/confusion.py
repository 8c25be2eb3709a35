"""Dawid and Skene's model of votes among K classes, with gold labels: p(votes) = prod_i sum_c pi_c prod_j p(v_ij | c).

One coin: classifier j is right with probability a_j, and wrong evenly. Confusion: p(v | c) is a table of its own for
each classifier, held to the coin's. Must not know how sure a vote was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from halfstep.core.arrays import Codes, Floats
from halfstep.core.softmax import softmax_of

RIGHT = 2.0
WRONG = 1.0
"""Imagined votes of each classifier that are right, and wrong: the prior of a_j."""
TABLE_VOTES = 4.0
"""Imagined votes of each true class that follow the coin: the prior of a row of a table."""
STEPS = 12


@dataclass(frozen=True, eq=False)
class VoteTable:
    """Votes (n, m) among K classes as indicators: `said` (n, m K), 1 where classifier j says k."""

    said: sp.csr_array
    m: int
    K: int

    @classmethod
    def of(cls, votes: Codes, K: int) -> VoteTable:
        n, m = votes.shape
        row, column = np.nonzero(votes >= 0)
        cell = column * K + votes[row, column]
        return cls(sp.csr_array((np.ones(len(row)), (row, cell)), shape=(n, m * K)), m, K)

    def shares(self) -> Floats:
        """(n, K) what the votes say by majority: a start."""
        counts = np.asarray(self.said @ np.tile(np.eye(self.K), (self.m, 1))) + 1 / self.K
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class VoteModel:
    """logs (m, K, K): of p(vote | true class) by classifier, vote, true class; prior (K,) log shares of classes."""

    logs: Floats
    prior: Floats

    @classmethod
    def learn(cls, table: VoteTable, gold: Codes, coin: bool) -> VoteModel:
        """Expectation maximisation; gold (n,) are the classes of labelled instances, -1 elsewhere."""
        belief = _clamp(table.shares(), gold)
        model = cls._best(table, belief, coin=True)
        for step in range(STEPS):
            belief = _clamp(softmax_of(model.joint(table)), gold)
            model = cls._best(table, belief, coin=coin or step < STEPS // 2)
        return model

    @classmethod
    def _best(cls, table: VoteTable, belief: Floats, coin: bool) -> VoteModel:
        m, K = table.m, table.K
        counts = np.asarray(table.said.T @ belief).reshape(m, K, K)  # classifier, vote, true class
        right = np.einsum("jkk->j", counts)
        accuracy = (right + RIGHT) / (counts.sum(axis=(1, 2)) + RIGHT + WRONG)
        even = np.where(np.eye(K, dtype=bool), accuracy[:, None, None], ((1 - accuracy) / (K - 1))[:, None, None])
        if not coin:
            even = (counts + TABLE_VOTES * even) / (counts.sum(axis=1, keepdims=True) + TABLE_VOTES)
        shares = belief.sum(axis=0) + 1.0
        return cls(np.log(even), np.log(shares / shares.sum()))

    def joint(self, table: VoteTable) -> Floats:
        """(n, K) log pi_c + log p(votes_i | c)."""
        return np.asarray(self.prior + table.said @ self.logs.reshape(table.m * table.K, table.K))


def _clamp(belief: Floats, gold: Codes) -> Floats:
    rows = np.flatnonzero(gold >= 0)
    belief[rows] = 0.0
    belief[rows, gold[rows]] = 1.0
    return belief
