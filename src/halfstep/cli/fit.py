"""`halfstep fit`: a model from a table, with Ctrl-C keeping the last finished sweep."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from halfstep.cli.console import (
    INTERRUPTED,
    JsonFlag,
    console,
    emit_document,
    guarded,
    pairs,
    say,
    stop_on_interrupt,
)
from halfstep.cli.sources import Data, Duplicates, ItemColumn, OnetKind, UserColumn, WeightColumn, read_interactions

app = typer.Typer(no_args_is_help=True, help="Fit a model to a table and save it.")

SavedTo = Annotated[Path, typer.Option("--output", "-o", help="Where the model is written.")]
Rank = Annotated[int, typer.Option(help="Length of the factors.", min=1)]
Background = Annotated[float, typer.Option(help="Weight of every unobserved cell.", min=0)]
Reg = Annotated[float, typer.Option(help="Strength of the penalty.", min=0)]
RegScaling = Annotated[str, typer.Option(help="How the penalty grows with counts: constant, count or a number.")]
Loss = Annotated[str, typer.Option(help="Loss of an observed cell, such as squared or logistic.")]
Sweeps = Annotated[int, typer.Option("--max-iter", help="At most so many sweeps.", min=1)]
Tolerance = Annotated[
    float, typer.Option(help="Stop when the objective falls by less than this part of itself.", min=0)
]
Threads = Annotated[int | None, typer.Option(help="Threads; all cores when left out.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed; the same seed gives the same bits.")]
Seconds = Annotated[float | None, typer.Option(help="No sweep is begun after that many seconds.", min=0)]


@app.command("wals")
@guarded
def fit_wals(
    data: Data,
    output: SavedTo = Path("model.safetensors"),
    user: UserColumn = None,
    item: ItemColumn = None,
    weight: WeightColumn = None,
    duplicates: Duplicates = "sum",
    kind: OnetKind = "activities",
    rank: Rank = 64,
    background: Background = 0.05,
    reg: Reg = 0.003,
    reg_scaling: RegScaling = "1.0",
    loss: Loss = "squared",
    max_iter: Sweeps = 15,
    tol: Tolerance = 1e-4,
    threads: Threads = None,
    max_seconds: Seconds = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Recommendations from who has what: weighted alternating least squares.

    Examples:

      halfstep fit wals sample -o skills.safetensors --rank 16

      halfstep fit wals clicks.parquet --user user_id --item item_id --weight clicks -o clicks.safetensors
    """
    from halfstep.wals import WALS

    check_writable(output)
    interactions = read_interactions(data, user, item, weight, duplicates, kind)
    model = WALS(
        rank,
        background,
        reg,
        scaling(reg_scaling),
        loss=loss,
        max_iter=max_iter,
        tol=tol,
        n_threads=threads,
        max_seconds=max_seconds,
        random_state=seed,
    )
    run_fit(model, lambda: model.fit(interactions), output, as_json)


def scaling(text: str) -> str | float:
    """A number where the text is one."""
    try:
        return float(text)
    except ValueError:
        return text


def check_writable(path: Path) -> None:
    """Fail before the work, not after it."""
    from halfstep.persistence import atomic_write

    try:
        with atomic_write(path):
            raise _Rehearsed
    except _Rehearsed:
        pass


class _Rehearsed(Exception):
    """Leaves `atomic_write` before anything is renamed."""


def run_fit(model: Any, fit: Any, output: Path, as_json: bool) -> None:
    """Fit with a bar, save, and say what came out. After Ctrl-C the last finished sweep is offered."""
    bar = console(stderr=True).is_terminal and not as_json
    begun = time.perf_counter()
    with stop_on_interrupt() as stop:
        model.set_params(verbose=int(bar), callbacks=[stop])
        fit()
    seconds = time.perf_counter() - begun
    model.set_params(verbose=0, callbacks=())
    if stop.asked and not _keep(model, output):
        raise typer.Exit(INTERRUPTED)
    model.save(output)
    last = model.history_[-1]
    facts = {
        "model": type(model).__name__,
        "file": str(output),
        "sweeps": model.n_iter_,
        "converged": bool(model.converged_),
        "interrupted": stop.asked,
        "objective": last["objective"],
        "seconds": round(seconds, 3),
    }
    emit_document(facts, lambda: pairs(facts), as_json=as_json, output=None)
    if not (model.converged_ or stop.asked):
        say(f"The objective was still falling after {model.n_iter_} sweeps; --max-iter allows more.")
    if stop.asked:
        raise typer.Exit(INTERRUPTED)


def _keep(model: Any, output: Path) -> bool:
    """Whether to write the model of an interrupted fit: asked at a terminal, yes otherwise."""
    sweep = f"sweep {model.n_iter_} of {model.max_iter}"
    if console(stderr=True).is_terminal and typer.get_text_stream("stdin").isatty():
        return typer.confirm(f"Keep the model after {sweep} as {output}?", default=True, err=True)
    say(f"interrupted: the model after {sweep} is kept as {escape(str(output))}")
    return True
