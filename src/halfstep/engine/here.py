"""The engine of this machine as estimators see it: input into cells, rows that a fit leaves behind and their answers.

How half-steps run is `local.py`. Knows two sides and their ids, never what they stand for.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.cells import Observations
from halfstep.core.initial import AtRows, all_rows, initial_factors
from halfstep.core.losses import Loss
from halfstep.core.problem import Problem, Solver
from halfstep.data.features import Features
from halfstep.data.frames import is_frame, pairs_from
from halfstep.data.ids import Index
from halfstep.data.mapped import in_file
from halfstep.data.names import Names
from halfstep.data.pairs import read_pairs
from halfstep.data.sweeps import SweepFile, digest_of_cells
from halfstep.data.table import CellsHere, Labels, OtherNames, placed, read_table, without_cells
from halfstep.engine.drawing import DrawnHere
from halfstep.engine.features import FeaturesHere
from halfstep.engine.instances import Arrays, Frame, Read, only_here
from halfstep.engine.kept import KeptLoop, Stateful
from halfstep.engine.local import LocalSession, gram_matrix, solve_rows, thread_count
from halfstep.engine.protocol import Array, Cut, Decode, Start
from halfstep.errors import UnknownIdError, UnknownIdWarning, expect_sound, level_of_caller, one_of


class Apart(NamedTuple):
    """Rows taken apart: ids (k,), factors (k, rank), bias (k,)."""

    ids: NDArray[Any]
    factors: NDArray[Any]
    bias: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SideHere:
    """Rows (n, d) of one side and their ids."""

    side: int
    index: Index
    values: Array

    def whole(self) -> Array:
        return self.values

    def factors(self, cut: Cut) -> Array:
        return self.values[:, cut.factors]

    def apart(self, cut: Cut) -> Apart:
        column, times = cut.bias(self.side) or (0, 0.0)
        return Apart(self.index.ids, self.factors(cut), self.values[:, column] * self.values.dtype.type(times))


@dataclass(frozen=True, eq=False)
class RowsHere:
    """Rows of both sides in this process, and the cells they were solved from."""

    rows: tuple[Array, Array]
    given: CellsHere

    @property
    def cells(self) -> Observations:
        return self.given.cells

    @property
    def ids(self) -> tuple[Index, Index]:
        return self.given.ids

    @property
    def labels(self) -> Labels:
        return self.given.labels

    @property
    def aliases(self) -> OtherNames:
        return self.given.aliases

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.shape

    @property
    def sides(self) -> tuple[SideHere, SideHere]:
        return SideHere(0, self.ids[0], self.rows[0]), SideHere(1, self.ids[1], self.rows[1])

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """Gram matrix of side 1, computed when first needed; its bits do not depend on threads."""
        return gram_matrix(self.rows[1], thread_count(None))

    def gram_under(self, problem: Problem) -> NDArray[np.float64] | None:
        """What unobserved cells need of side 1; kept where columns weigh alike."""
        if not problem.background:
            return None
        weights = problem.sides[1].background
        return self.gram if weights is None else gram_matrix(self.rows[1], thread_count(None), weights)

    def read(self, X: Any, *, dtype: Any, signed: bool = False) -> CellsHere:
        if is_frame(X) or hasattr(X, "item_ids"):
            return placed(read_table(X, dtype=dtype, signed=signed), Names(self.ids[1], self.labels[1]), dtype)
        n = len(self.ids[1])
        own, other = (index.name or "row" for index in self.ids)
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != n:
            raise ValueError(
                f"X has shape {shape}; it must have {n} columns, one for each fitted {other}. Rows are {own}s."
            )
        rows = Index.range(shape[0], own)
        if sp.issparse(X):
            expect_sound("X", X)
        if X.count_nonzero() if sp.issparse(X) else np.any(X):
            return CellsHere(read_table(X, dtype=dtype, signed=signed).cells, (rows, self.ids[1]))
        return replace(without_cells(self.ids[1], shape[0]), ids=(rows, self.ids[1]))

    def read_values(self, X: Any, y: Any, weight: Any, loss: Loss, classes: Array | None, *, dtype: Any) -> CellsHere:
        roles = (self.ids[0].name, self.ids[1].name)
        return read_pairs(X, y, weight, loss, roles, dtype=dtype, known=self.ids[1], classes=classes)

    def about(self, given: CellsHere, told: Any, known: Features, by_id: bool) -> FeaturesHere:
        return FeaturesHere.more(told, known, given.ids[0], by_id)

    def known(self, side: int, known: Features) -> Features:
        return known

    def fold_in(
        self, given: CellsHere, problem: Problem, start: Start | None, solver: Solver, n_threads: int | None = None
    ) -> SideHere:
        held: Any = problem.sides[0].prior
        own = all_rows(AtRows(held) if start is None else start, 0, given.cells.shape[0])
        empty = given.cells.counts == 0
        start_of_empty = own[empty]  # rows without cells stay where they start: an unobserved cell says nothing there
        if len(given.cells):
            solve_rows(
                problem,
                0,
                own,
                np.ascontiguousarray(self.rows[1], own.dtype),
                solver,
                gram=self.gram_under(problem),
                n_threads=thread_count(n_threads),
                cells=given.cells,
            )
            own[empty] = start_of_empty
        return SideHere(0, given.ids[0], own)

    def scores(
        self, X: Any, cut: Cut, decode: Decode, column: str, unknown: str, n_threads: int | None = None
    ) -> Array:
        found = [index.find(ids) for index, ids in zip(self.ids, pairs_from(X), strict=True)]
        tell_unknown(found, self.ids, unknown)
        (left, rows), (right, columns) = (_with_average(k, self.rows[k], found[k], cut) for k in (0, 1))
        scores = _core.pair_scores(left, right, rows, columns, n_threads=thread_count(n_threads))
        return decode(np.asarray(scores, np.float64))

    def rank_all(self, n: int, keep_seen: bool) -> NoReturn:
        _only_there("recommend_for_all", "recommend_to_file")

    def collect(self) -> NoReturn:
        _only_there("collect", "the model itself")

    def write(self, path: str, about: dict[str, Any], weights: Any) -> NoReturn:
        _only_there("write", "save")


@dataclass(frozen=True)
class LocalEngine:
    """Runs half-steps in this process. The result has the same bits for any number of threads.

    rows_in : a folder. The rows of both sides are then kept in memory-mapped files there, which have no names and go
        with the model: the system may write them out where memory is short. None keeps them in memory.
    """

    n_threads: int | None = None
    rows_in: str | os.PathLike[str] | None = None

    def instances(self, P: Any, arrays: Arrays[Read], frame: Frame[Read]) -> Read:
        """What is made of instances, one to a row: all of them are here."""
        return arrays(only_here(P))

    def read(
        self, X: Any, columns: Mapping[str, Any], *, dtype: Any, splits: bool = True, signed: bool = False
    ) -> CellsHere:
        return read_table(X, **columns, dtype=dtype, signed=signed)

    def read_values(
        self,
        X: Any,
        y: Any,
        weight: Any,
        loss: Loss,
        roles: tuple[str, str],
        *,
        dtype: Any,
        splits: bool = True,
    ) -> CellsHere:
        return read_pairs(X, y, weight, loss, roles, dtype=dtype)

    def about(self, given: CellsHere, side: int, told: Any, role: str) -> FeaturesHere:
        return FeaturesHere.of(told, given.ids[side], role)

    def starts(
        self, cells: Observations, rank: int, init: str, seeds: Sequence[int], dtype: Any
    ) -> Iterator[tuple[list[Array], tuple[int, int]]]:
        """Factors of both sides and the order of half-steps; see `initial_factors`."""
        return (initial_factors(cells, rank, init, seed, dtype) for seed in seeds)

    def warm(self, kept: Any, dtype: Any) -> list[Array] | None:
        return None if kept is None else [rows.astype(dtype) for rows in kept.rows]

    def open(self, problem: Problem, start: Start | list[Array], solver: Solver) -> LocalSession:
        """Start from `start`; arrays, one (n, d) for each side, are taken over and changed."""
        if not isinstance(start, list):
            start = [all_rows(start, side, n) for side, n in enumerate(problem.observations.shape)]
        if self.rows_in is not None:
            start = [in_file(rows, self.rows_in) for rows in start]
        return LocalSession(problem, start, solver, thread_count(self.n_threads))

    def kept_loop(self, file: SweepFile, session: LocalSession, others: Sequence[Stateful] = ()) -> KeptLoop:
        of_data = file.marked(data=digest_of_cells(session.problem.observations))
        return KeptLoop(of_data, [session, *others])

    def to_draw(self, given: CellsHere) -> DrawnHere:
        return DrawnHere(given)

    def keep(self, given: CellsHere, session: LocalSession) -> RowsHere:
        own, other = session.kept()
        return RowsHere((own, other), given)


def tell_unknown(found: Sequence[NDArray[np.int64]], ids: tuple[Index, Index], unknown: str) -> None:
    """Say how many ids have no row, or refuse them."""
    one_of("unknown", unknown, ("average", "error"))
    counts = [f"{int((places < 0).sum())} {index.name or 'row'}s" for places, index in zip(found, ids, strict=True)]
    missing = [count for count, places in zip(counts, found, strict=True) if (places < 0).any()]
    if missing and unknown == "error":
        raise UnknownIdError(
            f"X names {' and '.join(missing)} that the fit has not seen; drop those pairs, or pass "
            "unknown='average' to answer them like average ones."
        )
    if missing:
        warnings.warn(
            f"{' and '.join(missing)} among {len(found[0])} pairs were not in the fit; they are answered by "
            "what is known of the rest. unknown='error' refuses them.",
            UnknownIdWarning,
            stacklevel=level_of_caller(),
        )


def _with_average(side: int, rows: Array, places: NDArray[np.int64], cut: Cut) -> tuple[Array, NDArray[np.int64]]:
    """Rows and places, where an unknown id (-1) has become the place of an average row behind the others."""
    if (places >= 0).all():
        return np.ascontiguousarray(rows), places
    average = cut.average(side, rows.mean(axis=0, dtype=np.float64)).astype(rows.dtype)
    return np.concatenate([rows, average[None, :]]), np.where(places < 0, len(rows), places)


def _only_there(method: str, instead: str) -> NoReturn:
    raise RuntimeError(f"{method} is for models fitted by SparkEngine; this one is on this machine: use {instead}.")
