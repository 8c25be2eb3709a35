"""From ids to row numbers, on the cluster: distinct ids sorted in buckets, numbered, and told to the chunks that ask.
No id passes through the driver but a sample. Knows two sides, never what they stand for.

A row number depends on the ids alone: whatever partitions Spark makes, and however often it makes them again after a
loss, an id gets the same number. Integers are sorted as numbers and strings by code point, as on one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfstep.data.ids import Index
from halfstep.engine.spark.arrow import from_arrow
from halfstep.engine.spark.chunks import Chunk, Chunks, pack, unpack
from halfstep.engine.spark.layout import Ints, Layout
from halfstep.engine.spark.moves import expanding, kept, keyed, together

_IDS_A_BUCKET = 1_000_000
_ROW_WORK = 8  # a row without cells costs about as much as eight cells


@dataclass
class Ask:
    """Distinct ids of a chunk that fall into one bucket, in order, and how often each occurs there."""

    home: int
    number: tuple[int, int]
    bucket: int
    ids: bytes
    counts: NDArray[np.int32]


@dataclass
class Reply:
    """The row numbers of the ids of an ask; -1 for an id that nobody numbered."""

    side: int
    number: tuple[int, int]
    bucket: int
    rows: Ints


@dataclass
class Known:
    """The distinct ids of a bucket, in order, and how often each occurs in all chunks."""

    ids: bytes
    counts: Ints


@dataclass(frozen=True)
class Numbering:
    """The ids of one side.

    known : RDD of (bucket, Known), kept. bounds : smallest ids of the buckets but the first.
    firsts : (buckets,) row number of the first id of each bucket. layout : how the rows are cut into partitions.
    """

    spark: Any
    known: Any
    bounds: list[Any]
    firsts: Ints
    layout: Layout
    id_type: Any

    @cached_property
    def frame(self) -> Any:
        """DataFrame (id, position)."""
        firsts = self.firsts
        packed = self.known.map(lambda item: (int(firsts[item[0]]), bytearray(item[1].ids)))
        table = self.spark.createDataFrame(packed, "first long, ids binary")
        listed = expanding(_listed, ["id", "position"])
        return table.mapInArrow(listed, f"id {self.id_type.simpleString()}, position long")

    def ids(self, role: str) -> Index:
        """All ids on this machine, in the order of their positions."""
        table = self.frame.toPandas().sort_values("position")
        return Index(table["id"].to_numpy(), role)

    def ask(self, chunks: Chunks, side: int) -> Any:
        """RDD of (bucket, Ask): which ids the chunks have on a side."""
        return _asked(chunks, side, self.bounds)

    def replies(self, asked: Any, side: int, partitions: int) -> Any:
        """RDD of (home, Reply) to those who asked."""
        firsts = self.firsts

        def answer(items: Iterator[Any]) -> Iterator[tuple[int, Reply]]:
            found, asks = None, []
            for bucket, item in items:
                if isinstance(item, Known):
                    found = unpack(item.ids), int(firsts[bucket])
                else:
                    asks.append(item)
            assert found is not None
            for ask in asks:
                yield ask.home, Reply(side, ask.number, ask.bucket, _rows_of(unpack(ask.ids), *found))

        return keyed(together([self.known, asked]).mapPartitions(answer), partitions)

    def unknown(self, asked: Any) -> tuple[int, Any]:
        """How many distinct ids of those asked for have no number, and one of them."""

        def missing(items: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa
            import pyarrow.compute as pc

            known: list[Any] = []
            asks: list[Any] = []
            for _, item in items:
                (known if isinstance(item, Known) else asks).append(unpack(item.ids))
            if asks:
                wanted = pa.concat_arrays(asks).unique()
                odd = wanted.filter(pc.invert(pc.is_in(wanted, value_set=known[0])))
                yield len(odd), odd[:1].to_pylist()

        found = together([self.known, asked]).mapPartitions(missing).collect()
        return sum(count for count, _ in found), next((ids[0] for _, ids in found if ids), None)

    def unpersist(self) -> None:
        self.known.unpersist()


def number_ids(chunks: Chunks, side: int, blocks: int, pieces: int, split: int) -> tuple[Numbering, Any]:
    """Number the distinct ids of a side of all chunks. Returns the numbering and an RDD of what was asked.

    blocks : into how many the rows are cut, with equal work. pieces : at most so many pieces of a long row. split :
        rows with more cells than that are long; 0 for none.
    """
    bounds = _bounds(chunks, side)
    asked = _asked(chunks, side, bounds)
    known = kept(asked.mapPartitionsWithIndex(_merge, preservesPartitioning=True))
    longest = split if split > 0 else chunks.n_rows

    def size(item: tuple[int, Known]) -> tuple[int, int, int]:
        bucket, found = item
        return bucket, len(found.counts), int(_work(found.counts, longest).sum())

    sizes = np.zeros((len(bounds) + 2, 2), np.int64)
    for bucket, ids, work in known.map(size).collect():
        sizes[bucket + 1] = ids, work
    firsts, work_before = np.cumsum(sizes, axis=0).T
    n, total = int(firsts[-1]), int(work_before[-1])
    blocks = max(1, min(blocks, n))

    def cut(item: tuple[int, Known]) -> _Cut:
        bucket, found = item
        work = _work(found.counts, longest)
        before = np.cumsum(work) - work + work_before[bucket]
        block, at = np.unique(before * blocks // total, return_index=True)
        long = np.flatnonzero(found.counts > longest)
        return _Cut(block, at + firsts[bucket], long + firsts[bucket], found.counts[long])

    cuts = sorted(known.map(cut).collect(), key=lambda found: found.rows[0] if len(found.rows) else -1)
    starts = np.full(blocks + 1, n, np.int64)
    for found in cuts:
        np.minimum.at(starts, found.blocks, found.rows)
    starts = np.minimum.accumulate(starts[::-1])[::-1]  # a block without rows starts where the next one does
    nothing = np.zeros(0, np.int64)
    long = np.concatenate([nothing, *(found.long for found in cuts)])
    cells = np.concatenate([nothing, *(found.cells for found in cuts)])
    share = np.minimum(-(-cells // max(split, 1)), max(pieces, 1))
    layout = Layout(np.ascontiguousarray(starts), long, share)
    return Numbering(chunks.spark, known, bounds, firsts[:-1].copy(), layout, chunks.id_types[side]), asked


class _Cut(NamedTuple):
    """Of a bucket: blocks that occur in it and the first row of each there; its long rows and their cells."""

    blocks: Ints
    rows: Ints
    long: Ints
    cells: Ints


def _work(counts: Ints, longest: int) -> Ints:
    """What a row costs, in cells; a long row is paid for by its pieces."""
    return np.where(counts > longest, 0, counts) + _ROW_WORK


def _bounds(chunks: Chunks, side: int) -> list[Any]:
    """Ids that cut the sorted ids into buckets small enough for one task; any choice gives the same numbers."""
    buckets = min(64, sum(mark.distinct[side] for mark in chunks.marks) // _IDS_A_BUCKET)
    ids = sorted({found for mark in chunks.marks for found in mark.samples[side]})
    return [ids[len(ids) * k // buckets] for k in range(1, buckets)] if 2 <= buckets < len(ids) else []


def _asked(chunks: Chunks, side: int, bounds: list[Any]) -> Any:
    def ask(item: tuple[int, Chunk]) -> Iterator[tuple[int, Ask]]:
        import pyarrow.compute as pc

        home, chunk = item
        ids, counts = unpack(chunk.ids[side]), chunk.counts[side]
        edges = [0, *(pc.sum(pc.less(ids, bound)).as_py() or 0 for bound in bounds), len(ids)]
        for bucket, (start, stop) in enumerate(pairwise(edges)):
            if stop > start:
                yield bucket, Ask(home, chunk.number, bucket, pack(ids[start:stop]), counts[start:stop])

    return keyed(chunks.rdd.flatMap(ask), len(bounds) + 1)


def _merge(bucket: int, items: Iterable[tuple[int, Ask]]) -> Iterator[tuple[int, Known]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    asks = [ask for _, ask in items]  # never none: the bound of a bucket is an id of it
    found = pa.concat_arrays([unpack(ask.ids) for ask in asks]).dictionary_encode()
    each = np.concatenate([ask.counts for ask in asks])
    counts = np.bincount(from_arrow(found.indices), weights=each, minlength=len(found.dictionary)).astype(np.int64)
    order = pc.sort_indices(found.dictionary)
    yield bucket, Known(pack(found.dictionary.take(order)), counts[from_arrow(order)])


def _rows_of(ids: Any, known: Any, first: int) -> Ints:
    import pyarrow.compute as pc

    places = from_arrow(pc.index_in(ids, value_set=known), -1).astype(np.int64)
    return np.where(places < 0, -1, places + first)


def _listed(first: int, data: bytes) -> tuple[Any, Ints]:
    """Packed ids and their positions."""
    ids = unpack(data)
    return ids, np.arange(first, first + len(ids))


def rows_of_chunks(replies: Iterable[Reply]) -> Callable[[Chunk, int], Ints]:
    """What gives each distinct id of a chunk, on a side, its row number."""
    found: dict[tuple[int, tuple[int, int]], list[Reply]] = {}
    for reply in replies:
        found.setdefault((reply.side, reply.number), []).append(reply)

    def rows(chunk: Chunk, side: int) -> Ints:
        ordered = sorted(found.get((side, chunk.number), []), key=lambda reply: reply.bucket)
        return np.concatenate([np.zeros(0, np.int64), *(reply.rows for reply in ordered)])

    return rows
