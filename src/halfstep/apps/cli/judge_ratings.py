"""`evaluate --ratings` and `tune --ratings`: how well ratings are predicted. Knows which models there are to try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from halfstep.apps.cli import sources
from halfstep.apps.console import listed
from halfstep.core import losses
from halfstep.data.datasets.ratings import Ratings
from halfstep.errors import one_of

PANEL = "Ratings"
AsRatings = Annotated[
    bool, typer.Option("--ratings", help="The table holds ratings: judge predictions.", rich_help_panel=PANEL)
]
TimeColumn = Annotated[
    str | None, typer.Option("--time", help="Column of times; detected when left out.", rich_help_panel=PANEL)
]
Estimators = Annotated[
    str | None, typer.Option(help="Models of ratings, separated by commas: plq, bayes.", rich_help_panel=PANEL)
]
OfLoss = Annotated[
    str | None,
    typer.Option("--loss", help="Loss of plq: squared, absolute, huber:0.5, quantile:0.9, ...", rich_help_panel=PANEL),
]
Share = Annotated[
    float | None, typer.Option(help="Share of the ratings that is held out.", min=0, max=1, rich_help_panel=PANEL)
]
OnlyRatings = ("rating", "time", "estimators", "loss", "share")
OnlyRankings = ("weight", "duplicates", "kind", "leave_out", "k", "rank", "background", "reg", "reg_scaling")


def plq(loss: str, threads: int | None, seed: int) -> Any:
    from halfstep.models.plqmf import PLQMF

    return PLQMF(loss=loss, n_threads=threads, random_state=seed)


def bayes(loss: str, threads: int | None, seed: int) -> Any:
    from halfstep.models.bayes import BayesMF

    likelihood = "probit" if losses.get(loss).form == "margin" else "gaussian"
    return BayesMF(likelihood=likelihood, n_threads=threads, random_state=seed)


ESTIMATORS: dict[str, Callable[[str, int | None, int], Any]] = {"plq": plq, "bayes": bayes}


def models(
    saved: list[Path] | None, estimators: str | None, loss: str | None, threads: int | None, seed: int
) -> dict[str, Any]:
    """What is judged: saved models, which lend their parameters, or those that are named, untouched."""
    losses.get(loss or "squared")
    found = {path.stem: sources.load_model(path, *sources.OF_RATINGS) for path in saved or []}
    for model in found.values():
        if "n_threads" in model.get_params():
            model.set_params(n_threads=threads)
    if found and estimators is None and loss is None:
        return found
    names = list(listed(estimators)) or list(ESTIMATORS)
    for name in names:
        one_of("--estimators", name, ESTIMATORS)
    made = [ESTIMATORS[name](loss or "squared", threads, seed) for name in names]
    return found | {type(model).__name__: model for model in made}


def read(data: str, user: str | None, item: str | None, rating: str | None, time: str | None) -> Ratings:
    return sources.read_ratings(data, user, item, rating, time)


def options(share: float | None) -> dict[str, float]:
    """Arguments of the split."""
    return {} if share is None else {"share": share}
