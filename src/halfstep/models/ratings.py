"""How factors, biases and the intercept of ratings lie in rows, and where they start.

Fits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.initial import random_rows
from halfstep.engine import Side

FIRST_GAP, LAST_GAP = 1e-2, 1e-4
"""Relative duality gaps at which rows count as solved: in the first sweep, and when a fit has settled."""


@dataclass(frozen=True)
class RatingColumns:
    """Where things lie in a row: [1 | c | p | a] for users, [mu | b | q | c'] for items.

    The first column is there with an intercept mu, the second and the last with biases: a bias is a free column that
    meets a pinned one of the other side. `pins` = (c, c') give biases a penalty of their own: b counts as c b. Side 0
    is users.
    """

    rank: int
    biases: bool
    intercept: bool = False
    pins: tuple[float, float] = (1.0, 1.0)

    @property
    def d(self) -> int:
        return self.rank + 2 * self.biases + self.intercept

    @property
    def factors(self) -> slice:
        start = int(self.intercept) + int(self.biases)
        return slice(start, start + self.rank)

    @property
    def constant(self) -> int | None:
        """The column of the intercept."""
        return 0 if self.intercept else None

    def bias(self, side: int) -> tuple[int, float] | None:
        """The column of the bias, and the pinned number that it meets."""
        if not self.biases:
            return None
        return (self.d - 1, self.pins[1]) if side == 0 else (int(self.intercept), self.pins[0])

    def side(self, side: int, penalty: Any, nonnegative: bool) -> Side:
        """The side for the engine; `nonnegative` bounds its factors, never its bias."""
        low, high = (self.factors.start, self.d) if side == 0 else (int(self.intercept), self.factors.stop)
        free = None if (low, high) == (0, self.d) else (low, high)
        return Side(penalty, free, nonnegative=(self.factors.start, self.factors.stop) if nonnegative else None)

    def rows(self, side: int, factors: NDArray[Any], constant: float = 0.0) -> NDArray[Any]:
        """Whole rows (n, d) from factors (n, rank), with biases at zero."""
        rows = np.zeros((len(factors), self.d), factors.dtype)
        rows[:, self.factors] = factors
        if self.intercept:
            rows[:, 0] = 1.0 if side == 0 else constant
        if self.biases:
            rows[:, int(self.intercept) if side == 0 else self.d - 1] = self.pins[side]
        return rows

    def average(self, side: int, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """The row (d,) that an unseen id gets, from the mean of all rows.

        With an intercept neither factors nor bias; with biases alone their mean; without both, the mean factors.
        """
        average, bias = mean.copy(), self.bias(side)
        if self.intercept or bias is not None:
            average[self.factors] = 0
        if self.intercept and bias is not None:
            average[bias[0]] = 0
        return average


@dataclass(frozen=True)
class RatingStart:
    """Where factors start: normal with standard deviation `scale`, biases at zero; any range of rows of a side."""

    columns: RatingColumns
    scale: float
    constant: float
    seed: int
    nonnegative: bool
    dtype: Any

    @property
    def d(self) -> int:
        return self.columns.d

    def rows(self, side: int, first: int, last: int) -> NDArray[Any]:
        if self.scale == 0:
            return self.columns.rows(side, np.zeros((last - first, self.columns.rank), self.dtype), self.constant)
        factors = random_rows(self.seed, side, first, last, self.columns.rank, self.dtype)
        factors *= np.asarray(self.scale, self.dtype)
        return self.columns.rows(side, np.abs(factors) if self.nonnegative else factors, self.constant)
