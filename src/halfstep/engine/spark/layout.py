"""How the rows of one side are cut into partitions. Arithmetic on row numbers only; knows neither Spark nor factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Blocks of consecutive rows, then the pieces of rows too long for one block.

    starts : (blocks + 1,) block b holds the rows starts[b] .. starts[b + 1].
    long : (L,) rows whose cells are split, in order. pieces : (L,) into how many.

    Partition b < blocks is a block. The pieces of the first long row follow, then those of the second, and so on. A
    long row also has its place in a block, without cells and at zero; its values are kept on the driver.
    """

    starts: Ints
    long: Ints
    pieces: Ints

    @classmethod
    def even(cls, n: int, blocks: int) -> Layout:
        """Blocks of equal size and no long rows."""
        nothing = np.zeros(0, np.int64)
        return cls(np.linspace(0, n, max(1, min(blocks, n)) + 1).astype(np.int64), nothing, nothing)

    @property
    def n(self) -> int:
        return int(self.starts[-1])

    @property
    def blocks(self) -> int:
        return len(self.starts) - 1

    @property
    def partitions(self) -> int:
        return self.blocks + int(self.pieces.sum())

    @cached_property
    def _owners(self) -> Ints:
        """The long row, by number, of each piece."""
        return np.repeat(np.arange(len(self.long)), self.pieces)

    def long_of(self, partition: int) -> int | None:
        """Number of the long row that a partition holds a piece of; None for a block."""
        return None if partition < self.blocks else int(self._owners[partition - self.blocks])

    def range_of(self, partition: int) -> tuple[int, int]:
        """Rows of a partition: those of its block, or the one long row."""
        number = self.long_of(partition)
        if number is None:
            return int(self.starts[partition]), int(self.starts[partition + 1])
        return int(self.long[number]), int(self.long[number]) + 1

    def long_in(self, partition: int) -> tuple[Ints, Ints]:
        """Long rows that have their place in a block: numbers, and places within the block."""
        start, stop = self.starts[partition], self.starts[partition + 1]
        numbers = np.arange(np.searchsorted(self.long, start), np.searchsorted(self.long, stop))
        return numbers, self.long[numbers] - start

    def long_numbers(self, rows: Ints) -> Ints:
        """Number of each row among the long ones, -1 for the others."""
        if not len(self.long):
            return np.full(len(rows), -1, np.int64)
        near = np.minimum(np.searchsorted(self.long, rows), len(self.long) - 1)
        return np.where(self.long[near] == rows, near, -1)

    def block_of(self, rows: Ints) -> Ints:
        return np.searchsorted(self.starts, rows, side="right") - 1

    def partition_of(self, rows: Ints, others: Ints, other: Layout) -> Ints:
        """Partition of each cell (row, other row). A piece of a long row takes neighbouring blocks of the other."""
        parts = self.block_of(rows)
        numbers = self.long_numbers(rows)
        split = np.flatnonzero(numbers >= 0)
        if len(split):
            number = numbers[split]
            first = self.blocks + np.cumsum(self.pieces) - self.pieces
            share = other.block_of(others[split]) * self.pieces[number] // other.blocks
            parts[split] = first[number] + share
        return parts


def described(layouts: tuple[Layout, Layout]) -> list[dict[str, Any]]:
    """Both layouts in plain numbers, for fingerprints."""
    return [{"starts": a.starts.tolist(), "long": a.long.tolist(), "pieces": a.pieces.tolist()} for a in layouts]
