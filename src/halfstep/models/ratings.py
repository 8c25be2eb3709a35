"""What PLQMF is made of: its penalty in two wordings, how biases lie in rows, where they start.

Fits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.initial import random_rows
from halfstep.engine import Side
from halfstep.errors import check_number

FIRST_GAP, LAST_GAP = 1e-2, 1e-4
"""Relative duality gaps at which rows count as solved: in the first sweep, and when a fit has settled."""


def penalties(
    n_users: int,
    n_items: int,
    n_cells: int,
    C: float | None = None,
    rho: float | None = None,
    reg_user: float | None = None,
    reg_item: float | None = None,
) -> tuple[float, float]:
    """C and rho of the objective, from themselves or from the penalties of a row relative to a cell of weight 1.

        reg_user = rho / (C n)     reg_item = (1 - rho) / (C m)
        C = 1 / (m reg_item + n reg_user)     rho = n reg_user / (m reg_item + n reg_user)

    Without any of them rho is 1/2 and C is 10 over the number of cells: a penalty of 0.05 for each rating of an
    average row, and 1e-4 for 100,000 ratings.
    """
    direct = reg_user is not None or reg_item is not None
    if direct and (C is not None or rho is not None):
        raise ValueError(
            f"C={C!r}, rho={rho!r} and reg_user={reg_user!r}, reg_item={reg_item!r} say the same thing twice; "
            "give either C and rho, or reg_user and reg_item."
        )
    if direct:
        check_number("reg_user", reg_user, above=0)
        check_number("reg_item", reg_item, above=0)
        users, items = n_users * float(reg_user or 0), n_items * float(reg_item or 0)
        return 1 / (users + items), users / (users + items)
    C = 10 / n_cells if C is None else C
    rho = 0.5 if rho is None else rho
    check_number("C", C, above=0)
    check_number("rho", rho)
    if not 0 < rho < 1:
        raise ValueError(
            f"rho={rho!r} must lie between 0 and 1, both excluded: it shares the penalty between the sides."
        )
    return float(C), float(rho)


@dataclass(frozen=True)
class RatingColumns:
    """Where factors and biases lie in a row: [1 | p | a] for users, [b | q | 1] for items, or the factors alone.

    A bias is a free column that meets the ones of the other side. Side 0 is users.
    """

    rank: int
    biases: bool

    @property
    def d(self) -> int:
        return self.rank + 2 * self.biases

    @property
    def factors(self) -> slice:
        return slice(int(self.biases), int(self.biases) + self.rank)

    def bias(self, side: int) -> int | None:
        """The column of the bias."""
        return (-1 if side == 0 else 0) if self.biases else None

    def side(self, side: int, penalty: float, nonnegative: bool) -> Side:
        """The side for the engine; `nonnegative` bounds its factors, never its bias."""
        free = ((1, self.d), (0, self.d - 1))[side] if self.biases else None
        return Side(penalty, free, nonnegative=(self.factors.start, self.factors.stop) if nonnegative else None)

    def rows(self, side: int, factors: NDArray[Any], bias: ArrayLike = 0.0) -> NDArray[Any]:
        """Whole rows (n, d) from factors (n, rank) and biases (n,)."""
        rows = np.ones((len(factors), self.d), factors.dtype)
        rows[:, self.factors] = factors
        if self.biases:
            rows[:, self.bias(side)] = bias
        return rows

    def average(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """The row (d,) that an unseen id gets, from the mean of all rows: its bias alone, or its factors."""
        average = mean.copy()
        if self.biases:
            average[self.factors] = 0
        return average


@dataclass(frozen=True)
class RatingStart:
    """Where factors start: normal with standard deviation `scale`, biases at zero; any range of rows of a side."""

    columns: RatingColumns
    scale: float
    seed: int
    nonnegative: bool
    dtype: Any

    @property
    def d(self) -> int:
        return self.columns.d

    def rows(self, side: int, first: int, last: int) -> NDArray[Any]:
        if self.scale == 0:
            return self.columns.rows(side, np.zeros((last - first, self.columns.rank), self.dtype))
        factors = random_rows(self.seed, side, first, last, self.columns.rank, self.dtype)
        factors *= np.asarray(self.scale, self.dtype)
        return self.columns.rows(side, np.abs(factors) if self.nonnegative else factors)
