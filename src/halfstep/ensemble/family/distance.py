"""How far an instance is from what a factor analysis expects.

Under  z = means + loadings u + e,  u ~ N(0, I),  e_j ~ N(0, noise_j)  the observed cells of an instance have

    d^2 = (z - means)' (loadings loadings' + noise)^-1 (z - means) = sum_j e_j^2 / noise_j + |u|^2

at the posterior mean u: what the factors leave, in units of each classifier's noise, and how far out the factors are.
Missing cells are integrated out: they are in no sum. Knows scores and a mask; no label, no estimator.
"""

from __future__ import annotations

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.ensemble.family.analysis import FactorAnalysis
from halfstep.ensemble.family.views import PredictedRows


def parts_of(model: FactorAnalysis, rows: PredictedRows, n_channels: int) -> Floats:
    """(n, 3) by instance: the mean reconstructed score, and the distance in noise and in factors as normal scores."""
    scores, observed = rows.scores("logit"), rows.observed
    factors = model.posterior(scores, observed)[0]
    expected = model.reconstruct(factors)
    left = np.where(observed, (scores - expected) ** 2, 0.0) @ (1 / model.noise)
    out, cells = (factors**2).sum(axis=1), observed.sum(axis=1).astype(np.float64)
    shape = (-1, n_channels)
    counts = cells.reshape(shape).sum(axis=1)
    rank = float(model.loadings.shape[1] * n_channels)
    return np.column_stack(
        [
            expected.mean(axis=1).reshape(shape).max(axis=1),
            cube_root((left + out).reshape(shape).sum(axis=1), counts),
            cube_root(out.reshape(shape).sum(axis=1), np.minimum(rank, counts)),
        ]
    )


def cube_root(squared: Floats, cells: Floats) -> Floats:
    """A chi square of so many cells as a standard normal (Wilson and Hilferty); 0 without cells."""
    k = np.maximum(cells, 1.0)
    normal = (np.cbrt(squared / k) - (1 - 2 / (9 * k))) / np.sqrt(2 / (9 * k))
    return np.where(cells > 0, normal, 0.0)
