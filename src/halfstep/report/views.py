"""The numbers behind the pictures, for pages and for notebooks alike. Knows arrays; draws nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

Floats = NDArray[np.float64]


def flat_map(factors: ArrayLike, method: str = "auto", seed: int = 0) -> tuple[Floats, str]:
    """Rows of factors in the plane, (n, 2), and the name of the method.

    Directions only: rows are scaled to unit length, so that popularity does not decide the picture. "auto" takes
    t-SNE up to 3,000 rows and PCA above, where t-SNE would take minutes.
    """
    rows = np.asarray(factors, np.float64)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    n, d = rows.shape
    if method == "auto":
        method = "t-SNE" if 10 <= n <= 3000 and d > 2 else "PCA"
    if d == 1 or n < 3:
        return np.column_stack([rows[:, 0], np.zeros(n)]), "first factor"
    if method == "PCA":
        return np.asarray(PCA(2, random_state=seed).fit_transform(rows)), "PCA"
    near = TSNE(2, metric="cosine", init="pca", perplexity=min(30.0, (n - 1) / 3), random_state=seed, max_iter=500)
    return np.asarray(near.fit_transform(rows), np.float64), "t-SNE"


def reliability(probability: ArrayLike, truth: ArrayLike, bins: int = 10) -> dict[str, Floats]:
    """Mean predicted probability and share of positives in bins of equal counts; `n` is the size of each bin."""
    p, y = np.asarray(probability, float), np.asarray(truth, float)
    order = np.argsort(p, kind="stable")
    parts = [part for part in np.array_split(order, min(bins, max(len(p) // 5, 1))) if len(part)]
    return {
        "predicted": np.array([p[part].mean() for part in parts]),
        "observed": np.array([y[part].mean() for part in parts]),
        "n": np.array([len(part) for part in parts], float),
    }


def calibration_error(curve: dict[str, Floats]) -> float:
    """Expected calibration error: the mean gap between predicted and observed, weighted by bin size."""
    return float(np.average(np.abs(curve["predicted"] - curve["observed"]), weights=curve["n"]))


def clustered_order(similarity: ArrayLike) -> NDArray[np.intp]:
    """An order of rows that puts similar ones side by side: leaves of average-linkage clustering."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    s = np.nan_to_num(np.asarray(similarity, float), nan=0.0)
    if len(s) < 3:
        return np.arange(len(s))
    distance = np.maximum(s.max() - (s + s.T) / 2, 0.0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(
        leaves_list(linkage(squareform(distance, checks=False), "average", optimal_ordering=len(s) < 200))
    )


def item_popularity(model: Any) -> NDArray[np.int64]:
    """How many users have each item."""
    return np.asarray(model._table().observations.T.counts, np.int64)


def mean_scores(model: Any) -> Floats:
    """Mean score of each item over all users: the item's factors against the mean of the users'."""
    return np.asarray(model.item_factors_ @ model.user_factors_.mean(axis=0), np.float64)


def titles(ids: ArrayLike, labels: Any) -> list[str]:
    """What to call rows: their titles, or their ids."""
    return [str(each) for each in (np.asarray(ids).tolist() if labels is None else labels)]
