"""The numbers behind the pictures, for pages, notebooks and servers alike. Knows arrays; draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.metrics import calibration_bins

PARTS = ("data", "background", "reconstruction", "supervised", "penalty")
"""Parts that an objective may have, in the order they are shown."""
BLOCK = 65_536  # rows at a time when cells are counted


def objective(record: Mapping[str, Any]) -> float:
    """The quantity that a fit minimises, from the record of a sweep."""
    return float(record["objective"] if "objective" in record else record["total"])


def objectives(history: Sequence[Mapping[str, Any]]) -> Floats:
    """The same of every sweep."""
    return np.array([objective(record) for record in history])


def objective_parts(history: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """What adds up to the objective, by sweep."""
    return {part: np.array([record[part] for record in history]) for part in PARTS if part in history[0]}


def ranking_metrics(history: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """Metrics of rankings, such as "ndcg@10", by sweep; none where a fit had no cells to judge by."""
    names = [name for name in history[0] if "@" in name] if history else []
    return {name: np.array([record[name] for record in history]) for name in names}


def cell_counts(seen: Callable[[NDArray[np.int64]], Any], shape: tuple[int, int]) -> tuple[NDArray[np.int64], ...]:
    """How many items each user has, and users each item; `seen(rows)` is the CSR of what these users have."""
    own, other = np.zeros(shape[0], np.int64), np.zeros(shape[1], np.int64)
    for start in range(0, shape[0], BLOCK):
        rows = np.arange(start, min(start + BLOCK, shape[0]))
        cells = seen(rows)
        own[rows] = np.diff(cells.indptr)
        other += np.bincount(cells.indices, minlength=shape[1])
    return own, other


def mean_scores(user_factors: NDArray[Any], item_factors: NDArray[Any]) -> Floats:
    """Mean score of each item over all users: the item's factors against the mean of the users'."""
    return np.asarray(item_factors @ user_factors.mean(axis=0), np.float64)


def titles(ids: ArrayLike, labels: Any) -> list[str]:
    """What to call rows: their titles, or their ids."""
    return [str(each) for each in (np.asarray(ids).tolist() if labels is None else labels)]


def classifier_names(names: Sequence[Any] | None, m: int) -> list[str]:
    """What to call m classifiers: the names given, or their numbers."""
    if names is not None and len(names) != m:
        raise ValueError(f"names has {len(names)} entries; this ensemble has {m} classifiers.")
    return [f"classifier {j}" for j in range(m)] if names is None else [str(name) for name in names]


def highest_and_lowest(values: Floats, most: int = 60) -> tuple[NDArray[Any], str]:
    """Positions of the rows a table shows, largest value first, and which they are: all, or as many of either end."""
    order = np.argsort(-values, kind="stable")
    if len(order) <= most:
        return order, "all items"
    half = most // 2
    return np.r_[order[:half], order[-half:]], f"the {half} highest and {half} lowest"


def clustered_order(similarity: ArrayLike) -> NDArray[np.intp]:
    """An order of rows that puts similar ones side by side: leaves of average-linkage clustering."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    s = np.nan_to_num(np.asarray(similarity, float), nan=0.0)
    if len(s) < 3:
        return np.arange(len(s))
    distance = np.maximum(s.max() - (s + s.T) / 2, 0.0)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=len(s) < 200)
    return np.asarray(leaves_list(tree))


def in_bins(predicted: ArrayLike, observed: ArrayLike) -> dict[str, Floats]:
    """Observed values in tenths of the predictions: means, quantiles and the share below the prediction."""
    p, y = np.asarray(predicted, float), np.asarray(observed, float)
    bins = calibration_bins(p, y, equal="count")
    parts = [bins.place == k for k in range(len(bins.count))]
    below = (y < p) + 0.5 * (y == p)
    quantiles = np.array([np.quantile(y[part], [0.1, 0.5, 0.9]) for part in parts]).T
    return {
        "predicted": bins.predicted,
        "mean": bins.observed,
        **dict(zip(("10%", "median", "90%"), quantiles, strict=True)),
        "below": np.array([below[part].mean() for part in parts]),
    }
