"""The best rows of one side for every row of the other: a blocked product, lists merged, known cells left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfstep import _core
from halfstep.core.cells import Observations
from halfstep.engine.spark.cells import DistributedCells
from halfstep.engine.spark.factors import Factors
from halfstep.engine.spark.layout import Ints
from halfstep.engine.spark.moves import Shared, kept, keyed, together
from halfstep.engine.spark.tasks import Array, CellBlock


@dataclass
class Best:
    """The best so far of the rows of a block: places of the other side (n, k) with -1 for none, and scores."""

    places: Ints
    scores: Array


@dataclass
class Seen:
    """Cells that must not be listed: rows within the block, rows of the other side."""

    rows: Ints
    others: Ints


def best_rows(cells: DistributedCells, factors: list[Factors], k: int, keep_seen: bool, limit: int) -> Any:
    """RDD of packed lists (rows, ranks, others, scores), bytes, one element for each block of side 0.

    Side 1 goes to the executors in chunks of at most `limit` bytes; every chunk is one job, whose lists are merged with
    those of the chunks before. A list is shorter than k where a row has fewer cells left.
    """
    own = factors[0]
    fixed = [own.blocks()] + ([] if keep_seen else [_seen(cells)])
    best: Any = None
    for first, values in _chunks(factors[1], limit, cells.context):
        chunk = first, Shared(cells.context, values)

        def improve(items: Iterator[Any], chunk: Any = chunk) -> Iterator[Any]:
            first, right = chunk
            yield from _improved(items, first, right.value, k)

        merged = kept(together([*fixed, *([best] if best is not None else [])]).mapPartitions(improve, True))
        merged.count()
        if best is not None:
            best.unpersist()
        chunk[1].unpersist()
        best = merged
    starts = own.layout.starts
    return best.map(lambda item: _packed(int(starts[item[0]]), item[1]))


def _chunks(factors: Factors, limit: int, context: Any) -> Iterator[tuple[int, Array]]:
    """Consecutive blocks of rows of a side, as many as the limit takes but at least one: (first row, values)."""
    layout, blocks = factors.layout, factors.blocks()
    width = factors.long.shape[1] * factors.long.itemsize
    first = 0
    while first < layout.blocks:
        last = first + 1
        while last < layout.blocks and (layout.starts[last + 1] - layout.starts[first]) * width <= limit:
            last += 1
        if factors.values is not None:
            values = factors.values[layout.starts[first] : layout.starts[last]]
        else:
            values = np.concatenate(context.runJob(blocks.values(), list, list(range(first, last))))
        yield int(layout.starts[first]), np.ascontiguousarray(values)
        first = last


def _seen(cells: DistributedCells) -> Any:
    """Known cells at the blocks of their rows; pieces of long rows are brought home."""
    own, other = cells.layouts

    def spread(item: tuple[int, CellBlock]) -> tuple[int, Seen]:
        partition, block = item
        home = int(own.block_of(np.array([block.first]))[0]) if own.long_of(partition) is not None else partition
        rows, others = block.places(other)
        return home, Seen(rows - own.starts[home], others)

    spread_out = cells.blocks[0].map(spread, preservesPartitioning=not len(own.long))
    return keyed(spread_out, own.partitions) if len(own.long) else spread_out


def _improved(items: Iterator[Any], first: int, right: Array, k: int) -> Iterator[Any]:
    left, best, seen, block = None, None, [], -1
    for block, item in items:  # noqa: B007
        if isinstance(item, Seen):
            seen.append(item)
        elif isinstance(item, Best):
            best = item
        else:
            left = item
    if left is None:
        return
    width = min(k, len(right))
    indptr = indices = None
    if seen:
        rows, others = (np.concatenate([getattr(s, name) for s in seen]) for name in ("rows", "others"))
        here = (others >= first) & (others < first + len(right))
        masked = Observations.from_cells(rows[here], others[here] - first, (len(left), len(right)))
        indptr, indices = masked.indptr, masked.indices
    places, scores = _core.top_k(np.ascontiguousarray(left), right, width, None, indptr, indices, n_threads=1)
    found = Best(np.where(places < 0, -1, places.astype(np.int64) + first), scores)
    yield block, found if best is None else _merged(best, found, k)


def _merged(a: Best, b: Best, k: int) -> Best:
    places = np.concatenate([a.places, b.places], axis=1)
    scores = np.concatenate([a.scores, b.scores], axis=1)
    order = np.argsort(np.where(places < 0, np.inf, -scores), axis=1, kind="stable")[:, :k]
    return Best(np.take_along_axis(places, order, axis=1), np.take_along_axis(scores, order, axis=1))


def _packed(first: int, best: Best) -> tuple[bytearray, ...]:
    there = best.places >= 0
    rows, ranks = np.nonzero(there)
    columns = (rows.astype(np.int64) + first, (ranks + 1).astype(np.int32), best.places[there], best.scores[there])
    return tuple(bytearray(np.ascontiguousarray(column).tobytes()) for column in columns)
