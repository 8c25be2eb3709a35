"""Several quantiles of ratings at once: fits that stand beside one another, and how far their scores are off.

A quantile that was fitted is drawn towards the middle, as every penalised score is, so that fewer ratings lie within
two of them than should. Pairs that were held apart tell by how much. Fits nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.losses import Loss
from halfstep.data.table import CellsHere
from halfstep.models.rating_fit import Band, RatingFit

HELD = 10
"""One pair in so many is held apart to learn the shifts from."""


@dataclass(frozen=True, eq=False)
class HeldApart:
    """Most of the cells, and some that were taken out of them: row, column, target and weight of each."""

    rest: CellsHere
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    targets: Floats
    weights: Floats

    @classmethod
    def of(cls, given: CellsHere, seed: int) -> HeldApart:
        cells = given.cells
        n = len(cells)
        rows = np.repeat(np.arange(cells.shape[0]), cells.counts)
        t, w = (np.broadcast_to(np.asarray(v, np.float64), n) for v in (cells.targets, cells.weights))
        held = np.random.default_rng(seed).permutation(n) % HELD == 0
        parts = (rows, cells.indices.astype(np.int64), t, w)
        kept = [part[~held] for part in parts]
        dtype = cells.targets.dtype if isinstance(cells.targets, np.ndarray) else np.float32
        rest = Observations.from_cells(kept[0], kept[1], cells.shape, kept[2], kept[3], dtype=dtype)
        return cls(replace(given, cells=rest, total_weight=float(kept[3].sum())), *(part[held] for part in parts))

    def shift(self, level: float, fit: RatingFit) -> float:
        """What is added to the scores of a fit to the rest, so that a share `level` of what was held lies below."""
        left, right = fit.rows[0][self.rows], fit.rows[1][self.columns]
        over = self.targets - np.einsum("kd,kd->k", left, right, dtype=np.float64)
        order = np.argsort(over, kind="stable")
        share = np.cumsum(self.weights[order])
        place = int(np.searchsorted(share, level * share[-1]))
        return float(over[order][min(place, len(order) - 1)])


def fit_bands(
    given: CellsHere, asked: Sequence[Loss], fitted: Callable[[CellsHere, Loss], RatingFit], seed: int
) -> tuple[Band, ...]:
    """A band for each quantile loss. fitted : fits a loss to cells."""
    if not asked:
        return ()
    apart, bands = HeldApart.of(given, seed), []
    for loss in asked:
        level = loss.slopes[0] if loss.slopes else 0.5
        bands.append(Band(level, apart.shift(level, fitted(apart.rest, loss)), fitted(given, loss)))
    return tuple(bands)


def bounds(scores: Callable[[RatingFit], Floats], bands: Sequence[Band], level: float) -> Floats:
    """(N, 2): between them a share `level` of ratings, from the shifted scores of two bands."""
    found = []
    for wanted in ((1 - level) / 2, (1 + level) / 2):
        near = [band for band in bands if abs(band.level - wanted) < 1e-9]
        if not near:
            known = ", ".join(f"{band.level:g}" for band in bands)
            raise ValueError(
                f"level={level!r} lies between the quantiles {(1 - level) / 2:g} and {(1 + level) / 2:g}; beside the "
                f"middle one this model has {known}. Name them in Quantiles((...))."
            )
        found.append(scores(near[0].fit) + near[0].shift)
    return np.sort(np.column_stack(found), axis=1)
