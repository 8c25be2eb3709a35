"""Stopping a fit by what its rankings are worth: cells kept from it are ranked after every sweep, the best is kept.

Knows sessions of this machine and ranking metrics. The objective may still fall where rankings get worse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.core.loop import Outcome, Record
from halfstep.core.problem import Problem, Solver
from halfstep.data.frames import is_frame
from halfstep.data.sweeps import digest_of
from halfstep.data.table import CellsHere, read_table
from halfstep.engine.local import LocalSession, thread_count
from halfstep.errors import check_number, expect_sound
from halfstep.models.held_out import HeldOut, RankingMetric
from halfstep.models.recommend import top_k

Single = Callable[[Observations], Problem]
"""The problem of single rows that have some cells."""


@dataclass(frozen=True, eq=False)
class SweepJudge:
    """Users who are ranked for after a sweep, and when that ends the fit."""

    kept: HeldOut
    problem: Problem
    metric: RankingMetric
    patience: int
    n_threads: int | None

    @classmethod
    def of(
        cls,
        given: Any,
        weighed: Any,
        validation: Any,
        metric: str,
        patience: int,
        single: Single,
        seed: int,
        n_threads: int | None,
    ) -> Self:
        """given, weighed : the cells of the fit, as given and as weighed."""
        check_number("patience", patience, at_least=1, whole=True)
        judged = RankingMetric.of(metric)
        if not isinstance(given, CellsHere):
            raise ValueError("validation needs a fit on this machine; leave it out, or fit without SparkEngine.")
        kept = HeldOut.of(sp.csr_array(given.cells.to_csr()), _over(validation, given), seed)
        return cls(kept, single(weighed.cells.take(kept.rows)), judged, int(patience), n_threads)

    def digest(self) -> str:
        """Which cells judge, and how."""
        return digest_of(self.kept.rows, self.kept.seen.indices, str(self.metric), self.patience)

    def watch(self, session: Any, last: int) -> Watch:
        """last : the side that sweeps end with."""
        return Watch(self, session, last)

    def value(self, session: Any, solved: bool = False) -> float:
        """What rankings by the items of a session are worth.

        solved : whether its users are the best for these items already; else they are folded in.
        """
        own, items = session.factors
        left, right = (own[self.kept.rows], items) if solved else self._folded_in(session, items)
        places, _ = top_k(left, right, min(self.metric.depth, len(items)), self.kept.seen, self.n_threads)
        return self.kept.value(self.metric, places)

    def _folded_in(self, session: Any, items: NDArray[Any]) -> list[NDArray[Any]]:
        """Users, solved exactly, and the items, both turned alike: many short rows are cheaper then."""
        mean = session.problem.sides[0].mean
        own, other = self.problem.sides
        prior = None if mean is None else mean[self.kept.rows]
        problem = replace(self.problem, sides=(replace(own, prior=prior), other))
        start = [np.zeros((len(self.kept.rows), items.shape[1]), items.dtype), items.copy()]
        alone = LocalSession(problem, start, Solver("exact"), thread_count(self.n_threads))
        alone.half_step(0)
        return alone.factors


@dataclass(eq=False)
class Watch:
    """One run of sweeps under a judge: values so far, and the rows of the best sweep."""

    judge: SweepJudge
    session: Any
    last: int
    values: list[float] = field(default_factory=list)
    rows: list[NDArray[Any]] = field(default_factory=list)
    problem: Problem | None = None
    """As it was then, with what it has learned."""

    def measured(self, measure: Callable[[dict[str, float]], Record], sums: dict[str, float]) -> Record:
        """The record of a sweep, the metric in it."""
        iterates = self.session.solver.exactly().reads_old_rows
        solved = self.last == 0 and not sums["coarse"] and not iterates
        return measure(sums) | {str(self.judge.metric): self.judge.value(self.session, solved)}

    def stop(self, record: Record) -> bool:
        """Called after a sweep: remembers the best, and says whether the rest is not worth waiting for."""
        self.values.append(record[str(self.judge.metric)])
        best = int(np.argmax(self.values))
        if best == len(self.values) - 1:
            self.rows, self.problem = self.session.snapshot(), self.session.problem
        return len(self.values) - 1 - best >= self.judge.patience

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        learned = {} if self.problem is None else self.problem.state()
        return {"values": self.values, "users": self.rows[0], "items": self.rows[1], **learned}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
        self.values, self.rows = list(state["values"]), [np.array(state[side]) for side in ("users", "items")]
        self.problem = self.session.problem.restored(state)

    def best_sweep(self, engine: Any, solver: Solver, outcome: Outcome, measured: Callable[..., Record]) -> Any:
        """A session whose rows are those of the best sweep, users solved, and what the loop did; else as it ended."""
        if not self.rows or int(np.argmax(self.values)) == len(self.values) - 1:
            return self.session, outcome
        session = engine.open(self.problem, self.rows, solver)
        objective = measured(session, session.half_step(0, evaluate=True))["objective"]
        return session, Outcome(outcome.history, objective, outcome.converged, outcome.interrupted)


def _over(validation: Any, given: CellsHere) -> Any:
    """Validation cells as CSR over the users and items of the fit."""
    if not is_frame(validation) and not hasattr(validation, "item_ids"):
        if not sp.issparse(validation) and not isinstance(validation, np.ndarray):
            raise TypeError(f"validation is a {type(validation).__name__}; give a matrix, `Interactions` or a frame.")
        if sp.issparse(validation):
            expect_sound("validation", validation)
        cells = sp.csr_array(validation)
        if not np.isfinite(cells.data).all():
            raise ValueError("validation has NaN or infinite values; leave these cells out.")
        if cells.shape != given.cells.shape:
            raise ValueError(
                f"validation has shape {cells.shape}; X has {given.cells.shape}. Give cells over the same users and "
                "items, or a frame of ids."
            )
        return cells
    table = read_table(validation)
    found = [mine.find(index.ids) for mine, index in zip(given.ids, table.ids, strict=True)]
    cells = table.cells.to_csr().tocoo()
    rows, columns = found[0][cells.row], found[1][cells.col]
    known = (rows >= 0) & (columns >= 0)
    return sp.csr_array((cells.data[known], (rows[known], columns[known])), shape=given.cells.shape)
