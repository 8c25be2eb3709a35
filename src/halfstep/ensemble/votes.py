"""Votes: the label that a classifier gives an instance, or none. They become an axis of zeros and ones.

From there on they are read like any other axis of classes. Knows labels and frames; learns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.ensemble.frames import class_columns, column_names
from halfstep.ensemble.inputs import MAX_CLASSES
from halfstep.ensemble.predictions import code_labels, is_given, read_labels


def cast_votes(P: Any, known: NDArray[Any]) -> tuple[Floats, list[str] | None]:
    """Votes (n, m) as zeros and ones (n, m, K), NaN where a classifier abstains, and the names of the columns.

    A vote is one of the K `known` classes; NaN, None and -1 are abstentions.
    """
    names, table = _table(P)
    if table is None or 0 in table.shape:
        raise ValueError(f"P has shape {np.shape(P)}; votes must be (instances, classifiers), and not empty")
    order = np.argsort(known)
    try:
        codes = code_labels(table.ravel().tolist(), table.size, known[order]).reshape(table.shape)
    except ValueError as error:
        raise ValueError(f"P has a vote for no class ({str(error).removeprefix('y has ')})") from error
    cube = np.eye(len(known))[order[codes]]
    cube[codes < 0] = np.nan
    return cube, names


def are_votes(P: Any, y: Any, classes: Sequence[Any] | None) -> bool:
    """Whether the cells of P (n, m) can only be labels: text, or whole numbers that are no probabilities.

    Numbers in [0, 1] are probabilities, always; so are numbers with a fraction (and refused elsewhere, if they are
    outside). Other whole numbers, of whatever type (NaN makes floats of integers), are votes where each is a label of y
    or one of `classes`; anything else is an error.
    """
    _, table = _table(P)
    if table is None:
        return False
    if are_text(P):
        return True
    told = table[~np.isnan(table)] if table.dtype.kind in "iuf" else np.array(table[is_given(table)].tolist())
    if told.dtype.kind not in "iuf" or not ((told > 1) | (told < 0)).any():
        return False
    if not np.isfinite(told).all() or (told % 1 != 0).any():
        return False
    known = set(_labels(y).tolist() if classes is None else classes)
    strange = [int(cell) for cell in np.unique(told[told != -1]).tolist() if cell not in known]
    if strange:
        raise ValueError(
            f"P holds integers such as {strange[0]}, which is no probability and no label of y; pass votes=True where "
            "they are votes, and probabilities in [0, 1] otherwise"
        )
    return True


def are_text(P: Any) -> bool:
    """Whether the cells of P (n, m) are text, so far as there are any."""
    _, table = _table(P)
    if table is None or table.dtype.kind not in "OUST":
        return False
    told = table[is_given(table)].tolist()
    return bool(told) and all(isinstance(cell, str) for cell in told)


def vote_classes(P: Any, y: Any) -> NDArray[Any]:
    """Every label of y and every vote, sorted."""
    _, table = _table(P)
    told = [] if table is None else table[is_given(table)].tolist()
    told += _labels(y).tolist()
    return read_labels(told, len(told), max_classes=MAX_CLASSES)[1]


def _table(P: Any) -> tuple[list[str] | None, NDArray[Any] | None]:
    """Names of columns, and P as it lies where it has two dimensions."""
    if isinstance(P, Mapping):
        parts = [np.asarray(part) for part in P.values()]
        if not parts or any(part.ndim != 1 or len(part) != len(parts[0]) for part in parts):
            return None, None
        return [str(name) for name in P], np.column_stack(parts)
    if class_columns(P) is not None:
        return None, None
    columns = column_names(P)
    if columns is not None:
        texts = all(isinstance(name, str) for name in columns)
        return columns if texts else None, P.to_numpy() if hasattr(P, "to_numpy") else np.asarray(P)
    if isinstance(P, list | tuple):
        if any(np.ndim(part) != 1 or isinstance(part, np.ndarray) for part in P):
            return None, None  # an array for each classifier
        return None, np.array(P, dtype=object)
    table = np.asarray(P)
    return None, table if table.ndim == 2 else None


def _labels(y: Any) -> NDArray[Any]:
    """Those that are given."""
    labels = np.empty(0 if y is None else len(y), dtype=object)
    labels[:] = [] if y is None else list(y.values() if isinstance(y, Mapping) else y)
    return np.unique(np.array(labels[is_given(labels)].tolist()))
