"""What every engine owes, wherever its half-steps run. Inherit `EngineContract` and say how a session is opened.

Knows two sides and the oracle; knows no estimator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep.core import oracle
from halfstep.core.cells import Observations
from halfstep.core.loop import measure
from halfstep.engine import Problem, Side, Solver

from .rows import LOSSES, draw_targets

ROUNDING = {"float32": 2e-5, "float64": 1e-10}


def random_cells(loss: Any, rng: Any, shape: tuple[int, int] = (23, 17), share: float = 0.3) -> Observations:
    """Cells with targets and weights; one row and one column are empty, one row is full."""
    mask = rng.random(shape) < share
    mask[2], mask[5], mask[:, 3] = True, False, False
    rows, columns = np.nonzero(mask)
    weights = rng.choice([0.05, 0.5, 1.0, 2.0], len(rows))
    targets = draw_targets(loss, rng, len(rows))
    return Observations.from_cells(rows, columns, shape, targets, weights, dtype=np.float64)


def coordinates(cells: Observations) -> tuple[Any, Any, Any, Any]:
    """(rows, columns, targets, weights) as the oracle wants them."""
    rows = np.repeat(np.arange(cells.shape[0]), cells.counts)
    values = (np.broadcast_to(np.asarray(v, np.float64), len(cells)) for v in (cells.targets, cells.weights))
    return rows, cells.indices, *values


def random_problem(
    loss: Any, seed: int = 0, *, background: float = 0.1, per_row: bool = True, pinned: int = 0, d: int = 5
) -> tuple[Problem, list[Any]]:
    """A problem and factors to start from; `pinned` columns of ones on either side, as biases have."""
    rng = np.random.default_rng(seed)
    cells = random_cells(loss, rng)
    columns = d + 2 * pinned
    free = ((pinned, columns), (0, columns - pinned))
    sides = [
        Side(rng.uniform(0.1, 2, n) if per_row else 0.7, free=span if pinned else None)
        for n, span in zip(cells.shape, free, strict=True)
    ]
    factors = [rng.normal(size=(n, columns)) * 0.5 for n in cells.shape]
    factors[0][:, : free[0][0]] = 1.0
    factors[1][:, free[1][1] :] = 1.0
    return Problem(cells, (sides[0], sides[1]), loss, background), factors


def dense_objective(problem: Problem, factors: list[Any]) -> float:
    """The naive one: every cell touched, float64."""
    U, V = (np.asarray(f, np.float64) for f in factors)
    own, other = problem.sides
    return oracle.objective(
        U, V, *coordinates(problem.observations), problem.background, own.penalty, other.penalty, problem.loss,
        own.free, other.free,
    )  # fmt: skip


class EngineContract:
    """Give `open`; everything else follows."""

    losses = LOSSES
    dtypes = ("float32", "float64")

    def open(self, problem: Problem, factors: list[Any], solver: Solver, n_threads: int = 1) -> Any:
        raise NotImplementedError

    def factors(self, session: Any) -> list[Any]:
        """Both sides as arrays."""
        return list(session.factors)

    def settings(self, loss: Any) -> list[dict[str, Any]]:
        """Problems that differ in kind."""
        return [
            {"background": 0.1},
            {"background": 0.0, "per_row": False},
            {"background": 0.1, "pinned": 1},
            {"background": 0.0, "pinned": 2},
        ]

    def methods(self, loss: Any) -> list[str]:
        return ["exact", "cholesky", "dual", "cg", "subspace"] if loss.is_quadratic else ["exact"]

    def each(self) -> Any:
        """Every loss, problem, method and precision."""
        for loss in self.losses:
            for setting in self.settings(loss):
                for method in self.methods(loss):
                    for dtype in self.dtypes:
                        yield loss, setting, method, dtype

    def start(self, loss: Any, setting: dict[str, Any], method: str, dtype: str, n_threads: int = 1) -> Any:
        problem, factors = random_problem(loss, **setting)
        exact = ROUNDING[dtype] / 10
        solver = Solver(method, tolerance=exact, max_steps=5000, block=3 if method == "subspace" else 64)
        return problem, self.open(problem, [f.astype(dtype) for f in factors], solver, n_threads)

    def test_the_objective_never_rises_and_is_the_dense_one(self) -> None:
        for loss, setting, method, dtype in self.each():
            problem, session = self.start(loss, setting, method, dtype)
            before = dense_objective(problem, self.factors(session))
            for number in range(6):
                record = measure(session, session.half_step(number % 2, evaluate=True))
                case = f"{loss!r} {setting} {method} {dtype}, half-step {number}"
                dense = dense_objective(problem, self.factors(session))
                assert_allclose(record["objective"], dense, rtol=ROUNDING[dtype], err_msg=case)
                assert record["objective"] <= before * (1 + ROUNDING[dtype]), case
                before = record["objective"]

    def test_parts_of_the_record_are_what_they_say(self) -> None:
        for loss in self.losses:
            problem, session = self.start(loss, {"background": 0.1}, "exact", "float64")
            record = measure(session, session.half_step(0, evaluate=True))
            U, V = self.factors(session)
            rows, columns, targets, weights = coordinates(problem.observations)
            Z = U @ V.T
            z, hidden = Z[rows, columns], np.ones(Z.shape, bool)
            hidden[rows, columns] = False
            assert_allclose(record["data"], weights @ loss.value(z, targets))
            assert_allclose(record["background"], 0.1 * np.sum(Z[hidden] ** 2), rtol=1e-9)
            assert_allclose(record["penalty"], record["objective"] - record["data"] - record["background"])
            assert_allclose(record["rmse"], np.sqrt(np.mean((targets - z) ** 2)))
            everything = np.sum((targets - z) ** 2) + np.sum(Z[hidden] ** 2)
            assert_allclose(record["rmse_all"], np.sqrt(everything / Z.size))

    def test_half_steps_are_those_of_the_oracle(self) -> None:
        for loss, setting, method, dtype in self.each():
            if method == "subspace":  # one pass is a descent step, not the optimum
                continue
            problem, session = self.start(loss, setting, method, dtype)
            factors = [f.astype(np.float64) for f in self.factors(session)]
            U, V = factors
            cells = coordinates(problem.observations)
            own, other = problem.sides
            U = oracle.half_step(U, V, cells, problem.background, own.penalty, loss, own.free)
            V = oracle.half_step(
                V, U, (cells[1], cells[0], *cells[2:]), problem.background, other.penalty, loss, other.free
            )
            session.half_step(0)
            session.half_step(1)
            found = self.factors(session)
            tolerance = {"float32": 3e-3, "float64": 1e-7}[dtype]
            if not loss.is_quadratic:  # a gap g in the objective leaves about sqrt(g) in the rows
                tolerance = {"float32": 2e-2, "float64": 1e-4}[dtype]
            assert_allclose(found[0] @ found[1].T, U @ V.T, atol=tolerance, err_msg=f"{setting} {method} {dtype}")

    def test_any_number_of_threads_gives_the_same_bits(self) -> None:
        for loss, setting, method, dtype in self.each():
            ends = []
            for n_threads in (1, 2, 5):
                _, session = self.start(loss, setting, method, dtype, n_threads)
                sums = [session.half_step(side, evaluate=True) for side in (0, 1, 0)]
                ends.append((sums, [f.tobytes() for f in self.factors(session)]))
            assert ends[0] == ends[1] == ends[2], f"{loss!r} {setting} {method} {dtype}"

    def test_transposing_the_problem_swaps_the_sides(self) -> None:
        for loss in self.losses:
            problem, factors = random_problem(loss)
            turned = Problem(problem.observations.T, problem.sides[::-1], loss, problem.background)
            one = self.open(problem, [f.copy() for f in factors], Solver())
            two = self.open(turned, [f.copy() for f in factors[::-1]], Solver())
            for side in (0, 1, 0, 1):
                one.half_step(side)
                two.half_step(1 - side)
            (U, V), (V2, U2) = self.factors(one), self.factors(two)
            assert_allclose(U @ V.T, U2 @ V2.T, atol=1e-9)

    def test_repeated_cells_equal_integer_weights(self) -> None:
        rng = np.random.default_rng(4)
        for loss in self.losses:
            problem, factors = random_problem(loss, background=0.0)
            rows, columns, targets, _ = coordinates(problem.observations)
            times = rng.integers(0, 3, len(rows))  # weight zero equals absent
            shape = problem.observations.shape
            repeated = [np.repeat(v, times) for v in (rows, columns, targets)]
            ends = []
            for r, c, t, w in ((*repeated, 1.0), (rows, columns, targets, times.astype(np.float64))):
                cells = Observations.from_cells(r, c, shape, t, w, dtype=np.float64)
                session = self.open(Problem(cells, problem.sides, loss, 0.0), [f.copy() for f in factors], Solver())
                for side in (0, 1, 0):
                    session.half_step(side)
                U, V = self.factors(session)
                ends.append(U @ V.T)
            assert_allclose(ends[0], ends[1], atol=1e-8)

    def test_a_row_without_solution_is_named(self) -> None:
        from halfstep.errors import RowError

        problem, factors = random_problem(self.losses[0], background=0.0)
        sides = (Side(np.r_[np.ones(5), 0.0, np.ones(17)]), problem.sides[1])  # row 5 has no cells
        session = self.open(Problem(problem.observations, sides, problem.loss, 0.0), factors, Solver())
        with pytest.raises(RowError, match=r"row 5 of side 0 has no finite solution.*raise `reg`"):
            session.half_step(0)
