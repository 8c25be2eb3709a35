"""The fitted instances seen through one factor analysis: where they lie, which are unlike the rest, what to label.

Knows predictions and one view; no labels but those to be asked for. Must not know members nor weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.ensemble.family.analysis import cube_root
from halfstep.ensemble.family.views import FIT_ROWS, FactorView, PredictedRows, Sight
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.predictions import logit

RANK = 4
CLASSIFIERS_FOR_A_FACTOR = 3


@dataclass(frozen=True, eq=False)
class ToldRows:
    """Rows of the fitted instances, and what one factor analysis of up to RANK factors sees of them."""

    rows: InstanceRows
    clip: float

    @cached_property
    def cells(self) -> PredictedRows:
        return PredictedRows(self.rows.P, self.rows.channel, self.clip)

    @cached_property
    def view(self) -> FactorView:
        rank = int(np.clip(self.rows.P.shape[1] // CLASSIFIERS_FOR_A_FACTOR, 1, RANK))
        return FactorView(rank).fit(self.cells.take(slice(None, None, 1 + len(self.rows.P) // FIT_ROWS)))

    @cached_property
    def sight(self) -> Sight:
        return self.view.look(self.cells)

    @property
    def latent(self) -> Floats:
        return self.sight.latent.reshape(self.rows.n, -1)

    @property
    def opinions(self) -> Floats:
        """(n, m, classes); NaN where a classifier said nothing."""
        k = self.rows.n_channels
        if k == 1:
            return np.stack([1 - self.rows.P, self.rows.P], axis=2)
        return np.ascontiguousarray(self.rows.P.reshape(self.rows.n, k, -1).transpose(0, 2, 1))

    # ------------------------------------------------------------------ novelty

    @cached_property
    def usual(self) -> Floats:
        """The distances of the fitted instances, sorted."""
        return np.sort(self.distance(self.cells))

    def distance(self, cells: PredictedRows) -> Floats:
        """(n,) how far the scores of an instance are from what the view expects, in normal deviates.

        With S the covariance of its q observed scores (factors and noise), r'S^-1 r has q degrees of freedom; its cube
        root is nearly normal, whatever q is. 0 where nothing is observed. The mean over the classes of an instance.
        """
        model, scores, mask = self.view.model, cells.scores("logit"), cells.observed.astype(np.float64)
        left = np.where(cells.observed, scores - model.means, 0.0)
        factors, _ = model.posterior(scores, cells.observed)
        # r'S^-1 r = r'N^-1 (r - L u), u the posterior mean of the factors
        square = (left / model.noise * (left - mask * (factors @ model.loadings.T))).sum(axis=1)
        deviate = cube_root(np.maximum(square, 0), mask.sum(axis=1))
        found: Floats = deviate.reshape(-1, self.rows.n_channels).mean(axis=1)
        return found

    def novelty(self, cells: PredictedRows | None = None) -> Floats:
        """(n,) the share of fitted instances that are nearer to what is expected."""
        distance = self.distance(self.cells if cells is None else cells)
        return np.searchsorted(self.usual, distance) / len(self.usual)

    def errors(self) -> tuple[Floats, Floats]:
        """(N,) sums of squared differences of predictions and reconstructions over observed cells, and their number."""
        factors, _ = self.view.model.posterior(self.cells.scores("logit"), self.cells.observed)
        gap = self.rows.P - self.view.probabilities(self.view.model.reconstruct(factors))
        return np.nansum(gap**2, axis=1), (~np.isnan(gap)).sum(axis=1).astype(np.float64)

    # ------------------------------------------------------------------ what to label

    def design(self, positive: Floats) -> Floats:
        """(N, features) what a logistic model of the labels would see: class, answer and latent factors.

        positive (N,) : the answered probability of each row's class.
        """
        intercepts = np.eye(self.rows.n_channels)[self.rows.channel]
        return np.column_stack([intercepts, logit(positive, self.clip), self.sight.latent])
