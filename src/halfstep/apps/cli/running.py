"""Running a fit for somebody who waits: a bar, Ctrl-C that keeps the last sweep, the file, what came out.

Knows what fitted models say of themselves. Not where their data came from.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from halfstep.apps.cli.options import Answer, JsonFlag, SavedTo
from halfstep.apps.cli.sources import check_model_path
from halfstep.apps.console import INTERRUPTED, console, pairs, say, stop_on_interrupt
from halfstep.figures.views import objective

NOTABLE = 200_000_000
"""Bytes from which somebody who waits is told."""


def check_writable(path: Path) -> None:
    """Fail before the work, not after it."""
    from halfstep.data.files import atomic_write

    try:
        with atomic_write(path):
            raise _Rehearsed
    except _Rehearsed:
        pass


class _Rehearsed(Exception):
    """Leaves `atomic_write` before anything is renamed."""


@dataclass
class Destination:
    """Where a model goes, and how that is told."""

    output: SavedTo = Path("model.safetensors")
    as_json: JsonFlag = False

    def check(self, *read: str | Path | None) -> None:
        """Fail before the work: over what is read, under the name of a table, or where nothing can be written."""
        check_model_path(self.output, *read)
        check_writable(self.output)


def tell_memory(peak: int, what: str) -> None:
    """Say how many bytes a fit needs where they are many, and refuse it where this machine has not got them."""
    installed = _installed()
    if peak > installed:
        raise MemoryError(f"{what} needs {_gigabytes(peak)}; this machine has {_gigabytes(installed)}. Ask for less")
    if peak > NOTABLE:
        say(f"{what} needs {_gigabytes(peak)}")


def _installed() -> float:
    """Bytes of memory in this machine; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"


def _nothing() -> None:
    """What is done besides saving, most of the time."""


def run_fit(
    model: Any, fit: Callable[[], Any], output: Path | None, as_json: bool, also: Callable[[], None] = _nothing
) -> None:
    """Fit with a bar, save where `output` says, do `also`, and tell what came out.

    After Ctrl-C the last finished sweep is offered, and the exit code says that it is not the whole fit.
    """
    begun = time.perf_counter()
    with stop_on_interrupt() as stop:
        model.set_params(verbose=_bar(as_json), callbacks=[stop])
        say(f"fitting, at most {model.max_iter:,} sweeps; Ctrl-C keeps the last finished one")
        fit()
    seconds = time.perf_counter() - begun
    model.set_params(verbose=0, callbacks=())
    if stop.asked and not _keep(model, output):
        raise typer.Exit(INTERRUPTED)
    _hand_over(
        model,
        output,
        {
            "sweeps": model.n_iter_,
            "converged": bool(model.converged_),
            "interrupted": stop.asked,
            "objective": objective(model.history_[-1]),
        },
        seconds,
        as_json,
        also,
    )
    if not (model.converged_ or stop.asked):
        say(f"The objective was still falling after {model.n_iter_} sweeps; --max-iter allows more.")
    if stop.asked:
        raise typer.Exit(INTERRUPTED)


def run_average(
    model: Any, fit: Callable[[], Any], output: Path | None, as_json: bool, also: Callable[[], None] = _nothing
) -> None:
    """The same for a `CFEnsembleCV`, which has members in place of sweeps. Ctrl-C ends it with nothing."""
    say("fitting a family of factorisations")
    begun = time.perf_counter()
    model.set_params(verbose=_bar(as_json))
    fit()
    seconds = time.perf_counter() - begun
    model.set_params(verbose=0)
    heaviest = model.members_[0]
    facts = {
        "members": len(model.members_),
        "heaviest": heaviest["name"],
        "its weight": heaviest["weight"],
        "out-of-fold log loss": model.log_loss_,
    }
    _hand_over(model, output, facts, seconds, as_json, also)


def run_draws(model: Any, fit: Callable[[], Any], output: Path | None, as_json: bool) -> None:
    """The same for a `BayesMF`, which draws. Ctrl-C ends it with nothing."""
    say(f"drawing, {model.n_sweeps:,} sweeps")
    begun = time.perf_counter()
    model.set_params(verbose=_bar(as_json))
    fit()
    seconds = time.perf_counter() - begun
    model.set_params(verbose=0)
    _hand_over(model, output, {"sweeps": model.n_iter_, **model.diagnostics_}, seconds, as_json, _nothing)


def run_closed(model: Any, fit: Callable[[], Any], output: Path | None, as_json: bool) -> None:
    """The same for a model in closed form: nothing sweeps, and Ctrl-C ends it with nothing."""
    begun = time.perf_counter()
    fit()
    facts = {"users": len(model.user_ids_), "items": len(model.item_ids_)}
    _hand_over(model, output, facts, time.perf_counter() - begun, as_json, _nothing)


def _hand_over(
    model: Any, output: Path | None, facts: dict[str, Any], seconds: float, as_json: bool, also: Callable[[], None]
) -> None:
    """Write the model, do `also`, and tell what came out."""
    if output is not None:
        model.save(output)
    also()
    told = {"model": type(model).__name__, "file": None if output is None else str(output), **facts}
    told["seconds"] = round(seconds, 3)
    Answer(as_json=as_json).emit_document(told, [told], lambda: pairs(told))


def _bar(as_json: bool) -> int:
    """Whether somebody sees a bar, as `verbose` takes it."""
    return int(console(stderr=True).is_terminal and not as_json)


def _keep(model: Any, output: Path | None) -> bool:
    """Whether to write the model of an interrupted fit: asked at a terminal, yes otherwise."""
    sweep = f"sweep {model.n_iter_} of {model.max_iter}"
    where = "" if output is None else f" as {output}"
    if console(stderr=True).is_terminal and typer.get_text_stream("stdin").isatty():
        return typer.confirm(f"Keep the model after {sweep}{where}?", default=True, err=True)
    say(escape(f"interrupted: the model after {sweep} is kept{where}"))
    return True
