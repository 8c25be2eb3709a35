"""`halfstep predict`: what a model of ratings expects of pairs in a file. Knows ids, numbers and intervals."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import is_classifier

from halfstep.apps.cli import sources
from halfstep.apps.console import JsonFlag, OutputFile, Records, emit, guarded, working
from halfstep.errors import check_number, one_of

UNKNOWN = ("average", "error")


@guarded
def predict(
    model: sources.ModelFile,
    pairs: Annotated[str, typer.Argument(help="A CSV, TSV, Parquet or Arrow file, a user and an item in each row.")],
    user: sources.UserColumn = None,
    item: sources.ItemColumn = None,
    level: Annotated[float | None, typer.Option(help="Level of the intervals, for models that have them.")] = None,
    unknown: Annotated[str, typer.Option(help="What an unseen id is: average (warns) or error.")] = "average",
    as_json: JsonFlag = False,
    output: OutputFile = None,
) -> None:
    """What a model of ratings expects of pairs, with intervals or probabilities where it has them.

    Example:

      halfstep predict ratings.safetensors pairs.csv --level 0.8 -o predicted.csv
    """
    one_of("--unknown", unknown, UNKNOWN)
    if level is not None:
        check_number("--level", level, above=0)
        if level >= 1:
            raise ValueError(f"--level {level:g} must lie between 0 and 1, both excluded, such as 0.9")
    fitted = sources.load_model(model, *sources.OF_RATINGS)
    asked = sources.read_pairs(pairs, user, item)
    with working("predicting"):
        records = predicted(fitted, asked, level, unknown)
    emit(records, title="Predicted", as_json=as_json, output=output)


def predicted(fitted: Any, pairs: Any, level: float | None, unknown: str) -> Records:
    """A row for each pair. Intervals stand there where the model has them; asked for, they must."""
    columns: dict[str, Any] = {"user": pairs[:, 0], "item": pairs[:, 1]}
    columns["prediction"] = np.asarray(fitted.predict(pairs, unknown=unknown))
    classes = getattr(fitted, "classes_", None)
    if hasattr(fitted, "predict_interval") and not is_classifier(fitted):
        bounds = fitted.predict_interval(pairs, 0.9 if level is None else level, unknown=UNKNOWN[0])
        columns |= {"low": bounds[:, 0], "high": bounds[:, 1]}
    elif level is not None:
        raise ValueError(
            f"--level {level:g}: this {type(fitted).__name__} has no intervals; a model of `halfstep fit bayes` has"
        )
    if classes is not None and hasattr(fitted, "predict_proba"):
        proba = fitted.predict_proba(pairs)
        columns |= {f"p_{name}": proba[:, k] for k, name in enumerate(classes)}
    lists = [np.asarray(values).tolist() for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
