"""Unlabelled rows on a cluster as a part of the instance side: a job solves them and brings back their sums.

The factors of a row depend on its cells and on the classifiers alone. So rows that are lost are made again from their
block and the classifiers of the last sweep, and there is nothing of theirs to checkpoint. Knows RDDs of blocks and the
factors of a block; must not know labels, DataFrames or estimators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.engine.spark.moves import kept
from halfstep.engine.spark.sums import tree_sum
from halfstep.ensemble.columns import FactorArray, LatentColumns
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.parts import PartSums, SiteSums
from halfstep.ensemble.spark.frame import RowBlock
from halfstep.ensemble.start import StartSums

QUANTILE_BINS = 4096


@dataclass(frozen=True, eq=False)
class SolvedBlock:
    """FactorArray (n, d) of the rows of a block, with their sums."""

    rows: FactorArray
    found: SiteSums


class SparkRows:
    """A `Part` of blocks. `model` are the classifiers, without rows, that `solve` and `sums` take the place of.

    start, weights : sums from which classifiers start; the summed weights and number of each classifier's cells.
    """

    def __init__(self, blocks: Any, n_blocks: int, model: EnsembleFactors) -> None:
        self.blocks, self.n_blocks, self.model = blocks, n_blocks, model
        columns = model.columns
        found = self._total(blocks.mapValues(lambda block: first_sums(block, columns))).sums
        self.start: StartSums = found["start"]
        self.weights: tuple[Floats, Floats] = found["weights"], found["counts"]
        self.wrong: list[tuple[int, float, int]] = found["wrong"]
        self.empty: int = found["empty"]
        self.mark = found["mark"]
        self.n_cells = int(self.weights[1].sum())
        self._solved: Any = None
        self._known: tuple[FactorArray, PartSums] | None = None

    # ------------------------------------------------------------------ what a factorisation asks for

    def solve(self, V: FactorArray) -> dict[str, float]:
        model = self._model(V)
        solved = kept(self.blocks.mapValues(lambda block: solve_block(model, block)))
        before, self._solved = self._solved, solved
        if before is None:
            total = self._total(solved.mapValues(lambda block: block.found))
        else:
            total = self._total(solved.zip(before).map(compared))
            before.unpersist()
        found = dict(total.sums)
        self._known = model.classifier_factors, found.pop("rows")
        return found

    def sums(self, V: FactorArray) -> PartSums:
        if self._known is None or not np.array_equal(self._known[0], V):
            model = self._model(V)
            total = self._over_rows(lambda here: SiteSums("sums", {"rows": here.sums()}), model)
            self._known = model.classifier_factors, total.sums["rows"]
        return self._known[1]

    # ------------------------------------------------------------------ what is asked after the fit

    def residuals(self, V: FactorArray) -> tuple[float, float]:
        """Sum of weighted squared residuals of the cells, and of their weights."""
        total = self._over_rows(residual_sums, self._model(V)).sums
        return total["left"], total["weight"]

    def novelty_quantile(self, V: FactorArray, noise: float, here: Floats, level: float) -> float:
        """`np.quantile` of the novelty of all rows and of those that are `here`, exactly.

        The first job counts rows in narrow bins, the second brings the values of the bins that hold the quantile.
        """
        model = self._model(V)
        counted = self._over_rows(lambda rows: SiteSums("bins", {"n": _binned(rows.residuals().novelty(noise))}), model)
        bins = counted.sums["n"] + _binned(here)
        place = level * (bins.sum() - 1)
        low, high = int(np.floor(place)), int(np.ceil(place))
        ends = np.cumsum(bins)
        first, last = np.searchsorted(ends, [low, high], side="right")

        def near(novelty: Floats) -> Floats:
            places = _bin(novelty)
            return np.asarray(novelty[(places >= first) & (places <= last)])

        found = self._paired().map(lambda pair: near(rows_of(model, pair).residuals().novelty(noise))).collect()
        values = np.sort(np.concatenate([near(here), *found]))
        skipped = ends[first] - bins[first]
        below, above = values[low - skipped], values[high - skipped]
        return float(below + (place - low) * (above - below))

    def unpersist(self) -> None:
        """Free what the cluster keeps."""
        self.blocks.unpersist()
        if self._solved is not None:
            self._solved.unpersist()

    # ------------------------------------------------------------------ jobs

    def _model(self, V: FactorArray) -> EnsembleFactors:
        return replace(self.model, classifier_factors=V.copy())

    def _paired(self) -> Any:
        """RDD of ((number, RowBlock), (number, SolvedBlock))."""
        return self.blocks.zip(self._solved)

    def _over_rows(self, what: Callable[[EnsembleFactors], SiteSums], model: EnsembleFactors) -> SiteSums:
        """The sum over blocks of `what` is asked about their rows as last solved, under the classifiers of `model`."""
        return self._total(self._paired().map(lambda pair: (pair[0][0], what(rows_of(model, pair)))))

    def _total(self, numbered: Any) -> SiteSums:
        total: SiteSums = tree_sum(numbered, self.n_blocks)
        return total


# ---------------------------------------------------------------------- inside the executors


def first_sums(block: RowBlock, columns: LatentColumns) -> SiteSums:
    """What is known of a block before anything is solved."""
    table = block.table
    weights, counts = table.weights_by_classifier()
    start = StartSums.of(table, columns, np.zeros(table.shape[0], np.int64))
    found = {"wrong": block.wrong, "empty": block.empty, "mark": block.mark}
    return SiteSums("start", {"start": start, "weights": weights, "counts": counts, **found})


def solve_block(model: EnsembleFactors, block: RowBlock) -> SolvedBlock:
    """The rows of a block against the classifiers, from zero: they depend on nothing else."""
    here = model.with_rows(block.table, np.zeros(block.table.shape[0], np.int64), block.features)
    found = here.solve_rows(evaluate=True)
    return SolvedBlock(here.row_factors, SiteSums("sweep", {**found, "rows": here.sums()}))


def compared(pair: Any) -> tuple[int, SiteSums]:
    """The sums of solved rows, with how far the rows went since the sweep before."""
    (number, new), (_, old) = pair
    change = float(((new.rows.astype(np.float64) - old.rows) ** 2).sum())
    return number, SiteSums("sweep", {**new.found.sums, "change": change})


def rows_of(model: EnsembleFactors, pair: Any) -> EnsembleFactors:
    """The solved rows of a block under the classifiers of `model`."""
    (_, block), (_, solved) = pair
    channel: Codes = np.zeros(len(solved.rows), np.int64)
    return replace(model, table=block.table, row_factors=solved.rows, channel=channel)


def residual_sums(rows: EnsembleFactors) -> SiteSums:
    found = rows.residuals()
    return SiteSums("residuals", {"left": float(found.left.sum()), "weight": float(found.weight.sum())})


def _bin(novelty: Floats) -> Codes:
    """(n,) the bin of each value, in the order of values; the last one is open."""
    return np.asarray(np.clip(novelty * QUANTILE_BINS, 0, QUANTILE_BINS), np.int64)


def _binned(novelty: Floats) -> Codes:
    return np.bincount(_bin(novelty), minlength=QUANTILE_BINS + 1)
