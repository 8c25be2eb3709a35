"""The charts of the pages, each with a text alternative made from its own numbers. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.apps.report.page import Figure, show
from halfstep.apps.report.svg import (
    LETTER,
    NARROW,
    PHONE,
    SHADES,
    WIDE,
    AxisScale,
    Canvas,
    Floats,
    clear_places,
    colour,
    shade,
    shades,
    tip,
)

MAP_POINTS = 6000
"""More points than this are thinned for drawing; nobody can tell so many apart, and pages stay small."""


def lines(
    title: str,
    series: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    x_label: str,
    y_label: str,
    caption: str = "",
    unit_square: bool = False,
) -> Figure:
    """Lines with a dot at every value. `unit_square`: shares of both, with the line y = x."""
    xs, ys = [np.asarray(x, float) for x, _ in series.values()], [np.asarray(y, float) for _, y in series.values()]
    unit = AxisScale(0, 1)
    scales = (unit, unit) if unit_square else (AxisScale.of(*xs, room=0.02), AxisScale.of(*ys))
    canvas = Canvas(*scales, x_label, y_label, top=26 if len(series) > 1 else 12)
    if unit_square:
        canvas.line([0, 1], [0, 1], "", "ref")
    for k, (name, x, y) in enumerate(zip(series, xs, ys, strict=True)):
        canvas.line(x, y, colour(k))
        for a, b in zip(x, y, strict=True):
            if np.isfinite(b):
                note = tip(f"{name}\n{x_label}: {show(a)}\n{y_label}: {show(b)}")
                place = f'cx="{canvas.at_x(a):.1f}" cy="{canvas.at_y(b):.1f}"'
                canvas.add(f'<circle {place} r="3.4" style="fill:{colour(k)}" {note}/>')
    canvas.kinds(list(series))
    told = "; ".join(
        f"{name} goes from {show(float(y[0]))} to {show(float(y[-1]))} over {len(y)} points"
        for name, y in zip(series, ys, strict=True)
        if len(y)
    )
    return Figure(canvas.svg(), title, f"{y_label} against {x_label}. {told}.", caption)


def estimates(
    title: str,
    names: Sequence[str],
    means: ArrayLike,
    lows: ArrayLike | None = None,
    highs: ArrayLike | None = None,
    *,
    x_label: str,
    caption: str = "",
    reference: float | None = None,
    marked: str | None = None,
    wide: bool = False,
) -> Figure:
    """One row for each name: a bar from zero, a dot at the mean, whiskers for the interval."""
    mean = np.asarray(means, float)
    low = mean if lows is None else np.where(np.isfinite(np.asarray(lows, float)), np.asarray(lows, float), mean)
    high = mean if highs is None else np.where(np.isfinite(np.asarray(highs, float)), np.asarray(highs, float), mean)
    scale = AxisScale.of(low, high, [] if reference is None else [reference], zero=True)

    def drawn(width: int, beside: bool) -> str:
        """Names `beside` their bars, or above them where the width is for the bars alone."""
        room = min(max([len(name) for name in names] or [0]), 30) * 6.6 + 18 if beside else 8
        step = 25 if beside else 40
        canvas = Canvas(scale, None, x_label, left=int(room), height=58 + step * len(names), width=width)
        canvas.upright(reference)
        for k, name in enumerate(names):
            y = canvas.top + step - 11 + step * k
            fill = colour(0) if marked is None or name == marked else colour(6)
            start, centre = (float(canvas.at_x(max(v, scale.low))) for v in (0.0, mean[k]))
            between = f"\nbetween {show(low[k])} and {show(high[k])}" if high[k] > low[k] else ""
            note = tip(f"{name}: {show(mean[k])}{between}")
            left, long = min(start, centre), abs(centre - start)
            box = f'x="{left:.1f}" y="{y - 7}" width="{long:.1f}" height="14" rx="3"'
            canvas.add(f'<rect {box} style="fill:{fill};opacity:.35" {note}/>')
            if high[k] > low[k]:
                span = f"M{canvas.at_x(low[k]):.1f} {y}H{canvas.at_x(high[k]):.1f}"
                canvas.add(f'<path d="{span}" style="stroke:{fill};stroke-width:2.4" {note}/>')
            canvas.add(f'<circle cx="{centre:.1f}" cy="{y}" r="4.5" style="fill:{fill}" {note}/>')
            if beside:
                canvas.text(room - 9, y + 4, _short(name, 30), anchor="end", kind="strong")
            else:
                canvas.text(room, y - 12, f"{_short(name, 36)}  {show(mean[k])}", kind="strong")
        return canvas.svg()

    told = ", ".join(
        f"{name} {show(mean[k])}" + (f" ({show(low[k])} to {show(high[k])})" if high[k] > low[k] else "")
        for k, name in enumerate(names)
    )
    svg = drawn(WIDE if wide else NARROW, beside=True)
    return Figure(svg, title, f"{x_label}: {told}.", caption, wide=wide, narrow=drawn(PHONE, beside=False))


def histogram(
    title: str,
    groups: Mapping[str, ArrayLike],
    *,
    x_label: str,
    caption: str = "",
    reference: float | None = None,
) -> Figure:
    """Shares of values in equal bins; several groups are drawn as outlines over each other."""
    values = {name: np.asarray(v, float)[np.isfinite(np.asarray(v, float))] for name, v in groups.items()}
    values = {name: v for name, v in values.items() if len(v)}
    everything = np.concatenate(list(values.values())) if values else np.zeros(1)
    edges = _edges(everything, 40)
    counts = {name: np.histogram(v, edges)[0] / len(v) for name, v in values.items()}
    scales = AxisScale.of(edges, room=0.01), AxisScale.of(*counts.values(), zero=True)
    canvas = Canvas(*scales, x_label, "share", top=26 if len(values) > 1 else 12)
    across = canvas.at_x(edges)
    for k, (name, share) in enumerate(counts.items()):
        up = canvas.at_y(share)
        steps = "".join(f"V{b:.1f}H{a:.1f}" for a, b in zip(across[1:], up, strict=True))
        floor = canvas.height - canvas.bottom
        canvas.add(
            f'<path d="M{across[0]:.1f} {floor}{steps}V{floor}Z" style="fill:{colour(k)};fill-opacity:.22;'
            f'stroke:{colour(k)};stroke-width:1.4"/>'
        )
        for a, b, s in zip(across[:-1], across[1:], share, strict=True):
            box = f'x="{a:.1f}" y="{canvas.top}" width="{b - a:.1f}" height="{floor - canvas.top}"'
            if k == 0:
                canvas.add(f'<rect {box} style="fill:transparent" {tip(f"{s:.1%} of {name}")}/>')
    canvas.upright(reference)
    canvas.kinds(list(values))
    told = "; ".join(
        f"{name}: {len(v):,} values, median {show(float(np.median(v)))}, "
        f"middle half {show(float(np.quantile(v, 0.25)))} to {show(float(np.quantile(v, 0.75)))}"
        for name, v in values.items()
    )
    return Figure(canvas.svg(), title, f"Distribution of {x_label}. {told}.", caption)


def _edges(values: Floats, bins: int) -> Floats:
    """Ends of equal bins; few whole numbers get a bin each, so that none falls between two."""
    low, high = float(values.min()), float(values.max())
    if (values == np.round(values)).all() and high - low >= 1:
        width = max(1.0, np.ceil((high - low + 1) / bins))
        return np.arange(low - 0.5, high + width, width)
    return np.asarray(np.histogram_bin_edges(values, bins))


def point_map(
    title: str,
    x: ArrayLike,
    y: ArrayLike,
    labels: Sequence[str],
    *,
    alt: str,
    kinds: ArrayLike | None = None,
    kind_names: Sequence[str] = (),
    amount: ArrayLike | None = None,
    amount_name: str = "",
    log_amount: bool = False,
    important: ArrayLike | None = None,
    x_label: str = "",
    y_label: str = "",
    axes: bool = False,
    log_x: bool = False,
    caption: str = "",
    search: str = "",
    wide: bool = True,
    most_labels: int = 40,
) -> Figure:
    """Points with names: coloured by kind or by amount, the important ones written beside them, all searchable.

    kinds : number of each point's kind, an index into `kind_names`.
    amount : a number for each point, shown as a shade, of its logarithm where `log_amount`.
    important : written first where there is room.
    """
    across, up = np.asarray(x, float), np.asarray(y, float)
    total = len(across)
    rank = np.zeros(total) if important is None else np.asarray(important, float)
    if total > MAP_POINTS:
        keep = np.sort(np.random.default_rng(0).choice(total, MAP_POINTS, replace=False))
        across, up, rank = across[keep], up[keep], rank[keep]
        labels = [labels[k] for k in keep]
        kinds = None if kinds is None else np.asarray(kinds)[keep]
        amount = None if amount is None else np.asarray(amount)[keep]
        caption = f"{caption} A random {MAP_POINTS:,} of {total:,} points are drawn.".strip()
    scales = AxisScale.of(across, log=log_x, room=0.05), AxisScale.of(up, room=0.06)
    names = [label.split("\n")[0] for label in labels]
    dot = 7.0 if len(across) < 500 else 5.0 if len(across) < 2500 else 3.6

    def drawn(width: int, height: int, labelled: int) -> Canvas:
        size: dict[str, Any] = {"width": width, "height": height, "top": 28}
        if axes:
            canvas = Canvas(*scales, x_label, y_label, **size)
        else:
            canvas = Canvas(None, None, left=8, right=8, bottom=8, **size)
            canvas.parts.clear()
            canvas.x, canvas.y = scales
        px, py = np.asarray(canvas.at_x(across)), np.asarray(canvas.at_y(up))
        if amount is not None:
            raw = np.asarray(amount, float)
            values = np.log(np.maximum(raw, 1e-300)) if log_amount else raw
            level = shades(values, float(np.nanmin(values)), float(np.nanmax(values)))
            for s in range(SHADES):
                canvas.dots(px[level == s], py[level == s], shade(s), dot)
            _shade_legend(canvas, amount_name, np.nanmin(raw), np.nanmax(raw))
        elif kinds is not None:
            marked = [np.asarray(kinds) == k for k in range(len(kind_names))]
            # the rarest kind is drawn last and largest, so that a few labelled ones are seen among many
            for k in sorted(range(len(marked)), key=lambda k: -int(marked[k].sum())):
                rare = 1.6 if marked[k].sum() < len(px) / 5 else 1.0
                canvas.dots(px[marked[k]], py[marked[k]], colour(k), dot * rare, 1.0 if rare > 1 else 0.7)
            canvas.kinds(kind_names)
        else:
            canvas.dots(px, py, colour(0), dot, 0.85)
        for k in clear_places(px, py, names, np.argsort(-rank, kind="stable").tolist(), labelled, width):
            canvas.text(px[k] + 6, py[k] + 4, names[k], kind="halo")
        return canvas

    canvas = drawn(WIDE if wide else NARROW, 430 if wide else 330, most_labels)
    points = {"x": _shares(scales[0].share(across)), "y": _shares(1 - scales[1].share(up)), "label": list(labels)}
    narrow = drawn(PHONE, PHONE, most_labels // 4).svg()
    return Figure(canvas.svg(), title, alt, caption, points=points, search=search, wide=wide, narrow=narrow)


def heat_map(title: str, matrix: ArrayLike, names: Sequence[str], *, value: str, caption: str = "") -> Figure:
    """A square matrix of amounts, rows and columns with the same names in the order given."""
    cells = np.asarray(matrix, float)
    n = len(cells)
    room = int(min(max(len(name) for name in names), 22) * 6.6 + 14)
    side = max(min(560.0 / max(n, 1), 34.0), 3.0)
    canvas = Canvas(None, None, width=int(room + side * n + 90), height=int(side * n + 40), top=28, bottom=12)
    canvas.parts.clear()
    off = cells[~np.eye(n, dtype=bool)] if n > 1 else cells.ravel()
    low, high = float(np.nanmin(off)), float(np.nanmax(off))
    level = shades(np.nan_to_num(cells, nan=low), low, high)
    written = side >= 9
    for i in range(n):
        y = 28 + i * side
        if written:
            canvas.text(room - 6, y + side / 2 + 4, _short(names[i], 22), anchor="end", kind="strong")
        for j in range(n):
            note = tip(f"{names[i]}\n{names[j]}\n{value} {cells[i, j]:.2f}") if n <= 60 else ""
            canvas.add(
                f'<rect x="{room + j * side:.1f}" y="{y:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}" '
                f'style="fill:{shade(int(level[i, j]))}" {note}/>'
            )
    canvas.left = room
    _shade_legend(canvas, value, low, high)
    upper = np.triu_indices(n, 1)
    pairs = (
        sorted(zip(cells[upper].tolist(), *(u.tolist() for u in upper), strict=True), key=lambda t: -t[0])[:3]
        if n > 1
        else []
    )
    told = "; ".join(f"{names[i]} and {names[j]} {v:.2f}" for v, i, j in pairs)
    alt = f"{value} between {n} rows, from {low:.2f} to {high:.2f}. Largest: {told}."
    return Figure(canvas.svg(), title, alt, caption)


def _shade_legend(canvas: Canvas, name: str, low: Any, high: Any) -> None:
    x = float(canvas.left)
    ends = [show(int(v)) if float(v).is_integer() else show(float(v)) for v in (low, high)]
    canvas.text(x, 12, f"{name}  {ends[0]}", kind="strong")
    x += LETTER * len(f"{name}  {ends[0]}") + 4
    for s in range(SHADES):
        canvas.add(f'<rect x="{x + 16 * s:.0f}" y="3" width="16" height="11" style="fill:{shade(s)}"/>')
    canvas.text(x + 16 * SHADES + 8, 12, ends[1], kind="strong")


def _shares(values: Floats) -> list[float]:
    return [round(v, 4) for v in values.tolist()]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def counted(values: NDArray[Any], names: Sequence[str]) -> str:
    """How many of each kind, in words."""
    return ", ".join(f"{int((values == k).sum()):,} {name}" for k, name in enumerate(names))


__all__ = ["counted", "estimates", "heat_map", "histogram", "lines", "point_map"]
