"""Pairs with values, of any kind, into cells: ids numbered, targets as the loss wants them, weights checked.

Merged with more of them, and as tensors of a model file. Knows no models.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import reals
from halfstep.core.cells import Observations, Values
from halfstep.core.losses import Loss
from halfstep.data.files import Saved
from halfstep.data.frames import pairs_from
from halfstep.data.ids import Index, encode
from halfstep.data.table import PATTERN, CellsHere, saved_cells
from halfstep.data.tensors import WEIGHTS, Tensor


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
    weights: Values = 1.0 if weight is None else checked_weights(weight, len(rows))
    same_length("y", targets, len(rows))
    cells = Observations.from_cells(rows, columns, shape, targets, weights, dtype=dtype)
    total = float(np.broadcast_to(weights, len(rows)).sum())
    return CellsHere(cells, (own, other), total_weight=total, classes=classes)


def merge_pairs(old: CellsHere, new: CellsHere, dtype: Any) -> CellsHere:
    """Old pairs and new ones over all ids, new ids appended; what was known of a pair gives way to what is new."""
    if not isinstance(old.cells.targets, np.ndarray) and np.isnan(old.cells.targets):
        raise ValueError(
            "this model comes from a file that does not hold the values of its pairs (they are kept since the second "
            "edition); call fit with all pairs."
        )
    own, other = (a.extend(b.ids) for a, b in zip(old.ids, new.ids, strict=True))
    shape = len(own), len(other)
    parts = []
    for given in (old, new):
        cells, n = given.cells, len(given.cells)
        rows = own.positions(given.ids[0].ids)[np.repeat(np.arange(cells.shape[0]), cells.counts)]
        columns = other.positions(given.ids[1].ids)[cells.indices]
        values = [np.broadcast_to(np.asarray(v, np.float64), n) for v in (cells.targets, cells.weights)]
        parts.append([rows, columns, *values])
    before, after = (part[0] * shape[1] + part[1] for part in parts)
    stays = ~np.isin(before, after)
    rows, columns, t, w = (np.concatenate([a[stays], b]) for a, b in zip(*parts, strict=True))
    cells = Observations.from_cells(rows, columns, shape, t, w, dtype=dtype)
    return CellsHere(cells, (own, other), total_weight=float(w.sum()), classes=old.classes)


def pairs_to_arrays(cells: Observations, dtype: Any) -> dict[str, NDArray[Any]]:
    """Cells with their values as tensors of a model file."""
    values = {name: np.atleast_1d(np.asarray(getattr(cells, name), dtype)) for name in ("targets", "weights")}
    return {"indptr": cells.indptr, "indices": cells.indices, **values}


RATED = PATTERN | {"targets": Tensor("cells|1"), "weights": Tensor("cells|1", WEIGHTS)}


def pairs_from_saved(saved: Saved) -> CellsHere:
    """The cells that `pairs_to_arrays` took apart; a file that holds no values has targets of NaN."""
    if "targets" not in saved.arrays:
        which, _ = saved_cells(saved)
        return replace(which, cells=replace(which.cells, targets=float("nan")))
    which, (targets, weights) = saved_cells(saved, RATED)
    return replace(which, cells=replace(which.cells, targets=targets, weights=weights))


def checked_weights(given: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Sample weights (n,): ones where none are given."""
    if given is None:
        return np.ones(n)
    weights = reals("sample_weight", given)
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
