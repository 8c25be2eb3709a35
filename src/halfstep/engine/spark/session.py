"""Half-steps on a cluster. The factors stay in the executors; the driver holds d x d matrices and the few long rows.

A half-step is one job: rows of the other side travel (broadcast where they are few, else each row once to each
partition that needs it), every partition runs the core on its cells, and Gram matrices and sums come back up a tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.engine.alternate import Callback, Record
from halfstep.engine.local import gram_matrix, refuse_failed, symmetric_eigen, wants_rotation
from halfstep.engine.problem import Problem, Side, Solver
from halfstep.engine.spark import tasks
from halfstep.engine.spark.cells import DistributedCells, kept, keyed, together
from halfstep.engine.spark.layout import Layout
from halfstep.engine.spark.tasks import Array, PerRow, Piece, Rows, SidePart, Step, Summary

_FAN = 32  # summaries that one task of the tree adds up


@dataclass
class Factors:
    """The rows of one side.

    kept : RDD of (block, Rows), persisted, None while all rows are zero. It may hold pieces of long rows too.
    long : (L, d) values of the long rows, on the driver.
    bases : turns that are still to be applied to the rows of `kept`, in order.
    gram, cost : of all rows, turns applied.
    """

    layout: Layout
    kept: Any
    long: Array
    bases: list[Array] = field(default_factory=list)
    gram: NDArray[np.float64] | None = None
    cost: float = 0.0

    def rows(self) -> Any:
        return self.kept.filter(lambda item: isinstance(item[1], Rows))

    def blocks(self) -> Any:
        """RDD of (block, values) with long rows in their places and turns applied."""
        layout, bases, long = self.layout, self.bases, self.long

        def whole(item: tuple[int, Rows]) -> tuple[int, Array]:
            block, rows = item
            values = tasks.rotated(rows.values, bases)
            numbers, places = layout.long_in(block)
            values[places] = long[numbers]
            return block, values

        return self.rows().map(whole, preservesPartitioning=True)

    def to_array(self) -> Array:
        """All rows on the driver, (n, d)."""
        parts = sorted(self.blocks().collect(), key=lambda item: item[0])
        return np.concatenate([values for _, values in parts])

    def turn(self, basis: Array) -> None:
        """Every row times `basis`; nothing moves until the rows are next read."""
        self.bases = [*self.bases, basis]
        self.long = tasks.rotated(self.long.copy(), [basis])


class DistributedSession:
    """A factorisation under way on a cluster. `LocalSession` says what the methods mean."""

    def __init__(
        self, problem: Problem, factors: list[Factors], solver: Solver, d: int, dtype: Any, broadcast_limit: int
    ) -> None:
        self.problem, self.solver, self.factors = problem, solver, factors
        self.cells: DistributedCells = problem.observations  # type: ignore[assignment]
        self.d, self.dtype = d, np.dtype(dtype)
        self.broadcast_limit = broadcast_limit
        self.past: Sequence[Record] = ()
        self.callbacks: Sequence[Callback] = ()
        self._side_parts = [self._parts_of(side) for side in (0, 1)]

    # ------------------------------------------------------------------ what the loop asks for

    def half_step(self, side: int, evaluate: bool = False) -> dict[str, float]:
        own = self.factors[side]
        spectrum = self._rotate(side) if wants_rotation(self.problem, self.solver, self.d) else None
        step = self._step(side, spectrum, evaluate)
        inputs, fixed = self._inputs(side, evaluate)
        shared = self.cells.context.broadcast(step)

        def run(items: Iterator[Any]) -> Iterator[Any]:
            step = shared.value
            partition, block, gathered, old, part = tasks.assemble(items, step, None if fixed is None else fixed.value)
            yield partition, tasks.solve(step, partition, block, gathered, old, part)

        solved = kept(inputs.mapPartitions(run, preservesPartitioning=True))
        new = Factors(own.layout, solved, own.long)
        total = tree_sum(new.rows().mapValues(lambda rows: rows.summary), own.layout.blocks)
        if len(own.layout.long):
            new.long, from_long = self._solve_long(side, step, solved)
            total += from_long
            if evaluate:
                total += self._evaluate_long(replace(step, long_own=new.long), inputs, fixed)
        refuse_failed(side, total.sums)
        new.gram, new.cost = total.gram, total.cost
        self.factors[side] = new
        if own.kept is not None:
            own.kept.unpersist()
        # Broadcasts stay: a lost partition is made again from them, and one taken back is not always sent anew.
        return total.sums

    def penalty(self, side: int) -> float:
        return self.factors[side].cost

    def overlap(self) -> float:
        """<U'U, V'V>: the sum of z^2 over all cells, observed or not."""
        return float(np.sum(self._gram(0) * self._gram(1)))

    # ------------------------------------------------------------------ a half-step, in parts

    def _gram(self, side: int) -> NDArray[np.float64]:
        gram = self.factors[side].gram
        assert gram is not None, "Gram matrices are kept where there is a background"
        return gram

    def _rotate(self, side: int) -> NDArray[np.float64]:
        """Turn both sides by the eigenvectors of the other side's Gram matrix: it gets diagonal, no score changes."""
        values, basis = symmetric_eigen(self._gram(1 - side))
        basis = np.ascontiguousarray(basis, self.dtype)
        for factors in self.factors:
            factors.turn(basis)
        self.factors[1 - side].gram = np.diag(values)
        return values

    def _step(self, side: int, spectrum: NDArray[np.float64] | None, evaluate: bool) -> Step:
        spec, own, other = self.problem.sides[side], self.factors[side], self.factors[1 - side]
        if self._side_parts[side] is not None:  # what is given row by row travels with the blocks
            spec = replace(
                spec,
                penalty=0.0 if _each_row(spec.penalty) else spec.penalty,
                prior=None if _each_row(spec.prior) else spec.prior,
            )
        return Step(
            side=side,
            spec=spec,
            layout=own.layout,
            loss=self.problem.loss,
            background=self.problem.background,
            solver=self.solver,
            d=self.d,
            dtype=self.dtype,
            gram=other.gram if self.problem.background > 0 else None,
            spectrum=spectrum,
            own_bases=own.bases,
            long_own=own.long,
            long_other=other.long,
            evaluate=evaluate,
        )

    def _inputs(self, side: int, evaluate: bool) -> tuple[Any, Any]:
        """An RDD that brings together what every partition works on; and the other side, if it is broadcast."""
        own, other = self.factors[side], self.factors[1 - side]
        rdds = [self.cells.blocks[side]]
        if self._side_parts[side] is not None:
            rdds.append(self._side_parts[side])
        spec = self.problem.sides[side]
        plain = self.problem.loss.is_quadratic and spec.columns(self.d) == (0, self.d) and spec.nonnegative is None
        if own.kept is not None and (evaluate or not plain or self.solver.reads_old_rows):
            rdds.append(own.kept)
        if self.is_broadcast(1 - side):
            return together(rdds), self.cells.context.broadcast(other.to_array())
        bases = other.bases
        routed = together([other.kept, self.cells.routes[1 - side]])
        messages = routed.mapPartitions(lambda items: tasks.send(items, bases))
        return together([*rdds, keyed(messages, own.layout.partitions)]), None

    def is_broadcast(self, side: int) -> bool:
        """Whether all rows of a side go to every executor: when they are few enough."""
        return bool(self.factors[side].layout.n * self.d * self.dtype.itemsize <= self.broadcast_limit)

    def _solve_long(self, side: int, step: Step, solved: Any) -> tuple[Array, Summary]:
        """New values of the long rows from the quadratics of their pieces, added up in order."""
        layout, spec = step.layout, self._long_spec(side)
        start, stop = spec.columns(self.d)
        quadratics = np.zeros((len(layout.long), stop - start + 1, stop - start))
        partitions = list(range(layout.blocks, layout.partitions))
        for piece in self.cells.context.runJob(solved.values(), list, partitions):
            assert isinstance(piece, Piece)
            quadratics[piece.number] += piece.quadratic
        new = step.long_own.astype(np.float64)
        for number, quadratic in enumerate(quadratics):
            row = _one_row(spec, number)
            new[number, start:stop] = tasks.solve_quadratic(
                quadratic, row, step.long_own[number], step.background, step.gram
            )
        finite = np.isfinite(new).all(axis=1)
        sums = dict.fromkeys(("data", "squares", "scores", "gap", "steps", "repaired"), 0.0)
        sums["change"] = float(np.sum((new - step.long_own) ** 2))
        sums["size"] = float(np.sum(new[:, start:stop] ** 2))
        sums["failed"] = -1 if finite.all() else int(layout.long[np.argmin(finite)])
        values = np.ascontiguousarray(new, self.dtype)
        return values, Summary(sums, gram_matrix(values, 1) if step.gram is not None else None, spec.cost(values))

    def _evaluate_long(self, step: Step, inputs: Any, fixed: Any) -> Summary:
        """What the cells of the long rows cost, now that the rows are known."""
        shared = self.cells.context.broadcast(step)

        def run(items: Iterator[Any]) -> Iterator[Any]:
            step = shared.value
            partition, block, gathered, *_ = tasks.assemble(items, step, None if fixed is None else fixed.value)
            yield tasks.evaluate_piece(step, partition, block, gathered)

        partitions = list(range(step.layout.blocks, step.layout.partitions))
        sums: dict[str, float] = {}
        for more in self.cells.context.runJob(inputs.mapPartitions(run), list, partitions):
            sums = tasks.merged(sums, more)
        return Summary(sums)

    def _long_spec(self, side: int) -> Side:
        spec, long = self.problem.sides[side], self.factors[side].layout.long
        penalty: Any = spec.penalty
        prior: Any = spec.prior
        if isinstance(penalty, PerRow):
            penalty = penalty.rule(self.cells.long_counts[side])
        elif _each_row(penalty):
            penalty = penalty[long]
        return replace(spec, penalty=penalty, prior=prior[long] if _each_row(prior) else prior)

    def _parts_of(self, side: int) -> Any:
        """Penalties and priors that are given row by row, with the blocks they belong to; None where there are none."""
        spec, layout = self.problem.sides[side], self.factors[side].layout
        penalty = spec.penalty if _each_row(spec.penalty) else None
        prior = spec.prior if _each_row(spec.prior) else None
        if penalty is None and prior is None:
            return None

        def cut(values: Any, block: int) -> Any:
            return None if values is None else values[layout.starts[block] : layout.starts[block + 1]]

        parts = [(block, SidePart(cut(penalty, block), cut(prior, block))) for block in range(layout.blocks)]
        return kept(keyed(self.cells.context.parallelize(parts, layout.blocks), layout.partitions))


def tree_sum(summaries: Any, count: int) -> Summary:
    """The sum of (number, Summary) pairs, up a tree and always in the same order, so that its bits do not depend on
    which partition was ready first."""
    while count > _FAN:
        count = -(-count // _FAN)
        summaries = summaries.map(lambda item: (item[0] // _FAN, item)).groupByKey(count).mapValues(_in_order)
    return _in_order(summaries.collect())


def _in_order(items: Any) -> Summary:
    total = Summary()
    for _, summary in sorted(items, key=lambda item: item[0]):
        total += summary
    return total


def _each_row(values: Any) -> bool:
    return isinstance(values, np.ndarray) and len(values) > 1


def _one_row(spec: Side, number: int) -> Side:
    def pick(values: Any) -> Any:
        return values[number : number + 1] if _each_row(values) else values

    return replace(spec, penalty=pick(spec.penalty), prior=pick(spec.prior))
