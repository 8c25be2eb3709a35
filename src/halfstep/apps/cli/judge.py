"""`evaluate` and `bench`: how good and how fast. Knows what those modules return."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from halfstep.apps.cli import completion, judge_ensembles, judge_ratings, options
from halfstep.apps.cli.asking import by_name, family_in
from halfstep.apps.cli.features import FeatureFiles
from halfstep.apps.cli.fit_ensemble import AboutLabels
from halfstep.apps.cli.judge_ratings import AboutRatings
from halfstep.apps.cli.options import Answer, command, given, refuse_given
from halfstep.apps.cli.sources import PairTable
from halfstep.apps.console import console, listed, say, working
from halfstep.apps.console import table as table_of
from halfstep.apps.written import Records

PROTOCOLS = (
    *("strong_generalisation", "leave_k_out", "time_split", "few", "cold_users", "cold_items"),
    *("random", "per_user", "by_time"),
)
Protocol = Annotated[
    str | None,
    typer.Option(
        help="strong_generalisation, leave_k_out, time_split, few, cold_users or cold_items; of ratings random, "
        "per_user or by_time.",
        autocompletion=completion.words(*PROTOCOLS),
    ),
]
Given = Annotated[int, typer.Option("--given", help="Cells shown of every new user, for few.", min=1)]
LeaveOut = Annotated[int, typer.Option("--leave-out", help="Cells held out of every row, for leave_k_out.", min=1)]
SavedModels = Annotated[
    list[Path] | None,
    typer.Option(
        "--model",
        "-m",
        help="Take the parameters of this saved model (it is fitted anew); repeatable.",
        autocompletion=completion.files,
    ),
]


@command
def evaluate(
    context: typer.Context,
    table: PairTable,
    answer: Answer,
    features: FeatureFiles,
    ratings: AboutRatings,
    instances: AboutLabels,
    model: SavedModels = None,
    protocol: Protocol = None,
    leave_out: LeaveOut = 5,
    shown: Given = 3,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Metrics, separated by commas: ndcg, map, coverage, ...; of ratings rmse, mae, log_loss, ...",
            autocompletion=completion.many(completion.metrics),
        ),
    ] = None,
    splits: Annotated[int, typer.Option(help="So many splits, put together.", min=1)] = 1,
    k: Annotated[int, typer.Option("-k", help="How many of the best items are judged.", min=1)] = 10,
    rank: options.OwnRank = None,
    background: options.Background = None,
    reg: options.OwnReg = None,
    reg_scaling: options.RegScaling = None,
    threads: options.Threads = None,
    seed: options.Seed = 0,
) -> None:
    """Held-out rankings beside popularity and item-KNN, predicted ratings beside constant and biases, or fused
    probabilities beside the mean and stacking. The saved models, or --ratings, say which.

    Intervals are over users, or over labelled instances.

    Models are fitted on the training part only, so a saved model lends its parameters, not its factors.

    Examples:

      halfstep evaluate sample --rank 16 --protocol leave_k_out

      halfstep evaluate clicks.parquet -m a.safetensors -m b.safetensors --json

      halfstep evaluate ratings.csv --ratings --metrics rmse,mae,coverage@0.9 --splits 5

      halfstep evaluate clicks.csv --protocol cold_items --item-features films.csv --lists genres --text title

      halfstep evaluate predictions.csv -m fused.safetensors --labels labels.csv
    """
    from halfstep.judge import evaluate as judge
    from halfstep.models.wals import WALS

    answer.check()
    asked = listed(metrics) or None
    family = one_family(model, ratings.ratings)
    if family == "ensemble":
        judge_ensembles.refuse_others(context)
        wide = instances.read(table.data, table.encoding)
        judge_ensembles.judged(model or [], wide, instances.positive, asked, splits, threads, seed, answer)
        return
    judge_ensembles.refuse_own(context)
    result: Any
    if family == "ratings":
        refuse_given(context, judge_ratings.OnlyRankings, "--ratings judges predictions, not rankings;")
        judged, data, part = ratings.models(model, threads, seed), ratings.read(table), ratings.split
        with working("fitting and predicting"):
            result = judge(judged, data, protocol, asked, n_splits=splits, protocol_options=part, random_state=seed)
    else:
        refuse_given(context, judge_ratings.OnlyRatings, "rankings are judged; for predictions add --ratings;")
        interactions = table.read()
        models: dict[str, Any] = by_name(model or [], ("Popularity", "ItemKNN"))
        for each in models.values():
            if "n_threads" in each.get_params():
                each.set_params(n_threads=threads)
        if not models:
            how = given(reg_scaling=options.scaling(reg_scaling))
            models = {"WALS": WALS(rank, background, reg, **how, n_threads=threads, random_state=seed)}
        more = {"leave_k_out": {"k": leave_out}, "few": {"given": shown}}.get(protocol or "", {})
        known: dict[str, Any] = dict(features.read())
        with working("fitting and ranking"):
            result = judge(
                models,
                interactions,
                protocol,
                asked,
                k,
                **known,
                protocol_options=more,
                n_splits=splits,
                random_state=seed,
            )
    answer.emit_document(result.to_dict(), result.records(), lambda: show_result(result))


def one_family(saved: list[Path] | None, ratings: bool) -> str:
    """What is judged or tuned, by the saved models; they must belong together."""
    found = {path: family_in(path) for path in saved or []}
    families = set(found.values()) | ({"ratings"} if ratings else set())
    if len(families) > 1:
        told = [f"{path} is of the family {family}" for path, family in found.items()]
        told += ["--ratings is about models of ratings"] if ratings else []
        raise ValueError(f"{'; '.join(told)}: these are judged by different tables, so ask for one family at a time")
    return families.pop() if families else "recommender"


def show_result(result: Any) -> None:
    """A result as a table, with the verdict of the paired test under it."""
    out = console()
    out.print(table_of(result.records()))
    out.print(escape(result.caption), style="dim")


@command
def bench(
    answer: Answer,
    users: Annotated[int, typer.Option(help="Users of the generated problem.", min=2)] = 20_000,
    items: Annotated[int, typer.Option(help="Items.", min=2)] = 10_000,
    cells: Annotated[int, typer.Option(help="Observed cells.", min=1)] = 1_000_000,
    rank: Annotated[int, typer.Option(help="Length of the factors.", min=1)] = 64,
    sweeps: Annotated[int, typer.Option(help="Sweeps to time.", min=1)] = 3,
    threads: options.Threads = None,
) -> None:
    """How fast this machine is: sweeps, fold-in and recommendations on a generated problem.

    Example:

      halfstep bench --cells 200000 --rank 32 --threads 1
    """
    from halfstep.config import config
    from halfstep.data.datasets import make_implicit
    from halfstep.engine.local import thread_count
    from halfstep.models.wals import WALS

    answer.check()
    with working("generating"):
        matrix = make_implicit(users, items, cells)
    model = WALS(rank, max_iter=sweeps, tol=0, n_threads=threads, random_state=0)
    some = matrix[: min(users, 2000)]
    timings: Records = []

    def timed(what: str, work: Callable[[], Any], count: int, unit: str) -> None:
        with working(what):
            begun = clock.perf_counter()
            work()
            seconds = clock.perf_counter() - begun
        timings.append({"what": what, "seconds": seconds, "rate": count / seconds, "unit": unit})

    timed("fit", lambda: model.fit(matrix), cells * sweeps, "cells/s and sweep")
    timed("fold-in", lambda: model.transform(some), some.shape[0], "users/s")
    timed("recommend, in one call", lambda: model.recommend(range(some.shape[0]), 10), some.shape[0], "users/s")
    timed("recommend, one by one", lambda: [model.recommend(u, 10) for u in range(200)], min(users, 200), "users/s")
    say(f"{users:,} x {items:,}, {cells:,} cells, rank {rank}, {thread_count(threads)} threads, {config()['cpu path']}")
    answer.emit(timings)
