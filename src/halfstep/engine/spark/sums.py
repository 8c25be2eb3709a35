"""Sums over blocks, up a tree. Knows nothing of what is added."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

_FAN = 32  # values that one task of the tree adds up


def tree_sum(numbered: Any, count: int) -> Any:
    """The sum of the values of an RDD of (number, value) pairs, numbers below `count`; values are anything that adds.

    They are added in the same order always, so the bits do not depend on which partition was ready first.
    """
    while count > _FAN:
        count = -(-count // _FAN)
        numbered = numbered.map(lambda item: (item[0] // _FAN, item)).groupByKey(count).mapValues(in_order)
    return in_order(numbered.collect())


def in_order(items: Any) -> Any:
    """The sum of the values of (number, value) pairs, by their numbers."""
    return reduce(add, (value for _, value in sorted(items, key=lambda item: item[0])))
