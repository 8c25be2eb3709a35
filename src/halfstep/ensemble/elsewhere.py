"""Unlabelled rows in blocks that are not in this process: each is solved where it is and known by its sums.

The factors of a row depend on its cells and on the classifiers alone. So rows that are lost are made again from their
block and the classifiers of the last sweep, and there is nothing of theirs to checkpoint. What runs on a block are
plain functions of arrays. Must not know labels, DataFrames, or what brings blocks and functions together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.ensemble.columns import FactorArray, LatentColumns
from halfstep.ensemble.confidence import CellWeights
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.framed import Wrong, out_of_range
from halfstep.ensemble.parts import PartSums
from halfstep.ensemble.scale import CellScale
from halfstep.ensemble.start import StartSums
from halfstep.ensemble.sums import SiteSums
from halfstep.ensemble.table import PredictionTable, make_table

if TYPE_CHECKING:
    from halfstep.engine.spark.instances import InstanceBlocks

QUANTILE_BINS = 4096


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Unlabelled rows: their cells and features, and what was wrong with their predictions."""

    table: PredictionTable
    features: Floats | None
    wrong: Wrong
    empty: int

    @property
    def channel(self) -> Codes:
        return np.zeros(self.table.shape[0], np.int64)


@dataclass(frozen=True, eq=False)
class BlockRecipe:
    """How numbers (n, m + q) become a block: m predictions, then q features."""

    m: int
    scale: CellScale
    confidence: CellWeights
    moments: tuple[Floats, Floats] | None
    dtype: type

    def __call__(self, numbers: Floats) -> RowBlock:
        P, features = numbers[:, : self.m].copy(), None
        wrong = out_of_range(P)
        if wrong:
            P[:] = np.nan  # nobody will look at them
        if self.moments is not None:
            features = (numbers[:, self.m :] - self.moments[0]) / self.moments[1]
        table = make_table(P, self.scale, self.confidence, np.full(len(P), -1), self.dtype)
        return RowBlock(table, features, wrong, int(np.isnan(P).all(axis=1).sum()))


@dataclass(frozen=True, eq=False)
class SolvedBlock:
    """Factors (n, d) of the rows of a block, with their sums."""

    rows: FactorArray
    found: SiteSums


class DistributedRows:
    """`RowsElsewhere` in blocks. `model` are the classifiers, without rows, that `solve` and `sums` take the place of.

    wrong, empty : see `RowBlock`; over all blocks.
    """

    def __init__(self, blocks: InstanceBlocks[RowBlock], model: EnsembleFactors) -> None:
        self.blocks, self.model = blocks, model
        columns = model.columns
        found = blocks.total(lambda block: first_sums(block, columns)).sums
        self.start: StartSums = found["start"]
        self.weights: tuple[Floats, Floats] = found["weights"], found["counts"]
        self.wrong: Wrong = found["wrong"]
        self.empty: int = found["empty"]
        self.n_cells = int(self.weights[1].sum())
        self._known: tuple[FactorArray, PartSums] | None = None

    def solve(self, V: FactorArray) -> dict[str, float]:
        model = self._model(V)
        found = dict(self.blocks.advance(lambda block: solve_block(model, block), compared).sums)
        self._known = model.classifier_factors, found.pop("rows")
        return found

    def sums(self, V: FactorArray) -> PartSums:
        if self._known is None or not np.array_equal(self._known[0], V):
            model = self._model(V)
            found = self.blocks.total_of_states(lambda block, solved: rows_of(model, block, solved).sums())
            self._known = model.classifier_factors, found
        return self._known[1]

    def residuals(self, V: FactorArray) -> tuple[float, float]:
        model = self._model(V)
        left, weight = self.blocks.total_of_states(lambda block, solved: residual_sums(rows_of(model, block, solved)))
        return float(left), float(weight)

    def novelty_quantile(self, V: FactorArray, noise: float, here: Floats, level: float) -> float:
        """The first job counts rows in narrow bins, the second brings the values of the bins that hold the quantile."""
        model = self._model(V)

        def novelty(block: RowBlock, solved: SolvedBlock) -> Floats:
            return rows_of(model, block, solved).residuals().novelty(noise)

        bins = self.blocks.total_of_states(lambda block, solved: _binned(novelty(block, solved))) + _binned(here)
        place = level * (bins.sum() - 1)
        low, high = int(np.floor(place)), int(np.ceil(place))
        ends = np.cumsum(bins)
        first, last = np.searchsorted(ends, [low, high], side="right")

        def near(values: Floats) -> Floats:
            places = _bin(values)
            return np.asarray(values[(places >= first) & (places <= last)])

        found = self.blocks.gather(lambda block, solved: near(novelty(block, solved)))
        values = np.sort(np.concatenate([near(here), *found]))
        skipped = ends[first] - bins[first]
        below, above = values[low - skipped], values[high - skipped]
        return float(below + (place - low) * (above - below))

    def close(self) -> None:
        self.blocks.unpersist()

    def _model(self, V: FactorArray) -> EnsembleFactors:
        return replace(self.model, classifier_factors=V.copy())


# ---------------------------------------------------------------------- where a block is


def first_sums(block: RowBlock, columns: LatentColumns) -> SiteSums:
    """What is known of a block before anything is solved."""
    weights, counts = block.table.weights_by_classifier()
    start = StartSums.of(block.table, columns, block.channel)
    found = {"wrong": block.wrong, "empty": block.empty}
    return SiteSums("start", {"start": start, "weights": weights, "counts": counts, **found})


def solve_block(model: EnsembleFactors, block: RowBlock) -> SolvedBlock:
    """The rows of a block against the classifiers, from zero: they depend on nothing else."""
    here = model.with_rows(block.table, block.channel, block.features)
    found = here.solve_rows(evaluate=True)
    return SolvedBlock(here.row_factors, SiteSums("sweep", {**found, "rows": here.sums()}))


def compared(new: SolvedBlock, old: SolvedBlock | None) -> SiteSums:
    """The sums of solved rows, with how far the rows went since the sweep before."""
    if old is None:
        return new.found
    change = float(((new.rows.astype(np.float64) - old.rows) ** 2).sum())
    return SiteSums("sweep", {**new.found.sums, "change": change})


def rows_of(model: EnsembleFactors, block: RowBlock, solved: SolvedBlock) -> EnsembleFactors:
    """The solved rows of a block under the classifiers of `model`."""
    return replace(model, table=block.table, row_factors=solved.rows, channel=block.channel)


def residual_sums(rows: EnsembleFactors) -> Floats:
    found = rows.residuals()
    return np.array([found.left.sum(), found.weight.sum()])


def _bin(novelty: Floats) -> Codes:
    """(n,) the bin of each value, in the order of values; the last one is open."""
    return np.asarray(np.clip(novelty * QUANTILE_BINS, 0, QUANTILE_BINS), np.int64)


def _binned(novelty: Floats) -> Codes:
    return np.bincount(_bin(novelty), minlength=QUANTILE_BINS + 1)
