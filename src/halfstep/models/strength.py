"""How strongly a model of implicit feedback is held: given, or from sizes and counts. Knows no data.

The rules come from the table of docs/wals.md, over ESCO, O*NET, the sample skills, MovieTweetings and parts of them:
long rows bear a small penalty, short ones need a large one, and no setting that looks at one data set is best on all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from halfstep.core.losses import Loss
from halfstep.core.problem import Problem, Side, scaled_penalty
from halfstep.models.fitted import FactorFit

RANK, BACKGROUND = 128, 0.02
PENALTY, WEAKEST, STRONGEST = 0.4, 0.003, 0.05


@dataclass(frozen=True)
class Strength:
    """Rank, weight of unobserved cells, and penalty of rows, as in the objective of `WALS`."""

    rank: int
    background: float
    reg: float
    reg_scaling: str | float

    @classmethod
    def given(
        cls,
        shape: tuple[int, int],
        n_cells: int,
        rank: int | None,
        background: float | None,
        reg: float | None,
        reg_scaling: str | float,
    ) -> Strength:
        """What was given; for None, what suits so many cells of so many rows."""
        if rank is None:
            rank = max(1, min(RANK, min(shape) // 2))
        if reg is None:
            count = max(n_cells / max(shape[0], 1), 1.0)
            reg = float(np.clip(PENALTY / count, WEAKEST, STRONGEST))
        return cls(int(rank), float(BACKGROUND if background is None else background), float(reg), reg_scaling)

    def side(self, cells: Any) -> Side:
        """The penalty of rows that have these cells."""
        rule = partial(scaled_penalty, self.reg, self.reg_scaling, background=self.background, n_other=cells.shape[1])
        return Side(cells.per_row(rule))

    def problem(self, cells: Any, loss: Loss) -> Problem:
        """What is minimised over these cells."""
        return Problem(cells, (self.side(cells), self.side(cells.T)), loss, self.background)

    def single(self, cells: Any, loss: Loss) -> Problem:
        """The problem of single rows that have these cells, whichever side they are of."""
        side = self.side(cells)
        return Problem(cells, (side, side), loss, self.background)


@dataclass(frozen=True, eq=False)
class ImplicitFit(FactorFit):
    """Rows of users and items, and how strongly they were held."""

    chosen: Strength
