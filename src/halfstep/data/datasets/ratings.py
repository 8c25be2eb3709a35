"""`Ratings`: what users gave to items, one row each, with times where they are known. Must not know any model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.data.columns import choose_columns
from halfstep.data.ids import encode

from ._assemble import DataWarning
from ._sources import read_columns
from .interactions import Interactions


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """N pairs of a user and an item, and what each is worth. A pair may come twice.

    pairs : (N, 2) ids of any kind, user first. y : (N,) numbers, or two classes.
    timestamps : (N,) numbers or datetimes, or None. name : what the data are called. report : what was read.
    """

    pairs: NDArray[Any]
    y: NDArray[Any]
    timestamps: NDArray[Any] | None = None
    name: str = "ratings"
    report: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pairs, y = np.asarray(self.pairs), np.asarray(self.y)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"pairs has shape {pairs.shape}; expected (N, 2), a user and an item in each row.")
        if y.shape != (len(pairs),):
            raise ValueError(f"y has shape {y.shape}; pairs has {len(pairs)} rows, so it must be ({len(pairs)},).")
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "y", y)
        if self.timestamps is not None:
            object.__setattr__(self, "timestamps", _checked_times(self.timestamps, len(y)))

    @classmethod
    def of(cls, data: Interactions) -> Ratings:
        """The stored weights of interactions as ratings, zeros included."""
        rows = np.repeat(np.arange(data.shape[0]), np.diff(data.matrix.indptr))
        sides = data.user_ids[rows], data.item_ids[data.matrix.indices]
        return cls(_pairs(*sides), data.matrix.data.astype(np.float64), data.timestamps, data.name, data.report)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, int]:
        """(users, items)."""
        return len(encode(self.pairs[:, 0], "user")[0]), len(encode(self.pairs[:, 1], "item")[0])

    def __repr__(self) -> str:
        users, items = self.shape
        return f"<Ratings {self.name}: {len(self):,} of {users:,} users and {items:,} items>"

    def take(self, which: Any) -> Ratings:
        """Some of them: a mask, or positions."""
        times = None if self.timestamps is None else self.timestamps[which]
        return Ratings(self.pairs[which], self.y[which], times, self.name, self.report)


def read_ratings(
    path_or_frame: Any,
    user: Any = None,
    item: Any = None,
    rating: Any = None,
    timestamp: Any = None,
    *,
    encoding: str | None = None,
) -> Ratings:
    """Rows of (user, item, rating[, timestamp]) as `Ratings`; `report["columns"]` says which column was taken.

    path_or_frame, columns, encoding : as in `read_interactions`; every row counts, a repeated pair too. Rows that lack
    an id, a number or, where there is such a column, a time are left out and counted in a warning.
    """
    given = {"user": user, "item": item, "weight": rating, "timestamp": timestamp}
    columns, report, name = read_columns(
        path_or_frame, lambda names: choose_columns(given, names, {"weight": "rating"}), encoding=encoding
    )
    if "weight" not in columns:
        raise ValueError(f"{name} has no column that looks like the rating; say which: rating=NAME")
    users, items, y = columns["user"], columns["item"], np.asarray(columns["weight"], np.float64)
    whole = (users.codes >= 0) & (items.codes >= 0) & np.isfinite(y)
    times = columns.get("timestamp")
    if times is not None:
        times = np.asarray(times)
        whole &= ~np.isnan(times)
    if not whole.all():
        lost = int((~whole).sum())
        lacks = "an id, a number or a time" if times is not None else "an id or a number"
        warnings.warn(f"{name}: {lost:,} of {len(whole):,} rows lack {lacks}; left out", DataWarning, stacklevel=2)
    sides = (side.values[side.codes[whole]] for side in (users, items))
    return Ratings(_pairs(*sides), y[whole], None if times is None else times[whole], name, report)


def _pairs(users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
    """(N, 2), ids as they are: numbers beside text stay numbers."""
    if users.dtype.kind == items.dtype.kind:
        return np.column_stack([users, items])
    pairs = np.empty((len(users), 2), object)
    pairs[:, 0], pairs[:, 1] = users, items
    return pairs


def _checked_times(given: ArrayLike, n: int) -> NDArray[Any]:
    times = np.asarray(given)
    if times.shape != (n,):
        raise ValueError(f"timestamps has shape {times.shape}; there are {n} ratings, so it must be ({n},).")
    if times.dtype.kind not in "iufM":
        raise ValueError(f"timestamps holds {times.dtype}; expected numbers or datetimes. Convert them first.")
    missing = np.isnat(times) if times.dtype.kind == "M" else ~np.isfinite(times)
    if missing.any():
        raise ValueError(f"timestamps has {int(missing.sum())} missing values; drop these ratings first.")
    return times
