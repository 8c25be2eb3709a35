"""Somebody new, known by the items they have: their cells, their average, reasons for a score.

Knows implicit feedback, where a cell has a weight and unobserved cells a background. Not how factors were fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.data.ids import Index
from halfstep.data.names import labels_of
from halfstep.data.table import CellsHere, summed
from halfstep.models.answers import Explanation
from halfstep.models.fitted import FactorFit
from halfstep.models.recommend import Catalogue


def somebody_with(fit: Catalogue, items: Iterable[Any], weights: Sequence[float] | None, dtype: Any) -> CellsHere:
    """One new row that has `items`."""
    places = fit.names[1].positions(items)
    if not len(places):
        raise ValueError("items is empty; give at least one item that the new user has.")
    values = np.ones(len(places), dtype) if weights is None else np.asarray(weights, dtype)
    if values.shape != places.shape or not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"weights must be {len(places)} finite numbers >= 0, one for each item.")
    rows, shape = np.zeros(len(places), np.int64), (1, len(fit.items))
    known = summed(rows, places, shape, values, dtype)
    if not len(known):
        raise ValueError("every weight is zero; give at least one item a weight above 0.")
    return CellsHere(known, (Index.range(1, fit.users.name), fit.items))


def average_of(fit: FactorFit, cells: Observations, dtype: Any) -> NDArray[Any]:
    """(1, d): the mean of the rows of the items that somebody has, by their weights."""
    share = each_weight(cells)
    mean = (share / share.sum()) @ fit.rows[1][cells.indices]
    return np.ascontiguousarray(mean[None, :], dtype)


def explained(fit: FactorFit, cells: Observations, item: int, penalty: float, background: float) -> Explanation:
    """What each of the cells of one row contributes to its score of `item`, largest first.

    With A the row's matrix, item k contributes w_k v_item' A^-1 v_k, since the row is A^-1 sum_k w_k v_k.
    """
    items, w = fit.rows[1], each_weight(cells)
    x = items[cells.indices].astype(np.float64)
    A = penalty * np.eye(items.shape[1]) + background * fit.kept.gram + (x.T * (w - background)) @ x
    parts = w * (x @ np.linalg.solve(A, items[item].astype(np.float64)))
    order = np.argsort(-np.abs(parts), kind="stable")
    given = cells.indices[order]
    return Explanation(float(parts.sum()), fit.items.take(given), parts[order], labels_of(fit.item_labels, given))


def each_weight(cells: Observations) -> NDArray[np.float64]:
    return np.broadcast_to(np.asarray(cells.weights, np.float64), (len(cells),))
