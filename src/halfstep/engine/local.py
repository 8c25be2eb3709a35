"""Half-steps on this machine: Gram matrix, common rotation, one call into the core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import HalfStep
from halfstep.core.blas import one_blas_thread
from halfstep.core.cells import DenseCells, Observations
from halfstep.core.loop import Callback, Record
from halfstep.core.losses import Squared
from halfstep.core.losses.constant import best_constant
from halfstep.core.problem import Problem, Solver, rows_of
from halfstep.errors import RowError


def thread_count(n_threads: int | None) -> int:
    """The cores this process may use, or the number asked for."""
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_threads, bool) or not isinstance(n_threads, (int, np.integer)) or n_threads < 1:
        raise ValueError(f"n_threads={n_threads!r} must be a whole number of at least 1, or None for all cores.")
    return int(n_threads)


class LocalSession:
    """A factorisation under way: the factors of both sides and what is known about them."""

    past: Sequence[Record] = ()
    callbacks: Sequence[Callback] = ()

    def __init__(self, problem: Problem, factors: list[NDArray[Any]], solver: Solver, n_threads: int) -> None:
        self.problem = problem
        self.factors = factors
        self.solver = solver
        self.n_threads = n_threads
        self._grams: list[NDArray[np.float64] | None] = [None, None]
        self._duals: list[NDArray[Any] | None] = [None, None]

    def gram(self, side: int) -> NDArray[np.float64]:
        """Gram matrix of one side, (d, d) float64, computed once after each change."""
        known = self._grams[side]
        if known is None:
            known = self._grams[side] = gram_matrix(self.factors[side], self.n_threads)
        return known

    def half_step(self, side: int, evaluate: bool = False) -> dict[str, float]:
        """Solve every row of `side` against the other one, in place; returns the core's sums over rows."""
        if side == 1:
            self._solve_common()
        own, other = self.factors[side], self.factors[1 - side]
        spectrum = self._rotate(side, evaluate) if self.problem.rotates(self.solver, own.shape[1]) else None
        gram = self.gram(1 - side) if self.problem.background > 0 else None
        rows = self.problem.rows(side, own, other, self.solver.after(self.past), gram=gram, spectrum=spectrum)
        if self.problem.loss.keeps_duals:
            duals = self._duals[side]
            if duals is None:
                duals = self._duals[side] = np.zeros(len(self.problem.observations), own.dtype)
            rows.duals(duals)
        sums = refuse_failed(side, rows.solve(evaluate, self.n_threads))
        self._grams[side] = None
        return sums

    def _solve_common(self) -> None:
        """What all cells share, exactly, for the present rows: the parameters of the loss, else the best constant."""
        loss, column = self.problem.loss, self.problem.constant
        if column is None and not loss.learns:
            return
        cells, (own, other) = self.problem.observations, self.factors
        z = _core.pair_scores(own, other, *self._places, n_threads=self.n_threads)
        t, w = (
            np.broadcast_to(np.asarray(values, np.float64), len(cells)) for values in (cells.targets, cells.weights)
        )
        if loss.learns:
            self.problem = replace(self.problem, loss=loss.learned(np.asarray(z, np.float64), t, w))
        else:
            other[:, column] += best_constant(loss, z, t, w)
            self._grams[1] = None

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of every cell."""
        cells = self.problem.observations
        return np.repeat(np.arange(cells.shape[0]), cells.counts), cells.indices.astype(np.int64)

    def evaluate(self) -> dict[str, float]:
        """The core's sums over cells for the present factors."""
        return evaluate_cells(self.problem, self.factors[0], self.factors[1], self.n_threads)

    def penalty(self, side: int) -> float:
        return self.problem.sides[side].cost(self.factors[side], self._grams[side])

    def overlap(self) -> float:
        """<U'U, V'V>: the sum of z^2 over all cells, observed or not."""
        return float(np.sum(self.gram(0) * self.gram(1)))

    def snapshot(self) -> list[NDArray[Any]]:
        return [factors.copy() for factors in self.factors]

    def _rotate(self, side: int, evaluate: bool) -> NDArray[np.float64]:
        """Rotate both sides by the eigenvectors of the other side's Gram matrix: it gets diagonal, no score changes."""
        values, basis = symmetric_eigen(self.gram(1 - side))
        basis = np.ascontiguousarray(basis, self.factors[side].dtype)
        _core.rotate(self.factors[1 - side], basis, 0, self.n_threads)
        if evaluate or self.solver.reads_old_rows:
            _core.rotate(self.factors[side], basis, 0, self.n_threads)
        self._grams[1 - side] = np.diag(values)
        return values


