"""What a fit of users and items leaves behind: one frozen object, assigned once. Its rows may be here or on a cluster.

Fits nothing and answers nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from numpy.typing import NDArray

from halfstep.core import weighting
from halfstep.core.cells import Observations
from halfstep.core.loop import Outcome
from halfstep.core.weighting import Margins
from halfstep.data.ids import Index
from halfstep.data.names import Names
from halfstep.data.table import CellsHere
from halfstep.engine.here import RowsHere
from halfstep.engine.protocol import KeptRows
from halfstep.models.known import NOTHING, Sides

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class FactorFit:
    """Rows of users and items whose dot products are the scores, who has what, and how the fit went.

    Rows on a cluster are not looked at one by one: `rows`, `cells`, ids and labels then say to call collect().
    """

    kept: KeptRows
    outcome: Outcome
    known: Sides = field(default=NOTHING, kw_only=True)
    """Features of both sides, where the fit had any."""

    @classmethod
    def here(cls, given: CellsHere, rows: tuple[Array, Array], outcome: Outcome, **more: Any) -> Self:
        """A fit whose rows are on this machine."""
        return cls(RowsHere(rows, given), outcome, **more)

    @property
    def rows(self) -> tuple[Array, Array]:
        """(users, d), (items, d): factors, and biases where there are any."""
        return self.kept.rows

    @property
    def cells(self) -> Observations:
        """Who has what, grouped by users."""
        return self.kept.cells

    @property
    def users(self) -> Index:
        return self.kept.ids[0]

    @property
    def items(self) -> Index:
        return self.kept.ids[1]

    @property
    def user_labels(self) -> Array | None:
        return self.kept.labels[0]

    @property
    def item_labels(self) -> Array | None:
        return self.kept.labels[1]

    @cached_property
    def margins(self) -> Margins:
        """Counts of the fitted cells, by which rows that come later are weighed."""
        return weighting.margins(self.cells)

    @property
    def table(self) -> CellsHere:
        return CellsHere(self.cells, self.kept.ids, self.kept.labels, aliases=self.kept.aliases)

    @cached_property
    def names(self) -> tuple[Names, Names]:
        """Users and items by id or label."""
        users, items = self.kept.aliases
        return Names(self.users, self.user_labels, aliases=users), Names(self.items, self.item_labels, aliases=items)

    def factors(self, side: int) -> Any:
        """(n, rank), or a DataFrame where rows are on a cluster."""
        return self.kept.sides[side].whole()

    @property
    def user_factors(self) -> Any:
        return self.factors(0)

    @property
    def item_factors(self) -> Any:
        return self.factors(1)

    @property
    def n_features(self) -> int:
        """Columns of what was fitted, in scikit-learn's sense."""
        return self.kept.shape[1]

    @property
    def n_iter(self) -> int:
        return len(self.outcome.history)
