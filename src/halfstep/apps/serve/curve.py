"""What labels bring: how good an ensemble is with fewer of them, and what the next ten are expected to do.

Knows models by `fit` and `predict_proba`. Measured where somebody asks, on labels that were hidden.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.serve.listed import number
from halfstep.apps.serve.problems import Refusal

SIZES = (0.2, 0.35, 0.55, 0.8)  # shares of the labels that are kept
REPEATS = 4  # draws of the labels that are kept, at each size
FEWEST = 3  # labels of a class, kept as well as hidden
MORE = 10  # the next labels, of which something is expected


def learning_curve(model: Any, votes: NDArray[Any], codes: NDArray[np.int64], seed: int = 0) -> dict[str, Any]:
    """Log loss on hidden labels by the number of labels kept, and a + b / n through it, b at least 0.

    votes (n, m, k) : what the classifiers say. codes (n,) : labels, -1 where there is none.
    """
    rows, k = np.flatnonzero(codes >= 0), votes.shape[2]
    counts = np.bincount(codes[rows], minlength=k)
    if counts.min() < 2 * FEWEST:
        raise Refusal(
            409, f"a learning curve needs at least {2 * FEWEST} labels of every class; there are {counts.tolist()}"
        )
    beside = getattr(model.fitted_, "beside", None)
    if beside is not None and beside.features is not None:
        raise Refusal(409, "this ensemble weighs features beside the predictions; its curve is not drawn here")
    from sklearn.metrics import log_loss  # takes a second: when somebody asks

    rng = np.random.default_rng(seed)
    points, n_test = [], []
    for share in SIZES:
        losses, kept = [], 0
        for _ in range(REPEATS):
            train = _drawn(rng, codes, rows, counts, share)
            test = np.setdiff1d(rows, train)
            told = np.full(len(codes), None, object)
            told[train] = codes[train]
            with warnings.catch_warnings(action="ignore"):
                fitted = _unfitted(model, k).fit(votes[:, :, 1] if k == 2 else votes, told)
            proba = np.clip(fitted.predict_proba()[test], 1e-6, 1)
            losses.append(log_loss(codes[test], proba / proba.sum(axis=1, keepdims=True), labels=np.arange(k)))
            kept = len(train)
        points.append({"labels": kept, "log_loss": number(np.mean(losses)), "error": number(np.std(losses, ddof=1))})
        n_test.append(len(rows) - kept)
    sizes, means = np.array([p["labels"] for p in points]), np.array([p["log_loss"] for p in points])
    level, slope = _through(sizes, means, np.array(n_test, float))
    now, more = (level + slope / count for count in (len(rows), len(rows) + MORE))
    return {
        "points": points,
        "labelled": len(rows),
        "now": number(now),
        "more": MORE,
        "then": number(more),
        "level": number(level),
        "slope": number(slope),
    }


def _unfitted(model: Any, k: int) -> Any:
    """The same settings, about codes in place of labels."""
    from sklearn.base import clone

    again = clone(model)
    parameters = again.get_params(deep=False)
    if "positive" in parameters:
        again.set_params(positive=1 if k == 2 else None)
    if "classes" in parameters:
        again.set_params(classes=None if k == 2 else list(range(k)))
    return again


def _drawn(
    rng: np.random.Generator, codes: NDArray[np.int64], rows: NDArray[np.int64], counts: NDArray[np.int64], share: float
) -> NDArray[np.int64]:
    """So many of the labelled rows, every class among them and among the others."""
    kept = []
    for code, count in enumerate(counts.tolist()):
        take = min(max(round(share * count), FEWEST), count - FEWEST)
        kept.append(rng.permutation(rows[codes[rows] == code])[:take])
    return np.sort(np.concatenate(kept))


def _through(sizes: NDArray[Any], losses: NDArray[Any], weights: NDArray[Any]) -> tuple[float, float]:
    """a and b of a + b / n by weighted least squares, b at least 0: more labels are not expected to harm."""
    x = 1 / sizes
    mean_x, mean_y = np.average(x, weights=weights), np.average(losses, weights=weights)
    spread = float(weights @ (x - mean_x) ** 2)
    slope = max(0.0, float(weights @ ((x - mean_x) * (losses - mean_y))) / spread) if spread > 0 else 0.0
    return float(mean_y - slope * mean_x), slope
