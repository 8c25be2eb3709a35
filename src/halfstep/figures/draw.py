"""Plotly figures of plain data: histories, arrays, names. Plotly is imported when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.errors import require
from halfstep.figures import views
from halfstep.figures.plane import flat_map

# Okabe-Ito, told apart by all common kinds of colour vision.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280")


def objective(history: Sequence[Mapping[str, Any]]) -> Any:
    """The objective by sweep, and the parts that add up to it."""
    series = {"objective": views.objectives(history), **views.objective_parts(history)}
    sweep = np.arange(1, len(history) + 1)
    return _lines("Objective by sweep", "sweep", "value", {name: (sweep, values) for name, values in series.items()})


def latent_map(what: str, factors: ArrayLike, names: Sequence[str], amount: Any, scale: str, method: str) -> Any:
    """Rows of factors in the plane, coloured by an amount whose name is `scale`."""
    place, used = flat_map(factors, method)
    figure = _figure(f"{what}, {used}", square=True)
    marker = {"color": amount, "colorscale": "Cividis", "showscale": True, "colorbar": {"title": scale}, "size": 7}
    figure.add_scattergl(x=place[:, 0], y=place[:, 1], text=list(names), mode="markers", marker=marker)
    return figure


def popularity(counts: ArrayLike, scores: ArrayLike, names: Sequence[str]) -> Any:
    """Mean score of every item against how many users have it."""
    figure = _points(
        "Popularity against score", "users who have the item", "mean score over all users", counts, scores, names
    )
    figure.update_xaxes(type="log")
    return figure


def uncertainty(of: str, probability: ArrayLike, deviation: Floats) -> Any:
    """The standard deviation of each instance's probability against itself."""
    names = [str(i) for i in range(len(deviation))]
    title, y = "Uncertainty of the answers", "standard deviation of the probability"
    return _points(title, f"probability of {of}", y, probability, deviation, names)


def explanation(item: Any, score: float, ids: Sequence[Any], contributions: ArrayLike) -> Any:
    """What each item somebody has contributes to a score, largest on top."""
    return _bars(f"Why {item}: score {score:.3f}", "contribution", [str(id) for id in ids], contributions)


def weights(values: Floats, names: Sequence[str]) -> Any:
    """What each classifier counts in the answer, largest on top; the line is the plain mean."""
    order = np.argsort(-values, kind="stable")
    title = "Weights of the classifiers"
    return _bars(title, "what one log odds counts", [names[j] for j in order], values[order], mean=1 / len(values))


def members(table: Sequence[Mapping[str, Any]], n: int) -> Any:
    """Weights of the `n` heaviest members; the line is a plain average. Out-of-fold log loss on hovering."""
    shown = table[:n]
    losses = [member["log_loss"] for member in shown]
    told = None if losses[0] is None else [f"log loss {loss:.4f}" for loss in losses]
    names, values = [member["name"] for member in shown], [member["weight"] for member in shown]
    return _bars("Weights of the members", "weight", names, values, told, mean=1 / len(table))


def similarity(cosines: Floats, names: Sequence[str]) -> Any:
    """Cosines between classifiers, alike ones side by side."""
    order = views.clustered_order(cosines)
    figure, shown = _figure("Similarity of the classifiers", square=True), [names[j] for j in order]
    figure.add_heatmap(z=cosines[np.ix_(order, order)], x=shown, y=shown, colorscale="Cividis")
    return figure


def calibration(curve: Mapping[str, Floats], name: str) -> Any:
    """Share of positives where a model predicted so much."""
    figure = _figure("Calibration", "predicted probability", "share of positives", square=True)
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line={"dash": "dash", "color": PALETTE[6]}, name="ideal")
    line = {"x": curve["predicted"], "y": curve["observed"], "line_color": PALETTE[0], "name": name}
    figure.add_scatter(**line, mode="lines+markers", text=curve["count"])
    return figure


def observed_against_predicted(predicted: ArrayLike, observed: ArrayLike) -> Any:
    """What was observed where the model predicted so much: mean, median and the middle 80%, in tenths."""
    bins = views.in_bins(predicted, observed)
    series = {name: (bins["predicted"], bins[name]) for name in ("90%", "median", "mean", "10%")}
    return _lines("Observed against predicted", "predicted", "observed", series)


def histogram(title: str, x: str, series: Mapping[str, NDArray[Any]]) -> Any:
    """Distributions over each other, as shares."""
    figure = _figure(title, x, "share")
    figure.update_layout(barmode="overlay")
    for k, (name, values) in enumerate(series.items()):
        opacity = 1.0 if len(series) == 1 else 0.6
        figure.add_histogram(x=values, name=name, histnorm="probability", opacity=opacity, marker_color=_colour(k))
    return figure


def _lines(title: str, x: str, y: str, series: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Any:
    figure = _figure(title, x, y)
    for k, (name, (across, up)) in enumerate(series.items()):
        figure.add_scatter(x=across, y=up, name=name, mode="lines+markers", line_color=_colour(k))
    return figure


def _points(title: str, x: str, y: str, across: ArrayLike, up: ArrayLike, names: Sequence[str]) -> Any:
    figure = _figure(title, x, y)
    figure.add_scattergl(x=across, y=up, text=list(names), mode="markers", marker_color=PALETTE[0])
    return figure


def _bars(
    title: str, x: str, names: Sequence[str], values: ArrayLike, told: list[str] | None = None, *, mean: float = np.nan
) -> Any:
    """The first name on top; `told` is said on hovering, `mean` is a line where it is a number."""
    figure = _figure(title, x)
    text = {} if told is None else {"text": told[::-1], "textposition": "none"}
    bars = {"x": np.asarray(values)[::-1], "y": list(names)[::-1], "orientation": "h", "marker_color": PALETTE[0]}
    figure.add_bar(**bars, **text)
    if np.isfinite(mean):
        figure.add_vline(x=mean, line_dash="dash", line_color=PALETTE[6])
    return figure


def _colour(k: int) -> str:
    return PALETTE[k % len(PALETTE)]


def _figure(title: str, x: str = "", y: str = "", *, square: bool = False) -> Any:
    figure = require("plotly.graph_objects", "report").Figure()
    figure.update_layout(title=title, template="plotly_white", margin={"l": 60, "r": 20, "t": 50, "b": 50})
    figure.update_xaxes(title=x)
    figure.update_yaxes(title=y)
    if square:
        figure.update_layout(height=600)
    return figure
