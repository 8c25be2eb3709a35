"""`halfstep tune`: a search for parameters, or for the best kind of recommender. Knows what searches return."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from halfstep.apps.cli import completion, judge_ensembles, judge_ratings, options, tune_ensembles
from halfstep.apps.cli.asking import no_answer
from halfstep.apps.cli.fit_ensemble import AboutLabels
from halfstep.apps.cli.judge import LeaveOut, Protocol, one_family, show_result
from halfstep.apps.cli.judge_ratings import AboutRatings
from halfstep.apps.cli.options import Answer, command, refuse_given
from halfstep.apps.cli.running import check_writable
from halfstep.apps.cli.sources import PairTable, check_model_path
from halfstep.apps.console import INTERRUPTED, bar, console, say, stop_on_interrupt, working
from halfstep.apps.console import table as table_of
from halfstep.kinds import load

TUNED = ("WALS", "PLQMF", "BayesMF")
NotEnsembles = (
    *("user", "item", "weight", "duplicates", "kind", "trials", "timeout", "study", "protocol", "leave_out", "model"),
    *("ratings", *judge_ratings.OnlyRatings),
)
OnlyOneKind = ("timeout", "study", "protocol", "leave_out", "ratings", "estimators", "loss", "share", "model")


@command
def tune(
    context: typer.Context,
    table: PairTable,
    answer: Answer,
    ratings: AboutRatings,
    instances: AboutLabels,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="Tune the kind of this saved model.", autocompletion=completion.files),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="What is searched for; ndcg@10, and for ratings what goes with the loss.",
            autocompletion=completion.lazily(completion.metrics),
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Search all recommenders and their blend for about so long, in place of wals alone.", min=1),
    ] = None,
    trials: Annotated[int, typer.Option(help="Settings to try.", min=1)] = 40,
    timeout: Annotated[float | None, typer.Option(help="Begin no trial after that many seconds.", min=0)] = None,
    study: Annotated[Path | None, typer.Option(help="SQLite file to keep the study in; run again to go on.")] = None,
    protocol: Protocol = None,
    leave_out: LeaveOut = 5,
    ensemble: tune_ensembles.AsEnsemble = False,
    save: Annotated[Path | None, typer.Option(help="Fit the best setting on all data and write it here.")] = None,
    threads: options.Threads = None,
    seed: options.Seed = 0,
) -> None:
    """Search for the best held-out ranking, or for the best predictions of ratings; judged on cells no trial has seen.

    With --ensemble: for the best fusion of classifiers, judged by hidden labels.

    Needs the extra `tune`. --trials counts those of earlier runs with the same --study.

    Example:

      halfstep tune clicks.parquet --trials 60 --study clicks.db --save best.safetensors

      halfstep tune clicks.parquet --seconds 120 --save best.safetensors

      halfstep tune ratings.csv --ratings --estimators plq --loss absolute --trials 30

      halfstep tune predictions.csv --ensemble --labels labels.csv --positive sick --save best.safetensors
    """
    from halfstep.apps.tune import tune as search

    answer.check()
    if save is not None:
        check_model_path(save, table.data)
        check_writable(save)
    if ensemble:
        refuse_given(context, NotEnsembles, "--ensemble tunes a fusion of classifiers;")
        read = instances.read(table.data, table.encoding)
        tune_ensembles.tune_ensemble(read, instances.positive, metric, seconds, save, seed, answer)
        return
    refuse_given(context, judge_ensembles.OWN, "these belong to --ensemble; add it, or")
    if seconds is not None:
        refuse_given(context, OnlyOneKind, "--seconds searches all recommenders;")
        _search_kinds(context, table, answer, metric, seconds, trials, save, threads, seed)
        return
    searched: Any = _saved(model)
    family = one_family([model] if model else None, ratings.ratings)
    if family == "ratings":
        refuse_given(context, judge_ratings.OnlyRankings, "--ratings tunes predictions, not rankings;")
        searched = ratings.only_model(threads, seed) if searched is None else searched
        data: Any = ratings.read(table)
    else:
        refuse_given(context, judge_ratings.OnlyRatings, "rankings are tuned; for predictions add --ratings;")
        data = table.read()
    split = {"k": leave_out} if protocol == "leave_k_out" else ratings.split
    with stop_on_interrupt("trial") as stop, bar("tuning", trials) as advance:

        def on_trial(done: int, best: float) -> bool:
            advance(done, f"best {best:.4f}")
            return stop.asked

        tuning = search(
            data,
            searched,
            metric=metric,
            n_trials=trials,
            timeout=timeout,
            protocol=protocol,
            protocol_options=split,
            storage=study,
            n_threads=threads,
            random_state=seed,
            on_trial=on_trial,
        )

    def show() -> None:
        out = console()
        out.print(table_of(tuning.ranked(8), f"Best of {len(tuning.trials)} trials by {tuning.metric}"))
        out.print(table_of(tuning.front(), "\nFront: nothing better in less time"))
        out.print(table_of([{"parameter": p, "importance": v} for p, v in tuning.importance().items()], "\nImportance"))
        out.print("\n[bold]On cells no trial has seen[/]")
        show_result(tuning.test)

    answer.emit_document(tuning.to_dict(), tuning.trials, show)
    if save is not None:
        with working("fitting the best setting on all data"):
            best = tuning.best_model()
            best = best.fit(data.pairs, data.y) if family == "ratings" else best.fit(data)
            best.save(save)
        say(f"model written to {escape(str(save))}")
    if stop.asked:
        raise typer.Exit(INTERRUPTED)


def _saved(path: Path | None) -> Any:
    """A saved model of a kind that has something to tune."""
    if path is None:
        return None
    fitted = load(path)
    if type(fitted).__name__ not in TUNED:
        raise no_answer(path, type(fitted).__name__, "tune")
    return fitted


def _search_kinds(
    context: typer.Context,
    table: PairTable,
    answer: Answer,
    metric: str | None,
    seconds: float,
    trials: int,
    save: Path | None,
    threads: int | None,
    seed: int,
) -> None:
    """Search all recommenders, and save the winner, which is fitted to all data."""
    from halfstep.apps.tune import find_recommender

    source = context.get_parameter_source("trials")
    most = trials if source is not None and source.name == "COMMANDLINE" else None
    data = table.read()
    with working(f"searching for {seconds:g} seconds"):
        found = find_recommender(
            data, seconds, n_trials=most, random_state=seed, n_threads=threads, **options.given(metric=metric)
        )

    def show() -> None:
        out = console()
        out.print(table_of(found.kinds(), f"The best of each kind by {found.metric}"))
        out.print(f"{len(found.trials)} trials; the winner is {found.winner}. Test cells chose nothing.", style="dim")

    answer.emit_document(found.to_dict(), found.kinds(), show)
    if save is not None:
        found.model.save(save)
        say(f"model written to {escape(str(save))}")
