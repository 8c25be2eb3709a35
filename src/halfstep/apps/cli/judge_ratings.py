"""`evaluate --ratings` and `tune --ratings`: how well ratings are predicted. Knows which models there are to try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from halfstep.apps.cli import completion
from halfstep.apps.cli.asking import by_name
from halfstep.apps.cli.sources import PairTable, RatingTable
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
OneRating = Annotated[
    str | None,
    typer.Option(
        "--rating",
        help="Column of ratings; detected when left out.",
        rich_help_panel=PANEL,
        autocompletion=completion.columns,
    ),
]
Estimators = Annotated[
    str | None,
    typer.Option(
        help="Models of ratings, separated by commas: plq, bayes.",
        rich_help_panel=PANEL,
        autocompletion=completion.many(lambda: ESTIMATORS),
    ),
]
OfLoss = Annotated[
    str | None,
    typer.Option(
        "--loss",
        help="Loss of plq: squared, absolute, huber:0.5, quantile:0.9, ...",
        rich_help_panel=PANEL,
        autocompletion=completion.lazily(completion.losses),
    ),
]
Share = Annotated[
    float | None, typer.Option(help="Share of the ratings that is held out.", min=0, max=1, rich_help_panel=PANEL)
]
OnlyRatings = ("rating", "time", "estimators", "loss", "share")
OnlyRankings = (
    *("weight", "duplicates", "kind", "leave_out", "shown", "k", "rank", "background", "reg", "reg_scaling"),
    *("user_features", "item_features", "text", "lists", "categories"),
)


def plq(loss: str, threads: int | None, seed: int) -> Any:
    from halfstep.models.plqmf import PLQMF

    return PLQMF(loss=loss, n_threads=threads, random_state=seed)


def bayes(loss: str, threads: int | None, seed: int) -> Any:
    from halfstep.models.bayes import BayesMF

    likelihood = "probit" if losses.get(loss).form == "margin" else "gaussian"
    return BayesMF(likelihood=likelihood, n_threads=threads, random_state=seed)


ESTIMATORS: dict[str, Callable[[str, int | None, int], Any]] = {"plq": plq, "bayes": bayes}


@dataclass
class AboutRatings:
    """Whether predictions of ratings are meant, of which columns, and by which models."""

    ratings: AsRatings = False
    rating: OneRating = None
    time: TimeColumn = None
    estimators: Estimators = None
    loss: OfLoss = None
    share: Share = None

    def models(self, saved: list[Path] | None, threads: int | None, seed: int) -> dict[str, Any]:
        """What is judged: saved models, which lend their parameters, or those that are named, untouched."""
        losses.get(self.loss or "squared")
        found = by_name(saved or [], ("Constant", "Biases"))
        for model in found.values():
            if "n_threads" in model.get_params():
                model.set_params(n_threads=threads)
        if found and self.estimators is None and self.loss is None:
            return found
        names = list(listed(self.estimators)) or list(ESTIMATORS)
        for name in names:
            one_of("--estimators", name, ESTIMATORS)
        made = [ESTIMATORS[name](self.loss or "squared", threads, seed) for name in names]
        return found | {type(model).__name__: model for model in made}

    def only_model(self, threads: int | None, seed: int) -> Any:
        """The one model that is tuned; plq when none is named."""
        found = replace(self, estimators=self.estimators or "plq").models(None, threads, seed)
        if len(found) > 1:
            raise ValueError(f"--estimators {self.estimators}: one model is tuned at a time; name one of them")
        return next(iter(found.values()))

    def read(self, table: PairTable) -> Ratings:
        """The ratings of a file that was named as a table of pairs."""
        return RatingTable(table.data, table.user, table.item, self.rating, table.encoding).read(self.time)

    @property
    def split(self) -> dict[str, float]:
        """Arguments of the split."""
        return {} if self.share is None else {"share": self.share}
