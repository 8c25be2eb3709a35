"""Cells on a cluster: shuffled once into blocks of both orientations, with the routes that factor rows will take.

Knows RDDs and layouts, not what is solved. Partition p of an RDD of a side holds at most one block, under the key p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from halfstep.core.cells import MAX_INDEX, Values
from halfstep.engine.spark.chunks import Chunk, Chunks
from halfstep.engine.spark.layout import Ints, Layout
from halfstep.engine.spark.moves import kept, keyed, together
from halfstep.engine.spark.numbering import Reply, rows_of_chunks
from halfstep.engine.spark.tasks import CellBlock, CellPart, PerRow, Route, build_block


@dataclass(frozen=True, eq=False)
class DistributedCells:
    """What `Observations` is on one machine: the cells of an (n, m) matrix.

    blocks : for each side, RDD of (partition, CellBlock).
    routes : for each side, RDD of (block, Route): which of its rows go to which partition of the other side.
    long_counts : for each side, cells of its long rows.
    shipped : for each side, how many of its rows are sent when the other side is solved, counted once a receiver.
    fingerprint : of the data, the same for the same cells in any order.
    """

    context: Any
    layouts: tuple[Layout, Layout]
    blocks: tuple[Any, Any]
    routes: tuple[Any, Any]
    long_counts: tuple[Ints, Ints]
    shipped: tuple[int, int]
    n_cells: int
    total_weight: float
    fingerprint: str

    def __len__(self) -> int:
        return self.n_cells

    @property
    def shape(self) -> tuple[int, int]:
        return self.layouts[0].n, self.layouts[1].n

    @property
    def T(self) -> DistributedCells:
        pairs = ("layouts", "blocks", "routes", "long_counts", "shipped")
        return replace(self, **{name: getattr(self, name)[::-1] for name in pairs})

    def per_row(self, rule: Callable[[Ints], Values]) -> PerRow:
        return PerRow(rule)

    def weighted(self, factor: float) -> DistributedCells:
        """The same cells with their weights times `factor`; they take the place of these."""

        def scaled(block: CellBlock) -> CellBlock:
            return replace(block, cells=replace(block.cells, weights=block.cells.weights * factor, _transposed=[]))

        blocks = tuple(kept(rdd.mapValues(scaled)) for rdd in self.blocks)
        for rdd, old in zip(blocks, self.blocks, strict=True):
            rdd.count()
            old.unpersist()
        return replace(self, blocks=blocks, total_weight=self.total_weight * factor)

    def unpersist(self) -> None:
        for rdd in (*self.blocks, *self.routes):
            rdd.unpersist()


def distribute(
    chunks: Chunks, replies: tuple[Any, Any], layouts: tuple[Layout, Layout], duplicates: str, fingerprint: str
) -> DistributedCells:
    """Cells from chunks and the row numbers of their ids, RDDs of (home of a chunk, Reply)."""
    numbered = together([chunks.rdd, *replies])
    blocks = tuple(_blocks(numbered, side, layouts, duplicates, chunks.dtype) for side in (0, 1))
    sizes = [dict(rdd.mapValues(_size).collect()) for rdd in blocks]
    routes = tuple(_routes(blocks[1 - side], layouts[side]) for side in (0, 1))
    return DistributedCells(
        chunks.rdd.context,
        layouts,
        blocks,
        routes,
        (_long_counts(sizes[0], layouts[0]), _long_counts(sizes[1], layouts[1])),
        (sum(size.needed for size in sizes[1].values()), sum(size.needed for size in sizes[0].values())),
        sum(size.cells for size in sizes[0].values()),
        sum(size.weight for size in sizes[0].values()),
        fingerprint,
    )


def _blocks(numbered: Any, side: int, layouts: tuple[Layout, Layout], duplicates: str, dtype: Any) -> Any:
    own, other = layouts[side], layouts[1 - side]

    def scatter(items: Iterator[Any]) -> Iterator[tuple[int, CellPart]]:
        waiting: list[Chunk] = []
        replies: list[Reply] = []
        for _, item in items:
            (replies if isinstance(item, Reply) else waiting).append(item)
        rows_of = rows_of_chunks(replies)
        for chunk in waiting:
            pair = [rows_of(chunk, k)[chunk.codes[k]] for k in (0, 1)]
            if len(pair[0]):  # all weights of a chunk may be zero
                yield from _cut(chunk, pair[side], pair[1 - side], own, other)

    def build(partition: int, items: Iterator[tuple[int, CellPart]]) -> Iterator[tuple[int, CellBlock]]:
        parts = sorted((part for _, part in items), key=lambda part: part.number)
        yield partition, build_block(partition, parts, own, other, duplicates, dtype)

    scattered = keyed(numbered.mapPartitions(scatter), own.partitions)
    return kept(scattered.mapPartitionsWithIndex(build, preservesPartitioning=True))


def _cut(chunk: Chunk, rows: Ints, others: Ints, own: Layout, other: Layout) -> Iterator[tuple[int, CellPart]]:
    """The cells of a chunk, by the partitions they belong to."""
    partitions = own.partition_of(rows, others, other)
    order = np.argsort(partitions, kind="stable")
    found, starts = np.unique(partitions[order], return_index=True)

    def split(values: Any) -> Any:
        return [None] * len(found) if values is None else np.split(values[order], starts[1:])

    columns = [
        split(values) for values in (_narrow(rows, own.n), _narrow(others, other.n), chunk.weights, chunk.targets)
    ]
    for partition, *arrays in zip(found.tolist(), *columns, strict=True):
        yield partition, CellPart(chunk.number, *arrays)


def _narrow(rows: Ints, n: int) -> Ints:
    """Row numbers in 4 bytes each, where they fit."""
    return rows.astype(np.int32) if n <= MAX_INDEX else rows


def _routes(blocks: Any, layout: Layout) -> Any:
    """Where the rows of each block of a side have to go, from what the blocks of the other side need."""

    def wanted(item: tuple[int, CellBlock]) -> Iterator[tuple[int, Route]]:
        partition, block = item
        owners = layout.block_of(block.needed)
        sources, starts = np.unique(owners, return_index=True)
        for source, start, rows in zip(
            sources.tolist(), starts.tolist(), np.split(block.needed, starts[1:]), strict=False
        ):
            yield source, Route(partition, start, (rows - layout.starts[source]).astype(np.int32))

    return kept(keyed(blocks.flatMap(wanted), layout.partitions))


class Size(NamedTuple):
    """What the driver learns about a partition: its cells, the rows it needs, the sum of its weights."""

    cells: int
    needed: int
    weight: float


def _size(block: CellBlock) -> Size:
    weights = np.asarray(block.cells.weights, np.float64)
    total = float(weights.sum()) if weights.ndim else float(weights) * len(block.cells)
    return Size(len(block.cells), len(block.needed), total)


def _long_counts(sizes: dict[int, Size], layout: Layout) -> Ints:
    counts = np.zeros(len(layout.long), np.int64)
    for partition, size in sizes.items():
        number = layout.long_of(partition)
        if number is not None:
            counts[number] += size.cells
    return counts
