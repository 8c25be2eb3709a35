"""How strongly a model of implicit feedback is held: given, or from sizes and counts. Knows no data.

The rules come from the tables of docs/wals.md, over ESCO, O*NET, the sample skills, MovieTweetings and parts of them
(benchmarks/wals_rules.py): the more often items are seen together, the larger the rank and the smaller the penalty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.core.losses import Loss
from halfstep.core.problem import Problem, Side, scaled_penalty
from halfstep.core.weighting import Margins
from halfstep.errors import check_number
from halfstep.models.common_words import CommonWords
from halfstep.models.fitted import FactorFit
from halfstep.models.kindred import Kindred
from halfstep.models.known import BothFeatures, expecting

LEAST_RANK, MOST_RANK, MOST_WORK = 128, 512, 4e11  # products of a sweep: cells times the square of the rank
BACKGROUND = 0.03
PENALTY, WEAKEST, STRONGEST = 4500.0, 0.0015, 0.05


def rank_of(shape: tuple[int, int], n_cells: int) -> int:
    """1.5 times the root of the number of cells, in steps of 32: 128 to 512, less where a sweep would take too long; at
    most the smaller side."""
    wanted = min(1.5 * n_cells**0.5, MOST_RANK, (MOST_WORK / max(n_cells, 1)) ** 0.5)
    return max(1, min(max(LEAST_RANK, 32 * int(wanted / 32 + 0.5)), min(shape)))


def penalty_of(shape: tuple[int, int], n_cells: int) -> float:
    """4500 over (cells times mean cells of a user, about twice the pairs of items seen together), between 0.0015 and
    0.05."""
    count = max(n_cells / max(shape[0], 1), 1.0)
    return float(np.clip(PENALTY / (max(n_cells, 1) * count), WEAKEST, STRONGEST))


Powers = tuple[float, float]
"""Of the counts of users and of items."""


def powers_of(name: str, given: Any) -> Powers:
    """A pair as it is; a number is the power of item counts."""
    pair = tuple(given) if isinstance(given, (tuple, list)) else (0.0, given)
    if len(pair) != 2:
        raise ValueError(f"{name}={given!r} must be a number, the power of item counts, or a pair (users, items).")
    for power in pair:
        check_number(name, power)
    return float(pair[0]), float(pair[1])


@dataclass(frozen=True)
class Strength:
    """Rank, weight of unobserved cells, penalty of rows and of weights of features (of users, of items; 0 where there
    are none), as in the objective of `WALS`."""

    rank: int
    background: float
    reg: float
    reg_scaling: str | float
    background_power: Powers = (0.0, 0.0)
    unit: float = 1.0
    """What weight counts as one where the background makes up the size of a row."""
    feature_reg: Powers = (0.0, 0.0)
    common_words: float = 0.0
    """Of words that texts of both sides have in common, in scores; the objective does not know them."""
    kindred: Powers = (0.0, 0.0)
    """Of what rows alike have beyond their factors, in scores of users and of items without cells; likewise."""

    @classmethod
    def given(
        cls,
        shape: tuple[int, int],
        n_cells: int,
        total_weight: float,
        rank: int | None,
        background: float | None,
        reg: float | None,
        reg_scaling: str | float,
        background_power: Powers = (0.0, 0.0),
    ) -> Strength:
        """What was given; for None, what suits so many cells of so many rows, in units of their mean weight."""
        mean = float(f"{total_weight / max(n_cells, 1):.6g}")  # whatever the order in which weights were summed
        unit = 1.0 if reg is not None and background is not None else mean
        rank = rank_of(shape, n_cells) if rank is None else int(rank)
        reg = mean * penalty_of(shape, n_cells) if reg is None else float(reg)
        background = mean * BACKGROUND if background is None else float(background)
        return cls(rank, background, reg, reg_scaling, background_power, unit)

    @classmethod
    def kept(cls, values: Mapping[str, Any]) -> Strength:
        """From what a file keeps, which may be anything."""
        names = ("background_power", "feature_reg", "kindred")
        pairs = {name: powers_of(name, values.get(name, (0.0, 0.0))) for name in names}
        found = cls(**(dict(values) | pairs))
        check_number("rank", found.rank, at_least=1, whole=True)
        check_number("background", found.background, at_least=0)
        check_number("reg", found.reg, at_least=0)
        check_number("unit", found.unit, above=0)
        for each in (found.common_words, *found.kindred):
            check_number("common_words and kindred", each, at_least=0)
        if not isinstance(found.reg_scaling, str):
            check_number("reg_scaling", found.reg_scaling)
        return found

    def side(self, cells: Any) -> Side:
        """The penalty of rows that have these cells."""
        share = self.background / self.unit
        rule = partial(scaled_penalty, self.reg, self.reg_scaling, background=share, n_other=cells.shape[1])
        return Side(cells.per_row(rule))

    @property
    def counts_matter(self) -> bool:
        """Whether the background of a cell depends on the counts of its row and column."""
        return self.background > 0 and any(self.background_power)

    def factors(self, cells: Any, margins: Margins | None) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """a (rows,) and c (columns,) of the background: powers of counts over their mean in the fit, at least one cell.

        margins : of the fitted cells; None where counts do not matter.
        """
        if not self.counts_matter:
            return None, None
        if margins is None or not isinstance(cells, Observations):
            raise ValueError("background_power needs a fit on this machine; leave it at 0 with SparkEngine.")
        users = np.maximum(cells.counts, 1) / margins.mean_count
        items = np.maximum(margins.column_counts, 1) / margins.mean_column_count
        both = zip((users, items), self.background_power, strict=True)
        one, other = (counts**power if power else None for counts, power in both)
        return one, other

    def problem(
        self,
        cells: Any,
        loss: Loss,
        margins: Margins | None = None,
        features: BothFeatures = (None, None),
    ) -> Problem:
        """What is minimised over these cells, and the features of both sides where they are known."""
        a, c = self.factors(cells, margins)
        sides = replace(self.side(cells), background=a), replace(self.side(cells.T), background=c)
        return expecting(Problem(cells, sides, loss, self.background), features, self.feature_reg)

    def single(
        self, cells: Any, loss: Loss, margins: Margins | None = None, prior: NDArray[Any] | None = None
    ) -> Problem:
        """The problem of single rows that have these cells; of the other side only the background counts.

        prior : where the rows are held, (n, rank); None is zero.
        """
        a, c = self.factors(cells, margins)
        side = self.side(cells)
        sides = replace(side, background=a, prior=prior), replace(side, background=c)
        return Problem(cells, sides, loss, self.background)


@dataclass(frozen=True, eq=False)
class ImplicitFit(FactorFit):
    """Rows of users and items, and how strongly they were held."""

    chosen: Strength

    @property
    def counts(self) -> Margins | None:
        """Counts of the fitted cells, where the strength of a row depends on them."""
        return self.margins if self.chosen.counts_matter else None

    @cached_property
    def words(self) -> CommonWords | None:
        """What words in common add to scores; None where they count for nothing."""
        users, items = self.known
        if not self.chosen.common_words or users is None or items is None:
            return None
        return CommonWords(self.chosen.common_words, users.features, items.features, self.margins.column_counts)

    @cached_property
    def kindred(self) -> Kindred | None:
        """What rows alike add to scores; None where they count for nothing."""
        if not any(self.chosen.kindred):
            return None
        return Kindred.of(self.chosen.kindred, self.known, self.rows, self.cells.to_csr())
