"""Cells on a cluster: shuffled once into blocks of both orientations, with the routes that factor rows will take.

Knows RDDs and layouts, not what is solved. Every RDD of a side has the partitions of its layout, and its partition p
holds at most one block, under the key p; so RDDs of one side are put together without a shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from halfstep.engine.spark.layout import Ints, Layout
from halfstep.engine.spark.tasks import CellBlock, PerRow, build_block
from halfstep.observations import Values

_FLUSH_CELLS = 2_000_000  # cells a task holds before it sends them off
_SCATTERED = "side int, partition int, rows binary, others binary, weights binary, targets binary"


def by_number(key: int) -> int:
    """The partitioner of every RDD here. One function object, so that Spark sees that they agree."""
    return key


def keyed(rdd: Any, partitions: int) -> Any:
    """(partition, value) pairs brought to their partitions."""
    return rdd.partitionBy(partitions, by_number)


def together(rdds: list[Any]) -> Any:
    """Partition p of all of them, one after another; no shuffle, because they are partitioned alike."""
    united = rdds[0].context.union(rdds) if len(rdds) > 1 else rdds[0]
    if united.getNumPartitions() != rdds[0].getNumPartitions():
        raise AssertionError("RDDs of one side must have the same partitioner")  # pragma: no cover
    return united


def kept(rdd: Any) -> Any:
    """Persist an RDD, in the form in which a shuffle leaves one: `together` would otherwise send every block through a
    Python worker once more, only to pack it alike."""
    from pyspark import StorageLevel
    from pyspark.serializers import BatchedSerializer, CPickleSerializer

    return rdd._reserialize(BatchedSerializer(CPickleSerializer())).persist(StorageLevel.MEMORY_AND_DISK)


@dataclass(frozen=True, eq=False)
class DistributedCells:
    """What `Observations` is on one machine: the cells of an (n, m) matrix.

    blocks : for each side, RDD of (partition, CellBlock).
    routes : for each side, RDD of (block, {partition of the other side: places in the block that it needs}).
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
        def turned(pair: Any) -> Any:
            return pair[1], pair[0]

        pairs = ("layouts", "blocks", "routes", "long_counts", "shipped")
        return replace(self, **{name: turned(getattr(self, name)) for name in pairs})

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
    numbered: Any, layouts: tuple[Layout, Layout], duplicates: str, dtype: Any, fingerprint: str
) -> DistributedCells:
    """Cells from a DataFrame (row0, row1[, weight][, target]) of row numbers."""
    optional = [name for name in ("weight", "target") if name in numbered.columns]
    scattered = kept(numbered.select("row0", "row1", *optional).mapInArrow(_scatter(layouts, optional), _SCATTERED).rdd)
    blocks = tuple(_blocks(scattered, side, layouts, duplicates, dtype) for side in (0, 1))
    sizes = [dict(rdd.mapValues(_size).collect()) for rdd in blocks]
    routes = tuple(_routes(blocks[1 - side], layouts[side]) for side in (0, 1))
    for rdd in routes:
        rdd.count()
    scattered.unpersist()
    return DistributedCells(
        numbered.sparkSession.sparkContext,
        layouts,
        blocks,
        routes,
        (_long_counts(sizes[0], layouts[0]), _long_counts(sizes[1], layouts[1])),
        (sum(size.needed for size in sizes[1].values()), sum(size.needed for size in sizes[0].values())),
        sum(size.cells for size in sizes[0].values()),
        sum(size.weight for size in sizes[0].values()),
        fingerprint,
    )


def _scatter(layouts: tuple[Layout, Layout], optional: list[str]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Cells to the partitions of both orientations, as packed arrays."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        waiting: list[Any] = []
        count = 0
        for batch in batches:
            waiting.append(batch)
            count += batch.num_rows
            if count >= _FLUSH_CELLS:
                yield from _sent(waiting, layouts, optional)
                waiting, count = [], 0
        if count:
            yield from _sent(waiting, layouts, optional)

    return run


def _sent(batches: list[Any], layouts: tuple[Layout, Layout], optional: list[str]) -> Iterator[Any]:
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    pair = columns["row0"], columns["row1"]
    for side in (0, 1):
        parts = layouts[side].partition_of(pair[side], pair[1 - side], layouts[1 - side])
        order = np.argsort(parts, kind="stable")
        targets, starts = np.unique(parts[order], return_index=True)
        packed = {
            "rows": pair[side],
            "others": pair[1 - side],
            "weights": columns.get("weight"),
            "targets": columns.get("target"),
        }
        cut = {
            name: [None] * len(targets)
            if values is None
            else [part.tobytes() for part in np.split(values[order], starts[1:])]
            for name, values in packed.items()
        }
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(len(targets), side, np.int32)),
                pa.array(targets.astype(np.int32)),
                *[pa.array(cut[name], pa.binary()) for name in packed],
            ],
            names=["side", "partition", *packed],
        )


def _blocks(scattered: Any, side: int, layouts: tuple[Layout, Layout], duplicates: str, dtype: Any) -> Any:
    own, other = layouts[side], layouts[1 - side]

    def unpack(row: Any) -> Any:
        return row.partition, (
            np.frombuffer(row.rows, np.int64),
            np.frombuffer(row.others, np.int64),
            None if row.weights is None else np.frombuffer(row.weights, np.float64),
            None if row.targets is None else np.frombuffer(row.targets, np.float64),
        )

    def build(partition: int, items: Iterator[Any]) -> Iterator[tuple[int, CellBlock]]:
        parts = [part for _, part in items]
        yield partition, build_block(partition, parts, own, other, duplicates, dtype)

    chosen = scattered.filter(lambda row: row.side == side).map(unpack)
    return kept(keyed(chosen, own.partitions).mapPartitionsWithIndex(build, preservesPartitioning=True))


def _routes(blocks: Any, layout: Layout) -> Any:
    """Where the rows of each block of a side have to go, from what the blocks of the other side need."""

    def wanted(item: tuple[int, CellBlock]) -> Iterator[tuple[int, Any]]:
        partition, block = item
        owners = layout.block_of(block.needed)
        sources, starts = np.unique(owners, return_index=True)
        for source, rows in zip(sources.tolist(), np.split(block.needed, starts[1:]), strict=False):
            yield source, (partition, (rows - layout.starts[source]).astype(np.int32))

    def gather(partition: int, items: Iterator[Any]) -> Iterator[Any]:
        yield partition, dict(sorted((to for _, to in items), key=lambda to: to[0]))

    asked = keyed(blocks.flatMap(wanted), layout.partitions)
    return kept(asked.mapPartitionsWithIndex(gather, preservesPartitioning=True))


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
