"""How unlike the fitted instances an instance is: its distance under factor analyses that had not seen it, a p-value.

Knows scores and a mask; no label, no estimator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.ensemble.family.analysis import FactorAnalysis
from halfstep.ensemble.family.distance import parts_of
from halfstep.ensemble.family.views import PredictedRows

REFERENCE_FOLDS = 5
REFERENCE_INSTANCES = 4000  # at most so many fitted instances are compared with


@dataclass(frozen=True, eq=False)
class NoveltyAnswer:
    """score (n,) about 0 with deviation about 1 for instances like the fitted ones; p (n,) small where unlike them."""

    score: Floats
    p: Floats


@dataclass(frozen=True, eq=False)
class Reference:
    """Factor analyses, each fitted without one fold of the instances, and those instances seen by it.

    parts (r, 3) as `parts_of`; `scores` (r,) sorted novelty of these instances, none of which its analysis had seen.
    """

    models: tuple[FactorAnalysis, ...]
    parts: Floats
    scores: Floats
    n_channels: int

    @classmethod
    def fit(cls, rows: PredictedRows, n_channels: int, rank: int, seed: int) -> Reference:
        n, m = len(rows.P) // n_channels, rows.P.shape[1]
        rng = np.random.default_rng(seed)
        order = rng.permutation(n)[:REFERENCE_INSTANCES]
        folds = np.arange(len(order)) % min(REFERENCE_FOLDS, max(len(order), 2))
        models, parts = [], np.zeros((len(order), 3))
        for fold in range(int(folds.max()) + 1):
            kept = rows.take(_rows_of(order[folds != fold], n_channels))
            model = FactorAnalysis.fit(kept.scores("logit"), kept.observed, max(1, min(rank, m // 3)))
            held = rows.take(_rows_of(order[folds == fold], n_channels))
            parts[folds == fold] = parts_of(model, held, n_channels)
            models.append(model)
        return cls(tuple(models), parts, np.sort(parts[:, 1]), n_channels)

    def novelty(self, rows: PredictedRows) -> NoveltyAnswer:
        """The mean distance under all analyses; p = (1 + reference instances at least as far) / (1 + all of them)."""
        score = np.mean([parts_of(model, rows, self.n_channels)[:, 1] for model in self.models], axis=0)
        nearer = np.searchsorted(self.scores, score, side="left")
        p = np.asarray((1 + len(self.scores) - nearer) / (1 + len(self.scores)), np.float64)
        return NoveltyAnswer(np.asarray(score, np.float64), p)

    def seen(self, rows: PredictedRows) -> Floats:
        """(n, 3) parts of instances, each under one of the analyses: distributed as those of the reference."""
        n = len(rows.P) // self.n_channels
        found = np.zeros((n, 3))
        for k, model in enumerate(self.models):
            here = np.arange(k, n, len(self.models))
            if len(here):
                found[here] = parts_of(model, rows.take(_rows_of(here, self.n_channels)), self.n_channels)
        return found


def _rows_of(instances: Codes, n_channels: int) -> Codes:
    return (instances[:, None] * n_channels + np.arange(n_channels)).ravel()
