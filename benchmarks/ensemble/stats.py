"""Comparing methods over many tasks: ranks, wins, signed-rank tests, critical differences, text tables.

Knows a table of scores (tasks, methods) and the methods' names. Must not know what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata, studentized_range, wilcoxon

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """One pair: how often the first wins, ties, loses, the Wilcoxon p-value and Holm's correction of it."""

    first: str
    second: str
    wins: int
    ties: int
    losses: int
    p: float
    p_holm: float


LETTER = 6.5  # width of a letter of a diagram in pixels, about


def _check(scores: ArrayLike, methods: Sequence[str]) -> Floats:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(methods) or len(table) == 0:
        raise ValueError(f"scores has shape {table.shape}; it must be (tasks, {len(methods)}), a column per method")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        i, j = bad[0]
        raise ValueError(f"scores[{i}, {j}] of {methods[j]!r} is {table[i, j]}; leave out tasks that it did not finish")
    return table


def ranks(scores: ArrayLike, higher_is_better: bool = True) -> Floats:
    """(tasks, methods) rank of each method within a task, 1 the best; ties share the mean rank."""
    table = np.asarray(scores, dtype=np.float64)
    ranked: Floats = rankdata(-table if higher_is_better else table, axis=1)
    return ranked


def mean_ranks(scores: ArrayLike, methods: Sequence[str], higher_is_better: bool = True) -> dict[str, float]:
    """Mean rank over tasks, best first."""
    means = ranks(_check(scores, methods), higher_is_better).mean(axis=0)
    order = np.argsort(means, kind="stable")
    return {methods[k]: float(means[k]) for k in order}


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down correction: sorted p_(k) becomes min(1, max_{l <= k} (tests - l) p_(l)), l from 0."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order]))
    corrected = np.empty_like(p)
    corrected[order] = stepped
    return corrected


def compare(
    scores: ArrayLike,
    methods: Sequence[str],
    higher_is_better: bool = True,
    tie: float = 0.0,
    against: str | None = None,
) -> list[Comparison]:
    """Every pair of methods, or `against` one with each other one. Differences of at most `tie` are ties.

    The p-value is of the two-sided Wilcoxon signed-rank test over tasks, zero differences dropped; 1 where no
    difference is left. Holm's correction is over the pairs compared here. Average the seeds of a data set
    before: tasks must be independent.
    """
    table = _check(scores, methods) * (1 if higher_is_better else -1)
    if against is not None and against not in methods:
        raise ValueError(f"against={against!r} is not among the methods {list(methods)}")
    pairs = [(a, b) for a, b in combinations(range(len(methods)), 2)]
    if against is not None:
        k = methods.index(against)
        pairs = [(k, other) for other in range(len(methods)) if other != k]
    gaps = [table[:, a] - table[:, b] for a, b in pairs]
    p = np.array([wilcoxon(gap, zero_method="wilcox").pvalue if np.any(gap) else 1.0 for gap in gaps])
    return [
        Comparison(
            methods[a],
            methods[b],
            int((gap > tie).sum()),
            int((np.abs(gap) <= tie).sum()),
            int((gap < -tie).sum()),
            float(raw),
            float(fixed),
        )
        for (a, b), gap, raw, fixed in zip(pairs, gaps, p, holm(p), strict=True)
    ]


def critical_difference(methods: int, tasks: int, alpha: float = 0.05) -> float:
    """Nemenyi: mean ranks further apart than q sqrt(k (k + 1) / (6 tasks)) differ at level alpha.

    q is the 1 - alpha quantile of the studentised range of k methods, infinite degrees of freedom,
    over sqrt(2).
    """
    q = studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * tasks)))


def cliques(sorted_ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Maximal runs (first, last) of sorted mean ranks no further apart than `difference`, of at least two."""
    values = np.asarray(sorted_ranks)
    last = np.searchsorted(values, values + difference, side="right") - 1
    runs = [(k, int(end)) for k, end in enumerate(last) if end > k]
    return [run for k, run in enumerate(runs) if k == 0 or run[1] > runs[k - 1][1]]


def diagram(
    scores: ArrayLike,
    methods: Sequence[str],
    higher_is_better: bool = True,
    alpha: float = 0.05,
    title: str = "",
) -> str:
    """A critical-difference diagram as SVG text: mean ranks on an axis, bars join those not apart."""
    table = _check(scores, methods)
    means = mean_ranks(table, methods, higher_is_better)
    names, values = list(means), list(means.values())
    k = len(names)
    difference = critical_difference(k, len(table), alpha)
    joined = cliques(values, difference)
    margin = 40 + LETTER * max(len(name) + len(" (10.00)") for name in names)
    width, axis = 2 * margin + 340, 82
    bars = axis + 14
    rows = bars + 10 * len(joined) + 18
    height = rows + 20 * ((k + 1) // 2) + 16

    def x(rank: float) -> float:
        return margin + (rank - 1) / max(k - 1, 1) * (width - 2 * margin)

    parts = [_line(x(1), axis, x(k), axis), _line(x(1), 50, x(1 + min(difference, k - 1)), 50, 2)]
    parts.append(_text(x(1), 42, f"critical difference {difference:.2f}, {len(table)} tasks, level {alpha:g}"))
    for tick in range(1, k + 1):
        parts += [_line(x(tick), axis - 5, x(tick), axis), _text(x(tick), axis - 9, str(tick), "middle")]
    for level, (first, last) in enumerate(joined):
        y = bars + 10 * level
        parts.append(_line(x(values[first]) - 3, y, x(values[last]) + 3, y, 4))
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        left = place < (k + 1) // 2
        y = rows + 20 * (place if left else k - 1 - place)
        end, anchor = (margin - 12, "end") if left else (width - margin + 12, "start")
        parts += [_line(x(value), axis, x(value), y), _line(x(value), y, end, y)]
        parts.append(_text(end + (-4 if left else 4), y + 4, f"{name} ({value:.2f})", anchor))
    if title:
        parts.append(_text(width / 2, 18, title, "middle"))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    background = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"


def write_diagram(path: str | Path, svg: str) -> None:
    """Write beside the place and rename."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(svg, encoding="utf-8")
    temporary.replace(path)


def _line(x1: float, y1: float, x2: float, y2: float, thick: float = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="black" stroke-width="{thick:g}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]], digits: int = 3) -> str:
    """Columns aligned: text to the left, numbers to the right, floats with `digits` decimals."""
    cells = [[f"{v:.{digits}f}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    if any(len(row) != len(header) for row in cells):
        raise ValueError(f"every row must have {len(header)} cells, as the header {list(header)}")
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    numeric = [all(isinstance(row[k], int | float) for row in rows) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        fitted = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True))
        return "  ".join(fitted).rstrip()

    return "\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, cells)])


def summary(scores: ArrayLike, methods: Sequence[str], higher_is_better: bool = True, tie: float = 0.0) -> str:
    """A text table, best mean rank first: mean score, mean rank, wins/ties/losses and p against the best."""
    table = _check(scores, methods)
    placed = mean_ranks(table, methods, higher_is_better)
    best = next(iter(placed))
    versus = {c.second: c for c in compare(table, methods, higher_is_better, tie, against=best)}
    rows: list[list[object]] = []
    for name, rank in placed.items():
        row: list[object] = [name, float(table[:, methods.index(name)].mean()), rank]
        pair = versus.get(name)
        row += ["", ""] if pair is None else [f"{pair.losses}/{pair.ties}/{pair.wins}", f"{pair.p_holm:.2g}"]
        rows.append(row)
    return text_table(["method", "mean", "mean rank", f"w/t/l against {best}", "p (Holm)"], rows)
