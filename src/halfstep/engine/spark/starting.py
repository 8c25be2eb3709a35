"""Where factors on a cluster start: from arrays, from rows made where they are needed, or from rows that are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfstep.engine.local import gram_matrix
from halfstep.engine.protocol import Start
from halfstep.engine.spark import tasks
from halfstep.engine.spark.cells import DistributedCells
from halfstep.engine.spark.factors import Factors, partitions_of
from halfstep.engine.spark.layout import Layout
from halfstep.engine.spark.moves import kept, keyed
from halfstep.engine.spark.session import fits
from halfstep.engine.spark.sums import in_order
from halfstep.engine.spark.tasks import Array


@dataclass(frozen=True)
class Placing:
    """Puts rows of a side where they are needed. gram : whether its Gram matrix is wanted; limit: of broadcasts."""

    cells: DistributedCells
    side: int
    gram: bool
    limit: int

    @property
    def layout(self) -> Layout:
        return self.cells.layouts[self.side]

    def place(self, start: Start | Array | Factors) -> Factors:
        if isinstance(start, Factors):
            return start
        return self._given(start) if isinstance(start, np.ndarray) else self._made(start)

    def _given(self, values: Array) -> Factors:
        """Factors that start from an (n, d) array."""
        layout, gram = self.layout, self.gram
        if len(values) != layout.n:
            raise ValueError(f"factors of side {self.side} have {len(values)} rows; the cells have {layout.n}.")
        if fits(layout.n, values.shape[1], values.dtype, self.limit):
            known = gram_matrix(values, 1) if gram else None
            return Factors(self.cells.context, layout, values[layout.long].copy(), values, gram=known)
        blocks = [(b, values[layout.starts[b] : layout.starts[b + 1]]) for b in range(layout.blocks)]
        rows = keyed(self.cells.context.parallelize(blocks, layout.blocks), layout.partitions).map(
            lambda item: (item[0], tasks.starting(item[1], layout, item[0], gram)), preservesPartitioning=True
        )
        return self._summed(rows, values[layout.long].copy())

    def _made(self, start: Start) -> Factors:
        """Factors whose rows are made where they are needed."""
        layout, side, gram, d, dtype = self.layout, self.side, self.gram, start.d, start.dtype
        if start.rows(side, 0, 0) is None:
            return Factors(self.cells.context, layout, np.zeros((len(layout.long), d), dtype))
        if fits(layout.n, d, dtype, self.limit):
            whole = start.rows(side, 0, layout.n)
            assert whole is not None
            return self._given(whole)

        def fill(block: int, _: Iterator[Any]) -> Iterator[Any]:
            if block < layout.blocks:
                values = start.rows(side, *layout.range_of(block))
                assert values is not None
                yield block, tasks.starting(values, layout, block, gram)

        rows = partitions_of(self.cells.context, layout).mapPartitionsWithIndex(fill, preservesPartitioning=True)
        long: list[Any] = [start.rows(side, int(p), int(p) + 1) for p in layout.long]
        return self._summed(rows, np.concatenate([np.zeros((0, d), dtype), *long]))

    def _summed(self, rows: Any, long: Array) -> Factors:
        factors = Factors(self.cells.context, self.layout, long, kept=kept(rows), depth=1)
        if self.gram:
            found = factors.rows().mapValues(lambda rows: rows.summary.gram).collect()
            factors.gram = in_order([(-1, gram_matrix(long, 1)), *found])
        return factors
