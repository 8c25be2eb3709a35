"""`halfstep fit wals`: recommendations from a table. Which options there are, and what they make."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from halfstep.apps.cli import completion, options
from halfstep.apps.cli.features import FeatureFiles
from halfstep.apps.cli.known import sizes_of
from halfstep.apps.cli.options import command, given
from halfstep.apps.cli.running import Destination, run_fit, tell_memory
from halfstep.apps.cli.sources import PairTable

app = typer.Typer(no_args_is_help=True, help="Fit a model to a table and save it.")

Loss = Annotated[
    str,
    typer.Option(
        help="Loss of an observed cell, such as squared or logistic.",
        autocompletion=completion.lazily(completion.losses),
    ),
]
Weighting = Annotated[
    str,
    typer.Option(
        help="What becomes of weights: none, log, sqrt, binary, tfidf, bm25 or popularity.",
        autocompletion=completion.lazily(completion.weightings),
    ),
]
Sweeps = Annotated[int | None, typer.Option("--max-iter", help="At most so many sweeps.", min=1)]
Tolerance = Annotated[
    float | None, typer.Option(help="Stop when the objective falls by less than this part of itself.", min=0)
]
Seconds = Annotated[float | None, typer.Option(help="No sweep is begun after that many seconds.", min=0)]


@app.command("wals")
@command
def fit_wals(
    table: PairTable,
    to: Destination,
    about: FeatureFiles,
    rank: options.OwnRank = None,
    background: options.Background = None,
    reg: options.OwnReg = None,
    reg_scaling: options.RegScaling = None,
    feature_reg: Annotated[
        float | None, typer.Option(help="How strongly weights of features are held; learned when left out.", min=0)
    ] = None,
    common_words: Annotated[
        float | None,
        typer.Option(help="What words add that texts of both sides share; learned when left out, 0 for none.", min=0),
    ] = None,
    kindred: Annotated[
        float | None,
        typer.Option(help="What rows alike add to new ones; learned when left out, 0 for none.", min=0),
    ] = None,
    loss: Loss = "squared",
    weighting: Weighting = "none",
    max_iter: Sweeps = None,
    tol: Tolerance = None,
    threads: options.Threads = None,
    max_seconds: Seconds = None,
    seed: options.Seed = 0,
) -> None:
    """Recommendations from who has what: weighted alternating least squares. What is left out is left to the model.

    Examples:

      halfstep fit wals sample -o skills.safetensors --rank 16

      halfstep fit wals clicks.parquet --user user_id --item item_id --weight clicks -o clicks.safetensors

      halfstep fit wals jobs.csv --user-features sectors.csv --text title -o jobs.safetensors
    """
    from halfstep.models.memory import estimate_memory
    from halfstep.models.wals import WALS

    to.check(table.data)
    interactions = table.read()
    features: dict[str, Any] = dict(about.read())
    if rank is not None:
        (users, items), cells = interactions.shape, max(len(interactions), 1)
        needed = estimate_memory(users, items, cells, rank, loss=loss, **sizes_of(features))
        tell_memory(needed.peak, f"a fit at rank {rank:,}")
    model = WALS(
        rank,
        background,
        reg,
        loss=loss,
        weighting=weighting,
        **given(reg_scaling=options.scaling(reg_scaling), feature_reg=feature_reg, max_iter=max_iter, tol=tol),
        common_words=common_words,
        kindred=kindred,
        n_threads=threads,
        max_seconds=max_seconds,
        random_state=seed,
    )
    run_fit(model, lambda: model.fit(interactions, **features), to.output, to.as_json)
