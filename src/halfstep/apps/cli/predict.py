"""`halfstep predict`: what a model expects of pairs in a file. Knows ids, numbers and intervals."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from halfstep.apps.cli import completion, options, sources
from halfstep.apps.cli.asking import model_for, names_of
from halfstep.apps.cli.options import Answer, command
from halfstep.apps.console import working
from halfstep.apps.written import Records
from halfstep.errors import UnknownIdError, check_number, did_you_mean, one_of

UNKNOWN = ("average", "error")
BLOCK = 256
"""Users whose items are scored at a time."""


@command
def predict(
    model: options.ModelFile,
    pairs: Annotated[
        str,
        typer.Argument(
            help="A CSV, TSV, JSON lines, Parquet or Arrow file, a user and an item in each row; - for standard input."
        ),
    ],
    answer: Answer,
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    encoding: sources.Encoding = None,
    level: Annotated[float | None, typer.Option(help="Level of the intervals, for models that have them.")] = None,
    unknown: Annotated[
        str,
        typer.Option(
            help="What an unseen id is to a model of ratings: average (warns) or error.",
            autocompletion=completion.words(*UNKNOWN),
        ),
    ] = "average",
) -> None:
    """What a model of ratings expects of pairs, with intervals or probabilities; what a recommender scores them.

    Example:

      halfstep predict ratings.safetensors pairs.csv --level 0.8 -o predicted.csv
    """
    answer.check()
    one_of("--unknown", unknown, UNKNOWN)
    if level is not None:
        check_number("--level", level, above=0)
        if level >= 1:
            raise ValueError(f"--level {level:g} must lie between 0 and 1, both excluded, such as 0.9")
    fitted = model_for(model, "predict", "predict_interval", "decision_function", "score_rows")
    asked = sources.read_pairs(pairs, user, item, encoding)
    with working("predicting"):
        scored = hasattr(fitted, "score_rows")
        records = scores(fitted, asked, level) if scored else predicted(fitted, asked, level, unknown)
    answer.emit(records, title="Predicted")


def predicted(fitted: Any, pairs: Any, level: float | None, unknown: str) -> Records:
    """A row for each pair. Intervals stand there where the model has them; asked for, they must."""
    columns: dict[str, Any] = {"user": pairs[:, 0], "item": pairs[:, 1]}
    columns["prediction"] = np.asarray(fitted.predict(pairs, unknown=unknown))
    classes = getattr(fitted, "classes_", None)
    from sklearn.base import is_classifier  # takes a second: when somebody predicts

    if hasattr(fitted, "predict_interval") and not is_classifier(fitted):
        bounds = fitted.predict_interval(pairs, 0.9 if level is None else level, unknown=UNKNOWN[0])
        columns |= {"low": bounds[:, 0], "high": bounds[:, 1]}
    else:
        _no_intervals(fitted, level)
    if classes is not None and hasattr(fitted, "predict_proba"):
        proba = fitted.predict_proba(pairs)
        columns |= {f"p_{name}": proba[:, k] for k, name in enumerate(classes)}
    return _as_rows(columns)


def scores(fitted: Any, pairs: NDArray[Any], level: float | None) -> Records:
    """A row for each pair with the score by which a recommender ranks it; all ids must be known."""
    _no_intervals(fitted, level)
    places = []
    for side, noun in enumerate(("user", "item")):
        names = names_of(fitted, side)
        found = names.find(pairs[:, side].tolist())
        if (found < 0).any():
            lost = pairs[:, side][found < 0]
            near = names.near(lost[0])
            raise UnknownIdError(
                f"{(found < 0).sum():,} of {len(pairs):,} pairs have an unknown {noun}, such as {lost[0]!r}; a "
                f"recommender knows those of its fit.{did_you_mean(near)}",
                near,
            )
        places.append(found)
    value = np.empty(len(pairs))
    rows, row_of = np.unique(places[0], return_inverse=True)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        table = np.asarray(fitted.score_rows(fitted.seen(block), block))
        here = np.flatnonzero((row_of >= start) & (row_of < start + BLOCK))
        value[here] = table[row_of[here] - start, places[1][here]]
    return _as_rows({"user": pairs[:, 0], "item": pairs[:, 1], "score": value})


def _no_intervals(fitted: Any, level: float | None) -> None:
    if level is not None:
        raise ValueError(
            f"--level {level:g}: this {type(fitted).__name__} has no intervals; a model of `halfstep fit bayes` has"
        )


def _as_rows(columns: dict[str, Any]) -> Records:
    lists = [np.asarray(values).tolist() for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
