"""Half-steps on this machine: Gram matrix, common rotation, one call into the core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.blas import one_blas_thread
from halfstep.core.cells import DenseCells, Observations, Values
from halfstep.core.initial import initial_factors
from halfstep.core.loop import Callback, Record
from halfstep.core.losses import Squared
from halfstep.core.problem import METHODS, Problem, Solver
from halfstep.errors import RowError


def thread_count(n_threads: int | None) -> int:
    """The cores this process may use, or the number asked for."""
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_threads, bool) or not isinstance(n_threads, (int, np.integer)) or n_threads < 1:
        raise ValueError(f"n_threads={n_threads!r} must be a whole number of at least 1, or None for all cores.")
    return int(n_threads)


@dataclass(frozen=True)
class LocalEngine:
    """Runs half-steps in this process. The result has the same bits for any number of threads."""

    n_threads: int | None = None
    distributed: ClassVar[bool] = False

    def start(
        self, observations: Observations, rank: int, init: str, seed: int, dtype: Any
    ) -> tuple[list[NDArray[Any]], tuple[int, int]]:
        """Factors of both sides and the order of half-steps; see `initial_factors`."""
        return initial_factors(observations, rank, init, seed, dtype)

    def open(self, problem: Problem, factors: list[NDArray[Any]], solver: Solver) -> LocalSession:
        """Start from `factors`, one (n, d) array for each side, which the session takes over and changes."""
        return LocalSession(problem, factors, solver, thread_count(self.n_threads))


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
        w0 = self.problem.background
        rotated = wants_rotation(self.problem, self.solver, self.factors[0].shape[1])
        spectrum = self._rotate(side, evaluate) if rotated else None
        if keeps_duals(self.problem) and self._duals[side] is None:
            self._duals[side] = np.zeros(len(self.problem.observations), self.factors[side].dtype)
        sums = solve_rows(
            self.problem,
            side,
            self.factors[side],
            self.factors[1 - side],
            self.solver.after(self.past),
            gram=self.gram(1 - side) if w0 > 0 else None,
            spectrum=spectrum,
            duals=self._duals[side],
            evaluate=evaluate,
            n_threads=self.n_threads,
        )
        self._grams[side] = None
        return sums

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
        """Turn both sides by the eigenvectors of the other side's Gram matrix: it gets diagonal, no score changes."""
        values, basis = symmetric_eigen(self.gram(1 - side))
        basis = np.ascontiguousarray(basis, self.factors[side].dtype)
        _core.rotate(self.factors[1 - side], basis, 0, self.n_threads)
        if evaluate or self.solver.reads_old_rows:
            _core.rotate(self.factors[side], basis, 0, self.n_threads)
        self._grams[1 - side] = np.diag(values)
        return values


def wants_rotation(problem: Problem, solver: Solver, d: int) -> bool:
    """A diagonal background makes the dual and iterative finishes cheap. It needs columns that nobody pinned."""
    whole = all(side.columns(d) == (0, d) and side.nonnegative is None for side in problem.sides)
    return (
        problem.background > 0
        and whole
        and all(side.prior is None for side in problem.sides)
        and problem.loss.is_quadratic
        and solver.method != "cholesky"
    )


def keeps_duals(problem: Problem) -> bool:
    """Whether a sweep starts from the dual variables of the one before."""
    return problem.loss.is_plq and not problem.loss.is_quadratic


@dataclass(frozen=True)
class LabelCell:
    """One logistic cell for each row beside its squared ones, against one shared row of the other side.

    Row i gets  + 1/2 weights_i [log(1 + e^z) - targets_i z],  z = own_i . vector  over all columns; weight 0: no cell.
    """

    vector: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any]

    def arguments(self, dtype: Any) -> dict[str, NDArray[Any]]:
        fields = {"label_vector": self.vector, "label_targets": self.targets, "label_weights": self.weights}
        return {name: np.ascontiguousarray(values, dtype) for name, values in fields.items()}


