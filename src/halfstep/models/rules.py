"""Which items a list may hold, by what a table says of them, and how many of a kind. Knows tables, no scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from halfstep.data.columns import detect
from halfstep.data.frames import is_frame
from halfstep.data.names import Names
from halfstep.errors import check_number, one_of

Condition = Any
"""One value, a list or set of values, a pair (lowest, highest) of which either may be None, or a function of the column
as an array that gives a mask."""


@dataclass(frozen=True, eq=False)
class Limit:
    """At most so many items of one group in a list. codes (items,) : the group of each item, -1 for none."""

    codes: NDArray[np.int64]
    most: int


@dataclass(frozen=True, eq=False)
class ItemRules:
    """What may be recommended together, from a table of items; for `recommend` and `recommend_for`.

    Parameters
    ----------
    table : frame (pandas, polars, pyarrow) with a row for each item; items that the model does not know are ignored.
    item : its column of ids (or of labels, where the model has them); None takes a column with a common name.
    where : {column: condition}, all of which must hold: one value, a list or set of values, a pair (lowest, highest)
        with None for an open end, or a function of the column as an array that gives a mask.
    at_most : {column: n}: no list holds more than n items that share a value of that column.

    An item without a row in the table meets no condition; without a value it belongs to no group and is not limited.
    """

    table: Any
    item: str | None = None
    where: Mapping[str, Condition] = field(default_factory=dict)
    at_most: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_frame(self.table):
            raise TypeError(f"table must be a data frame (pandas, polars, pyarrow), got {type(self.table).__name__}.")
        columns = self._frame().columns
        if self._item() is None:
            raise ValueError(f"table has no column that looks like an item: {columns}; name it by item=.")
        for name in (self._item(), *self.where, *self.at_most):
            one_of("column", name, columns)
        for name, most in self.at_most.items():
            check_number(f"at_most[{name!r}]", most, at_least=1, whole=True)

    def allowed(self, names: Names) -> NDArray[np.int64] | None:
        """Positions of the items that meet every condition; None where there is none."""
        if not self.where:
            return None
        frame, places = self._placed(names)
        meets = places >= 0
        for name, condition in self.where.items():
            mask = np.asarray(_meets(frame[name], condition))
            if mask.shape != meets.shape or mask.dtype != bool:
                raise ValueError(f"where[{name!r}] must give {len(meets)} truth values, one for each row of the table.")
            meets &= mask
        return np.sort(places[meets])

    def limits(self, names: Names) -> list[Limit]:
        """Groups of the items of a fit, and how many of each a list may hold."""
        if not self.at_most:
            return []
        frame, places = self._placed(names)
        found = []
        for name, most in self.at_most.items():
            there = ~frame[name].is_null().to_numpy() & (places >= 0)
            codes = np.full(len(names), -1, np.int64)
            values = frame[name].to_numpy()[there]
            codes[places[there]] = np.unique(values.astype(str), return_inverse=True)[1]
            found.append(Limit(codes, int(most)))
        return found

    def _frame(self) -> nw.DataFrame[Any]:
        table = nw.from_native(self.table)
        return table.collect() if isinstance(table, nw.LazyFrame) else table

    def _item(self) -> str | None:
        return self.item if self.item is not None else detect("item", self._frame().columns)

    def _placed(self, names: Names) -> tuple[nw.DataFrame[Any], NDArray[np.int64]]:
        """The table and the position of each of its rows, -1 where the model does not know the item."""
        frame = self._frame()
        places = names.find(frame[str(self._item())].to_list())
        known = places[places >= 0]
        if len(np.unique(known)) < len(known):
            twice = names.index.take(known[np.bincount(known)[known] > 1][:1]).tolist()
            raise ValueError(f"table has item {twice[0]!r} more than once; give one row for each item.")
        return frame, places


def _meets(column: nw.Series[Any], condition: Condition) -> NDArray[np.bool_]:
    values: NDArray[Any] = column.to_numpy()
    if isinstance(condition, Callable):  # type: ignore[arg-type]
        mask: NDArray[np.bool_] = np.asarray(condition(values))
        return mask
    there = ~column.is_null().to_numpy()
    if isinstance(condition, tuple):
        if len(condition) != 2:
            raise ValueError(f"where[{column.name!r}]={condition!r} must be a pair (lowest, highest), None for open.")
        low, high = condition
        inside = there.copy()
        inside[there] &= np.ones(there.sum(), bool) if low is None else values[there] >= low
        inside[there] &= np.ones(there.sum(), bool) if high is None else values[there] <= high
        return inside
    wanted = list(condition) if isinstance(condition, (list, set, frozenset)) else [condition]
    return np.asarray(there & column.is_in(wanted).to_numpy().astype(bool))
