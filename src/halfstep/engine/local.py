"""Half-steps on this machine: Gram matrix, common rotation, one call into the core."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import HalfStep
from halfstep.core.blas import one_blas_thread
from halfstep.core.cells import DenseCells, Observations
from halfstep.core.extrapolate import Momentum
from halfstep.core.leading import STEP, levelled
from halfstep.core.loop import Callback, Record
from halfstep.core.losses import Squared
from halfstep.core.losses.constant import best_constant
from halfstep.core.problem import Problem, Solver, rows_of
from halfstep.errors import RowError

THREADS_PER_CORE = 8
"""More threads than that gain nothing on any machine, and each has a room of its own in memory."""


def thread_count(n_threads: int | None) -> int:
    """The cores this process may use, or the number asked for, as far as the machine bears it. No result depends on it.

    A model file may ask for any number.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_threads is None:
        return cores
    if isinstance(n_threads, bool) or not isinstance(n_threads, (int, np.integer)) or n_threads < 1:
        raise ValueError(f"n_threads={n_threads!r} must be a whole number of at least 1, or None for all cores.")
    return min(int(n_threads), THREADS_PER_CORE * cores)


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
        self._costs: list[float | None] = [None, None]
        """Of sides with features, since they were solved: no turn changes it, and to see it means would be turned."""
        self._duals: list[NDArray[Any] | None] = [None, None]
        self.stalled = [-1, -1]
        self.dtype = factors[0].dtype
        """The numbers that were asked for, and that `snapshot` has; half-steps may have gone on in float64."""
        self._before: tuple[Problem, int, NDArray[Any]] | None = None
        self.reached = math.inf if solver.extrapolates and problem.extrapolates else None
        self._momentum = Momentum()
        self._ended: list[NDArray[Any] | None] = [None, None]
        """Of what is extrapolated: rows where the last sweep ended, turned with the others since."""
        self._leapt = False
        """Rows have just been moved on: of the half-step that follows nothing counts but its objective."""

    @property
    def epsilon(self) -> float:
        own = self.factors[0].dtype
        return 0.0 if own == np.float64 else float(np.finfo(own).eps)

    def begin(self, side: int) -> None:
        """Keep the rows of `side`, from which everything else follows."""
        self._before = (self.problem, side, self.factors[side].copy()) if self.epsilon else None

    def widen(self) -> bool:
        if self._before is None:
            return False
        problem, side, rows = self._before
        start, stop = problem.sides[1 - side].columns(rows.shape[1])
        self.problem, self.factors[side], self._before = problem, rows, None
        self.factors[1 - side][:, start:stop] = 0  # where float32 has led them is no place to start from
        self._ended = [None, None]
        self._momentum.restart()
        self._in_float64()
        return True

    def _in_float64(self) -> None:
        """Rows, cells and what is known of them in float64 from now on. Rows do not start from where they were, and
        half a solution may be worse than that: they are solved fully."""
        self.solver = self.solver.fully()
        self.problem = replace(self.problem, observations=self.problem.observations.astype(np.float64))
        self.factors = [rows.astype(np.float64) for rows in self.factors]
        self._grams, self._duals, self._costs = [None, None], [None, None], [None, None]
        self._ended = [None if rows is None else rows.astype(np.float64) for rows in self._ended]

    def lead(self, order: Sequence[int]) -> None:
        """Rows of the side that the first sweep fixes go where one power step leads; the others go back to zero."""
        told, fixed = order[0], order[-1]
        rows = [rows.copy() if side == fixed else rows for side, rows in enumerate(self.factors)]
        first = LocalSession(self.problem.plain, rows, STEP, self.n_threads)
        for side in order:
            first.half_step(side)
        weights = self.problem.sides[fixed].background
        size = len(self.factors[fixed]) if weights is None else float(weights.sum())
        matrix = levelled(*symmetric_eigen(first.gram(fixed)), size)
        if matrix is not None:  # in place: rows may be those of a file
            self.factors[fixed][...] = first.factors[fixed]
            _core.rotate(self.factors[fixed], np.ascontiguousarray(matrix, self.dtype), 0, self.n_threads)
        self.factors[told][...] = 0

    def leap(self, side: int) -> bool:
        """Rows of `side` follow their momentum, the others too where a half-step starts from them."""
        if self.reached is None:
            return False
        solver = self._solver()
        share, known = self._momentum.share(), self._ended
        moving = [k == side or solver.reads_old_rows for k in (0, 1)]
        if not share or any(moved and rows is None for moved, rows in zip(moving, known, strict=True)):
            self._ended = [rows.copy() if moved else None for moved, rows in zip(moving, self.factors, strict=True)]
            return False
        self._ended, self._leapt = [None, None], True
        for k, before in enumerate(known):
            if moving[k] and before is not None:  # now + share (now - before), in the room of `before`
                now = self.factors[k]
                np.subtract(now, before, out=before)
                before *= before.dtype.type(share)
                before += now
                self._ended[k], self.factors[k], self._grams[k], self._costs[k] = now, before, None, None
        return True

    def retreat(self) -> None:
        for k, rows in enumerate(self._ended):
            if rows is not None:
                self.factors[k], self._grams[k], self._costs[k] = rows.copy(), None, None
        self._momentum.restart()

    def finish(self) -> None:
        self.solver = self.solver.exactly()

    def rounded(self) -> dict[str, float] | None:
        """Where half-steps went on in float64, rows take the values that are kept; the sums over their cells."""
        if self.factors[0].dtype == self.dtype:
            return None
        self.factors = [rows.astype(np.float64) for rows in self.kept()]
        self._grams, self._costs = [None, None], [None, None]
        return self.evaluate()

    def gram(self, side: int) -> NDArray[np.float64]:
        """Gram matrix of one side, rows weighed by their factors of the background; (d, d), kept till it changes."""
        known = self._grams[side]
        if known is None:
            known = self._grams[side] = gram_matrix(
                self.factors[side], self.n_threads, self.problem.sides[side].background
            )
        return known

    def half_step(self, side: int, evaluate: bool = False) -> dict[str, float]:
        """Solve every row of `side` against the other one, in place; returns the core's sums over rows."""
        if side == 1:
            self._solve_common()
        self.learn(side)
        own, other = self.factors[side], self.factors[1 - side]
        solver, leapt, self._leapt = self._solver(), self._leapt, False
        reads = solver.reads_old_rows or (evaluate and not leapt)
        spectrum = self._rotate(side, reads) if self.problem.rotates(solver, own.shape[1]) else None
        gram = self.gram(1 - side) if self.problem.background > 0 else None
        rows = self.problem.rows(side, own, other, solver, gram=gram, spectrum=spectrum)
        if self.problem.loss.keeps_duals:
            duals = self._duals[side]
            if duals is None:
                duals = self._duals[side] = np.zeros(len(self.problem.observations), own.dtype)
            rows.duals(duals)
        sums = rows.solve(evaluate, self.n_threads)
        self._grams[side], self.stalled[side] = None, int(sums["stalled"])
        if sums["failed"] >= 0 and self.epsilon:
            self._in_float64()
            return self.half_step(side, evaluate)
        held = self.problem.sides[side]
        self._costs[side] = None if held.features is None else held.cost(own)
        return refuse_failed(side, sums)

    def _solver(self) -> Solver:
        """How rows are solved in this sweep."""
        return (self.solver if self._coarse_pays else self.solver.exactly()).after(self.past)

    @cached_property
    def _coarse_pays(self) -> bool:
        return self.solver.extrapolates and self.problem.coarse_pays(self.factors[0].shape[1])

    def learn(self, side: int) -> None:
        """The best weights of features for the rows of a side; rows at zero are none yet."""
        self.problem, self._costs[side] = self.problem.learned(side, self.factors[side], self.n_threads), None

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
        known = self._costs[side]
        return self.problem.sides[side].cost(self.factors[side], self._grams[side]) if known is None else known

    def overlap(self) -> float:
        """<U'AU, V'CV>: the sum of a_i c_j z^2 over all cells, observed or not."""
        return float(np.sum(self.gram(0) * self.gram(1)))

    def state(self) -> dict[str, Any]:
        """What a fit needs to go on with the same bits."""
        named: dict[str, Sequence[Any]] = {"rows": self.factors, "gram": self._grams, "duals": self._duals}
        named |= {"ended": self._ended}
        both: dict[str, Any] = {f"{name}{side}": values[side] for name, values in named.items() for side in (0, 1)}
        both |= self.problem.state()
        both |= {"momentum": self._momentum.sweep, "reached": self.reached}
        return both | {"stalled": list(self.stalled), "loss": self.problem.loss if self.problem.loss.learns else None}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
        if state["rows0"].dtype != self.factors[0].dtype:  # half-steps had gone on in float64
            self._in_float64()
        self.factors, self._costs = [np.array(state[f"rows{side}"]) for side in (0, 1)], [None, None]
        self._grams, self._duals, self._ended = (
            [_copied(state.get(f"{name}{side}")) for side in (0, 1)] for name in ("gram", "duals", "ended")
        )
        self._momentum, self.reached = Momentum(state.get("momentum", 0)), state.get("reached")
        self.stalled = list(state["stalled"])
        self.problem = self.problem.restored(state)
        if state["loss"] is not None:
            self.problem = replace(self.problem, loss=state["loss"])

    def kept(self) -> list[NDArray[Any]]:
        """The rows, in the numbers that were asked for."""
        return [factors.astype(self.dtype, copy=False) for factors in self.factors]

    def snapshot(self) -> list[NDArray[Any]]:
        """Copies of the rows, in the numbers that were asked for."""
        return [factors.astype(self.dtype) for factors in self.factors]

    def _rotate(self, side: int, reads: bool) -> NDArray[np.float64]:
        """Rotate both sides by the eigenvectors of the other side's Gram matrix: it gets diagonal, no score changes.

        reads : whether the half-step looks at the rows that it replaces, if only to say how far they moved.
        """
        values, basis = symmetric_eigen(self.gram(1 - side))
        basis = np.ascontiguousarray(basis, self.factors[side].dtype)
        self.problem = self.problem.turned(basis)
        _core.rotate(self.factors[1 - side], basis, 0, self.n_threads)
        if reads and self.factors[side].any():  # zeros, where a fit is led to its start, stay zeros
            _core.rotate(self.factors[side], basis, 0, self.n_threads)
        for ended in self._ended:
            if ended is not None:
                _core.rotate(ended, basis, 0, self.n_threads)
        self._grams[1 - side] = np.diag(values)
        return values


def _copied(array: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if array is None else np.array(array)


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
    sums = rows.solve(evaluate, n_threads)
    if sums["failed"] < 0 or own.dtype == np.float64:
        return refuse_failed(side, sums)
    wide, fixed = own.astype(np.float64), other.astype(np.float64)  # float32 was not enough for a row
    sums = solve_rows(
        problem,
        side,
        wide,
        fixed,
        solver,
        gram=None if gram is None else gram_matrix(fixed, n_threads, problem.sides[1 - side].background),
        cells=cells,
        label=label,
        evaluate=evaluate,
        n_threads=n_threads,
    )
    own[...] = wide
    return sums


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
    rows = rows_of(problem.observations if cells is None else cells, problem.loss, own, other)
    if cells is None:
        problem.bind_factors(rows, 0, own.dtype)
    return rows.evaluate(n_threads)


def gram_matrix(factors: NDArray[Any], n_threads: int, weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """sum_j weights_j x_j x_j' over rows, weights 1 unless given; (d, d) float64, the same bits for any threads."""
    if weights is not None:
        factors = factors * np.sqrt(weights, dtype=factors.dtype)[:, None]
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
