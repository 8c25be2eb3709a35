"""What an estimator asks of whatever runs its half-steps. `LocalEngine` and `SparkEngine` keep it; no estimator knows
which of them it has.

    read input into cells -> open a session, which the loop drives -> keep its rows, which then rank, score and fold in

Knows an own and an other side, 0 and 1, never what they stand for: roles, names of columns and rules come in as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.core.loop import LoopFile, Session
from halfstep.core.losses import Loss
from halfstep.core.problem import Problem, Solver
from halfstep.core.weighting import Margins, Weighting
from halfstep.data.features import Features
from halfstep.data.ids import Index
from halfstep.data.sweeps import SweepFile
from halfstep.data.table import OtherNames
from halfstep.engine.drawing import CellsToDraw
from halfstep.engine.features import RowFeatures
from halfstep.engine.kept import Stateful

__all__ = ["Cut", "Engine", "GivenCells", "KeptRows", "KeptSide", "OpenSession", "Session", "Start"]

Array = NDArray[Any]
Decode = Callable[[NDArray[np.float64]], Array]


class Start(Protocol):
    """Where factors start: any range of rows of a side, the same whichever range is asked for; None where all are 0."""

    @property
    def d(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    def rows(self, side: int, first: int, last: int) -> Array | None: ...


class OpenSession(Session, Protocol):
    """What an engine opens: a session that can be led from its start to where the cells are."""

    def lead(self, order: Sequence[int]) -> None:
        """Before the first sweep: rows of the side that it fixes first go where one power step over the sides in
        `order` leads (`core/leading.py`); the others go back to zero."""


class Cut(Protocol):
    """Which columns of whole rows are factors, and which one, if any, is a bias."""

    @property
    def factors(self) -> slice: ...
    def bias(self, side: int) -> tuple[int, float] | None:
        """Its column, and what a number there is times to be a bias."""

    def average(self, side: int, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """The row that an id without one gets, from the mean of all rows."""


class GivenCells(Protocol):
    """Cells as an engine read them: `Observations` here, what stands for them on a cluster there."""

    @property
    def cells(self) -> Any: ...
    @property
    def n_rows(self) -> int:
        """Rows of the input, those of weight zero among them."""

    @property
    def total_weight(self) -> float:
        """Sum of the weights as they were given."""

    @property
    def classes(self) -> Array | None: ...
    def weighed(self, weighting: Weighting, margins: Margins | None, dtype: Any) -> Self:
        """The same with the weights that a weighting gives. margins : of the fit, for rows that come after it."""

    def sample(self, n_cells: int) -> Observations:
        """Cells of some rows of side 0, about that many, or all of them where there are not more."""


class KeptSide(Protocol):
    """Rows of one side: arrays here, DataFrames there."""

    def whole(self) -> Any:
        """(n, d) in the order of the ids; DataFrame (id, factors)."""

    def factors(self, cut: Cut) -> Any:
        """(n, rank); DataFrame (id, factors, bias)."""

    def apart(self, cut: Cut) -> Any:
        """A triple ids, factors, biases; DataFrame (id, factors, bias)."""


class KeptRows(Protocol):
    """What a fit leaves behind, where the engine left it. Rows that are elsewhere refuse to be looked at one by one."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def sides(self) -> tuple[KeptSide, KeptSide]: ...
    @property
    def rows(self) -> tuple[Array, Array]: ...
    @property
    def cells(self) -> Observations: ...
    @property
    def ids(self) -> tuple[Index, Index]: ...
    @property
    def labels(self) -> tuple[Array | None, Array | None]: ...
    @property
    def aliases(self) -> OtherNames: ...
    @property
    def gram(self) -> NDArray[np.float64]: ...
    def gram_under(self, problem: Problem) -> NDArray[np.float64] | None:
        """Gram matrix of side 1, its rows weighed by their factors of the background; None without a background."""

    def read(self, X: Any, *, dtype: Any, signed: bool = False) -> GivenCells:
        """Cells of new rows of side 0 against the rows of side 1. signed : whether weights may be below 0."""

    def read_values(self, X: Any, y: Any, weight: Any, loss: Loss, classes: Array | None, *, dtype: Any) -> GivenCells:
        """The same with targets; see `Engine.read_values`."""

    def about(self, given: Any, told: Any, known: Features, by_id: bool) -> RowFeatures:
        """Features of new rows of side 0, encoded as those that are known; of rows that nothing is said of, nothing.

        by_id : whether they say whose they are; otherwise they are in the order of the rows, where rows have one.
        """

    def known(self, side: int, known: Features) -> Features:
        """The features of the rows of a side, on this machine. known : how they were encoded."""

    def fold_in(
        self, given: Any, problem: Problem, start: Start | None, solver: Solver, n_threads: int | None = None
    ) -> KeptSide:
        """New rows of side 0, each solved exactly against the rows of side 1; None starts them where they are held."""

    def scores(self, X: Any, cut: Cut, decode: Decode, column: str, unknown: str, n_threads: int | None = None) -> Any:
        """What `decode` makes of the scores of pairs, (N,); X with one more `column`.

        unknown : "average", ids without a row are average ones, or "error".
        """

    def rank_all(self, n: int, keep_seen: bool) -> Any:
        """The best n rows of side 1 for every row of side 0, what it has left out."""

    def collect(self) -> KeptRows:
        """The same on this machine."""

    def write(self, path: str, about: dict[str, Any], weights: Mapping[int, tuple[Sequence[str], Array]]) -> None:
        """Rows as files of a folder, and what is known about them.

        weights : by side, the names of features and what they weigh, (p, f).
        """


class Engine(Protocol):
    """Where half-steps run."""

    def read(self, X: Any, columns: Mapping[str, Any], *, dtype: Any, splits: bool, signed: bool = False) -> Any:
        """Cells with weights, targets 1, from any input that this engine understands.

        columns : role -> column of a frame, None to detect it; the first two are the roles of both sides. splits :
        whether the cells of a row may be solved in pieces. signed : whether weights may be below 0.
        """

    def read_values(
        self, X: Any, y: Any, weight: Any, loss: Loss, roles: tuple[str, str], *, dtype: Any, splits: bool
    ) -> Any:
        """Cells with targets from pairs worth y."""

    def about(self, given: Any, side: int, told: Any, role: str) -> RowFeatures:
        """Features of the rows of a side, from anything that `Features.of` or this engine takes. role : of the side."""

    def starts(
        self, cells: Any, rank: int, init: str, seeds: Sequence[int], dtype: Any
    ) -> Iterator[tuple[Any, tuple[int, int]]]:
        """For each seed, where factors start and the order of half-steps."""

    def warm(self, kept: KeptRows | None, dtype: Any) -> list[Array] | None:
        """A start where an earlier fit ended; None where there was none. Raises where an engine has no such start."""

    def open(self, problem: Problem, start: Any, solver: Solver) -> OpenSession:
        """A session from a `Start`, or from one (n, d) array for each side, which it takes over and changes."""

    def kept_loop(self, file: SweepFile, session: Any, others: Sequence[Stateful] = ()) -> LoopFile:
        """A loop that keeps itself in a file of this machine. Raises where an engine has a place of its own for that.

        others : what remembers sweeps beside the session.
        """

    def to_draw(self, given: Any) -> CellsToDraw:
        """The same cells for a sampler."""

    def keep(self, given: Any, session: Any) -> KeptRows:
        """The rows of a session that has ended, with the ids they were read with."""
