"""The one loop: half-step after half-step until the true objective stops falling."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from tqdm.auto import tqdm

from halfstep.core.problem import Problem

Record = dict[str, float]
Callback = Callable[[Record], Any]
"""Called after every sweep with its record; a true answer stops the loop."""


class Session(Protocol):
    """A factorisation under way, wherever it runs. `LocalSession` says what the methods mean."""

    problem: Problem
    past: Sequence[Record]
    """Sweeps made so far: those before the session was opened, where a fit is resumed, then what the loop records."""
    callbacks: Sequence[Callback]
    """What the session itself does after a sweep, such as a checkpoint."""

    def half_step(self, side: int, evaluate: bool = False) -> dict[str, float]: ...
    def penalty(self, side: int) -> float:
        """What the penalty of a side costs, once the side has been solved."""

    def overlap(self) -> float: ...


@dataclass
class Outcome:
    """What the loop did: `history` has one record for each sweep, `objective` is the last value."""

    history: list[Record] = field(default_factory=list)
    objective: float = math.inf
    converged: bool = False
    interrupted: bool = False


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
) -> Outcome:
    """Sweep over the sides in `order` until the objective falls by less than `tol` of itself, or a bound is reached.

    last : a side that is solved once more at the end if the order does not end with it, so that its rows are optimal.
    max_seconds : no sweep is begun after that many seconds.
    measured : the record of a sweep from the sums of its last half-step, `objective` in it; None is `measure`.
    keep_on_interrupt : Ctrl-C ends the loop after the last finished half-step instead of raising.
    """
    measured = measured or partial(measure, session)
    past = list(session.past)
    outcome = Outcome(past, past[-1]["objective"] if past else math.inf, settled(past, tol))
    session.past = outcome.history
    begun = time.perf_counter() - (past[-1]["seconds"] if past else 0.0)
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
                for side in order[:-1]:
                    session.half_step(side)
                sums = session.half_step(order[-1], evaluate=True)
                record = measured(sums) | {"iteration": iteration + 1, "seconds": time.perf_counter() - begun}
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
        except KeyboardInterrupt:
            if not keep_on_interrupt or not outcome.history:
                raise
            outcome.interrupted = True
    if last is not None and last != order[-1] and outcome.history:
        sums = session.half_step(last, evaluate=True)
        record = outcome.history[-1]
        record |= measured(sums) | {"seconds": time.perf_counter() - begun}
        outcome.objective = record["objective"]
    return outcome


def settled(history: Sequence[Record], tol: float) -> bool:
    """Whether the last sweep changed the objective by no more than `tol` of itself."""
    if len(history) < 2:
        return False
    before, now = history[-2]["objective"], history[-1]["objective"]
    return abs(before - now) <= tol * abs(now)


def measure(session: Session, sums: dict[str, float]) -> Record:
    """The true objective and its parts from the sums of the half-step just made. No unobserved cell is touched.

    data = sum_obs w phi(z; t)      background = w0 (<U'U, V'V> - sum_obs z^2)      rmse over observed cells

    With a background, `rmse_all` is over all cells, the target of an unobserved one being 0.
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
        "repaired": sums["repaired"],
    }
