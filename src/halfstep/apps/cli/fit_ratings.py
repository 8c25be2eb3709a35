"""`halfstep fit plq` and `fit bayes`: models of ratings from a table. Which options there are, and what they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from halfstep.apps.cli import sources
from halfstep.apps.cli.fit import SavedTo, Seconds, Seed, Sweeps, Threads, Tolerance
from halfstep.apps.cli.running import check_writable, run_draws, run_fit
from halfstep.apps.console import JsonFlag, guarded

RatingLoss = Annotated[
    str,
    typer.Option(help="squared, absolute, huber:0.5, quantile:0.9, hinge, logistic, ...: a name, and what it takes."),
]
Likelihood = Annotated[
    str, typer.Option(help="gaussian, student (outliers), ordinal (a few levels) or probit (two classes).")
]
OwnRank = Annotated[int | None, typer.Option(help="Length of the factors; from the data when left out.", min=1)]


@guarded
def fit_plq(
    data: sources.RatingData,
    output: SavedTo = Path("model.safetensors"),
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    rating: sources.RatingColumn = None,
    rank: OwnRank = None,
    loss: RatingLoss = "squared",
    C: Annotated[float | None, typer.Option("--C", help="Weight of the data against the penalty.")] = None,
    rho: Annotated[float | None, typer.Option(help="Share of the penalty on users, between 0 and 1.")] = None,
    biases: Annotated[bool, typer.Option(help="Whether users and items have a bias each.")] = True,
    nonnegative: Annotated[bool, typer.Option("--nonnegative", help="Factors of at least 0.")] = False,
    max_iter: Sweeps = 30,
    tol: Tolerance = 1e-4,
    threads: Threads = None,
    max_seconds: Seconds = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Ratings under any piecewise linear-quadratic or smooth loss. Rank and penalties follow from the data.

    Examples:

      halfstep fit plq ratings.csv --loss huber:0.5 -o ratings.safetensors

      halfstep fit plq likes.parquet --rating liked --loss logistic
    """
    from halfstep.core import losses
    from halfstep.models.plqmf import PLQMF

    check_writable(output)
    losses.get(loss)  # before the file is read
    ratings = sources.read_ratings(data, user, item, rating)
    model = PLQMF(
        rank,
        loss,
        C,
        rho,
        biases=biases,
        nonnegative=nonnegative,
        max_iter=max_iter,
        tol=tol,
        n_threads=threads,
        max_seconds=max_seconds,
        random_state=seed,
    )
    run_fit(model, lambda: model.fit(ratings.pairs, ratings.y), output, as_json)


@guarded
def fit_bayes(
    data: sources.RatingData,
    output: SavedTo = Path("model.safetensors"),
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    rating: sources.RatingColumn = None,
    rank: OwnRank = None,
    likelihood: Likelihood = "gaussian",
    sweeps: Annotated[int, typer.Option(help="Sweeps of the sampler.", min=4)] = 400,
    keep: Annotated[int, typer.Option(help="Draws that are kept, for intervals.", min=1)] = 100,
    threads: Threads = None,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Ratings by drawing every row from its posterior: the best predictions, with intervals, and no penalty to choose.

    Examples:

      halfstep fit bayes ratings.csv -o ratings.safetensors

      halfstep predict ratings.safetensors pairs.csv --level 0.8 -o predicted.csv
    """
    from halfstep.models.bayes import BayesMF

    check_writable(output)
    model = BayesMF(rank, likelihood, n_sweeps=sweeps, keep=keep, n_threads=threads, random_state=seed)
    ratings = sources.read_ratings(data, user, item, rating)
    run_draws(model, lambda: model.fit(ratings.pairs, ratings.y), output, as_json)
