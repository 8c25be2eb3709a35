"""Frames of predictions: columns by name, numbers, and the index. Knows pandas, polars and pyarrow through narwhals."""

from __future__ import annotations

import warnings
from typing import Any

import narwhals as nw
import numpy as np

from halfstep.core.arrays import Floats
from halfstep.data.frames import is_frame
from halfstep.ensemble.predictions import PredictionWarning


def column_names(P: Any) -> list[Any] | None:
    """The columns of a frame; None of anything else."""
    if hasattr(P, "columns") and hasattr(P, "iloc"):  # pandas may have columns that are no text, which narwhals renames
        return list(P.columns)
    return list(nw.from_native(P).collect_schema().names()) if is_frame(P) else None


def class_columns(P: Any) -> list[tuple[Any, Any]] | None:
    """(classifier, class) of every column, where a pandas frame has columns of two levels."""
    levels = getattr(getattr(P, "columns", None), "nlevels", 1)
    if levels == 1:
        return None
    if levels != 2:
        raise ValueError(f"P has columns of {levels} levels; two are (classifier, class), one is the classifier")
    return list(P.columns)


def frame_numbers(P: Any) -> Floats:
    """(n, columns) float64, NaN where missing."""
    if hasattr(P, "iloc"):
        columns = [(name, P.iloc[:, j]) for j, name in enumerate(P.columns)]
    else:
        table = nw.from_native(P)
        eager = table.collect() if isinstance(table, nw.LazyFrame) else table
        columns = [(name, eager[name].to_list()) for name in eager.columns]
    if not columns:
        raise ValueError("P has no columns; it needs one for each classifier")
    return np.column_stack([_numbers(name, column) for name, column in columns])


def _numbers(name: Any, column: Any) -> Floats:
    try:
        if getattr(getattr(column, "dtype", None), "kind", "") == "c":
            raise TypeError("its numbers are complex")
        if hasattr(column, "to_numpy"):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), np.float64)
        return np.array(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"P must be numbers, but its column {name!r} is not ({error}); drop it, or make it the index where it "
            "holds ids"
        ) from error


def frame_index(P: Any) -> Any:
    """The index of a pandas frame where it says more than row numbers; None elsewhere."""
    index = getattr(P, "index", None)
    if index is None or not hasattr(P, "iloc") or _counts(index):
        return None
    if not index.is_unique:
        warnings.warn(
            f"the index of P repeats {index[index.duplicated()][0]!r}, so instances are called by their row numbers; "
            "pass ids= to name them",
            PredictionWarning,
            stacklevel=6,
        )
        return None
    return np.asarray(index) if index.nlevels == 1 else list(index)


def _counts(index: Any) -> bool:
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
