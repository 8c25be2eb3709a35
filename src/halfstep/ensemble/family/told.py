"""The fitted instances seen through one factor analysis: where they lie, which are unlike the rest, what to label.

Knows predictions and one view; no labels but those to be asked for. Must not know members nor weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.ensemble.family.distance import parts_of
from halfstep.ensemble.family.views import FIT_ROWS, FactorView, PredictedRows, Sight
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.predictions import logit

RANK = 4
CLASSIFIERS_FOR_A_FACTOR = 3


@dataclass(frozen=True, eq=False)
class ToldRows:
    """Rows of the fitted instances, and what one factor analysis of up to RANK factors sees of them.

    known : that analysis, where a family has it among its views.
    """

    rows: InstanceRows
    clip: float
    known: FactorView | None = None

    @staticmethod
    def usual_view(m: int) -> str:
        """What the factor analysis of m classifiers is called among the views of a family."""
        return _usual(m).name

    @cached_property
    def cells(self) -> PredictedRows:
        return PredictedRows.of(self.rows, self.clip)

    @cached_property
    def view(self) -> FactorView:
        if self.known is not None:
            return self.known
        return _usual(self.rows.P.shape[1]).fit(self.cells.take(slice(None, None, 1 + len(self.rows.P) // FIT_ROWS)))

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
        """(n,) how far the scores of instances are from what the view expects, in normal deviates; see `distance`."""
        found: Floats = parts_of(self.view.model, cells, self.rows.n_channels)[:, 1]
        return found

    def novelty(self, cells: PredictedRows | None = None) -> Floats:
        """(n,) the share of fitted instances that are nearer to what is expected."""
        distance = self.distance(self.cells if cells is None else cells)
        return share_nearer(self.usual, distance)

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


def _usual(m: int) -> FactorView:
    return FactorView(int(np.clip(m // CLASSIFIERS_FOR_A_FACTOR, 1, RANK)))


def share_nearer(usual: Floats, distance: Floats) -> Floats:
    """(n,) the share of the sorted usual distances that are below each."""
    return np.asarray(np.searchsorted(usual, distance) / len(usual))
