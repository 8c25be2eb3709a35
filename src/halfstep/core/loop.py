"""The one loop: half-step after half-step until the true objective stops falling."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from halfstep.core.guard import TOLD, Guarded, guarded
from halfstep.errors import warn_of_convergence

Record = dict[str, float]
Callback = Callable[[Record], Any]
"""Called after every sweep with its record; a true answer stops the loop."""


class Session(Guarded, Protocol):
    """A factorisation under way, wherever it runs. `LocalSession` says what the methods mean."""

    past: Sequence[Record]
    """Sweeps made so far: those before the session was opened, where a fit is resumed, then what the loop records."""
    callbacks: Sequence[Callback]
    """What the session itself does after a sweep, such as a checkpoint."""

    reached: float | None
    """The objective where the last sweep ended; None where sweeps are not extrapolated."""

    @property
    def stalled(self) -> Sequence[int]:
        """Of each side, the first row that its last half-step left short of the tolerance; -1 for none."""

    def half_step(self, side: int, evaluate: bool = False) -> dict[str, float]: ...
    def penalty(self, side: int) -> float:
        """What the penalty of a side costs, once the side has been solved."""

    def leap(self, side: int) -> bool:
        """Between two sweeps that end with `side`: rows go on to where these point. False where they stay."""

    def retreat(self) -> None:
        """Back from there to where the last sweep ended."""

    def finish(self) -> None:
        """No sweep follows: rows that are still solved are solved to the end."""

    def rounded(self) -> dict[str, float] | None:
        """The sums over cells of rows as they will be kept; None where they have not been rounded for that."""


@dataclass
class Outcome:
    """What the loop did: `history` has one record for each sweep, `objective` is the last value.

    ended : nothing is left to do; False while sweeps go on, and where Ctrl-C cut them short.
    """

    history: list[Record] = field(default_factory=list)
    objective: float = math.inf
    converged: bool = False
    interrupted: bool = False
    ended: bool = False


class LoopFile(Protocol):
    """Where a loop keeps itself, so that one that was lost goes on where it was."""

    def taken_up(self) -> Outcome | None:
        """What was kept, put back where it came from; None where nothing was."""

    def keep(self, outcome: Outcome) -> None:
        """Called after every sweep, and at the end."""


def timeless(history: Sequence[Record]) -> list[Record]:
    """Records as a file keeps them: without seconds, so that equal fits write equal bytes."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in history]


def alternate(
    session: Session,
    *,
    order: Sequence[int] = (0, 1),
    max_iter: int = 15,
    tol: float = 1e-4,
    last: int | None = None,
    max_seconds: float | None = None,
    callbacks: Sequence[Callback] = (),
    measured: Callable[[dict[str, float]], Record] | None = None,
    verbose: int | bool = False,
    keep_on_interrupt: bool = False,
    label: str = "fit",
    file: LoopFile | None = None,
    first: Callable[[], None] | None = None,
) -> Outcome:
    """Sweep over the sides in `order` until the objective falls by less than `tol` of itself, or a bound is reached.

    last : a side that is solved once more at the end if the order does not end with it, so that its rows are optimal.
    max_seconds : no sweep is begun after that many seconds.
    measured : the record of a sweep from the sums of its last half-step, `objective` in it; None is `measure`.
    keep_on_interrupt : Ctrl-C ends the loop after the last finished half-step instead of raising.
    file : where the loop keeps itself; it goes on from what is there.
    first : called before the first sweep of all, so not where a loop goes on.
    """
    measured = measured or partial(measure, session)
    kept_before = None if file is None else file.taken_up()
    if kept_before is not None:
        if kept_before.ended:
            return kept_before
        session.past = kept_before.history
    past = list(session.past)
    outcome = Outcome(past, past[-1]["objective"] if past else math.inf, settled(past, tol))
    session.past = outcome.history
    begun = time.perf_counter() - (past[-1]["seconds"] if past else 0.0)
    if first is not None and not past:
        first()
    from tqdm.auto import tqdm  # brings asyncio along

    bar = tqdm(
        total=max_iter,
        initial=len(past),
        desc=label,
        unit="sweep",
        delay=0 if verbose else 2,
        disable=None,
        leave=bool(verbose),
    )
    with bar:
        try:
            for iteration in range(len(past), 0 if outcome.converged else max_iter):
                record = guarded(session, order[-1], outcome.objective, partial(_sweep, session, order, measured))
                record |= {"iteration": iteration + 1, "seconds": time.perf_counter() - begun}
                outcome.history.append(record)
                outcome.objective = record["objective"]
                bar.update()
                bar.set_postfix_str(f"objective {record['objective']:.6g}")
                if verbose > 1:
                    tqdm.write(
                        f"{label} {iteration + 1}: objective {record['objective']:.8g}, rmse {record['rmse']:.4g}"
                    )
                outcome.converged = settled(outcome.history, tol)
                stop = any([callback(record) for callback in (*session.callbacks, *callbacks)])
                late = max_seconds is not None and record["seconds"] >= max_seconds
                if outcome.converged or stop or late:
                    break
                if file is not None and iteration + 1 < max_iter:
                    file.keep(outcome)
        except KeyboardInterrupt:
            if not keep_on_interrupt or not outcome.history:
                raise
            outcome.interrupted = True
    session.finish()
    if last is not None and outcome.history and (last != order[-1] or outcome.history[-1].get("coarse")):
        record = guarded(session, 1 - last, outcome.objective, partial(_sweep, session, (last,), measured))
        outcome.history[-1] |= record | {"seconds": time.perf_counter() - begun}
        outcome.objective = record["objective"]
    _tell_stalled(session, outcome)
    kept = session.rounded()
    if kept is not None:
        _tell_rounded(outcome, measured(kept))
    outcome.ended = not outcome.interrupted
    if file is not None and outcome.ended:
        file.keep(outcome)
    return outcome


