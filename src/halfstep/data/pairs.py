"""Pairs with values, of any kind, into cells: ids numbered, targets as the loss wants them, weights checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.cells import Observations
from halfstep.core.losses import Loss
from halfstep.data.frames import pairs_from
from halfstep.data.ids import Index, encode
from halfstep.data.table import CellsHere


def read_pairs(
    X: Any,
    y: ArrayLike,
    weight: ArrayLike | None,
    loss: Loss,
    roles: tuple[str, str],
    *,
    dtype: Any,
    known: Index | None = None,
    classes: NDArray[Any] | None = None,
) -> CellsHere:
    """Pairs X (N, 2) worth y (N,); a pair that occurs twice is two cells.

    weight : (N,) or None for 1. roles : what the ids of both sides are called. known, classes : ids of
    the second side and classes of an earlier fit.
    """
    first, second = pairs_from(X)
    own, rows = encode(first, roles[0])
    other, columns = encode(second, roles[1]) if known is None else (known, known.positions(second))
    if known is None and not len(rows):
        raise ValueError("X has no rows; a fit needs at least one pair.")
    shape = (len(own), len(other))
    targets, classes = loss.encode_targets(y, classes)
    weights = checked_weights(weight, len(rows))
    same_length("y", targets, len(rows))
    cells = Observations.from_cells(rows, columns, shape, targets, weights, dtype=dtype)
    return CellsHere(cells, (own, other), total_weight=float(weights.sum()), classes=classes)


def checked_weights(given: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Sample weights (n,): ones where none are given."""
    if given is None:
        return np.ones(n)
    weights = np.asarray(given, np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    same_length("sample_weight", weights, n)
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"sample_weight must be finite and >= 0; {int(bad.sum())} are not, "
            f"first {weights[first]} at position {first}."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; at least one pair must count.")
    return weights


def same_length(name: str, values: NDArray[Any], n: int) -> None:
    if values.shape != (n,):
        raise ValueError(f"{name} has shape {values.shape}; X has {n} pairs, so it must be ({n},).")
