"""How good a ranking is, one number for each user. Knows rankings and relevant items; no model, no split.

Every metric judges a *full* ranking: the best items of the whole catalogue, never of a sample of negatives.

`ranked` is an (n_users, n) integer array of item positions, best first. -1 is a rank without an item, never a
hit. `relevant` is a sparse matrix users x items. A stored positive value is the gain of a relevant item.

Users without relevant items cannot be judged and are left out: a metric returns one value for each user that
`users_with_relevant(relevant)` lists, in that order. The number left out is therefore
`relevant.shape[0] - len(users_with_relevant(relevant))`. No value is ever NaN.

Below, `hit_r` is 1 if the item at rank r = 1, 2, ... is relevant and 0 otherwise, and R is the user's number
of relevant items. `k=None` means the whole width of `ranked`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from halfstep.errors import expect_sound, one_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]


def precision_at_k(ranked: npt.ArrayLike, relevant: Any, k: int | None = None) -> Floats:
    """`sum_{r<=k} hit_r / k`. Empty ranks count as misses."""
    judged = _judge(ranked, relevant, k)
    return judged.n_hits / judged.k


def recall_at_k(ranked: npt.ArrayLike, relevant: Any, k: int | None = None) -> Floats:
    """`sum_{r<=k} hit_r / R`. A user with more than k relevant items cannot reach 1."""
    judged = _judge(ranked, relevant, k)
    return judged.n_hits / judged.n_relevant


def truncated_recall_at_k(ranked: npt.ArrayLike, relevant: Any, k: int | None = None) -> Floats:
    """`sum_{r<=k} hit_r / min(k, R)`: the Recall@k of the iALS paper. A perfect ranking has 1."""
    judged = _judge(ranked, relevant, k)
    return judged.n_hits / judged.reachable


def ndcg_at_k(ranked: npt.ArrayLike, relevant: Any, k: int | None = None, *, graded: bool = False) -> Floats:
    """`DCG / best possible DCG` with `DCG = sum_{r<=k} g_r / log2(r + 1)`.

    `g_r` is `hit_r`, or with `graded=True` the stored gain (linear, as in scikit-learn's `ndcg_score`).
    """
    judged = _judge(ranked, relevant, k)
    discounts = 1.0 / np.log2(np.arange(2, judged.k + 2))
    if not graded:
        best = np.cumsum(discounts)[judged.reachable - 1]
        return np.minimum(judged.hits @ discounts / best, 1.0)  # a perfect ranking may round to just above 1
    cells = judged.relevant
    row_of = np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))
    by_gain = np.lexsort((-cells.data, row_of))
    rank = np.arange(cells.nnz) - cells.indptr[row_of]
    top = rank < judged.k
    ideal = np.bincount(row_of[top], weights=cells.data[by_gain][top] * discounts[rank[top]])
    return np.minimum(judged.gains @ discounts / ideal, 1.0)


def average_precision_at_k(ranked: npt.ArrayLike, relevant: Any, k: int | None = None) -> Floats:
    """`sum_{r<=k} hit_r precision@r / min(k, R)`. Its mean over users is MAP@k."""
    judged = _judge(ranked, relevant, k)
    precisions = np.cumsum(judged.hits, axis=1) / np.arange(1, judged.k + 1)
    return np.asarray((judged.hits * precisions).sum(axis=1) / judged.reachable)


def reciprocal_rank(ranked: npt.ArrayLike, relevant: Any, k: int | None = None) -> Floats:
    """`1 / r` for the first hit at rank r <= k, 0 without one. Its mean over users is MRR@k."""
    judged = _judge(ranked, relevant, k)
    first = judged.hits.argmax(axis=1)
    return np.where(judged.n_hits > 0, 1.0 / (first + 1.0), 0.0)


def hit_rate_at_k(ranked: npt.ArrayLike, relevant: Any, k: int | None = None) -> Floats:
    """1 if any of the k best is relevant, else 0."""
    return np.where(_judge(ranked, relevant, k).n_hits > 0, 1.0, 0.0)


def coverage(ranked: npt.ArrayLike, n_items: int, k: int | None = None) -> float:
    """Share of the catalogue that stands in at least one user's k best: one number, not one for each user."""
    best = checked_ranking(ranked, n_items, k)
    return len(np.unique(best[best >= 0])) / n_items


def novelty(ranked: npt.ArrayLike, item_counts: npt.ArrayLike, n_users: int, k: int | None = None) -> Floats:
    """Mean self-information of the k best, in bits: the mean of `-log2((c_i + 1) / (n_users + 1))`.

    `item_counts` (n_items,) holds `c_i`, how many of the `n_users` training users have item i. The added ones
    keep unseen items finite: the value lies between 0 and `log2(n_users + 1)`. One value for every row of
    `ranked`; an empty ranking tells nobody anything and has 0.
    """
    counts = _checked_counts(item_counts)
    if counts.max() > n_users:
        raise ValueError(
            f"item_counts has a count of {counts.max():g} but n_users={n_users}; no item can have more "
            "users than there are. Give the number of users in the training matrix."
        )
    best = checked_ranking(ranked, len(counts), k)
    return _mean_over_items(best, -np.log2((counts + 1.0) / (n_users + 1.0)))


def popularity_bias(ranked: npt.ArrayLike, relevant: Any, item_counts: npt.ArrayLike, k: int | None = None) -> Floats:
    """Mean popularity percentile of the k best minus that of the user's relevant items; between -1 and 1.

    An item's percentile is the share of items less popular than it, ties counting half. Above 0 the ranking
    is more popular than what the user wanted, below 0 less. An empty ranking has no bias: 0.
    """
    counts = _checked_counts(item_counts)
    judged = _judge(ranked, relevant, k)
    if len(counts) != judged.relevant.shape[1]:
        raise ValueError(
            f"item_counts has {len(counts)} entries but relevant has {judged.relevant.shape[1]} items; "
            "give one count for each item."
        )
    in_order = np.sort(counts)
    less, not_more = np.searchsorted(in_order, counts), np.searchsorted(in_order, counts, side="right")
    percentile = (less + not_more) / (2.0 * len(counts))
    wanted = np.add.reduceat(percentile[judged.relevant.indices], judged.relevant.indptr[:-1])
    bias = _mean_over_items(judged.ranked, percentile) - wanted / judged.n_relevant
    return np.where((judged.ranked >= 0).any(axis=1), bias, 0.0)


@dataclass(frozen=True, eq=False)
class CalibrationBins:
    """Predictions and what was observed, in bins that are not empty.

    predicted, observed, count (k,) : means and number of the values of each bin. place (n,) : the bin of each value.
    """

    predicted: Floats
    observed: Floats
    count: Floats
    place: Ints

    @property
    def error(self) -> float:
        """Expected calibration error: the mean gap of predicted and observed, weighted by bin size; NaN of none."""
        gaps = np.abs(self.predicted - self.observed)
        return float(np.average(gaps, weights=self.count)) if len(gaps) else float("nan")


def calibration_bins(
    predicted: npt.ArrayLike, observed: npt.ArrayLike, n_bins: int = 10, *, equal: str = "width"
) -> CalibrationBins:
    """What was observed where a model predicted so much. `observed` are labels 0 and 1, or any numbers.

    equal : "width", bins of [0, 1]; or "count", as many values in each bin, whatever they are.
    """
    one_of("equal", equal, ("width", "count"))
    p, y = np.asarray(predicted, np.float64), np.asarray(observed, np.float64)
    if p.ndim != 1 or p.shape != y.shape:
        raise ValueError(f"predicted has shape {p.shape} and observed {y.shape}; give one number of both for each row.")
    if equal == "width":
        place = np.unique(np.clip((p * n_bins).astype(int), 0, n_bins - 1), return_inverse=True)[1]
    else:
        place = np.empty(len(p), int)
        for k, part in enumerate(np.array_split(np.argsort(p, kind="stable"), max(1, min(n_bins, len(p))))):
            place[part] = k
    count = np.bincount(place)
    return CalibrationBins(np.bincount(place, p) / count, np.bincount(place, y) / count, count.astype(float), place)


def users_with_relevant(relevant: Any) -> npt.NDArray[np.intp]:
    """Positions of the rows of `relevant` with at least one positive cell: the users that metrics judge."""
    return np.flatnonzero(np.diff(checked_cells("relevant", relevant).indptr))


def checked_cells(name: str, matrix: Any) -> Any:
    """A canonical float64 CSR copy of `matrix`: columns sorted, duplicates summed, stored zeros dropped.

    Raises, naming the argument `name`, unless the matrix is sparse with finite values that are not negative.
    """
    if not sparse.issparse(matrix):
        raise TypeError(
            f"{name} is a {type(matrix).__name__}; expected a scipy sparse matrix, users x items. "
            "Wrap an array as scipy.sparse.csr_matrix(array)."
        )
    expect_sound(name, matrix)
    cells = sparse.csr_matrix(matrix, dtype=np.float64, copy=True)
    cells.sum_duplicates()
    if not np.isfinite(cells.data).all():
        raise ValueError(f"{name} stores NaN or infinite values; remove these cells, absent cells are not stored.")
    if (cells.data < 0).any():
        raise ValueError(
            f"{name} stores negative values (smallest {cells.data.min():g}); rankings are judged by what "
            "users want. Keep the positive cells only."
        )
    cells.eliminate_zeros()
    return cells


def checked_ranking(ranked: npt.ArrayLike, n_items: int, k: int | None = None) -> Ints:
    """The first `k` columns of `ranked`, once each row is known to list distinct items of the catalogue."""
    array = np.asarray(ranked)
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"ranked is a {array.ndim}-D array of {array.dtype}; expected a 2-D integer array of item "
            "positions, one row for each user, padded with -1."
        )
    k = checked_k(array.shape[1] if k is None else k)
    if k > array.shape[1]:
        raise ValueError(f"k={k} but ranked has only {array.shape[1]} columns; rank at least k items.")
    best = array[:, :k]
    if best.size and (best.min() < -1 or best.max() >= n_items):
        raise ValueError(
            f"ranked holds positions from {best.min()} to {best.max()}; expected -1 (padding) to "
            f"{n_items - 1}. Give positions of items, not ids."
        )
    in_order = np.sort(best, axis=1)
    twice = ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)).any(axis=1)
    if twice.any():
        raise ValueError(
            f"ranked lists an item twice in row {int(np.argmax(twice))}; a ranking names each item at most once."
        )
    return best


