"""The ground of a chart: scales, ticks, a frame with axes, dots, labels. Knows numbers and SVG, not what they mean.

Colours are CSS classes and variables, so that one drawing serves light, dark and paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
SHADES = 7
NARROW, WIDE, PHONE = 430, 860, 340
"""Widths of drawings, in units that are about a pixel on a laptop's screen, or on a phone's."""
LETTER = 7.6
"""Room for a letter of a legend, at the larger size of letters on a phone."""


def colour(k: int) -> str:
    """The k-th colour for kinds of things."""
    return f"var(--c{k % 7})"


def shade(level: int) -> str:
    """A colour for an amount, 0 (faint) to SHADES - 1."""
    return f"var(--q{min(max(level, 0), SHADES - 1)})"


def shades(values: ArrayLike, low: float, high: float) -> NDArray[np.int64]:
    """The shade of every value between `low` and `high`."""
    share = (np.asarray(values, np.float64) - low) / ((high - low) or 1.0)
    return np.clip((share * SHADES).astype(np.int64), 0, SHADES - 1)


@dataclass(frozen=True)
class AxisScale:
    """Numbers from `low` to `high`, by their logarithm where `log`."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, *values: ArrayLike, zero: bool = False, log: bool = False, room: float = 0.04) -> AxisScale:
        """A scale that holds all finite values, with some room on both ends, and 0 where asked."""
        flat = np.concatenate([np.ravel(np.asarray(v, np.float64)) for v in values] or [np.zeros(1)])
        flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
        if not len(flat):
            return cls(0.1, 1, True) if log else cls(0, 1)
        low, high = float(flat.min()), float(flat.max())
        if log:
            spread = max(math.log(high / low), 1e-3) * room
            return cls(low / math.exp(spread), high * math.exp(spread), True)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        spread = (high - low) or abs(high) or 1.0
        return cls(low - (0 if zero and low == 0 else spread * room), high + spread * room)

    def share(self, values: ArrayLike) -> Floats:
        """Where values lie between the ends, 0 to 1."""
        array = np.asarray(values, np.float64)
        if self.log:
            array = np.log(np.maximum(array, 1e-300))
            return np.asarray((array - math.log(self.low)) / (math.log(self.high) - math.log(self.low)))
        return np.asarray((array - self.low) / ((self.high - self.low) or 1.0))

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round numbers within the scale."""
        if self.log and self.high / self.low > 4:
            first, last = math.floor(math.log10(self.low)), math.floor(math.log10(self.high))
            every = max(1, (last - first + 1) // wanted)
            within = (1, 2, 5) if last - first < 3 else (1,)
            marks = [m * 10.0**e for e in range(first, last + 1, every) for m in within]
            return [mark for mark in marks if self.low <= mark <= self.high]
        raw = (self.high - self.low) / wanted
        power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
        step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def number(value: float) -> str:
    """A tick as short as it can be."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")
    text = f"{value:,.4f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


