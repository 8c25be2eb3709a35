"""`tune --ensemble`: which fusion of classifiers. Knows tables of predictions and what a search returns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from halfstep.apps.cli.options import Answer, given
from halfstep.apps.cli.wide import WidePredictions
from halfstep.apps.console import INTERRUPTED, bar, console, say, stop_on_interrupt, table

AsEnsemble = Annotated[bool, typer.Option("--ensemble", help="The table holds predictions, a column a classifier.")]


def tune_ensemble(
    read: WidePredictions,
    positive: str | None,
    metric: str | None,
    seconds: float | None,
    save: Path | None,
    seed: int,
    answer: Answer,
) -> None:
    """Search, show, and write the winner."""
    from halfstep.apps.tune.ensembles import candidates, find_ensemble

    if read.y is None:
        raise ValueError("there are no labels to choose by; name a table of them with --labels, or a column, --label")
    with stop_on_interrupt("candidate") as stop, bar("tuning", len(candidates(2, None, 0))) as advance:

        def on_trial(done: int, best: float) -> bool:
            advance(done, f"best {best:.4f}")
            return stop.asked

        chosen = None if positive is None else read.typed(positive)
        more: dict[str, Any] = given(seconds=seconds, metric=metric)
        found = find_ensemble(read.by_name(), read.y, positive=chosen, random_state=seed, on_trial=on_trial, **more)

    def show() -> None:
        console().print(table(found.records(), f"Hidden labels; the winner is {found.winner}"))

    answer.emit_document(found.to_dict(), found.records(), show)
    if save is not None:
        name, model = found.winner, found.model
        if not _has_file(model):
            name = next(row["model"] for row in found.records() if _has_file(found.models[row["model"]]))
            say(f"{found.winner} cannot be held by a model file; the best that can is {name}")
            model = found.models[name].fit(read.by_name(), read.y, ids=read.ids)
        model.save(save)
        say(f"{name} written to {escape(str(save))}")
    if stop.asked:
        raise typer.Exit(INTERRUPTED)


def _has_file(model: Any) -> bool:
    """Files hold no code, so neither baselines nor families with members of other kinds."""
    return hasattr(model, "save") and not getattr(model, "estimators", ())
