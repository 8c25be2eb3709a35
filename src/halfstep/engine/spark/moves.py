"""How RDDs are keyed, brought together and kept, and arrays shared. Knows nothing of what is in them.

Every RDD of a side has the partitions of its layout, and its partition p holds what has the key p; so RDDs of one side
are put together without a shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.engine.spark.arrow import to_arrow


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


def packed(rdd: Any) -> Any:
    """An RDD in the form in which a shuffle leaves one, each element for itself. `together` would otherwise send every
    block through a Python worker once more, only to pack it alike."""
    from pyspark.serializers import BatchedSerializer, CPickleSerializer

    return rdd._reserialize(BatchedSerializer(CPickleSerializer()))


def kept(rdd: Any) -> Any:
    """Persist an RDD, packed: bytes for the JVM, which has nothing to gain from packing them once more."""
    from pyspark import StorageLevel

    return packed(rdd).persist(StorageLevel.MEMORY_AND_DISK_DESER)


def kept_twice(rdd: Any) -> Any:
    """Persist an RDD on two executors and forget what it was made from: one of them may be lost."""
    from pyspark import StorageLevel

    rdd = packed(rdd).persist(StorageLevel.MEMORY_AND_DISK_2)
    rdd.localCheckpoint()
    return rdd


def evaluate(rdd: Any) -> None:
    """Make every partition of a persisted RDD; no element passes through Python again."""
    rdd._jrdd.count()


def expanding(make: Callable[..., Sequence[Any]], names: list[str]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For `mapInArrow`: every row of a DataFrame, which is packed, becomes as many as the arrays that `make` gives."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for row in zip(*(packed.to_pylist() for packed in batch.columns), strict=True):
                yield pa.RecordBatch.from_arrays([to_arrow(values) for values in make(*row)], names=names)

    return run


class Shared:
    """An array that every executor has once: Python workers map the file that Spark has put there, and so share its
    pages. Like a broadcast; where its file is not as expected a worker has a copy of its own.
    """

    def __init__(self, context: Any, values: NDArray[Any]) -> None:
        values = np.ascontiguousarray(values)
        self._broadcast, self._shape, self._dtype = context.broadcast(values), values.shape, values.dtype

    @property
    def value(self) -> NDArray[Any]:
        found = self._broadcast
        if getattr(found, "_sc", None) is None and getattr(found, "_path", None):  # in a worker
            n_bytes = int(np.prod(self._shape)) * self._dtype.itemsize
            place = place_of_bytes(found._path, n_bytes)
            if place is not None:
                return np.memmap(found._path, self._dtype, "r", place, self._shape)
        values: NDArray[Any] = found.value
        return values

    def destroy(self) -> None:
        self._broadcast.destroy()

    def unpersist(self) -> None:
        self._broadcast.unpersist()


def place_of_bytes(path: str, n_bytes: int) -> int | None:
    """Where the numbers of a pickled array begin in a file; None where that cannot be told."""
    if not n_bytes:
        return None
    with open(path, "rb") as file:
        head = file.read(1024)
    for code in (b"\x96", b"\x8e"):  # how pickle begins a long bytearray, or bytes: the code, and their number
        mark = code + n_bytes.to_bytes(8, "little")
        if head.count(mark) == 1:
            return head.index(mark) + len(mark)
    return None


class Tally:
    """An accumulator of {partition: report}. A partition that is made twice reports the same twice."""

    def zero(self, _: dict[int, Any]) -> dict[int, Any]:
        return {}

    def addInPlace(self, a: dict[int, Any], b: dict[int, Any]) -> dict[int, Any]:
        a.update(b)
        return a
