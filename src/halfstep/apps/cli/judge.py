"""`evaluate`, `tune` and `bench`: how good and how fast. Knows what those modules return."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from halfstep.apps.cli import fit, judge_ratings, sources
from halfstep.apps.cli.running import check_writable
from halfstep.apps.console import (
    INTERRUPTED,
    JsonFlag,
    OutputFile,
    bar,
    console,
    emit,
    emit_document,
    guarded,
    listed,
    say,
    stop_on_interrupt,
    table,
    working,
)

Protocol = Annotated[
    str | None,
    typer.Option(help="strong_generalisation, leave_k_out or time_split; of ratings random, per_user or by_time."),
]
LeaveOut = Annotated[int, typer.Option("--leave-out", help="Cells held out of every row, for leave_k_out.", min=1)]


@guarded
def evaluate(
    context: typer.Context,
    data: sources.Data,
    model: Annotated[
        list[Path] | None,
        typer.Option("--model", "-m", help="Take the parameters of this saved model (it is fitted anew); repeatable."),
    ] = None,
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    weight: sources.WeightColumn = None,
    duplicates: sources.Duplicates = "sum",
    kind: sources.OnetKind = "activities",
    protocol: Protocol = None,
    leave_out: LeaveOut = 5,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Metrics, separated by commas: ndcg, map, coverage, ...; of ratings rmse, mae, log_loss, ..."
        ),
    ] = None,
    splits: Annotated[int, typer.Option(help="So many splits, put together.", min=1)] = 1,
    k: Annotated[int, typer.Option("-k", help="How many of the best items are judged.", min=1)] = 10,
    rank: fit.Rank = 64,
    background: fit.Background = 0.05,
    reg: fit.Reg = 0.01,
    reg_scaling: fit.RegScaling = "1.0",
    ratings: judge_ratings.AsRatings = False,
    rating: sources.RatingColumn = None,
    time: judge_ratings.TimeColumn = None,
    estimators: judge_ratings.Estimators = None,
    loss: judge_ratings.OfLoss = None,
    share: judge_ratings.Share = None,
    threads: fit.Threads = None,
    seed: fit.Seed = 0,
    as_json: JsonFlag = False,
    output: OutputFile = None,
) -> None:
    """Held-out rankings beside popularity and item-KNN, or predicted ratings beside constant and biases.

    Intervals are over users.

    Models are fitted on the training part only, so a saved model lends its parameters, not its factors.

    Examples:

      halfstep evaluate sample --rank 16 --protocol leave_k_out

      halfstep evaluate clicks.parquet -m a.safetensors -m b.safetensors --json

      halfstep evaluate ratings.csv --ratings --metrics rmse,mae,coverage@0.9 --splits 5
    """
    from halfstep.judge import evaluate as judge
    from halfstep.models.wals import WALS

    asked = listed(metrics) or None
    if ratings:
        fit.refuse_given(context, judge_ratings.OnlyRankings, "--ratings judges predictions, not rankings;")
        judged = judge_ratings.models(model, estimators, loss, threads, seed)
        table_of = judge_ratings.read(data, user, item, rating, time)
        more = judge_ratings.options(share)
        with working("fitting and predicting"):
            result = judge(judged, table_of, protocol, asked, n_splits=splits, protocol_options=more, random_state=seed)
        emit_document(result.to_dict(), lambda: show_result(result), as_json=as_json, output=output)
        return
    fit.refuse_given(context, judge_ratings.OnlyRatings, "rankings are judged; for predictions add --ratings;")
    interactions = sources.read_interactions(data, user, item, weight, duplicates, kind)
    models: dict[str, Any] = {path.stem: sources.load_model(path, "WALS") for path in model or []}
    for each in models.values():
        each.set_params(n_threads=threads)
    if not models:
        own = WALS(rank, background, reg, fit.scaling(reg_scaling), n_threads=threads, random_state=seed)
        models = {"WALS": own}
    options = {"k": leave_out} if protocol == "leave_k_out" else {}
    with working("fitting and ranking"):
        result = judge(
            models, interactions, protocol, asked, k, protocol_options=options, n_splits=splits, random_state=seed
        )
    emit_document(result.to_dict(), lambda: show_result(result), as_json=as_json, output=output)


def show_result(result: Any) -> None:
    """A result as a table, with the verdict of the paired test under it."""
    out = console()
    out.print(table(result.records()))
    out.print(escape(result.caption), style="dim")


@guarded
def bench(
    users: Annotated[int, typer.Option(help="Users of the generated problem.", min=2)] = 20_000,
    items: Annotated[int, typer.Option(help="Items.", min=2)] = 10_000,
    cells: Annotated[int, typer.Option(help="Observed cells.", min=1)] = 1_000_000,
    rank: fit.Rank = 64,
    sweeps: Annotated[int, typer.Option(help="Sweeps to time.", min=1)] = 3,
    threads: fit.Threads = None,
    as_json: JsonFlag = False,
    output: OutputFile = None,
) -> None:
    """How fast this machine is: sweeps, fold-in and recommendations on a generated problem.

    Example:

      halfstep bench --cells 200000 --rank 32 --threads 1
    """
    from halfstep.config import config
    from halfstep.data.datasets import make_implicit
    from halfstep.engine.local import thread_count
    from halfstep.models.wals import WALS

    with working("generating"):
        matrix = make_implicit(users, items, cells)
    model = WALS(rank, max_iter=sweeps, tol=0, n_threads=threads, random_state=0)
    some = matrix[: min(users, 2000)]
    timings: list[dict[str, Any]] = []

    def timed(what: str, work: Any, count: int, unit: str) -> None:
        with working(what):
            begun = time.perf_counter()
            work()
            seconds = time.perf_counter() - begun
        timings.append({"what": what, "seconds": seconds, "rate": count / seconds, "unit": unit})

    timed("fit", lambda: model.fit(matrix), cells * sweeps, "cells/s and sweep")
    timed("fold-in", lambda: model.transform(some), some.shape[0], "users/s")
    timed("recommend, in one call", lambda: model.recommend(range(some.shape[0]), 10), some.shape[0], "users/s")
    timed("recommend, one by one", lambda: [model.recommend(u, 10) for u in range(200)], min(users, 200), "users/s")
    say(f"{users:,} x {items:,}, {cells:,} cells, rank {rank}, {thread_count(threads)} threads, {config()['cpu path']}")
    emit(timings, as_json=as_json, output=output)


@guarded
def tune(
    context: typer.Context,
    data: sources.Data,
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    weight: sources.WeightColumn = None,
    duplicates: sources.Duplicates = "sum",
    kind: sources.OnetKind = "activities",
    metric: Annotated[
        str | None, typer.Option(help="What is searched for; ndcg@10, and for ratings what goes with the loss.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Settings to try.", min=1)] = 40,
    timeout: Annotated[float | None, typer.Option(help="Begin no trial after that many seconds.", min=0)] = None,
    study: Annotated[Path | None, typer.Option(help="SQLite file to keep the study in; run again to go on.")] = None,
    protocol: Protocol = None,
    leave_out: LeaveOut = 5,
    ratings: judge_ratings.AsRatings = False,
    rating: sources.RatingColumn = None,
    time: judge_ratings.TimeColumn = None,
    estimators: judge_ratings.Estimators = None,
    loss: judge_ratings.OfLoss = None,
    share: judge_ratings.Share = None,
    save: Annotated[Path | None, typer.Option(help="Fit the best setting on all data and write it here.")] = None,
    threads: fit.Threads = None,
    seed: fit.Seed = 0,
    as_json: JsonFlag = False,
    output: OutputFile = None,
) -> None:
    """Search for the best held-out ranking, or for the best predictions of ratings; judged on cells no trial has seen.

    Needs the extra `tune`. --trials counts those of earlier runs with the same --study.

    Example:

      halfstep tune clicks.parquet --trials 60 --study clicks.db --save best.safetensors

      halfstep tune ratings.csv --ratings --estimators plq --loss absolute --trials 30
    """
    from halfstep.apps.tune import tune as search

    if save is not None:
        check_writable(save)
    searched: Any = None
    if ratings:
        fit.refuse_given(context, judge_ratings.OnlyRankings, "--ratings tunes predictions, not rankings;")
        found = judge_ratings.models(None, estimators or "plq", loss, threads, seed)
        if len(found) > 1:
            raise ValueError(f"--estimators {estimators}: one model is tuned at a time; name one of them")
        searched = next(iter(found.values()))
        interactions: Any = judge_ratings.read(data, user, item, rating, time)
    else:
        fit.refuse_given(context, judge_ratings.OnlyRatings, "rankings are tuned; for predictions add --ratings;")
        interactions = sources.read_interactions(data, user, item, weight, duplicates, kind)
    options = {"k": leave_out} if protocol == "leave_k_out" else judge_ratings.options(share)
    with stop_on_interrupt("trial") as stop, bar("tuning", trials) as advance:

        def on_trial(done: int, best: float) -> bool:
            advance(done, f"best {best:.4f}")
            return stop.asked

        tuning = search(
            interactions,
            searched,
            metric=metric,
            n_trials=trials,
            timeout=timeout,
            protocol=protocol,
            protocol_options=options,
            storage=study,
            n_threads=threads,
            random_state=seed,
            on_trial=on_trial,
        )

    def show() -> None:
        out = console()
        out.print(table(tuning.ranked(8), f"Best of {len(tuning.trials)} trials by {tuning.metric}"))
        out.print(table(tuning.front(), "\nFront: nothing better in less time"))
        out.print(table([{"parameter": p, "importance": v} for p, v in tuning.importance().items()], "\nImportance"))
        out.print("\n[bold]On cells no trial has seen[/]")
        show_result(tuning.test)

    emit_document(tuning.to_dict(), show, as_json=as_json, output=output)
    if save is not None:
        with working("fitting the best setting on all data"):
            best = tuning.best_model()
            best = best.fit(interactions.pairs, interactions.y) if ratings else best.fit(interactions)
            best.save(save)
        say(f"model written to {escape(str(save))}")
    if stop.asked:
        raise typer.Exit(INTERRUPTED)
