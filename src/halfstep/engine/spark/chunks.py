"""A Spark DataFrame into packed chunks, read once: the distinct ids of some rows, and arrays of 4 bytes a number.

What follows works on these arrays and on files of the shuffle, so that rows never become objects, neither in the JVM
nor in Python. Knows two sides, never what they stand for.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfstep.engine.spark.arrow import blob, from_arrow, to_arrow
from halfstep.engine.spark.moves import keyed

_ROWS = 2**16  # rows of a chunk, or a batch more
_SAMPLED = 256  # ids of each side that the driver gets of a chunk, at most
_HASH = "row hash"


class Marks(NamedTuple):
    """What the driver learns of a chunk. `distinct` and `samples` are of the ids of each side."""

    rows: int
    missing: tuple[int, int]
    bad_weights: int
    bad_targets: int
    hash: int
    distinct: tuple[int, int]
    samples: tuple[list[Any], list[Any]]


@dataclass
class Chunk:
    """Some rows of a DataFrame, those of weight zero left out.

    number : its partition in the source, and which of that partition.
    ids : for each side, the distinct ids in order, an Arrow array as bytes; those of weight zero are among them.
    counts : rows of each id. codes : (cells,) int32, the place of each cell's id.
    """

    number: tuple[int, int]
    ids: tuple[bytes, bytes]
    counts: tuple[NDArray[np.int32], NDArray[np.int32]]
    codes: tuple[NDArray[np.int32], NDArray[np.int32]]
    weights: NDArray[Any] | None
    targets: NDArray[Any] | None
    marks: Marks


@dataclass(frozen=True)
class Chunks:
    """All of them: an RDD of (partition, Chunk), and what the driver knows. It lives in files of a shuffle."""

    spark: Any
    rdd: Any
    partitions: int
    id_types: tuple[Any, Any]
    dtype: Any
    marks: list[Marks]

    @property
    def n_rows(self) -> int:
        return sum(mark.rows for mark in self.marks)

    @property
    def hash(self) -> int:
        """The same for the same rows in any order."""
        return sum(mark.hash for mark in self.marks) % 2**64


def read_chunks(source: Any, partitions: int, dtype: Any) -> Chunks:
    """Chunks of a DataFrame (id0, id1[, weight][, target]); the numbers in `dtype`."""
    from pyspark.sql import functions as F

    hashed = source.withColumn(_HASH, F.xxhash64(*source.columns))
    packed = hashed.mapInArrow(_packed(np.dtype(dtype)), "place int, chunk binary")
    # A shuffle by place spreads chunks over the cluster however few partitions the source has; and one task then has
    # one Python process, not two in a row.
    spread = packed.repartition(partitions, "place").rdd
    rdd = keyed(spread.map(lambda row: (row.place % partitions, pickle.loads(row.chunk))), partitions)
    marks = rdd.map(lambda item: (item[1].number, item[1].marks)).collect()
    types = source.schema["id0"].dataType, source.schema["id1"].dataType
    ordered = [mark for _, mark in sorted(marks, key=lambda pair: pair[0])]
    return Chunks(source.sparkSession, rdd, partitions, types, np.dtype(dtype), ordered)


def _packed(dtype: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        for k, rows in enumerate(_gathered(batches)):
            chunk = make_chunk((partition, k), pa.Table.from_batches(rows), dtype)
            yield pa.RecordBatch.from_arrays(
                [to_arrow([partition + k]), blob(pickle.dumps(chunk, 5))], names=["place", "chunk"]
            )

    return run


def _gathered(batches: Iterable[Any]) -> Iterator[list[Any]]:
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= _ROWS:
            yield waiting
            waiting, count = [], 0
    if count:
        yield waiting


def make_chunk(number: tuple[int, int], table: Any, dtype: Any) -> Chunk:
    """A chunk of an Arrow table (id0, id1[, weight][, target], hash)."""
    sides = [_encoded(table.column(f"id{side}")) for side in (0, 1)]
    values = {
        name: from_arrow(table.column(name), np.nan) if name in table.column_names else None
        for name in ("weight", "target")
    }
    weights, targets = values["weight"], values["target"]
    there = slice(None) if weights is None else weights > 0
    return Chunk(
        number,
        (pack(sides[0].ids), pack(sides[1].ids)),
        (sides[0].counts, sides[1].counts),
        (sides[0].codes[there], sides[1].codes[there]),
        None if weights is None else weights[there].astype(dtype),
        None if targets is None else targets[there].astype(dtype),
        Marks(
            table.num_rows,
            (table.column("id0").null_count, table.column("id1").null_count),
            0 if weights is None else int(np.sum(~(np.isfinite(weights) & (weights >= 0)))),
            0 if targets is None else int(np.sum(~np.isfinite(targets))),
            int(np.sum(from_arrow(table.column(_HASH)).astype(np.uint64))),
            (len(sides[0].ids), len(sides[1].ids)),
            (_sample(sides[0].ids), _sample(sides[1].ids)),
        ),
    )


class _Encoded(NamedTuple):
    ids: Any
    counts: NDArray[np.int32]
    codes: NDArray[np.int32]


def _encoded(ids: Any) -> _Encoded:
    """Distinct values of an Arrow column in order, how often each occurs, and the place of each row's value."""
    import pyarrow.compute as pc

    found = ids.combine_chunks().dictionary_encode()
    order = from_arrow(pc.sort_indices(found.dictionary))
    place = np.zeros(len(order) + 1, np.int32)  # one more for nulls, which are counted and refused before anybody looks
    place[order] = np.arange(len(order), dtype=np.int32)
    codes = place[from_arrow(found.indices, len(order))]
    return _Encoded(
        found.dictionary.take(to_arrow(order)), np.bincount(codes, minlength=len(order)).astype(np.int32), codes
    )


def _sample(ids: Any) -> list[Any]:
    step = -(-len(ids) // _SAMPLED) or 1
    return ids[::step].to_pylist() if len(ids) else []


def pack(ids: Any) -> bytes:
    """An Arrow array as bytes; a pickle of a slice would carry the whole array."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([ids], names=["id"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(data: bytes) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch().column(0)
