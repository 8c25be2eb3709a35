"""Scores of factors, and what is added to them. Dense, a block of rows at a time; knows nothing of what is added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halfstep.core.blas import one_blas_thread
from halfstep.models.item_matrix import best_of_blocks
from halfstep.models.recommend import Best, FactorScorer

Array = NDArray[Any]


class Added(Protocol):
    """A part of scores that factors do not know."""

    def scores(self, rows: slice) -> Array:
        """What it adds, (rows, items), dense."""


@dataclass(frozen=True, eq=False)
class AddedScorer:
    """A score is that of the factors, and all that is added. Likeness is that of the factors."""

    factors: FactorScorer
    added: tuple[Added, ...]

    @one_blas_thread
    def scores(self, rows: slice = slice(None)) -> Array:
        """(rows, items), dense: ask for a block of rows at a time."""
        found = self.factors.left[rows] @ self.factors.right.T
        for each in self.added:
            found = found + each.scores(rows)
        return np.asarray(found)

    def best(self, k: int, seen: Any, allowed: NDArray[np.int64] | None) -> Best:
        shape = len(self.factors.left), len(self.factors.right)
        order = np.arange(shape[1]) if allowed is None else allowed
        return best_of_blocks(self.scores, shape, k, seen, order.astype(np.int32))

    def alike(self, items: Array) -> Array:
        return self.factors.alike(items)
