"""Weights of features from sums that executors send: W is on the driver, rows and their features are in the executors.

    (F'DF + eta I) W = F'D B

Few columns: F'DF is summed once and factored, and a half-step begins with one job, F'D B. Many columns: conjugate
gradients go on from the weights of the sweep before, one job a step. A side with few rows, or one that the driver
holds, is solved there as on one machine. Which form is taken, and what it stops at, `core/regression.py` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from halfstep.core import regression
from halfstep.core.arrays import Floats
from halfstep.core.blas import one_blas_thread
from halfstep.core.regression import LEARNED, Regression
from halfstep.data.features import Features
from halfstep.data.ids import Index
from halfstep.engine.local import thread_count
from halfstep.engine.spark import tasks
from halfstep.engine.spark.factors import Factors
from halfstep.engine.spark.layout import Layout
from halfstep.engine.spark.moves import Shared, keyed, together
from halfstep.engine.spark.sums import tree_sum
from halfstep.engine.spark.tasks import Array, BlockRows, ColumnSums, FeaturesOfPart

STRIP = 16
"""Columns of W that stop together, as in the core."""
DIRECT = 1 << 26
"""Bytes of sums that come to the driver as they are; more are added up in the executors first."""


Contribute = Callable[[FeaturesOfPart, Any], ColumnSums]


@dataclass(frozen=True, eq=False)
class FarRegression:
    """What `core.regression.Regression` is on one machine, of rows that are in the executors.

    parts : RDD of (block, FeaturesOfPart), kept, long rows with lam 0. long : those of long rows, on the driver.
    shape : (n, p), nnz : stored features. here : the same on this machine, where its rows are. mark : of the features.
    """

    parts: Any
    layout: Layout
    long: FeaturesOfPart
    shape: tuple[int, int]
    nnz: int
    eta: float
    share: float
    mark: str
    solved: Array | None = None
    turn: Array | None = None
    step: Array | None = None
    here: Regression | None = None

    @property
    def weights(self) -> Array | None:
        if self.here is not None:
            return self.here.weights
        return self.solved if self.solved is None or self.turn is None else self.solved @ self.turn

    def turned(self, basis: Array) -> FarRegression:
        if self.here is not None:
            return self._with(here=self.here.turned(basis))
        return self._with(turn=basis if self.turn is None else self.turn @ basis)

    def cost(self) -> float:
        """eta |W|^2; what F W costs beside it is counted where the rows are."""
        solved = self.solved if self.here is None else self.here.solved
        return 0.0 if solved is None else self.eta * float(np.sum(np.square(solved), dtype=np.float64))

    def brought(self) -> FarRegression:
        """With features and penalties on the driver, for a side whose rows it holds."""
        if self.here is not None:
            return self
        p, layout = self.shape[1], self.layout
        found = [rows for _, rows in sorted(self.parts.collect(), key=lambda item: item[0])]
        matrix = sp.csr_array(sp.vstack([rows.whole(p) for rows in found], format="csr"))
        lam = np.concatenate([rows.lam for rows in found])
        lam[layout.long] = self.long.lam
        return self._with(here=Regression(matrix, self.eta, lam, share=self.share))

    @property
    def is_small(self) -> bool:
        """Whether so few rows have so many columns that the rows come to the driver."""
        return self._factors and self.shape[0] < self.shape[1]

    @property
    def _factors(self) -> bool:
        small = min(self.shape)
        return small <= regression.ALWAYS or (small <= regression.FACTORED and small**2 <= regression.WORTH * self.nnz)

    def learned(self, rows: Factors, free: slice) -> FarRegression:
        """The same with the best weights for these rows, of which the columns `free` count."""
        if self.here is not None:
            whole = np.ascontiguousarray(rows.to_array()[:, free])
            return self._with(here=self.here.learned(whole, thread_count(None))) if whole.any() else self
        return self._factored(rows, free) if self._factors else self._descended(rows, free)

    def restored(self, state: Mapping[str, Array | None]) -> FarRegression:
        """The same with what was learned before, by the names of LEARNED."""
        if self.here is not None:
            return self._with(here=self.here.restored(state))
        return self._with(solved=state["solved"], turn=state["turn"], step=state["step"])

    def collect(self, known: Features, index: Index) -> Features:
        """The features of all rows, on this machine. known : how they are encoded."""
        p = known.shape[1]
        parts = sorted(self.parts.mapValues(lambda rows: rows.matrix_of(p)).collect(), key=lambda item: item[0])
        return replace(known, matrix=sp.csr_array(sp.vstack([m for _, m in parts], format="csr")), ids=index)

    def state(self) -> dict[str, Array | None]:
        held: Any = self if self.here is None else self.here
        return {name: getattr(held, name, None) for name in LEARNED}

    def _with(self, **changes: Any) -> FarRegression:
        after = replace(self, **changes)
        vars(after).update({name: vars(self)[name] for name in ("_factor", "_diagonal") if name in vars(self)})
        return after

    # ------------------------------------------------------------------ sums from the executors

    def _summed(self, contribute: Contribute, rdd: Any, width: int, mine: ColumnSums) -> ColumnSums:
        """What blocks contribute, and long rows, `mine`; added up in a fixed order: whole columns, (p, width)."""
        p, parts = self.shape[1], self.layout.blocks
        ranges = min(parts, 1 + parts * p * width * 8 // DIRECT)

        def run(items: Iterator[Any]) -> Iterator[tuple[int, ColumnSums]]:
            block, told, other = tasks.beside_features(items)
            if told is not None:
                yield block, contribute(told, other)

        found = rdd.mapPartitions(run, preservesPartitioning=True)
        if ranges == 1:
            total: ColumnSums = tree_sum(found.mapValues(lambda sums: sums.whole(p)), self.layout.partitions)
            return mine.whole(p) + total
        ends = np.linspace(0, p, ranges + 1).astype(np.int64)

        def cut(item: tuple[int, ColumnSums]) -> Iterator[tuple[int, tuple[int, ColumnSums]]]:
            block, sums = item
            for place, part in enumerate(sums.cut(ends)):
                yield place, (block, part)

        def add(place: int, items: Iterator[Any]) -> Iterator[tuple[int, ColumnSums]]:
            room = ColumnSums.zero(int(ends[place]), int(ends[place + 1]), width)
            for _, (_, part) in sorted(items, key=lambda item: item[1][0]):
                room.take(part)
            yield place, room

        moved = dict(keyed(found.flatMap(cut), ranges).mapPartitionsWithIndex(add, True).collect())
        return mine.whole(p) + ColumnSums.joined([moved[place] for place in range(ranges)])

    def _across(self, rows: Factors, back: Array | None, free: slice, weights: Array | None) -> ColumnSums:
        """F'D (B - F W), (p, f), and sum lam b^2 by column, in `extra`. back : the turn of rows that is undone."""
        shared, own = None if weights is None else Shared(rows.context, weights), rows.rows()
        bases = list(rows.bases)  # after rows(), which may have brought them up to date

        def contribute(told: FeaturesOfPart, values: Array) -> ColumnSums:
            found = values[:, free].astype(np.float64)
            if back is not None:
                found = found @ back.T
            assert told.lam is not None
            left = found if shared is None else found - told.times(shared.value)
            return ColumnSums(told.columns, told.matrix.T @ (told.lam[:, None] * left), told.lam @ found**2)

        def turned(told: FeaturesOfPart, item: BlockRows) -> ColumnSums:
            return contribute(told, tasks.rotated(item.values, bases))

        try:
            mine = contribute(self.long, rows.long)
            return self._summed(turned, together([self.parts, own]), free.stop - free.start, mine)
        finally:
            if shared is not None:
                shared.destroy()

    @one_blas_thread
    def _factored(self, rows: Factors, free: slice) -> FarRegression:
        sums = self._across(rows, None, free, None)
        if not sums.extra.any():
            return self
        weights = cho_solve(self._factor, sums.values, check_finite=False)
        return self._with(solved=np.ascontiguousarray(weights, rows.kind[1]), turn=None)

    @cached_property
    def _factor(self) -> tuple[Floats, bool]:
        p = self.shape[1]

        def system(told: FeaturesOfPart, _: Any = None) -> ColumnSums:
            dense = told.matrix.T @ sp.diags_array(told.lam) @ told.whole(p)
            return ColumnSums(told.columns, dense.toarray(), np.zeros(0))

        total = self._summed(system, self.parts, p, system(self.long)).values
        np.fill_diagonal(total, total.diagonal() + self.eta)
        factor: tuple[Floats, bool] = cho_factor(total, lower=True, overwrite_a=True, check_finite=False)
        return factor

    @cached_property
    def _diagonal(self) -> Floats:
        """Of the system, (p, 1)."""

        def squares(told: FeaturesOfPart, _: Any = None) -> ColumnSums:
            found = told.matrix.multiply(told.matrix).T @ told.lam
            return ColumnSums(told.columns, np.asarray(found)[:, None], np.zeros(0))

        return self._summed(squares, self.parts, 1, squares(self.long)).values + self.eta

    @one_blas_thread
    def _descended(self, rows: Factors, free: slice) -> FarRegression:
        """As `regress` of the core: every column by itself, strips of them stop together."""
        dtype, f = rows.kind[1], free.stop - free.start
        weights, step = (
            np.zeros((self.shape[1], f)) if old is None else old.astype(np.float64) for old in (self.solved, self.step)
        )
        strips, going = np.arange(f) // STRIP, np.ones(f, bool)
        for _ in range(regression.STEPS):
            sums = self._across(rows, self.turn, free, weights if weights.any() else None)
            if not sums.extra.any():
                return self
            left = sums.values - self.eta * weights
            along = left / self._diagonal
            gain, last = np.sum(left * along, axis=0), np.sum(left * step, axis=0)
            by, keep = regression.best_step(gain, last, *self._curvatures(along, step))
            step = np.where(going, by * along + keep * step, step)
            weights += np.where(going, step, 0.0)
            going &= np.bincount(strips, by * gain + keep * last)[strips] > (
                regression.TOLERANCE * np.bincount(strips, sums.extra)[strips]
            )
            if not going.any():
                break
        return self._with(solved=weights.astype(dtype), step=step.astype(dtype))

    def _curvatures(self, along: Floats, step: Floats) -> Floats:
        """d'Ad, d's and s'As of each column of both directions, (3, f), under the system A = F'DF + eta I."""
        shared = Shared(self.parts.context, np.hstack([along, step]))

        def products(one: Floats, other: Floats, weights: Any = 1.0) -> Floats:
            return np.stack([np.sum(weights * a * b, axis=0) for a, b in ((one, one), (one, other), (other, other))])

        def across(told: FeaturesOfPart, _: Any = None) -> ColumnSums:
            assert told.lam is not None
            both = np.hsplit(told.times(shared.value), 2)
            sums = products(both[0], both[1], told.lam[:, None])
            return ColumnSums(told.columns[:0], np.zeros((0, 0)), sums)

        try:
            found = self._summed(across, self.parts, 0, across(self.long)).extra
        finally:
            shared.destroy()
        return np.asarray(found + self.eta * products(along, step))
