"""From ids to row numbers, on the cluster: sorted distinct ids, counted, joined. No id passes through the driver but a
sample, no row through Python. Knows two sides, never what they stand for.

A row number depends on the ids alone: whatever partitions Spark makes, and however often it makes them again after a
loss, an id gets the same number. Integers are sorted as numbers and strings by code point, as on one machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from halfstep.engine.spark.layout import Layout

_IDS_A_BUCKET = 1_000_000
_ROW_WORK = 8  # a row without cells costs about as much as eight cells


@dataclass(frozen=True)
class Numbering:
    """The ids of one side: a DataFrame (id, position), persisted, and how its rows are cut into partitions."""

    frame: Any
    layout: Layout
    id_type: Any

    def unpersist(self) -> None:
        self.frame.unpersist()


def number_ids(source: Any, column: str, n_rows: int, blocks: int, pieces: int, split: int) -> Numbering:
    """Number the distinct ids of a column.

    n_rows : rows of `source`. blocks : into how many the rows are cut, with equal work. pieces : at most so many pieces
        of a long row. split : rows with more cells than that are long; 0 for none.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    id_type = source.schema[column].dataType
    bounds = _bounds(source, column, n_rows)
    bucket = F.size(F.filter(F.array(*map(F.lit, bounds)), lambda b: b <= F.col("id"))) if bounds else F.lit(0)
    is_long = F.col("cells") > (split if split > 0 else n_rows)
    counted = (
        source.groupBy(F.col(column).alias("id"))
        .agg(F.count("*").alias("cells"))
        .withColumn("bucket", bucket)
        .withColumn("work", F.when(is_long, 0).otherwise(F.col("cells")) + _ROW_WORK)
        .persist()
    )
    sizes = counted.groupBy("bucket").agg(F.count("*").alias("ids"), F.sum("work").alias("work")).collect()
    ids, work = (_offsets(sizes, name, len(bounds) + 1) for name in ("ids", "work"))
    n, total = int(ids[-1]), int(work[-1])
    blocks = max(1, min(blocks, n))
    order = Window.partitionBy("bucket").orderBy("id")
    position = F.row_number().over(order) - 1 + _lookup(ids)
    before = F.sum("work").over(order.rowsBetween(Window.unboundedPreceding, -1))
    block = F.floor((F.coalesce(before, F.lit(0)) + _lookup(work)) * blocks / total).cast("int")
    numbered = counted.select("id", "cells", position.cast("long").alias("position"), block.alias("block"))
    frame = numbered.persist()
    starts, longest = np.full(blocks + 1, n, np.int64), []
    longs = F.collect_list(F.when(is_long, F.struct("position", "cells")))
    for row in frame.groupBy("block").agg(F.min("position").alias("first"), longs.alias("long")).collect():
        starts[row["block"]] = row["first"]
        longest += [(long["position"], long["cells"]) for long in row["long"]]
    starts = np.minimum.accumulate(starts[::-1])[::-1]  # a block without rows starts where the next one does
    longest.sort()
    counted.unpersist()
    long, cells = (np.array([row[k] for row in longest], np.int64) for k in (0, 1))
    share = np.minimum(-(-cells // max(split, 1)), max(pieces, 1))
    return Numbering(frame.select("id", "position"), Layout(np.ascontiguousarray(starts), long, share), id_type)


def _bounds(source: Any, column: str, n_rows: int) -> list[Any]:
    """Ids that cut the sorted ids into buckets small enough for one task; any choice gives the same numbers."""
    buckets = min(64, n_rows // _IDS_A_BUCKET)
    if buckets < 2:
        return []
    sample = source.select(column).sample(min(1.0, 200.0 * buckets / n_rows), seed=0).distinct().collect()
    ids = sorted(row[0] for row in sample)
    return [ids[len(ids) * k // buckets] for k in range(1, buckets)] if len(ids) > buckets else []


def _offsets(sizes: list[Any], name: str, buckets: int) -> Any:
    each = np.zeros(buckets, np.int64)
    for row in sizes:
        each[row["bucket"]] = row[name]
    return np.concatenate([[0], np.cumsum(each)])


def _lookup(offsets: Any) -> Any:
    from pyspark.sql import functions as F

    literals = F.array(*[F.lit(int(offset)) for offset in offsets[:-1]])
    return F.element_at(literals, F.col("bucket") + 1)
