"""The numbers behind the pictures, for pages and for notebooks alike. Knows arrays; draws nothing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]


def flat_map(factors: ArrayLike, method: str = "auto", seed: int = 0) -> tuple[Floats, str]:
    """Rows of factors in the plane, (n, 2), and the name of the method.

    Directions only: rows are scaled to unit length, so that popularity does not decide the picture. "auto" takes
    t-SNE up to 1,000 rows and PCA above, where t-SNE would take minutes.
    """
    rows = np.asarray(factors, np.float64)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    n, d = rows.shape
    if method == "auto":
        method = "t-SNE" if 10 <= n <= 1000 and d > 2 else "PCA"
    if d == 1 or n < 3:
        return np.column_stack([rows[:, 0], np.zeros(n)]), "first factor"
    if method == "PCA":
        return np.asarray(PCA(2, random_state=seed).fit_transform(rows)), "PCA"
    near = TSNE(2, metric="cosine", init="pca", perplexity=min(30.0, (n - 1) / 3), random_state=seed, max_iter=500)
    with threadpool_limits(1):  # so few rows are several times slower with threads that wait for each other
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


def highest_and_lowest(values: Floats, most: int = 60) -> tuple[NDArray[Any], str]:
    """Positions of the rows a table shows, largest value first, and which they are: all, or as many of either end."""
    order = np.argsort(-values, kind="stable")
    if len(order) <= most:
        return order, "all items"
    half = most // 2
    return np.r_[order[:half], order[-half:]], f"the {half} highest and {half} lowest"


def in_bins(predicted: ArrayLike, observed: ArrayLike, bins: int = 10) -> dict[str, Floats]:
    """Observed values in bins of equal counts of the prediction: means, quantiles and the share below it."""
    p, y = np.asarray(predicted, float), np.asarray(observed, float)
    parts = [part for part in np.array_split(np.argsort(p, kind="stable"), min(bins, len(p))) if len(part)]

    def each(measure: Any) -> Floats:
        return np.array([measure(part) for part in parts], float)

    return {
        "predicted": each(lambda k: p[k].mean()),
        "mean": each(lambda k: y[k].mean()),
        "median": each(lambda k: np.median(y[k])),
        "10%": each(lambda k: np.quantile(y[k], 0.1)),
        "90%": each(lambda k: np.quantile(y[k], 0.9)),
        "below": each(lambda k: (y[k] < p[k]).mean() + 0.5 * (y[k] == p[k]).mean()),
        "n": each(len),
    }


def objective(record: dict[str, Any]) -> float:
    """The quantity that a fit minimises, from the record of a sweep."""
    return float(record["objective"] if "objective" in record else record["total"])


def weight_spread(
    model: Any, P: ArrayLike, y: ArrayLike, seconds: float = 2.5, repeats: int = 24, seed: int = 0
) -> Floats | None:
    """(m,) standard error of the classifier weights: their deviation over refits on random halves of the labels.

    A half-sample varies about the full sample as the full sample does about the truth, so no correction is needed. None
    where there are too few labels, or where fewer than 8 refits fit into `seconds` of processor time.
    """
    codes = np.asarray(y)
    rng, begun, found = np.random.default_rng(seed), time.process_time(), []
    groups = [np.flatnonzero(codes == c) for c in np.unique(codes[codes >= 0])]
    if len(groups) < 2 or min(map(len, groups)) < 4:
        return None
    quiet = clone(model).set_params(callbacks=(), verbose=0, n_threads=1)
    for _ in range(repeats):
        half = np.full(len(codes), -1)
        for group in groups:
            kept = rng.choice(group, len(group) // 2, replace=False)
            half[kept] = codes[kept]
        found.append(np.asarray(clone(quiet).fit(P, half).classifier_weights_, float))
        if time.process_time() - begun > seconds:
            break
    return np.std(found, axis=0, ddof=1) if len(found) >= 8 else None
