"""Is a batch of instances unlike the fitted ones? Maximum mean discrepancy, its law from permutations. Knows arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from scipy.spatial.distance import cdist

from halfstep.core.arrays import Floats
from halfstep.figures.tables import FactTable

MOST = 600  # instances of either side that are compared
PERMUTATIONS = 999


@dataclass(frozen=True)
class BatchTest:
    """statistic: squared maximum mean discrepancy; p: the share of permutations, and itself, with one as large."""

    statistic: float
    p: float
    n_reference: int
    n_batch: int

    def __repr__(self) -> str:
        return repr(FactTable(asdict(self)))

    def _repr_html_(self) -> str:
        return FactTable(asdict(self))._repr_html_()


def compare(reference: Floats, batch: Floats, seed: int = 0, permutations: int = PERMUTATIONS) -> BatchTest:
    """Both (rows, columns). With k the Gaussian kernel of the median distance, columns in robust deviations,

    statistic = mean k(reference, reference) + mean k(batch, batch) - 2 mean k(reference, batch)
    """
    rng = np.random.default_rng(seed)
    reference, batch = _sample(reference, rng), _sample(batch, rng)
    middle = np.median(reference, axis=0)
    spread = np.median(np.abs(reference - middle), axis=0)
    both = (np.concatenate([reference, batch]) - middle) / np.where(spread > 0, spread, 1.0)
    squares = cdist(both, both, "sqeuclidean")
    off = squares[np.triu_indices(len(both), 1)]
    width = np.median(off[off > 0]) if (off > 0).any() else 1.0
    kernel = np.exp(-squares / width)
    side = np.where(np.arange(len(both)) < len(reference), 1 / len(reference), -1 / len(batch))
    signs = np.array([side, *(rng.permutation(side) for _ in range(permutations))])
    found = ((signs @ kernel) * signs).sum(axis=1)
    p = float(np.mean(found >= found[0] - 1e-12))
    return BatchTest(float(found[0]), p, len(reference), len(batch))


def _sample(rows: Floats, rng: np.random.Generator) -> Floats:
    return rows if len(rows) <= MOST else rows[rng.choice(len(rows), MOST, replace=False)]
