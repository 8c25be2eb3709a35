"""A plane to look at factors: directions from the origin, so that popularity does not decide the picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from halfstep.core.arrays import Floats

BLOCK = 65_536  # rows at a time, so that no second copy of a large matrix is made


class LatentMap:
    """Projects vectors to the plane by PCA of the unit rows of `factors` (n, d).

    With u = v / |v| and m the mean of all u, the place of v is scale * (u - m) E, where E (d, 2) holds the two leading
    eigenvectors of the covariance of u. `scale` puts the outermost row on the edge of [-1, 1]. The sign of an axis is
    chosen so that its largest entry is positive: the same factors give the same map.
    """

    def __init__(self, factors: NDArray[Any]) -> None:
        d = factors.shape[1]
        blocks = [slice(start, start + BLOCK) for start in range(0, len(factors), BLOCK)]
        total, square = np.zeros(d), np.zeros((d, d))
        for rows in blocks:
            block = unit_rows(factors[rows])
            total += block.sum(axis=0)
            square += block.T @ block
        self._mean = total / len(factors)
        values, vectors = np.linalg.eigh(square / len(factors) - np.outer(self._mean, self._mean))
        axes = vectors[:, ::-1][:, :2]
        axes = axes * np.where(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
        self._axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
        variance = np.maximum(values[::-1], 0.0)
        self.explained = float(variance[:2].sum() / max(variance.sum(), np.finfo(float).tiny))
        self._scale = 1.0
        reach = max(float(np.abs(self.place(factors[rows])).max()) for rows in blocks)
        self._scale = 1.0 / max(reach, np.finfo(float).tiny)

    def place(self, vectors: NDArray[Any]) -> Floats:
        """Coordinates (n, 2) of vectors (n, d)."""
        return np.asarray(self._scale * (unit_rows(vectors) - self._mean) @ self._axes)


def flat_map(factors: ArrayLike, method: str = "auto", seed: int = 0) -> tuple[Floats, str]:
    """Rows of factors in the plane, (n, 2), and the name of the method: "PCA" is `LatentMap`.

    "auto" takes t-SNE up to 1,000 rows and PCA above, where t-SNE would take minutes.
    """
    rows = unit_rows(np.asarray(factors))
    n, d = rows.shape
    if method == "auto":
        method = "t-SNE" if 10 <= n <= 1000 and d > 2 else "PCA"
    if d == 1 or n < 3:
        return np.column_stack([rows[:, 0], np.zeros(n)]), "first factor"
    if method == "PCA":
        return LatentMap(rows).place(rows), "PCA"
    from sklearn.manifold import TSNE

    near = TSNE(2, metric="cosine", init="pca", perplexity=min(30.0, (n - 1) / 3), random_state=seed, max_iter=500)
    with threadpool_limits(1):  # so few rows are several times slower with threads that wait for each other
        return np.asarray(near.fit_transform(rows), np.float64), "t-SNE"


def unit_rows(vectors: NDArray[Any]) -> Floats:
    """Rows of length one; a row of zeros stays as it is."""
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))