def solve_rows(
    problem: Problem,
    side: int,
    own: NDArray[Any],
    other: NDArray[Any],
    solver: Solver,
    *,
    gram: NDArray[np.float64] | None,
    spectrum: NDArray[np.float64] | None = None,
    duals: NDArray[Any] | None = None,
    evaluate: bool = False,
    n_threads: int = 1,
    cells: Observations | DenseCells | None = None,
    label: LabelCell | None = None,
) -> dict[str, float]:
    """One call into the core: every row of `own` in place. `cells` replaces those of the problem, for new rows.

    Returns the core's sums over rows; a row without a finite solution raises.
    """
    sums = try_rows(
        problem,
        side,
        own,
        other,
        solver,
        gram=gram,
        spectrum=spectrum,
        duals=duals,
        evaluate=evaluate,
        n_threads=n_threads,
        cells=problem.cells(side) if cells is None else cells,
        label=label,
    )
    refuse_failed(side, sums)
    return sums


def try_rows(
    problem: Problem,
    side: int,
    own: NDArray[Any],
    other: NDArray[Any],
    solver: Solver,
    *,
    gram: NDArray[np.float64] | None,
    spectrum: NDArray[np.float64] | None,
    duals: NDArray[Any] | None,
    evaluate: bool,
    n_threads: int,
    cells: Observations | DenseCells,
    label: LabelCell | None = None,
) -> dict[str, float]:
    """`solve_rows` for callers that look at `sums["failed"]` themselves."""
    dtype, d = own.dtype, own.shape[1]
    spec = problem.sides[side]
    start, stop = spec.columns(d)
    per_row = isinstance(spec.penalty, np.ndarray)
    low, high = spec.nonnegative or (start, start)
    return _core.half_step(
        own=own,
        other=other,
        **cell_arguments(cells, dtype),
        loss=problem.loss.native(),
        free_start=start,
        free_stop=stop,
        lam=np.ascontiguousarray(spec.penalty, dtype) if per_row else None,
        lam_all=0.0 if per_row else float(spec.penalty),
        mu=None if spec.prior is None else np.ascontiguousarray(spec.prior, dtype),
        w0=problem.background,
        gram=None if gram is None else np.ascontiguousarray(gram, dtype),
        spectrum=None if spectrum is None else np.ascontiguousarray(spectrum, dtype),
        duals=duals,
        **({} if label is None else label.arguments(dtype)),
        method=METHODS[solver.method],
        nonnegative_start=low - start,
        nonnegative_stop=high - start,
        tolerance=solver.tolerance,
        max_steps=solver.max_steps,
        block=solver.block,
        evaluate=evaluate,
        n_threads=n_threads,
    )


def refuse_failed(side: int, sums: dict[str, float]) -> None:
    """Raise if a row had no finite solution."""
    if sums["failed"] >= 0:
        raise RowError(
            f"row {int(sums['failed'])} of side {side} has no finite solution. Its penalty is too small for its data: "
            "raise `reg`, lower the rank, or look for huge weights or targets in that row."
        )


def normal_equations(
    cells: Observations | DenseCells, own: NDArray[Any], other: NDArray[Any], free: tuple[int, int], n_threads: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n, f, f) sum w x x' and (n, f) sum w (t - pinned) x over the cells of each row of `own`, under squared loss."""
    sums = _core.quadratics(
        own=own,
        other=other,
        **cell_arguments(cells, own.dtype),
        loss=Squared().native(),
        free_start=free[0],
        free_stop=free[1],
        w0=0.0,
        n_threads=n_threads,
    )
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
    return _core.evaluate(
        own=own,
        other=other,
        **cell_arguments(problem.observations if cells is None else cells, own.dtype),
        loss=problem.loss.native(),
        n_threads=n_threads,
    )


def cell_arguments(cells: Observations | DenseCells, dtype: Any) -> dict[str, Any]:
    """The arguments of the core that describe cells."""

    def split(values: Values, name: str) -> dict[str, Any]:
        if isinstance(values, np.ndarray):
            return {name + "s": (np.asarray if dense else np.ascontiguousarray)(values, dtype), name: 0.0}
        return {name + "s": None, name: float(values)}

    dense = isinstance(cells, DenseCells)  # its rows may be the columns of an array
    return {
        "indptr": None if isinstance(cells, DenseCells) else cells.indptr,
        "indices": None if isinstance(cells, DenseCells) else cells.indices,
        **split(cells.targets, "target"),
        **split(cells.weights, "weight"),
    }


def gram_matrix(factors: NDArray[Any], n_threads: int) -> NDArray[np.float64]:
    """factors' factors, (d, d) float64, the same bits for any number of threads."""
    return _core.gram(np.ascontiguousarray(factors), n_threads)


@one_blas_thread
def symmetric_eigen(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues (>= 0) and eigenvectors of a Gram matrix, on one BLAS thread."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0), vectors
