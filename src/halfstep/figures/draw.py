"""Plotly figures of plain data: series, points, bars, distributions, a plane, a matrix. Knows no model.

Plotly is imported when the first figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.errors import require
from halfstep.figures.plane import flat_map
from halfstep.figures.views import clustered_order

# Okabe-Ito, told apart by all common kinds of colour vision.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280")

Series = Mapping[str, tuple[ArrayLike, ArrayLike]]


def lines(title: str, x: str, y: str, series: Series, **layout: Any) -> Any:
    """Lines with a dot at every value; a series called "ideal" is a dashed line."""
    figure = _figure(title, x, y, **layout)
    for k, (name, (across, up)) in enumerate(series.items()):
        plain = {"mode": "lines+markers", "line_color": PALETTE[k % len(PALETTE)]}
        dashed = {"mode": "lines", "line": {"dash": "dash", "color": PALETTE[6]}}
        figure.add_scatter(x=across, y=up, name=name, **(dashed if name == "ideal" else plain))
    return figure


def second_axis(figure: Any, across: ArrayLike, series: Mapping[str, ArrayLike]) -> Any:
    """The figure with more series, dotted, on an axis of their own at the right."""
    for k, (name, up) in enumerate(series.items()):
        line = {"dash": "dot", "color": PALETTE[-1 - k % len(PALETTE)]}
        figure.add_scatter(x=across, y=up, name=name, mode="lines+markers", line=line, yaxis="y2")
        figure.update_layout(yaxis2={"overlaying": "y", "side": "right", "title": {"text": name}})
    return figure


def points(title: str, x: str, y: str, across: ArrayLike, up: ArrayLike, names: Sequence[str]) -> Any:
    """Dots with a name each."""
    figure = _figure(title, x, y)
    figure.add_scattergl(x=across, y=up, text=list(names), mode="markers", marker_color=PALETTE[0])
    return figure


def bars(
    title: str, x: str, names: Sequence[str], values: ArrayLike, told: list[str] | None = None, *, mean: float = np.nan
) -> Any:
    """The first name on top; `told` is said on hovering, `mean` is a line where it is a number."""
    figure = _figure(title, x)
    text = {} if told is None else {"text": told[::-1], "textposition": "none"}
    shown = {"x": np.asarray(values)[::-1], "y": list(names)[::-1], "orientation": "h", "marker_color": PALETTE[0]}
    figure.add_bar(**shown, **text)
    if np.isfinite(mean):
        figure.add_vline(x=mean, line_dash="dash", line_color=PALETTE[6])
    return figure


def histogram(title: str, x: str, series: Mapping[str, NDArray[Any]]) -> Any:
    """Distributions over each other, as shares."""
    figure = _figure(title, x, "share", barmode="overlay")
    for k, (name, values) in enumerate(series.items()):
        seen = {"opacity": 1.0 if len(series) == 1 else 0.6, "marker_color": PALETTE[k]}
        figure.add_histogram(x=values, name=name, histnorm="probability", **seen)
    return figure


def latent_map(title: str, factors: ArrayLike, names: Sequence[str], amount: Any, scale: str, method: str) -> Any:
    """Rows of factors in the plane, coloured by an amount whose name is `scale`."""
    place, used = flat_map(factors, method)
    figure = _figure(f"{title}, {used}", height=600)
    marker = {"color": amount, "colorscale": "Cividis", "showscale": True, "colorbar": {"title": scale}, "size": 7}
    figure.add_scattergl(x=place[:, 0], y=place[:, 1], text=list(names), mode="markers", marker=marker)
    return figure


def heat_map(title: str, matrix: Floats, names: Sequence[str]) -> Any:
    """A square matrix, alike rows side by side."""
    order = clustered_order(matrix)
    figure, shown = _figure(title, height=600), [names[j] for j in order]
    figure.add_heatmap(z=matrix[np.ix_(order, order)], x=shown, y=shown, colorscale="Cividis")
    return figure


def _figure(title: str, x: str = "", y: str = "", **layout: Any) -> Any:
    figure = require("plotly.graph_objects", "report").Figure()
    figure.update_layout(title=title, template="plotly_white", margin={"l": 60, "r": 20, "t": 50, "b": 50}, **layout)
    figure.update_xaxes(title=x)
    figure.update_yaxes(title=y)
    return figure
