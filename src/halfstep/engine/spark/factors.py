"""The rows of one side during a fit: where they are, what they are made from, what may be freed.

Knows RDDs and broadcasts, not how rows are solved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.engine.spark import tasks
from halfstep.engine.spark.layout import Layout
from halfstep.engine.spark.moves import Shared, keyed
from halfstep.engine.spark.sums import in_order
from halfstep.engine.spark.tasks import Array, BlockRows


@dataclass
class Factors:
    """The rows of one side: all on the driver if they are few enough to be broadcast, else in the executors.

    long : (L, d) values of the long rows, on the driver.
    values : (n, d) all rows, on the driver, rotated; None where they are too many.
    shared : `values` in every executor, sent when an executor first needs it.
    kept : RDD of (block, BlockRows), persisted, among them pieces of long rows; None where nothing but `values` counts.
    bases : rotations that `shared` and `kept` still lack, in order.
    gram, cost : of all rows, rotated.
    needs : broadcasts and RDDs without which a lost partition of `kept` cannot be made again.
    depth : half-steps in that chain; 0 for one that was cut, so that `kept` itself must not be let go.
    """

    context: Any
    layout: Layout
    long: Array
    values: Array | None = None
    kept: Any = None
    shared: Any = None
    bases: list[Array] = field(default_factory=list)
    gram: NDArray[np.float64] | None = None
    cost: float = 0.0
    needs: list[Any] = field(default_factory=list)
    depth: int = 0

    @property
    def kind(self) -> tuple[int, np.dtype[Any]]:
        """Columns of a row, and its type of number."""
        return self.long.shape[1], self.long.dtype

    @property
    def is_zero(self) -> bool:
        return self.values is None and self.kept is None

    @property
    def ancestry(self) -> list[Any]:
        """What must live on for something that is made from `kept`."""
        return [*self.needs, *([self.kept] if self.depth == 0 else [])]

    def share(self, rotated: bool = True) -> Any:
        """A broadcast of all rows; one that still lacks `bases` does where rotated is False."""
        if self.shared is None or (rotated and self.bases):
            assert self.values is not None
            self.needs += [self.shared] if self.shared is not None else []
            self.shared, self.bases = Shared(self.context, self.values), []
        return self.shared

    def rows(self) -> Any:
        """RDD of (block, BlockRows), without `bases`, long rows at zero."""
        if self.kept is not None:
            return self.kept.filter(lambda item: isinstance(item[1], BlockRows))
        shared, layout = self.share(), self.layout

        def cut(block: int, _: Iterator[Any]) -> Iterator[tuple[int, BlockRows]]:
            if block < layout.blocks:
                yield block, tasks.block_of(shared.value, layout, block)

        return partitions_of(self.context, layout).mapPartitionsWithIndex(cut, preservesPartitioning=True)

    def blocks(self) -> Any:
        """RDD of (block, values) with long rows in their places, rotated."""
        found, layout, long = self.rows(), self.layout, self.long
        bases = self.bases  # after rows(), which may have brought them up to date

        def whole(item: tuple[int, BlockRows]) -> tuple[int, Array]:
            block, rows = item
            values = tasks.rotated(rows.values, bases)
            numbers, places = layout.long_in(block)
            values[places] = long[numbers]
            return block, values

        return found.map(whole, preservesPartitioning=True)

    def to_array(self) -> Array:
        """All rows on the driver, (n, d)."""
        if self.values is not None:
            return self.values.copy()
        parts = sorted(self.blocks().collect(), key=lambda item: item[0])
        return np.concatenate([values for _, values in parts])

    def mean(self) -> NDArray[np.float64]:
        """The mean of all rows, (d,)."""
        if self.values is not None:
            return np.asarray(self.values.mean(axis=0, dtype=np.float64))
        sums = self.blocks().mapValues(lambda values: values.sum(axis=0, dtype=np.float64)).collect()
        return np.asarray(in_order(sums) / self.layout.n)

    def rotate(self, basis: Array) -> None:
        """Every row times `basis`; nothing moves until the rows are next read."""
        self.bases = [*self.bases, basis]
        self.long = tasks.rotated(self.long.copy(), [basis])
        if self.values is not None:
            tasks.rotated(self.values, [basis])

    def unpersist(self) -> None:
        """Free what the executors hold; it is made or sent again when asked for."""
        for thing in (self.kept, self.shared):
            if thing is not None:
                thing.unpersist()


def partitions_of(context: Any, layout: Layout) -> Any:
    """An empty element under the key of each partition."""
    return keyed(
        context.parallelize([(p, None) for p in range(layout.partitions)], layout.partitions), layout.partitions
    )


def held(sides: Sequence[Factors]) -> dict[int, Any]:
    """Everything on the cluster that factors are made of, by identity."""
    things = [thing for factors in sides for thing in (factors.kept, factors.shared, *factors.needs)]
    return {id(thing): thing for thing in things if thing is not None}


def let_go(before: dict[int, Any], sides: Sequence[Factors]) -> None:
    """Free what was held before and is not needed any more."""
    now = held(sides)
    for key, thing in before.items():
        if key not in now:
            (thing.destroy if hasattr(thing, "destroy") else thing.unpersist)()