@dataclass(frozen=True)
class LabelCell:
    """One logistic cell for each row beside its squared ones, against one shared row of the other side.

    Row i gets  + 1/2 weights_i [log(1 + e^z) - targets_i z],  z = own_i . vector  over all columns; weight 0: no cell.
    """

    vector: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any]

    def bind(self, rows: HalfStep, dtype: Any) -> None:
        """Tell the core about the labels."""
        rows.label(*(np.ascontiguousarray(values, dtype) for values in (self.vector, self.targets, self.weights)))


def solve_rows(
    problem: Problem,
    side: int,
    own: NDArray[Any],
    other: NDArray[Any],
    solver: Solver,
    *,
    gram: NDArray[np.float64] | None = None,
    cells: Observations | DenseCells | None = None,
    label: LabelCell | None = None,
    evaluate: bool = False,
    n_threads: int = 1,
) -> dict[str, float]:
    """Every row of `own` in place; `Problem.rows` has the arguments.

    Returns the core's sums over rows; a row without a finite solution raises.
    """
    rows = problem.rows(side, own, other, solver, gram=gram, cells=cells)
    if label is not None:
        label.bind(rows, own.dtype)
    return refuse_failed(side, rows.solve(evaluate, n_threads))


def refuse_failed(side: int, sums: dict[str, float]) -> dict[str, float]:
    """The sums over rows; raises if a row had no finite solution."""
    if sums["failed"] >= 0:
        raise RowError(
            f"row {int(sums['failed'])} of side {side} has no finite solution. Its penalty is too small for its data: "
            "raise `reg`, lower the rank, or look for huge weights or targets in that row."
        )
    return sums


def normal_equations(
    cells: Observations | DenseCells, own: NDArray[Any], other: NDArray[Any], free: tuple[int, int], n_threads: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n, f, f) sum w x x' and (n, f) sum w (t - pinned) x over the cells of each row of `own`, under squared loss."""
    rows = rows_of(cells, Squared(), own, other)
    rows.columns(*free)
    sums = rows.quadratics(n_threads)
    lower, upper = np.tril(sums[:, :-1]), np.tril(sums[:, :-1], -1).transpose(0, 2, 1)
    return lower + upper, sums[:, -1]


def evaluate_cells(
    problem: Problem,
    own: NDArray[Any],
    other: NDArray[Any],
    n_threads: int,
    cells: Observations | DenseCells | None = None,
) -> dict[str, float]:
    """The core's sums over the observed cells, or over others in their place."""
    return rows_of(problem.observations if cells is None else cells, problem.loss, own, other).evaluate(n_threads)


def gram_matrix(factors: NDArray[Any], n_threads: int) -> NDArray[np.float64]:
    """factors' factors, (d, d) float64, the same bits for any number of threads."""
    return _core.gram(np.ascontiguousarray(factors), n_threads)


@one_blas_thread
def symmetric_eigen(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues (>= 0) and eigenvectors of a Gram matrix, on one BLAS thread.

    The largest entry of an eigenvector is positive: LAPACK's sign follows from rounding, and so would differ
    between engines that sum the same rows in another order.
    """
    values, vectors = np.linalg.eigh(matrix)
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    return np.maximum(values, 0.0), vectors * np.where(largest < 0, -1.0, 1.0)
