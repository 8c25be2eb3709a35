"""A map of factors by who is near whom: t-SNE of the rows that matter, everybody else among their likes.

Knows vectors and how much each row counts; what they are called is for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from halfstep.core.arrays import Floats
from halfstep.figures.plane import flat_map, unit_rows

ANCHORS = 1_500  # t-SNE of so many rows takes seconds; of ten times as many, minutes
NEAREST = 8
ROWS_TO_A_GROUP, MOST_GROUPS = 60, 14


@dataclass(frozen=True, eq=False)
class NeighbourMap:
    """Where rows stand so that those of like direction stand together; the same factors give the same map.

    rows : (k,) numbers of the rows that were laid out, those that count most. directions : (k, d), of length one.
    places : (k, 2) in [-1, 1]. groups : (k,) which group a row belongs to; heads : (g,) the row, among the k, that
    stands for each group.
    """

    rows: NDArray[np.int64]
    directions: Floats
    places: Floats
    groups: NDArray[np.int64]
    heads: NDArray[np.int64]

    @classmethod
    def of(cls, factors: NDArray[Any], counts: NDArray[Any]) -> Self:
        """Lays out the rows of `factors` (n, d) with the largest `counts` (n,)."""
        rows = np.sort(np.argsort(-counts, kind="stable")[:ANCHORS])
        directions = unit_rows(factors[rows])
        places, _ = flat_map(directions, "t-SNE" if len(rows) >= 10 and factors.shape[1] > 2 else "PCA")
        low, high = places.min(axis=0), places.max(axis=0)
        half = max(float((high - low).max()) / 2, np.finfo(float).tiny)
        groups, heads = _grouped(directions, counts[rows])
        return cls(rows, directions, (places - (low + high) / 2) / half, groups, heads)

    def place(self, vectors: NDArray[Any]) -> Floats:
        """Coordinates (n, 2) of vectors (n, d): a row that was laid out keeps its place, others join their likes.

        The mean of the places of the `NEAREST` rows by cosine, each weighed by the fourth power of it.
        """
        likeness = np.maximum(unit_rows(vectors) @ self.directions.T, 0.0)
        k = min(NEAREST, likeness.shape[1])
        near = np.argpartition(-likeness, k - 1, axis=1)[:, :k]
        weights = np.take_along_axis(likeness, near, axis=1) ** 4
        same = weights > (1 - 1e-6) ** 4  # its own direction, or one that cannot be told from it
        weights = np.where(same.any(axis=1, keepdims=True), same, weights) + 1e-12
        return np.asarray((weights[:, :, None] * self.places[near]).sum(axis=1) / weights.sum(axis=1, keepdims=True))

    def centre(self, group: int) -> Floats:
        """Where most of a group stands, (2,)."""
        return np.asarray(np.median(self.places[self.groups == group], axis=0))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps; directions follow from the factors."""
        return {"rows": self.rows, "places": self.places, "groups": self.groups, "heads": self.heads}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], factors: NDArray[Any]) -> Self:
        """The map of these factors that `to_arrays` was called of; arrays that do not fit raise ValueError."""
        rows, places = np.asarray(arrays["rows"], np.int64), np.asarray(arrays["places"], np.float64)
        groups, heads = (np.asarray(arrays[name], np.int64) for name in ("groups", "heads"))
        k = len(rows)
        fits = (
            k > 0
            and places.shape == (k, 2)
            and groups.shape == (k,)
            and bool(np.isfinite(places).all())
            and _within(rows, len(factors))
            and _within(groups, len(heads))
            and _within(heads, k)
        )
        if not fits:
            raise ValueError("these arrays are not the map of these factors")
        return cls(rows, unit_rows(factors[rows]), places, groups, heads)


def _within(numbers: NDArray[np.int64], n: int) -> bool:
    return bool(len(numbers)) and int(numbers.min()) >= 0 and int(numbers.max()) < n


def _grouped(directions: Floats, counts: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Groups of like directions, and for each the row that counts most among the ten nearest to its centre."""
    from sklearn.cluster import KMeans

    k = int(np.clip(len(directions) // ROWS_TO_A_GROUP, 1, MOST_GROUPS))
    with threadpool_limits(1):
        found = KMeans(k, n_init=1, random_state=0).fit(directions)
    nearest = np.argsort(found.transform(directions), axis=0, kind="stable")
    heads = []
    for group in range(k):
        own = nearest[found.labels_[nearest[:, group]] == group, group][:10]
        heads.append(int(own[np.argmax(counts[own])]))
    return found.labels_.astype(np.int64), np.array(heads, np.int64)
