"""`halfstep fit` for ratings: `plq`, `bayes`, `biases`, `constant`. Which options there are, and what they make."""

from __future__ import annotations

from typing import Annotated

import typer

from halfstep.apps.cli import completion, options
from halfstep.apps.cli.fit import Seconds, Sweeps, Tolerance
from halfstep.apps.cli.options import command, given
from halfstep.apps.cli.running import Destination, run_closed, run_draws, run_fit, tell_memory
from halfstep.apps.cli.sources import RatingTable

RatingLoss = Annotated[
    str,
    typer.Option(
        help="squared, absolute, huber:0.5, quantile:0.9, hinge, logistic, ...: a name, and what it takes.",
        autocompletion=completion.lazily(completion.losses),
    ),
]
LIKELIHOODS = ("gaussian", "student", "ordinal", "probit")
Likelihood = Annotated[
    str,
    typer.Option(
        help="gaussian, student (outliers), ordinal (a few levels) or probit (two classes).",
        autocompletion=completion.words(*LIKELIHOODS),
    ),
]


@command
def fit_plq(
    table: RatingTable,
    to: Destination,
    rank: options.OwnRank = None,
    loss: RatingLoss = "squared",
    C: Annotated[float | None, typer.Option("--C", help="Weight of the data against the penalty.")] = None,
    rho: Annotated[float | None, typer.Option(help="Share of the penalty on users, between 0 and 1.")] = None,
    biases: Annotated[bool, typer.Option(help="Whether users and items have a bias each.")] = True,
    nonnegative: Annotated[bool, typer.Option("--nonnegative", help="Factors of at least 0.")] = False,
    max_iter: Sweeps = None,
    tol: Tolerance = None,
    threads: options.Threads = None,
    max_seconds: Seconds = None,
    seed: options.Seed = 0,
) -> None:
    """Ratings under any piecewise linear-quadratic or smooth loss. Rank and penalties follow from the data.

    Examples:

      halfstep fit plq ratings.csv --loss huber:0.5 -o ratings.safetensors

      halfstep fit plq likes.parquet --rating liked --loss logistic
    """
    from halfstep.core import losses
    from halfstep.models.memory import estimate_memory
    from halfstep.models.plqmf import PLQMF

    to.check(table.data)
    losses.get(loss)  # before the file is read
    ratings = table.read()
    if rank is not None:
        users, items = ratings.shape
        cells = min(max(len(ratings), 1), users * items)
        tell_memory(estimate_memory(users, items, cells, rank, loss=loss).peak, f"a fit at rank {rank:,}")
    model = PLQMF(
        rank,
        loss,
        C,
        rho,
        biases=biases,
        nonnegative=nonnegative,
        **given(max_iter=max_iter, tol=tol),
        n_threads=threads,
        max_seconds=max_seconds,
        random_state=seed,
    )
    run_fit(model, lambda: model.fit(ratings.pairs, ratings.y), to.output, to.as_json)


@command
def fit_bayes(
    table: RatingTable,
    to: Destination,
    rank: options.OwnRank = None,
    likelihood: Likelihood = "gaussian",
    sweeps: Annotated[int | None, typer.Option(help="Sweeps; the model's own number when left out.", min=4)] = None,
    keep: Annotated[int | None, typer.Option(help="Draws that are kept, for intervals.", min=1)] = None,
    threads: options.Threads = None,
    seed: options.Seed = 0,
) -> None:
    """Ratings by drawing every row from its posterior: the best predictions, with intervals, and no penalty to choose.

    Examples:

      halfstep fit bayes ratings.csv -o ratings.safetensors

      halfstep predict ratings.safetensors pairs.csv --level 0.8 -o predicted.csv
    """
    from halfstep.models.bayes import BayesMF

    to.check(table.data)
    model = BayesMF(rank, likelihood, **given(n_sweeps=sweeps, keep=keep), n_threads=threads, random_state=seed)
    ratings = table.read()
    if rank is not None:
        users, items = ratings.shape
        tell_memory(model.estimate_memory(users, items, max(len(ratings), 1)).peak, f"a fit at rank {rank:,}")
    run_draws(model, lambda: model.fit(ratings.pairs, ratings.y), to.output, to.as_json)


@command
def fit_biases(table: RatingTable, to: Destination, loss: RatingLoss = "squared") -> None:
    """Ratings by a mean and a damped bias of each user and each item: what every other model must beat.

    Example:

      halfstep fit biases ratings.csv -o biases.safetensors
    """
    from halfstep.models.rating_baselines import Biases

    to.check(table.data)
    ratings, model = table.read(), Biases(loss)
    run_closed(model, lambda: model.fit(ratings.pairs, ratings.y), to.output, to.as_json)


@command
def fit_constant(table: RatingTable, to: Destination, loss: RatingLoss = "squared") -> None:
    """Ratings by the one number that is best under the loss.

    Example:

      halfstep fit constant ratings.csv --loss absolute -o constant.safetensors
    """
    from halfstep.models.rating_baselines import Constant

    to.check(table.data)
    ratings, model = table.read(), Constant(loss)
    run_closed(model, lambda: model.fit(ratings.pairs, ratings.y), to.output, to.as_json)
