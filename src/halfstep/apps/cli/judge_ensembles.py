"""`evaluate` of ensembles: how well hidden labels are told. Knows saved ensembles and their cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from halfstep.apps.cli.asking import by_name
from halfstep.apps.cli.options import Answer, refuse_given
from halfstep.apps.cli.wide import WidePredictions
from halfstep.apps.console import console, table, working

OWN = ("labels", "label", "id", "positive")
OTHERS = (
    *("user", "item", "weight", "duplicates", "kind", "protocol", "leave_out", "k", "rank", "background", "reg"),
    *("reg_scaling", "ratings", "rating", "time", "estimators", "loss", "share"),
)


def refuse_own(context: typer.Context) -> None:
    """Where no ensemble is judged, its options have no effect."""
    refuse_given(context, OWN, "no ensemble is judged;")


def refuse_others(context: typer.Context) -> None:
    """Where an ensemble is judged, options of users and items have no effect."""
    refuse_given(context, OTHERS, "an ensemble is judged by hidden labels of instances;")


def judged(
    paths: Sequence[Path],
    found: WidePredictions,
    positive: str | None,
    metrics: Sequence[str] | None,
    repeats: int,
    threads: int | None,
    seed: int,
    answer: Answer,
) -> None:
    """Judge saved ensembles on labels their fits have not seen, beside the mean, stacking and greedy selection."""
    from halfstep.judge.fusion import cross_validate

    if found.y is None:
        raise ValueError(
            "there are no labels to judge by; name a table of them with --labels, or a column with --label"
        )
    results = {}
    for name, model in by_name(paths).items():
        changes: dict[str, Any] = {"n_threads": threads}
        if positive is not None:
            changes["positive"] = found.typed(positive)
        model.set_params(**changes)
        with working(f"fitting {escape(name)}"):
            results[name] = cross_validate(
                model, found.by_name(), found.y, repeats=repeats, metrics=metrics, random_state=seed
            )
    rows = [
        {"file": name, **record}
        for name, result in results.items()
        for record in result.records()
        if record["method"] == result.model or name == next(iter(results))
    ]
    records = rows if len(results) > 1 else [{k: v for k, v in row.items() if k != "file"} for row in rows]

    def show() -> None:
        out = console()
        out.print(table(records))
        first = next(iter(results.values()))
        out.print(f"{len(first.labels):,} labels hidden by fold, {first.how}; 95% intervals over them", style="dim")

    answer.emit_document({name: result.to_dict() for name, result in results.items()}, records, show)