@dataclass
class Canvas:
    """A frame with axes; `x` and `y` are scales or None for a side that is drawn by hand."""

    x: AxisScale | None
    y: AxisScale | None
    x_label: str = ""
    y_label: str = ""
    width: int = NARROW
    height: int = 260
    left: int = 62
    right: int = 14
    top: int = 12
    bottom: int = 44
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.y is not None:
            for tick in self.y.ticks():
                y = self.at_y(tick)
                self.add(f'<path class="grid" d="M{self.left} {y:.1f}H{self.width - self.right}"/>')
                self.text(self.left - 8, y + 4, number(tick), anchor="end")
        if self.x is not None:
            for tick in self.x.ticks(8 if self.width >= WIDE else 5):
                x = self.at_x(tick)
                self.add(f'<path class="grid" d="M{x:.1f} {self.top}V{self.height - self.bottom}"/>')
                self.text(x, self.height - self.bottom + 17, number(tick), anchor="middle")
        floor = self.height - self.bottom
        self.add(f'<path class="axis" d="M{self.left} {floor}H{self.width - self.right}"/>')
        if self.x_label:
            self.text((self.left + self.width - self.right) / 2, self.height - 8, self.x_label, anchor="middle")
        if self.y_label:
            middle = (self.top + floor) / 2
            turned = f'transform="rotate(-90 10 {middle:.0f})"'
            self.add(f'<text x="10" y="{middle:.0f}" text-anchor="middle" {turned}>{escape(self.y_label)}</text>')

    def at_x(self, values: ArrayLike) -> Any:
        assert self.x is not None
        return self.left + self.x.share(values) * (self.width - self.left - self.right)

    def at_y(self, values: ArrayLike) -> Any:
        assert self.y is not None
        return self.height - self.bottom - self.y.share(values) * (self.height - self.top - self.bottom)

    def add(self, part: str) -> None:
        self.parts.append(part)

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> None:
        style = f' class="{kind}"' if kind else ""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>')

    def line(self, x: ArrayLike, y: ArrayLike, stroke: str, kind: str = "line") -> None:
        """A line through points; gaps where a value is not finite."""
        across, up = np.asarray(self.at_x(x)), np.asarray(self.at_y(y))
        good = np.isfinite(across) & np.isfinite(up)
        pieces, pen = [], "M"
        for ok, a, b in zip(good, across, up, strict=True):
            if ok:
                pieces.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L" if ok else "M"
        self.add(f'<path class="{kind}" d="{"".join(pieces)}" style="stroke:{stroke}"/>')

    def dots(self, x: Floats, y: Floats, stroke: str, size: float, opacity: float = 1.0) -> None:
        """Many dots as one path: a line of no length with round ends. A tenth of the bytes of circles."""
        if len(x):
            path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x, y, strict=True))
            fade = f";opacity:{opacity:g}" if opacity < 1 else ""
            self.add(f'<path class="dots" d="{path}" style="stroke:{stroke};stroke-width:{size:g}{fade}"/>')

    def upright(self, x: float | None) -> None:
        """A dashed line at `x`, from the floor to the top, where there is one."""
        if x is not None:
            self.add(f'<path class="ref" d="M{self.at_x(x):.1f} {self.top}V{self.height - self.bottom}"/>')

    def kinds(self, names: Sequence[str]) -> None:
        """Names with their colours in one row above the frame, where there are several."""
        x = float(self.left)
        for k, name in enumerate(names if len(names) > 1 else ()):
            self.add(f'<path d="M{x:.0f} 8h14" style="stroke:{colour(k)};stroke-width:4;stroke-linecap:round"/>')
            self.text(x + 20, 12, name, kind="strong")
            x += 34 + LETTER * len(name)

    def svg(self) -> str:
        """The drawing; `data-plot` says where its frame lies, for the script that rings points."""
        body, inner = "".join(self.parts), (self.width - self.left - self.right, self.height - self.top - self.bottom)
        frame = f'viewBox="0 0 {self.width} {self.height}" data-plot="{self.left} {self.top} {inner[0]} {inner[1]}"'
        return f'<svg {frame} aria-hidden="true" focusable="false">{body}</svg>'


def tip(text: str) -> str:
    """The attribute that makes the page show `text` at the pointer."""
    return f'data-t="{escape(text, quote=True)}"'


def clear_places(
    x: Floats, y: Floats, texts: Sequence[str], order: Sequence[int], most: int, width: float
) -> list[int]:
    """Which labels can be written beside their points without touching one already written, in `order`."""
    taken: list[tuple[float, float, float, float]] = []
    chosen: list[int] = []
    for k in order:
        long = 6.2 * len(texts[k])
        box = (x[k] + 5, y[k] - 9, x[k] + 5 + long, y[k] + 5)
        free = all(box[2] < t[0] or box[0] > t[2] or box[3] < t[1] or box[1] > t[3] for t in taken)
        if free and box[2] <= width and box[1] >= 0:
            taken.append(box)
            chosen.append(k)
        if len(chosen) >= most:
            break
    return chosen
