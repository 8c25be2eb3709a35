"""`Interactions`: a users x items matrix of weights that knows its ids, titles and what was left out.

Every loader returns one. Must not know any file format.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from halfstep.data.columns import plural
from halfstep.data.features import Features, TextColumnNames
from halfstep.data.ids import Index
from halfstep.data.names import Aliases
from halfstep.errors import check_number, expect_sound, one_of, require

from .about import About

SECONDS_OF_A_DAY = 86_400.0


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Who has what, how strongly, and when.

    Attributes
    ----------
    matrix : CSR of float32, shape (users, items). Columns sorted within a row, no cell twice.
    user_ids, item_ids : 1-D arrays, the ids of the rows and of the columns in their order.
    user_labels, item_labels : titles to show people, in the same order, or None.
    timestamps : float64 seconds, aligned with `matrix.data`, or None.
    about_users, about_items : what the files say of each beside this, also of some without any cell, or None.
    name, source, licence : what the data is, where it came from, on what terms.
    report : counts of everything read, merged and left out.
    nouns : what one row and one column are called, such as ("occupation", "skill").
    """

    matrix: Any
    user_ids: npt.NDArray[Any]
    item_ids: npt.NDArray[Any]
    user_labels: npt.NDArray[Any] | None = None
    item_labels: npt.NDArray[Any] | None = None
    timestamps: npt.NDArray[Any] | None = None
    name: str = "interactions"
    source: str = ""
    licence: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    about_users: About | None = None
    about_items: About | None = None
    nouns: tuple[str, str] = ("user", "item")

    def __post_init__(self) -> None:
        if not sparse.issparse(self.matrix):
            raise TypeError(f"matrix must be a scipy sparse matrix, got {type(self.matrix).__name__}")
        expect_sound("matrix", self.matrix)
        matrix = sparse.csr_array(self.matrix, dtype=np.float32)
        if self.timestamps is not None and len(self.timestamps) != matrix.nnz:
            raise ValueError(f"timestamps has {len(self.timestamps)} values; the matrix stores {matrix.nnz} cells")
        if not matrix.has_canonical_format:
            if self.timestamps is not None:
                raise ValueError("matrix must be sorted and without duplicates where timestamps are given")
            matrix = matrix.copy()
            matrix.sum_duplicates()
        object.__setattr__(self, "matrix", matrix)
        for axis, side in enumerate(("user", "item")):
            for kind in ("ids", "labels"):
                values = getattr(self, f"{side}_{kind}")
                if values is None and kind == "labels":
                    continue
                values = np.asarray(values)
                if values.shape != (matrix.shape[axis],):
                    raise ValueError(
                        f"{side}_{kind} has shape {values.shape}; the matrix of shape {matrix.shape} "
                        f"needs ({matrix.shape[axis]},)"
                    )
                object.__setattr__(self, f"{side}_{kind}", values)

    def __len__(self) -> int:
        """The number of stored cells."""
        return int(self.matrix.nnz)

    @property
    def shape(self) -> tuple[int, int]:
        """(users, items)."""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    def __repr__(self) -> str:
        users, items = self.shape
        return f"<Interactions {self.name}: {users:,} x {items:,}, {len(self):,} cells>"

    def facts(self) -> dict[str, str]:
        """What `summary` prints, as label and text."""
        users, items = self.shape
        weights, cells = self.matrix.data, len(self)
        facts = {"shape": f"{users:,} {plural(self.nouns[0])} x {items:,} {plural(self.nouns[1])}"}
        if cells:
            facts["cells"] = f"{cells:,} ({cells / (users * items):.3%} of all)"
            facts[f"per {self.nouns[0]}"] = _spread(np.diff(self.matrix.indptr))
            facts[f"per {self.nouns[1]}"] = _spread(np.bincount(self.matrix.indices, minlength=items))
            facts["weights"] = f"{weights.min():g} to {weights.max():g}, mean {weights.mean(dtype=float):.3g}"
        else:
            facts["cells"] = "0"
        if self.timestamps is not None and cells:
            first, last = np.array([self.timestamps.min(), self.timestamps.max()]).astype("datetime64[s]")
            facts["times"] = f"{first.astype('datetime64[D]')} to {last.astype('datetime64[D]')}"
        if self.report:
            facts["report"] = ", ".join(f"{key}={value}" for key, value in self.report.items())
        if self.source:
            facts["source"] = self.source
        if self.licence:
            facts["licence"] = self.licence
        return facts

    def summary(self) -> str:
        """A few lines of text: size, density, counts, what was left out, source and licence."""
        facts = self.facts()
        width = max(9, *(len(label) + 1 for label in facts))
        return "\n".join([self.name, *(f"  {label:{width}}{text}" for label, text in facts.items())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in self.facts().items()
        )
        return f"<table><caption>{html.escape(self.name)}</caption>{rows}</table>"

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each cell: `user`, `item`, `weight` and, where known, `timestamp`.

        `backend`: "pandas", "polars", "pyarrow" or "dict" (of arrays). None gives pandas where it is
        installed, else a dict.
        """
        one_of("backend", backend, [None, "pandas", "polars", "pyarrow", "dict"])
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.matrix.indptr))
        columns = {
            "user": self.user_ids[rows],
            "item": self.item_ids[self.matrix.indices],
            "weight": self.matrix.data,
        }
        if self.timestamps is not None:
            columns["timestamp"] = self.timestamps
        if backend is None:
            try:
                backend = "pandas" if require("pandas", extra="frames") else "dict"
            except ImportError:
                backend = "dict"
        if backend == "dict":
            return columns
        library = require(backend, extra="frames")
        return library.table(columns) if backend == "pyarrow" else library.DataFrame(columns)

    def user_features(self, columns: Sequence[str] | None = None, text: TextColumnNames | None = None) -> Features:
        """What is known of the users, as features: of these columns, and of the words of these text columns.

        None takes every column, and every text, that `about_users` has. Users without interactions are there too.
        """
        return self._features("user", self.about_users, columns, text)

    def item_features(self, columns: Sequence[str] | None = None, text: TextColumnNames | None = None) -> Features:
        """The same of the items, from `about_items`."""
        return self._features("item", self.about_items, columns, text)

    @property
    def aliases(self) -> tuple[Aliases | None, Aliases | None]:
        """Other names of users and of items, as far as the files have any."""
        return tuple(  # type: ignore[return-value]
            None if about is None else about.aliases(ids)
            for about, ids in ((self.about_users, self.user_ids), (self.about_items, self.item_ids))
        )

    def _features(self, side: str, about: About | None, columns: Any, text: Any) -> Features:
        if about is None:
            raise ValueError(
                f"nothing but interactions is known of the {side}s of {self.name}; give the fit a frame with an id "
                f"column as {side}_features="
            )
        return about.features(side, columns, text)

    def subset(self, users: Iterable[Any] | None = None, items: Iterable[Any] | None = None) -> Interactions:
        """Only these users and items (ids), in the order given; None keeps all. Unknown ids raise."""
        rows = None if users is None else Index(self.user_ids, self.nouns[0]).positions(users)
        columns = None if items is None else Index(self.item_ids, self.nouns[1]).positions(items)
        return self._take(rows, columns, {})

    def filter(self, *, min_user: int = 1, min_item: int = 1) -> Interactions:
        """Only users with at least `min_user` cells and items with at least `min_item`, among those kept.

        Leaving out an item can push a user below the limit, so the two are repeated until both hold (the
        (min_user, min_item)-core, which does not depend on the order). The report counts what is left out.
        """
        for name, value in (("min_user", min_user), ("min_item", min_item)):
            check_number(name, value, at_least=0, whole=True)
        users, items = self.shape
        rows = np.repeat(np.arange(users), np.diff(self.matrix.indptr))
        columns = self.matrix.indices
        keep_user, keep_item = np.ones(users, np.bool_), np.ones(items, np.bool_)
        while True:
            fewer_user = keep_user & (np.bincount(rows, minlength=users) >= min_user)
            fewer_item = keep_item & (np.bincount(columns, minlength=items) >= min_item)
            alive = fewer_user[rows] & fewer_item[columns]
            rows, columns = rows[alive], columns[alive]
            if (fewer_user == keep_user).all() and (fewer_item == keep_item).all():
                break
            keep_user, keep_item = fewer_user, fewer_item
        left_out = {
            "filtered_users": int(users - keep_user.sum()),
            "filtered_items": int(items - keep_item.sum()),
            "filtered_cells": len(self) - len(rows),
        }
        return self._take(np.flatnonzero(keep_user), np.flatnonzero(keep_item), left_out)

    def decayed(self, half_life: float, now: float | None = None) -> Interactions:
        """Weights times 2^(-age / half_life): what happened a half-life ago counts half.

        half_life : days. now : seconds since 1970 from which ages are counted; None is the latest timestamp. What comes
        after `now` keeps its weight. Timestamps are needed. `read_interactions(half_life=)` decays every row of a table
        before pairs that come more than once are combined; here only their latest timestamp is known.
        """
        if self.timestamps is None:
            raise ValueError("there are no timestamps; read the data with timestamp=, or leave the half-life out.")
        matrix = self.matrix.copy()
        matrix.data = (matrix.data * decay(self.timestamps, half_life, now)).astype(np.float32)
        return replace(self, matrix=matrix, report={**self.report, "half_life": float(half_life)})

    def transpose(self) -> Interactions:
        """Items x users: rows, ids and labels change sides, timestamps follow their cells."""
        sides = (self.item_ids, self.user_ids, self.item_labels, self.user_labels)
        turned = self._moved(lambda m: m.T.tocsr(), sides, {})
        return replace(turned, about_users=self.about_items, about_items=self.about_users)

    @property
    def T(self) -> Interactions:
        """`transpose()`."""
        return self.transpose()

    def _take(self, rows: Any, columns: Any, left_out: dict[str, Any]) -> Interactions:
        rows = slice(None) if rows is None else rows
        columns = slice(None) if columns is None else columns
        labels = (
            None if labels is None else labels[taken]
            for labels, taken in ((self.user_labels, rows), (self.item_labels, columns))
        )
        sides = (self.user_ids[rows], self.item_ids[columns], *labels)
        return self._moved(lambda m: m[rows][:, columns], sides, left_out)

    def _moved(self, move: Callable[[Any], Any], sides: tuple[Any, ...], left_out: dict[str, Any]) -> Interactions:
        """With the cells where `move` puts them, timestamps beside them; sides : ids and labels of both sides."""
        places = np.arange(1, len(self) + 1, dtype=np.int64)  # from 1: a stored 0 would look like an empty cell
        moved = sparse.csr_array(move(sparse.csr_array((places, self.matrix.indices, self.matrix.indptr), self.shape)))
        moved.sort_indices()
        order = moved.data - 1
        return replace(
            self,
            **dict(zip(("user_ids", "item_ids", "user_labels", "item_labels"), sides, strict=True)),
            matrix=sparse.csr_array((self.matrix.data[order], moved.indices, moved.indptr), moved.shape),
            timestamps=None if self.timestamps is None else self.timestamps[order],
            report={**self.report, **left_out},
        )


def decay(times: npt.NDArray[Any], half_life: float, now: float | None = None) -> npt.NDArray[np.float64]:
    """2^(-age / half_life) for times in seconds, a half-life in days, and ages from `now`, or from the latest time."""
    check_number("half_life", half_life, above=0)
    if now is not None:
        check_number("now", now)
    known = np.isfinite(times)
    latest = float(times[known].max(initial=-np.inf)) if now is None else float(now)
    age = np.where(known, np.maximum(latest - np.asarray(times, np.float64), 0.0), 0.0)
    return np.asarray(np.exp2(-age / (half_life * SECONDS_OF_A_DAY)))


def _spread(counts: npt.NDArray[Any]) -> str:
    return f"{counts.min():,} to {counts.max():,}, median {np.median(counts):g}"
