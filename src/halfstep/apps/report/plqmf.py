"""The chapter about a PLQMF model: its ratings, its errors, the quantiles it meets, its biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.apps.report.charts import estimates, histogram, lines
from halfstep.apps.report.page import Block, Facts, Note, Section, Table, show
from halfstep.apps.report.wals import Counts, pair_facts
from halfstep.core import losses
from halfstep.figures.shown import fitted_ratings
from halfstep.figures.views import cell_counts, highest_and_lowest, in_bins, titles

LEAD = (
    "Every {user} and every {item} has a vector and a bias; a prediction is their dot product plus both biases. The "
    "loss decides what a prediction aims at: the mean for squared errors, the median for absolute ones, a class for a "
    "hinge."
)


def sections(
    model: Any,
    pairs: Any = None,
    y: ArrayLike | None = None,
    comparison: Sequence[dict[str, Any]] = (),
    caption: str = "",
) -> list[Section]:
    """Sections about a fitted model.

    pairs, y : ratings to judge it on; those of the fit where it still has them. comparison : rows of a table of
    models and their test error, the first number being the one that counts (smaller is better).
    """
    where = "as given"
    if pairs is None or y is None:
        pairs, y = fitted_ratings(model)
        where = "those of the fit"
    per_user, per_item = cell_counts(model.seen, (len(model.user_ids_), len(model.item_ids_)))
    shown = [_data(model, per_user, per_item)]
    if comparison:
        shown.append(comparison_section(list(comparison), caption))
    if y is None:
        note = "The model file does not hold the ratings; give them (`--data`, or `pairs=` and `y=`) to see its errors."
        shown.append(Section("How it errs", [Note(note, "info")]))
    elif losses.get(model.loss).form == "margin":
        shown.append(_classes(model, pairs, np.asarray(y), where))
    else:
        shown += _errors(model, pairs, np.asarray(y, np.float64), where)
    return [*shown, *_biases(model, per_item)]


def _data(model: Any, per_user: Counts, per_item: Counts) -> Section:
    facts = pair_facts(per_user, per_item, "ratings", "ratings of a user", "ratings of an item")
    blocks: list[Block] = [Facts(facts | {"C": float(model.C_), "rho": float(model.rho_)})]
    few = float((per_user <= model.rank).mean())
    if few > 0.25:
        blocks.append(
            Note(f"{few:.0%} of the users have no more ratings than factors; the penalty alone holds their vectors.")
        )
    return Section("The data", blocks, folded=True)


def comparison_section(records: list[dict[str, Any]], caption: str) -> Section:
    """Rows of models and errors, the first number being the one that counts."""
    columns = list(records[0])
    first = columns[1]
    values = [float(record[first]) for record in records]
    order = int(np.argmin(values))
    best = str(records[order]["model"])
    chart = estimates(
        f"{first}, smaller is better",
        [str(record["model"]) for record in records],
        values,
        x_label=first,
        marked=best,
    )
    table = Table(columns, [list(record.values()) for record in records], caption, wide=False)
    return Section(
        "Against the baselines", [Note(f"Smallest {first}: {best}, {show(min(values))}.", "good"), chart, table]
    )


def _errors(model: Any, pairs: Any, y: NDArray[np.float64], where: str) -> list[Section]:
    predicted = np.asarray(model.predict(pairs), np.float64)
    residual = y - predicted
    scale = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    far = float((np.abs(residual - np.median(residual)) > 4 * scale).mean()) if scale > 0 else 0.0
    facts = {
        "judged on": f"{len(y):,} ratings, {where}",
        "mean absolute error": float(np.abs(residual).mean()),
        "median absolute error": float(np.median(np.abs(residual))),
        "root mean square error": float(np.sqrt((residual**2).mean())),
        "mean residual": float(residual.mean()),
        "share beyond 4 robust deviations": f"{far:.2%}",
    }
    blocks: list[Block] = [Facts(facts)]
    if far > 0.005 and losses.get(model.loss).is_quadratic:
        blocks.append(
            Note(
                f"{far:.1%} of the residuals lie far out. Squared errors bend to them; try `loss='absolute'` or Huber."
            )
        )
    blocks.append(histogram("Residuals", {"observed minus predicted": residual}, x_label="residual", reference=0.0))
    bins = in_bins(predicted, y)
    blocks.append(
        lines(
            "Observed against predicted",
            {name: (bins["predicted"], bins[name]) for name in ("90%", "median", "mean", "10%")},
            x_label="predicted (tenths of the ratings)",
            y_label="observed",
            caption="What was observed where the model predicted so much.",
        )
    )
    return [Section("How it errs", blocks), _quantiles(model, predicted, y)]


def _quantiles(model: Any, predicted: NDArray[np.float64], y: NDArray[np.float64]) -> Section:
    """Share of ratings below the prediction: q everywhere for a quantile loss, about a half for the absolute loss."""
    loss = losses.get(model.loss)
    aim = getattr(loss, "q", 0.5)
    exact = isinstance(loss, (losses.Quantile, losses.Absolute))
    bins = in_bins(predicted, y)
    below = float((y < predicted).mean() + 0.5 * (y == predicted).mean())
    figure = lines(
        "Share of ratings below the prediction",
        {
            "observed": (bins["predicted"], bins["below"]),
            f"aim {aim:g}": (bins["predicted"], np.full(len(bins["mean"]), aim)),
        },
        x_label="predicted (tenths of the ratings)",
        y_label="share below",
    )
    words = (
        f"The loss aims at the quantile {aim:g}; {below:.1%} of the ratings lie below their prediction."
        if exact
        else f"{below:.1%} of the ratings lie below their prediction. This loss does not aim at a quantile; one half "
        "is only expected where errors are symmetric."
    )
    off = exact and abs(below - aim) > 0.05
    blocks: list[Block] = [Note(words, "warning" if off else "info"), figure]
    return Section("Calibration of quantiles", blocks, folded=not exact)


def _classes(model: Any, pairs: Any, y: NDArray[Any], where: str) -> Section:
    predicted = np.asarray(model.predict(pairs))
    names = [str(c) for c in model.classes_]
    rows = [
        [f"truly {truth}", *(int(((y == t) & (predicted == p)).sum()) for p in model.classes_)]
        for truth, t in zip(names, model.classes_, strict=True)
    ]
    facts = {"judged on": f"{len(y):,} ratings, {where}", "accuracy": float((predicted == y).mean())}
    margin = np.asarray(model.decision_function(pairs), np.float64)
    groups = {f"truly {name}": margin[y == c] for name, c in zip(names, model.classes_, strict=True)}
    return Section(
        "How it errs",
        [
            Facts(facts),
            histogram("Scores", groups, x_label="score", reference=0.0),
            Table(["", *(f"predicted {name}" for name in names)], rows, "Confusions"),
        ],
    )


def _biases(model: Any, counts: Counts) -> list[Section]:
    if not model.biases:
        return []
    bias = np.asarray(model.item_bias_, np.float64)
    names = titles(model.item_ids_, model.item_labels_)
    shown, which = highest_and_lowest(bias)
    rows = [[names[k], float(bias[k]), int(counts[k])] for k in shown]
    return [
        Section(
            "Biases",
            [
                histogram("Users", {"user bias": np.asarray(model.user_bias_, np.float64)}, x_label="bias"),
                histogram("Items", {"item bias": bias}, x_label="bias"),
                Table(["item", "bias", "ratings"], rows, f"Item biases: {which}", search=True),
            ],
            "The two sides share one level, so only differences within a side mean something.",
            folded=True,
        )
    ]
