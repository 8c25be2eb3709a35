"""A plane to look at factors: directions from the origin, seen along their two widest axes. Knows arrays only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 65_536  # rows at a time, so that no second copy of a large matrix is made


class LatentMap:
    """Projects vectors to the plane by PCA of the unit rows of `factors` (n, d).

    With u = v / |v| and m the mean of all u, the place of v is scale * (u - m) E, where E (d, 2) holds the two leading
    eigenvectors of the covariance of u. `scale` puts the outermost row on the edge of [-1, 1]. The sign of an axis is
    chosen so that its largest entry is positive: the same factors give the same map.
    """

    def __init__(self, factors: NDArray[Any]) -> None:
        d = factors.shape[1]
        total, square = np.zeros(d), np.zeros((d, d))
        for start in range(0, len(factors), BLOCK):
            block = unit_rows(factors[start : start + BLOCK])
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
        reach = max(
            float(np.abs(self.place(factors[start : start + BLOCK])).max()) for start in range(0, len(factors), BLOCK)
        )
        self._scale = 1.0 / max(reach, np.finfo(float).tiny)

    def place(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """Coordinates (n, 2) of vectors (n, d)."""
        return np.asarray(self._scale * (unit_rows(vectors) - self._mean) @ self._axes)


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Rows of length one; a row of zeros stays as it is."""
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))
