"""The guard of the loop: a sweep whose numbers cannot be trusted is made again in float64, or refused with the cause.

Knows sums of half-steps and records of sweeps, not where they were made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from halfstep.core.problem import Problem
from halfstep.errors import RowError, warn_of_convergence

Record = dict[str, float]
TOLD = 1e-4
"""Of the objective: by how much what is printed may differ from what a dense computation gives."""
DOUBLED = 1.0
RISE = 1e-5
"""Of the objective: how much higher a sweep may leave it; rows are solved to rounding, not beyond it."""


class Guarded(Protocol):
    """What the guard asks of a session."""

    problem: Problem

    @property
    def epsilon(self) -> float:
        """The rounding of its numbers; 0 where it has no wider ones to go on with."""

    def overlap(self) -> float: ...
    def begin(self, side: int) -> None:
        """A sweep begins, which reads the rows of `side` before it solves them: `widen` may have to come back here."""

    def widen(self) -> bool:
        """Back to where the sweep began, in float64 from now on. False where that is not possible, or is so already."""


def guarded(
    session: Guarded, first: int, before: float, sweep: Callable[[], tuple[dict[str, float], Record]]
) -> Record:
    """The record of a sweep, which ends on an objective of at most `before`.

    first : the side whose rows the sweep reads first. sweep : makes it; the sums of its last half-step, and its record.
    """
    session.begin(first)
    sums, record = sweep()
    if _doubtful(session, sums, record, before) and session.widen():
        sums, record = sweep()
    now = record["objective"]
    if not math.isfinite(now) or _rose(now, before, sums, DOUBLED):
        raise RowError(
            f"the objective rose from {before:.6g} to {now:.6g} in one sweep, so rounding has taken over: the penalty "
            "is too small for the data in these numbers. Raise `reg`, lower the rank or the background, or pass "
            "dtype='float64'."
        )
    if not session.epsilon and _rose(now, before, sums, TOLD):
        warn_of_convergence(
            f"rounding has raised the objective from {before:.6g} to {now:.6g} in one sweep, in the widest numbers "
            "there are: weights and penalties are too many orders apart. Raise `reg`, or look for huge weights.",
        )
    return record


def rounding(session: Guarded, sums: dict[str, float], record: Record) -> float:
    """How much of the objective rounding may have made up, at the scale of the record.

    w0 (<U'U, V'V> - sum_obs z^2) is a difference of two sums that may be far larger; every score is rounded.
    """
    w0 = session.problem.background
    lost = 8 * w0 * session.epsilon * session.overlap() if w0 > 0 else 0.0
    scale = record["data"] / sums["data"] if sums["data"] else 1.0
    return scale * (lost + sums["shaken"])


def _doubtful(session: Guarded, sums: dict[str, float], record: Record, before: float) -> bool:
    """Whether rounding hides what the objective is, or has raised it."""
    if not session.epsilon:
        return False
    now, lost = record["objective"], rounding(session, sums, record)
    return not lost <= TOLD / 2 * abs(now) or not now <= before + RISE * abs(before)


def _rose(now: float, before: float, sums: dict[str, float], share: float) -> bool:
    """Whether it rose by this share, and not by the rounding of an objective that is nothing."""
    rise = now - before
    return math.isfinite(before) and rise > share * abs(before) and rise > 1e-9 * (sums["scores"] + sums["squares"])
