"""`halfstep explain`: what an answer is made of, whatever the kind of model. Knows ids, titles and parts."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from halfstep.apps.cli import completion, options
from halfstep.apps.cli.ask import Having, HavingFile, OneUser, having_of, ids_of, named
from halfstep.apps.cli.asking import family_of, find_id
from halfstep.apps.cli.options import Answer, command
from halfstep.apps.console import say
from halfstep.apps.rating_parts import parts_of, values_of
from halfstep.apps.written import Records
from halfstep.kinds import load


@command
def explain(
    model: options.ModelFile,
    answer: Answer,
    item: Annotated[
        str | None,
        typer.Option("--item", help="Id or title of the item to explain.", autocompletion=completion.names(1)),
    ] = None,
    user: OneUser = None,
    items: Having = None,
    items_file: HavingFile = None,
) -> None:
    """What an answer is made of: the parts of a score or of a rating, which sum to it, or what each classifier counts.

    Examples:

      halfstep explain skills.safetensors --items "Python, SQL" --item statistics

      halfstep explain ratings.safetensors --user ann --item heat

      halfstep explain fused.safetensors
    """
    answer.check()
    fitted = load(model)
    having = having_of(None, items, items_file)
    family = family_of(type(fitted).__name__)
    if family == "ensemble":
        if (item, user, having) != (None, None, None):
            raise typer.BadParameter(
                "an ensemble has no users and items; `halfstep explain MODEL` shows its classifiers"
            )
        answer.emit(_classifiers(fitted), title="What each classifier counts")
        return
    if item is None or (user is None) == (having is None):
        raise typer.BadParameter("give --item, and one of --user and --items")
    wanted, _ = find_id(fitted, "item", item)
    if family == "ratings":
        if user is None:
            raise typer.BadParameter("a rating is explained for a user of the fit; give --user")
        answer.emit(_parts(fitted, find_id(fitted, "user", user)[0], wanted), title=f"Why {item}")
        return
    if user is not None:
        reason = fitted.explain(find_id(fitted, "user", user)[0], wanted)
    else:
        reason = fitted.explain(items=ids_of(fitted, having or []), item=wanted)
    say(f"score {reason.score:.4f}, the sum of the contributions")
    pairs = zip(named(reason), reason.contributions, strict=True)
    answer.emit([{**name, "contribution": value} for name, value in pairs], title=f"Why {item}")


def _parts(fitted: Any, user: Any, item: Any) -> Records:
    pair = np.empty((1, 2), object)
    pair[0] = user, item
    value = values_of(fitted, pair)
    if value.dtype.kind not in "iuf":
        raise ValueError(
            f"this {type(fitted).__name__} answers classes, which are no sums; `halfstep predict` has their "
            "probabilities"
        )
    say(f"prediction {value[0]:.4f}, the sum of the contributions")
    return [{"part": name, "contribution": part[0]} for name, part in parts_of(fitted, pair, value).items()]


def _classifiers(fitted: Any) -> Records:
    """Weights of classifiers, largest first, with intervals where the model has them."""
    weights = np.asarray(
        fitted.classifier_weights_
        if hasattr(fitted, "classifier_weights_")
        else fitted.diagnostics_.classifier_weights,
        np.float64,
    )
    names = getattr(fitted, "feature_names_in_", np.arange(len(weights)))
    rows = [{"classifier": str(name), "weight": weight} for name, weight in zip(names, weights.tolist(), strict=True)]
    if hasattr(fitted, "classifier_intervals"):
        bounds = np.asarray(fitted.classifier_intervals())
        rows = [row | {"low": low, "high": high} for row, (low, high) in zip(rows, bounds.tolist(), strict=True)]
    return sorted(rows, key=lambda row: -abs(row["weight"]))
