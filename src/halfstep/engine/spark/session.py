"""Half-steps on a cluster. A side that fits under the broadcast limit is held whole by the driver and sent to every
executor; a larger one stays in the executors, and of it the driver holds d x d matrices and the few long rows.

A half-step is one job: rows of the other side travel (broadcast where they are few, else each row once to each
partition that needs it), every partition runs the core on its cells, and what the driver needs comes with the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from halfstep.core.leading import STEP, levelled
from halfstep.core.loop import Callback, Record
from halfstep.core.problem import Problem, Side, Solver
from halfstep.core.regression import LEARNED
from halfstep.engine.local import gram_matrix, refuse_failed, symmetric_eigen, thread_count
from halfstep.engine.spark import tasks
from halfstep.engine.spark.cells import DistributedCells
from halfstep.engine.spark.constant import ScoredCells, best_lift
from halfstep.engine.spark.factors import Factors, held, let_go
from halfstep.engine.spark.moves import Shared, Tally, evaluate, kept, kept_twice, keyed, together
from halfstep.engine.spark.sums import in_order
from halfstep.engine.spark.tasks import Array, BlockRows, PerRow, Piece, SidePart, Step, Summary

_CHAIN = 6  # half-steps made one from the other, before rows are kept twice and what led to them is forgotten


class DistributedSession:
    """A factorisation under way on a cluster. `LocalSession` says what the methods mean."""

    def __init__(self, problem: Problem, factors: list[Factors], solver: Solver, broadcast_limit: int) -> None:
        self.problem, self.solver, self.factors = problem, solver.exactly(), factors
        self.cells: DistributedCells = problem.observations  # type: ignore[assignment]
        self.d, self.dtype = factors[0].kind
        self.broadcast_limit = broadcast_limit
        self.past: Sequence[Record] = ()
        self.callbacks: Sequence[Callback] = ()
        self.stalled = [-1, -1]
        self._side_parts = [self._parts_of(side) for side in (0, 1)]
        for side, spec in enumerate(problem.sides):
            held: Any = spec.features
            if held is not None and (self.is_broadcast(side) or held.is_small):
                self._hold(side, held.brought())

    # ------------------------------------------------------------------ what the loop asks for

    epsilon = 0.0

    def begin(self, side: int) -> None:
        """Nothing is kept: blocks stay in the numbers they were cut in, and a sweep that diverges is refused."""

    def widen(self) -> bool:
        return False

    def lead(self, order: Sequence[int]) -> None:
        told, fixed = order[0], order[-1]
        solver, problem = self.solver, self.problem
        self.solver, self.problem = STEP, problem.plain
        for side in order:
            self.half_step(side)
        self.solver, self.problem = solver, problem
        matrix = levelled(*symmetric_eigen(self._gram(fixed)), self.factors[fixed].layout.n)
        old = held(self.factors)
        if matrix is not None:
            self.factors[fixed].rotate(np.ascontiguousarray(matrix, self.dtype))
            self.factors[fixed].gram = matrix.T @ self._gram(fixed) @ matrix
        layout = self.factors[told].layout
        self.factors[told] = Factors(self.cells.context, layout, np.zeros((len(layout.long), self.d), self.dtype))
        let_go(old, self.factors)

    reached: float | None = None

    def leap(self, side: int) -> bool:
        return False  # rows of two sweeps would have to be kept in every executor

    def retreat(self) -> None:
        """Nothing has moved."""

    def finish(self) -> None:
        """Every half-step is solved to the end."""

    def rounded(self) -> None:
        return None

    def half_step(self, side: int, evaluate: bool = False) -> dict[str, float]:
        self.learn(side)
        own, other = self.factors[side], self.factors[1 - side]
        spectrum = self._rotate(side) if self.problem.rotates(self.solver, self.d) else None
        reads_old = self._reads_old(side, evaluate)
        fixed = other.share() if other.values is not None else None
        before = own.share(rotated=False) if reads_old and own.kept is None else None
        step = self._step(side, spectrum, evaluate)
        inputs = self._inputs(side, reads_old)
        if side == 1 and self.problem.constant is not None:
            step = self._lifted(step, inputs, fixed, before, self.problem.constant)
        weights = self._weights(side)
        told = None if weights is None else Shared(self.cells.context, weights)
        new, reports = self._solve(side, step, inputs, fixed, before, told, reads_old)
        total: Summary = in_order((p, found) for p, found in reports.items() if isinstance(found, Summary))
        if len(own.layout.long):
            new.long, from_long = self._solve_long(side, step, reports)
            total += from_long
            if new.values is not None:
                new.values[own.layout.long] = new.long
            if evaluate:
                total += self._evaluate_long(replace(step, long_own=new.long), inputs, fixed)
        refuse_failed(side, total.sums)
        self.stalled[side] = int(total.sums["stalled"])
        spec = self.problem.sides[side]
        new.gram, new.cost = total.gram, total.cost + (0.0 if spec.features is None else spec.features.cost())
        if step.gram is not None and new.values is not None:  # of the whole, so that its bits are those of one machine
            new.gram = gram_matrix(new.values, thread_count(None))
        old = held(self.factors)
        self.factors[side] = new
        if not self._reads_old(1 - side, False):
            other.shared = None  # its next half-step will not look at these rows
        let_go(old, self.factors)
        return total.sums

    def penalty(self, side: int) -> float:
        return self.factors[side].cost

    def overlap(self) -> float:
        """<U'U, V'V>: the sum of z^2 over all cells, observed or not."""
        return float(np.sum(self._gram(0) * self._gram(1)))

    # ------------------------------------------------------------------ features of rows

    def learn(self, side: int) -> None:
        """The best weights of features for the rows of a side; rows at zero are none yet."""
        spec, rows = self.problem.sides[side], self.factors[side]
        held: Any = spec.features
        if held is not None and not rows.is_zero:
            self._hold(side, held.learned(rows, slice(*spec.columns(self.d))))

    def restore(self, side: int, learned: Mapping[str, Array]) -> None:
        """Weights of features as a checkpoint has them; what it lacks is None."""
        held: Any = self.problem.sides[side].features
        self._hold(side, held.restored({name: learned.get(name) for name in LEARNED}))

    def _weights(self, side: int) -> Array | None:
        held = self.problem.sides[side].features
        return None if held is None else held.weights

    def _hold(self, side: int, held: Any) -> None:
        sides = [replace(spec, features=held) if k == side else spec for k, spec in enumerate(self.problem.sides)]
        self.problem = replace(self.problem, sides=(sides[0], sides[1]))

    # ------------------------------------------------------------------ a half-step, in parts

    def _gram(self, side: int) -> NDArray[np.float64]:
        gram = self.factors[side].gram
        assert gram is not None, "Gram matrices are kept where there is a background"
        return gram

    def _rotate(self, side: int) -> NDArray[np.float64]:
        """Rotate both sides by the eigenvectors of the other side's Gram matrix: it gets diagonal, no score changes."""
        values, basis = symmetric_eigen(self._gram(1 - side))
        basis = np.ascontiguousarray(basis, self.dtype)
        self.problem = self.problem.turned(basis)
        for factors in self.factors:
            factors.rotate(basis)
        self.factors[1 - side].gram = np.diag(values)
        return values

    def _step(self, side: int, spectrum: NDArray[np.float64] | None, evaluate: bool) -> Step:
        spec, own, other = self.problem.sides[side], self.factors[side], self.factors[1 - side]
        share = 0.0 if spec.features is None else spec.features.share
        spec = replace(spec, features=None)  # executors have their own
        if self._side_parts[side] is not None:  # what is given row by row travels with the blocks
            spec = replace(
                spec,
                penalty=0.0 if _each_row(spec.penalty) else spec.penalty,
                prior=None if _each_row(spec.prior) or _far(spec.prior) else spec.prior,
            )
        return Step(
            side=side,
            spec=spec,
            layout=own.layout,
            loss=self.problem.loss,
            background=self.problem.background,
            solver=self.solver.after(self.past),
            d=self.d,
            dtype=self.dtype,
            gram=other.gram if self.problem.background > 0 else None,
            spectrum=spectrum,
            own_bases=own.bases,
            long_own=own.long,
            long_other=other.long,
            long_places=other.layout.long,
            evaluate=evaluate,
            reports_gram=self.problem.background > 0 and not self.is_broadcast(side),
            share=share,
        )

    def _reads_old(self, side: int, evaluate: bool) -> bool:
        """Whether a half-step looks at the rows it replaces."""
        spec = self.problem.sides[side]
        plain = self.problem.loss.is_quadratic and spec.columns(self.d) == (0, self.d) and spec.nonnegative is None
        return not self.factors[side].is_zero and (evaluate or not plain or self.solver.reads_old_rows)

    def _inputs(self, side: int, reads_old: bool) -> Any:
        """An RDD that brings together what every partition works on, cells first."""
        own, other = self.factors[side], self.factors[1 - side]
        rdds = [self.cells.blocks[side]]
        if self._side_parts[side] is not None:
            rdds.append(self._side_parts[side])
        held: Any = self.problem.sides[side].features
        if held is not None:
            rdds.append(held.parts)
        if reads_old and own.kept is not None:
            rdds.append(own.kept)
        if other.values is None:
            bases = other.bases
            routed = together([other.kept, self.cells.routes[1 - side]])
            rdds.append(keyed(routed.mapPartitions(lambda items: tasks.send(items, bases)), own.layout.partitions))
        return together(rdds)

    def _solve(
        self, side: int, step: Step, inputs: Any, fixed: Any, before: Any, told: Any, reads_old: bool
    ) -> tuple[Factors, dict[int, Any]]:
        """Solve every partition. Returns the new rows, and by partition a `Summary`, or the `Piece` of a long row."""
        own, other, context = self.factors[side], self.factors[1 - side], self.cells.context
        whole = self.is_broadcast(side)
        tally = None if whole else context.accumulator({}, Tally())

        def run(items: Iterator[Any]) -> Iterator[tuple[int, Any]]:
            work = tasks.assemble(
                items, step, *(None if shared is None else shared.value for shared in (fixed, before))
            )
            found = tasks.solve(step, work, None if told is None else told.value)
            if tally is not None:
                tally.add({work.partition: found.summary if isinstance(found, BlockRows) else found})
            yield work.partition, found

        solved = inputs.mapPartitions(run, preservesPartitioning=True)
        new = Factors(context, own.layout, own.long)
        if not whole or self.problem.loss.keeps_duals:
            parents = [own] * (reads_old and own.kept is not None) + [other] * (other.values is None)
            new.depth = 1 + max((parent.depth for parent in parents), default=0)
            new.needs = [shared for shared in (fixed, before, told) if shared is not None]
            if new.depth > _CHAIN:  # Spark sends the task of rows that are cut off, too, so its broadcasts stay
                solved, new.depth = kept_twice(solved), 0
            else:
                solved = kept(solved)
                new.needs += [thing for parent in parents for thing in parent.ancestry]
            new.kept = solved
        if tally is not None:
            evaluate(solved)
            return new, dict(tally.value)
        found = dict(solved.collect())
        if told is not None and new.kept is None:
            told.destroy()
        new.values = np.concatenate([found[block].values for block in range(own.layout.blocks)])
        return new, {p: rows.summary if isinstance(rows, BlockRows) else rows for p, rows in found.items()}

    def _lifted(self, step: Step, inputs: Any, fixed: Any, before: Any, column: int) -> Step:
        """The half-step whose rows begin with the best constant for the present ones."""

        def run(items: Iterator[Any]) -> Iterator[tuple[int, ScoredCells]]:
            work = tasks.assemble(
                items, step, *(None if shared is None else shared.value for shared in (fixed, before))
            )
            yield work.partition, ScoredCells(*tasks.score(step, work))

        scored = kept(inputs.mapPartitions(run, preservesPartitioning=True))
        lift = best_lift(self.problem.loss, scored, len(self.cells))
        scored.unpersist()
        long = step.long_own.copy()
        long[:, column] += self.dtype.type(lift)
        return replace(step, lift=(column, lift), long_own=long)

    def is_broadcast(self, side: int) -> bool:
        """Whether all rows of a side go to every executor: when they are few enough."""
        return fits(self.factors[side].layout.n, self.d, self.dtype, self.broadcast_limit)

    def _solve_long(self, side: int, step: Step, reports: dict[int, Any]) -> tuple[Array, Summary]:
        """New values of the long rows from the quadratics of their pieces, added up in order."""
        layout, spec = step.layout, self._long_spec(side)
        start, stop = spec.columns(self.d)
        quadratics = np.zeros((len(layout.long), stop - start + 1, stop - start))
        for partition in range(layout.blocks, layout.partitions):
            piece = reports[partition]
            assert isinstance(piece, Piece)
            quadratics[piece.number] += piece.quadratic
        beside, weights, held = 0.0, self._weights(side), cast(Any, self.problem.sides[side].features)
        if weights is not None:
            spec, beside = tasks.expecting(spec, held.long, weights, held.share)
        values, sums = tasks.finish_long(step, spec, quadratics)
        cost = spec.cost(values) + beside
        return values, Summary(sums, gram_matrix(values, 1) if step.reports_gram else None, cost)

    def _evaluate_long(self, step: Step, inputs: Any, fixed: Any) -> Summary:
        """What the cells of the long rows cost, now that the rows are known."""

        def run(items: Iterator[Any]) -> Iterator[Any]:
            work = tasks.assemble(items, step, None if fixed is None else fixed.value, None)
            yield tasks.evaluate_piece(step, work)

        partitions = list(range(step.layout.blocks, step.layout.partitions))
        return Summary(reduce(tasks.merged, self.cells.context.runJob(inputs.mapPartitions(run), list, partitions)))

    def _long_spec(self, side: int) -> Side:
        spec, long = self.problem.sides[side], self.factors[side].layout.long
        penalty: Any = spec.penalty
        prior: Any = spec.prior
        if isinstance(penalty, PerRow):
            penalty = penalty.rule(self.cells.long_counts[side])
        elif _each_row(penalty):
            penalty = penalty[long]
        return replace(spec, penalty=penalty, prior=prior[long] if _each_row(prior) else prior, features=None)

    def _parts_of(self, side: int) -> Any:
        """Penalties and priors that are given row by row, with the blocks they belong to; None where there are none."""
        spec, layout = self.problem.sides[side], self.factors[side].layout
        penalty = spec.penalty if _each_row(spec.penalty) else None
        prior: Any = spec.prior
        if _far(prior):
            return prior.rows.mapValues(lambda rows: SidePart(None, rows))
        prior = prior if _each_row(prior) else None
        if penalty is None and prior is None:
            return None

        def cut(values: Any, block: int) -> Any:
            return None if values is None else values[layout.starts[block] : layout.starts[block + 1]]

        parts = [(block, SidePart(cut(penalty, block), cut(prior, block))) for block in range(layout.blocks)]
        return kept(keyed(self.cells.context.parallelize(parts, layout.blocks), layout.partitions))


def fits(n: int, d: int, dtype: Any, limit: int) -> bool:
    """Whether n rows take no more bytes than the limit."""
    return bool(n * d * np.dtype(dtype).itemsize <= limit)


def _far(prior: Any) -> bool:
    """Whether a prior is in the executors, as `FarMeans` is."""
    return prior is not None and not isinstance(prior, np.ndarray)


def _each_row(values: Any) -> bool:
    return isinstance(values, np.ndarray) and len(values) > 1
