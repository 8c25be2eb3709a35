"""Somebody new, known by the items they have: their cells, their average, reasons for a score.

Knows implicit feedback, where a cell has a weight and unobserved cells a background. Not how factors were fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.arrays import reals
from halfstep.core.blas import one_blas_thread
from halfstep.core.cells import Observations
from halfstep.core.problem import Problem
from halfstep.data.features import Features
from halfstep.data.ids import Index
from halfstep.data.names import labels_of
from halfstep.data.table import CellsHere, summed
from halfstep.models.answers import Explanation, Parts
from halfstep.models.fitted import FactorFit
from halfstep.models.recommend import Catalogue


def somebody_with(
    fit: Catalogue, items: Iterable[Any], weights: Sequence[float] | None, dtype: Any, signed: bool = False
) -> CellsHere:
    """One new row that has `items`. signed : whether weights may be below 0."""
    places = fit.names[1].positions(items)
    if not len(places):
        raise ValueError("items is empty; give at least one item that the new user has.")
    values = np.ones(len(places)) if weights is None else reals("weights", weights)
    most = np.finfo(dtype).max
    least = -most if signed else 0.0
    if values.shape != places.shape or not ((values >= least) & (values <= most)).all():
        limits = f"from {least:.2g} to {most:.2g}"
        raise ValueError(f"weights must be {len(places)} finite numbers {limits}, one for each item.")
    rows, shape = np.zeros(len(places), np.int64), (1, len(fit.items))
    known = summed(rows, places, shape, values, dtype)
    if not len(known):
        raise ValueError("every weight is zero; give at least one item a weight above 0.")
    return CellsHere(known, (Index.range(1, fit.users.name), fit.items))


def average_of(fit: FactorFit, cells: Observations, dtype: Any) -> NDArray[Any]:
    """(rows, d): the mean of the rows of the items that somebody has, by their weights; dislikes do not count."""
    share = sp.csr_array((each_weight(cells) * cells.targets, cells.indices, cells.indptr), shape=cells.shape)
    total = np.asarray(share.sum(axis=1))[:, None]
    mean = (share @ fit.rows[1]) / np.where(total > 0, total, 1.0)
    return np.ascontiguousarray(mean, dtype)


@dataclass(frozen=True)
class Newcomer:
    """One row alone: what is minimised over it, without where it is held, and its features, where any are known."""

    problem: Problem
    features: Features | None = None


@one_blas_thread
def explained(fit: FactorFit, row: Newcomer, item: int, beside: Parts | None = None) -> Explanation:
    """What each of the cells of one row, and each of its features, contributes to its score of `item`, largest first.

    With A the row's matrix, item k contributes w_k v_item' A^-1 v_k, since the row is A^-1 (sum_k w_k v_k + lam W'f/2);
    a dislike, whose target is 0, contributes to A alone. Without cells the row is W'f/2.

    beside : what adds to the score that factors do not know.
    """
    cells, (users, items) = row.problem.observations, fit.known
    rows, w = fit.rows[1], each_weight(cells)
    x, target = (each.astype(np.float64) for each in (rows[cells.indices], rows[item]))
    lam = float(np.ravel(row.problem.sides[0].penalty)[0]) if len(cells) else 1.0
    A = _quadratic(fit, row.problem, lam, x, w) if len(cells) else np.eye(len(target))
    along = np.linalg.solve(A, target)
    wanted = w * cells.targets
    parts = wanted * (x @ along)
    score, mine = float(parts.sum()), None
    if users is not None and row.features is not None:
        mine = users.parts(row.features, lam * along)
        score += float(mine.contributions.sum())
    theirs = None
    if items is not None:
        mean = np.zeros(len(target)) if users is None or row.features is None else users.expected(row.features)[0]
        own: NDArray[np.float64] = np.linalg.solve(A, wanted @ x + lam * mean)
        theirs = items.parts(items.features.take(np.array([item])), own, whole=score)
    if beside is not None:
        score += float(beside.contributions.sum())
        mine, theirs = beside.merged(mine), beside.merged(theirs)
    order = np.argsort(-np.abs(parts), kind="stable")
    given = cells.indices[order]
    return Explanation(score, fit.items.take(given), parts[order], labels_of(fit.item_labels, given), mine, theirs)


def _quadratic(
    fit: FactorFit, problem: Problem, lam: float, x: NDArray[np.float64], w: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A of a row with cells of weights w at the items x."""
    cells, (own, other) = problem.observations, problem.sides
    A = lam * np.eye(x.shape[1])
    gram = fit.kept.gram_under(problem)
    if gram is not None:
        w0 = problem.background * (1.0 if own.background is None else own.background[0])
        removed = w0 * (np.ones(len(x)) if other.background is None else other.background[cells.indices])
        A += w0 * gram - (x.T * removed) @ x
    return np.asarray(A + (x.T * w) @ x)


def each_weight(cells: Observations) -> NDArray[np.float64]:
    return np.broadcast_to(np.asarray(cells.weights, np.float64), (len(cells),))