def _sweep(
    session: Session, order: Sequence[int], measured: Callable[[dict[str, float]], Record]
) -> tuple[dict[str, float], Record]:
    """The sides in their order; the sums of the last half-step and their record."""
    leapt, sides = len(order) > 1 and bool(session.past) and session.leap(order[-1]), order
    if leapt:
        leapt, sides = _landed(session, order[0]), order[1:]
    for side in sides[:-1]:
        session.half_step(side)
    sums = session.half_step(order[-1], evaluate=True)
    if session.reached is None or len(order) == 1:
        return sums, measured(sums)
    session.reached = measure(session, sums)["objective"]
    return sums, measured(sums) | {"leapt": float(leapt)}


def _landed(session: Session, side: int) -> bool:
    """Solve `side` where rows have been moved to. False: that left the objective higher than the last sweep did, so the
    side was solved where that sweep ended."""
    landed = False
    try:
        value = measure(session, session.half_step(side, evaluate=True))["objective"]
        landed = session.reached is not None and value <= session.reached
    finally:  # also where Ctrl-C came before the answer
        if not landed:
            session.retreat()
            session.half_step(side)
    return landed


def _tell_stalled(session: Session, outcome: Outcome) -> None:
    """Warn of a row that the last sweep could not solve, not even from nothing."""
    for side, row in enumerate(session.stalled):
        if row >= 0:
            warn_of_convergence(
                f"row {row} of side {side} was left above the optimum of its problem by more than its tolerance "
                f"(largest gap {outcome.history[-1]['gap']:.2g}): it starts and ends in numbers too far apart. Raise "
                "its penalty, look for huge weights or targets in that row, or pass dtype='float64'.",
            )


def _tell_rounded(outcome: Outcome, kept: Record) -> None:
    """The objective is that of the rows which are kept; warn where it is not the one that was reached."""
    reached = outcome.objective
    same = {name: value for name, value in kept.items() if name not in ("change", "gap", "steps", "repaired", "coarse")}
    outcome.history[-1] |= same
    outcome.objective = kept["objective"]
    if not abs(kept["objective"] - reached) <= max(TOLD * abs(reached), sys.float_info.min):
        warn_of_convergence(
            f"the fit needed float64 and reached an objective of {reached:.6g}; its rows in float32 have "
            f"{kept['objective']:.6g}. Pass dtype='float64' to keep what was reached.",
        )


def settled(history: Sequence[Record], tol: float) -> bool:
    """Whether the last sweep changed the objective by no more than `tol` of itself, all rows solved to the end."""
    if len(history) < 2 or history[-1].get("coarse"):
        return False
    before, now = history[-2]["objective"], history[-1]["objective"]
    return abs(before - now) <= tol * abs(now)


def measure(session: Session, sums: dict[str, float]) -> Record:
    """The true objective and its parts from the sums of the half-step just made. No unobserved cell is touched.

    data = sum_obs w phi(z; t)      background = w0 (<U'AU, V'CV> - sum_obs a c z^2)      rmse over observed cells

    With a background, `rmse_all` is over all cells, the target of an unobserved one being 0, each weighed
    by its factors a c.
    """
    problem = session.problem
    w0 = problem.background
    unobserved = max(session.overlap() - sums["scores"], 0.0) if w0 > 0 else 0.0
    penalty = session.penalty(0) + session.penalty(1)
    cells = max(len(problem.observations), 1)
    return {
        "objective": sums["data"] + w0 * unobserved + penalty,
        "data": sums["data"],
        "background": w0 * unobserved,
        "penalty": penalty,
        "rmse": math.sqrt(sums["squares"] / cells),
        **(
            {"rmse_all": math.sqrt((sums["squares"] + unobserved) / math.prod(problem.observations.shape))}
            if w0 > 0
            else {}
        ),
        "change": math.sqrt(sums["change"] / max(sums["size"], 1e-300)),
        "gap": sums["gap"],
        "steps": sums["steps"],
        "coarse": sums["coarse"],
        "repaired": sums["repaired"],
    }
