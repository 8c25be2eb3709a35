"""X as it was given: which columns an estimator sees, and which rows lack them. Knows tables, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_array

from halfstep.core.arrays import Codes, Floats, Mask
from halfstep.errors import close_matches, did_you_mean

Columns = str | int | slice | Sequence[str] | Sequence[int] | Sequence[bool] | Callable[[Any], Any] | None


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """n rows of `width` columns, kept as they came: a frame stays a frame, so that its names reach the estimators.

    missing (n, width): which cells are NaN, None or null; None where nothing is.
    """

    X: Any
    n: int
    width: int
    names: list[str] | None
    missing: Mask | None

    @classmethod
    def of(cls, X: Any) -> FeatureTable:
        """A frame of any kind, an array or a sparse matrix. Infinity is refused, missing cells are not."""
        if nw.dependencies.is_into_dataframe(X):
            return cls._of_frame(X)
        checked = check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite="allow-nan")
        n, width = checked.shape
        return cls(checked, n, width, None, _missing(checked))

    @classmethod
    def _of_frame(cls, X: Any) -> FeatureTable:
        frame = nw.from_native(X, eager_only=True)
        if 0 in frame.shape:
            raise ValueError(
                f"X is a frame of shape {frame.shape}: Found array with {frame.shape[0]} sample(s) and "
                f"{frame.shape[1]} feature(s) while a minimum of 1 is required."
            )
        found = np.column_stack([_missing_of(column) for column in frame.iter_columns()])
        n, width = frame.shape
        return cls(X, n, width, [str(name) for name in frame.columns], found if found.any() else None)

    def rows(self, rows: Codes, columns: Codes | None) -> Any:
        """Some rows of some columns (None: all), in the kind of the input."""
        part = self.X if columns is None else _safe_indexing(self.X, columns.tolist(), axis=1)
        return part if len(rows) == self.n else _safe_indexing(part, rows)

    def lacking(self, columns: Codes | None, everything: bool) -> Mask:
        """(n,) rows that lack any of the columns, or every one of them."""
        if self.missing is None:
            return np.zeros(self.n, dtype=bool)
        part = self.missing if columns is None else self.missing[:, columns]
        return np.asarray(part.all(axis=1) if everything else part.any(axis=1))

    def positions(self, columns: Columns, owner: str) -> Codes | None:
        """(k,) numbers of columns given as ColumnTransformer takes them; None: all of them."""
        if columns is None:
            return None
        if callable(columns):
            columns = columns(self.X)
        if isinstance(columns, str | int | np.integer):
            return self.positions([columns], owner)  # type: ignore[arg-type]
        if isinstance(columns, slice):
            return self._checked(np.arange(self.width)[self._by_number(columns)], owner)
        listed = list(columns)  # type: ignore[arg-type]
        if listed and all(isinstance(each, str) for each in listed):
            return self._checked(np.array([self._number(name, owner) for name in listed]), owner)
        given = np.asarray(listed)
        if given.dtype == bool and len(given) == self.width:
            return self._checked(np.flatnonzero(given), owner)
        if given.dtype.kind not in "iu" or given.min() < -self.width or given.max() >= self.width:
            raise ValueError(
                f"columns of estimator {owner!r} are {listed[:5]!r}; they must be names or numbers of the "
                f"{self.width} columns of X, a slice, a mask of {self.width}, or a function of X"
            )
        return self._checked(given % self.width, owner)

    def _checked(self, found: NDArray[Any], owner: str) -> Codes:
        if not len(found):
            raise ValueError(f"estimator {owner!r} is given no column of X; leave it out, or name at least one")
        return found.astype(np.int64)

    def _by_number(self, part: slice) -> slice:
        if isinstance(part.start, str) or isinstance(part.stop, str):
            start = None if part.start is None else self._number(part.start, "slice")
            stop = None if part.stop is None else self._number(part.stop, "slice") + 1  # by name the end counts too
            return slice(start, stop, part.step)
        return part

    def _number(self, name: str, owner: str) -> int:
        if self.names is None:
            raise ValueError(f"estimator {owner!r} names the column {name!r}, but X has no names; pass a frame")
        if name not in self.names:
            near = did_you_mean(close_matches(name, self.names))
            raise ValueError(f"estimator {owner!r} names the column {name!r}, which X does not have.{near}")
        return self.names.index(name)

    def numbers(self) -> Floats:
        """(n, width) as numbers, for features that are passed through."""
        dense = self.X.toarray() if sp.issparse(self.X) else self.X
        try:
            return np.asarray(dense, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"passthrough=True needs a table of numbers, and X is not one ({error}); encode it first, or give X "
                "to an estimator that does and leave passthrough=False"
            ) from error


def _missing(X: Any) -> Mask | None:
    if sp.issparse(X):
        if not np.isnan(X.data).any():
            return None
        found = np.zeros(X.shape, dtype=bool)
        rows, columns = X.nonzero()
        values = np.asarray(X[rows, columns]).ravel()
        found[rows, columns] = np.isnan(values)
        return found
    if X.dtype.kind == "f":
        found = np.isnan(X)
    elif X.dtype.kind == "O":
        found = np.frompyfunc(lambda cell: cell is None or cell != cell, 1, 1)(X).astype(bool)
    else:
        return None
    return found if found.any() else None


def _missing_of(column: Any) -> Mask:
    """(n,) of a column of a frame; refuses infinity."""
    null = column.is_null().to_numpy().astype(bool)
    if column.dtype.is_float():
        values = np.asarray(column.to_numpy(), np.float64)
        if np.isinf(values).any():
            raise ValueError(f"Input X contains infinity, in the column {column.name!r}; NaN or null mean missing")
        null = null | np.isnan(values)
    found: Mask = null
    return found
