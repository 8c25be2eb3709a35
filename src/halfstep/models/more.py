"""More cells for a model that is fitted: which rows they touch, and those rows solved again. Knows no estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.problem import Problem, Solver
from halfstep.data.table import CellsHere
from halfstep.engine.local import gram_matrix, solve_rows, thread_count
from halfstep.engine.protocol import Start

Array = NDArray[Any]


def grown(rows: Sequence[Array], shape: tuple[int, int], start: Start) -> list[Array]:
    """Rows of both sides with those of new ids behind them, where they start."""
    both = []
    for side, (old, n) in enumerate(zip(rows, shape, strict=True)):
        new = start.rows(side, len(old), n)
        both.append(np.concatenate([old, np.zeros((n - len(old), start.d), old.dtype) if new is None else new]))
    return both


def touched(known: CellsHere, new: CellsHere) -> list[NDArray[np.int64]]:
    """Rows of both sides, among all that are known now, that the new cells are of."""
    both = zip(known.ids, new.ids, (new.cells, new.cells.T), strict=True)
    return [np.unique(index.positions(ids.ids)[cells.counts > 0]) for index, ids, cells in both]


def solve_touched(
    problem: Problem, rows: list[Array], places: Sequence[NDArray[np.int64]], solver: Solver, n_threads: int | None
) -> None:
    """The rows at these places, in place and exactly, against everything else: both sides twice, then side 0."""
    threads = thread_count(n_threads)
    for side in (0, 1, 0, 1, 0):
        where, other = places[side], rows[1 - side]
        part = rows[side][where]
        sides = (
            (problem.sides[0].take(where), problem.sides[1])
            if side == 0
            else (problem.sides[0], problem.sides[1].take(where))
        )
        solve_rows(
            replace(problem, sides=sides),
            side,
            part,
            other,
            solver,
            gram=gram_matrix(other, threads, problem.sides[1 - side].background) if problem.background > 0 else None,
            cells=problem.cells(side).take(where),
            n_threads=threads,
        )
        rows[side][where] = part