def checked_k(k: object, name: str = "k") -> int:
    """`k` as an int of at least 1, or an error about the argument `name`."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"{name}={k!r}; expected a whole number of at least 1: a number of items, such as 10.")
    return int(k)


class _Judged(NamedTuple):
    """The users with relevant items, and what their k best were worth."""

    ranked: Ints  # (n_judged, k)
    relevant: Any  # CSR (n_judged, n_items)
    gains: Floats  # (n_judged, k), 0 where not relevant

    @property
    def k(self) -> int:
        return int(self.gains.shape[1])

    @property
    def hits(self) -> npt.NDArray[np.bool_]:
        return self.gains > 0

    @property
    def n_hits(self) -> npt.NDArray[np.intp]:
        return np.asarray(np.count_nonzero(self.gains, axis=1))

    @property
    def n_relevant(self) -> npt.NDArray[np.intp]:
        return np.asarray(np.diff(self.relevant.indptr), dtype=np.intp)

    @property
    def reachable(self) -> npt.NDArray[np.intp]:
        """min(k, R): the most hits a ranking of length k can have."""
        return np.asarray(np.minimum(self.k, self.n_relevant))


def _judge(ranked: npt.ArrayLike, relevant: Any, k: int | None) -> _Judged:
    """Look the gain of every ranked item up: a search of (row, item) keys among the stored cells."""
    cells = checked_cells("relevant", relevant)
    best = checked_ranking(ranked, cells.shape[1], k)
    if best.shape[0] != cells.shape[0]:
        raise ValueError(
            f"ranked has {best.shape[0]} rows but relevant has {cells.shape[0]}; expected one row "
            "for each user in both."
        )
    users = np.flatnonzero(np.diff(cells.indptr))
    if not len(users):
        raise ValueError("relevant has no positive cell, so no user can be judged; hold some cells out first.")
    best, cells = best[users], cells[users]
    n_rows, n_items = cells.shape
    keys = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(cells.indptr)) * n_items + cells.indices
    wanted = np.arange(n_rows, dtype=np.int64)[:, None] * n_items + best
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = (keys[at] == wanted) & (best >= 0)
    return _Judged(best, cells, np.where(found, cells.data[at], 0.0))


def _mean_over_items(best: Ints, value: Floats) -> Floats:
    """Mean of `value[item]` over the items of each row; 0 for a row without items."""
    present = best >= 0
    total = np.where(present, value[best], 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(present.sum(axis=1), 1))


def _checked_counts(item_counts: npt.ArrayLike) -> Floats:
    counts = np.asarray(item_counts, dtype=np.float64)
    if counts.ndim != 1 or not len(counts) or not np.isfinite(counts).all() or counts.min() < 0:
        raise ValueError(
            f"item_counts has shape {counts.shape}; expected (n_items,) finite counts of at least 0: "
            "how many training users have each item."
        )
    return counts
