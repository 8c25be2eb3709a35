"""Interactions of any kind into one form: a weight matrix and the ids of its two sides.

Takes scipy sparse matrices, arrays, frames and `Interactions`. Knows users and items, not models.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.cells import Observations, check_size
from halfstep.data.frames import interactions_from_frame, is_frame
from halfstep.data.ids import Index, encode
from halfstep.data.tables import CellTable


def read_table(
    X: Any, *, user: str | None = None, item: str | None = None, weight: str | None = None, dtype: Any = np.float32
) -> CellTable:
    """Users x items with weights from whatever holds them; targets are 1.

    Sparse matrix or 2-D array: rows are users, columns items, values weights, ids are row and column numbers; a zero
    is an unobserved cell. Frame: a row for each cell, columns named or detected. Repeated cells are summed.
    """
    named = {"user": user, "item": item, "weight": weight}
    if any(named.values()) and not is_frame(X):
        given = ", ".join(f"{role}={name!r}" for role, name in named.items() if name)
        raise ValueError(
            f"{given} name columns of a frame, but X is a {type(X).__name__}; leave them out or pass a frame."
        )
    if hasattr(X, "matrix") and hasattr(X, "item_ids"):  # Interactions, which lives a layer above
        cells = _from_matrix(X.matrix, dtype)
        return CellTable(cells, Index(X.user_ids, "user"), Index(X.item_ids, "item"), X.user_labels, X.item_labels)
    if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        cells = _from_matrix(X, dtype)
        return CellTable(cells, Index.range(cells.shape[0], "user"), Index.range(cells.shape[1], "item"))
    if is_frame(X):
        columns = interactions_from_frame(X, user, item, weight)
        users, rows = encode(columns.users, "user")
        items, cols = encode(columns.items, "item")
        values = 1.0 if columns.weights is None else columns.weights
        if isinstance(values, np.ndarray):
            _check_weights(values, lambda k: f"row {k} of the frame")
        if not len(rows):
            raise ValueError("X has no rows; a fit needs at least one interaction.")
        shape = (len(users), len(items))
        cells = Observations.from_cells(rows, cols, shape, weights=values, duplicates="sum", dtype=dtype)
        # summing can make zeros or constants; one place decides what becomes of them
        cells = Observations.from_weights(cells.to_csr(), dtype)
        _refuse_empty(cells)
        return CellTable(cells, users, items)
    raise TypeError(
        "X must be a scipy sparse matrix, a 2-D array of weights, a frame with user and item columns, or "
        f"Interactions; got {type(X).__name__}"
        + (f" of shape {X.shape}. Rows are users and columns are items." if hasattr(X, "shape") else ".")
    )


def _from_matrix(X: Any, dtype: Any) -> Observations:
    check_size(X.shape)  # before anything as long as a side is made
    _check_dtype(X)
    if not sp.issparse(X):
        _check_finite(X)
    if X.dtype not in (np.float32, np.float64):  # narrow integers would overflow where repeated cells are summed
        X = X.astype(dtype)
    matrix = X.tocsr() if sp.issparse(X) else sp.csr_array(X)
    if min(matrix.shape) == 0 or matrix.nnz == 0:
        raise ValueError(f"X of shape {matrix.shape} has no stored cell; a fit needs at least one interaction.")
    indptr, data = matrix.indptr, matrix.data

    def where(k: int) -> str:
        return f"row {int(np.searchsorted(indptr, k, side='right')) - 1}, column {int(matrix.indices[k])}"

    _check_weights(data, where)
    cells = Observations.from_weights(matrix, dtype)
    _refuse_empty(cells)
    return cells


def _refuse_empty(cells: Observations) -> None:
    if not len(cells):
        raise ValueError("every stored weight of X is zero; a fit needs at least one interaction.")


def _check_dtype(X: Any) -> None:
    if X.dtype.kind not in "biuf":
        raise TypeError(
            f"X is a matrix of {X.dtype}; it must hold weights, which are real numbers, users x items. "
            "Pairs of ids go into a frame with a user and an item column."
        )


def _check_finite(X: NDArray[Any]) -> None:
    if np.issubdtype(X.dtype, np.floating) and not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"X has {X[row, column]} at row {row}, column {column}; weights must be finite. Unobserved cells are 0."
        )


def _check_weights(values: NDArray[Any], where: Any) -> None:
    bad = ~np.isfinite(values) if np.issubdtype(values.dtype, np.floating) else np.zeros(len(values), bool)
    bad |= values < 0
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"weights must be finite and >= 0; {int(bad.sum())} are not, first {values[first]} at {where(first)}. "
            "A weight says how much a cell counts; leave a cell out if it should not count."
        )
