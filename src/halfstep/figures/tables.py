"""Rows of names and values as a small table, in text and in HTML. Knows nothing of what they mean."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from halfstep.errors import require

Rows = list[dict[str, Any]]
MOST = 40
"""Rows that are shown; more are counted."""


def shown(value: Any) -> str:
    """A value as people read it: four digits, thousands apart, nothing for what is missing."""
    if isinstance(value, (float, np.floating)):
        number = float(value)
        plain = number == 0 or 1e-3 <= abs(number) < 1e5
        return "" if np.isnan(number) else f"{number:,.4f}" if plain else f"{number:.4g}"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        whole = int(value)
        return f"{whole:,}" if abs(whole) >= 10_000 else str(whole)
    return "" if value is None else str(value)


def frame_of(rows: Rows) -> Any:
    """The same as a pandas frame, values as they are."""
    return require("pandas", "frames").DataFrame(rows)


def text_table(rows: Rows, most: int = MOST) -> str:
    """Aligned columns under a rule: numbers to the right, all else to the left."""
    if not rows:
        return "(nothing)"
    head, cells = list(rows[0]), [[shown(value) for value in row.values()] for row in rows[:most]]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [_is_numeric(rows, name) for name in head]

    def line(fields: list[str]) -> str:
        sides = zip(fields, widths, right, strict=True)
        return "  ".join(text.rjust(width) if to else text.ljust(width) for text, width, to in sides).rstrip()

    lines = [line(head), "  ".join("-" * width for width in widths), *map(line, cells)]
    return "\n".join([*lines, *_rest(rows, most)])


def html_table(rows: Rows, caption: str = "", most: int = MOST) -> str:
    """The same for notebooks; whatever the values hold is text."""
    head = list(rows[0]) if rows else []
    right = {name: ' style="text-align:right"' for name in head if _is_numeric(rows, name)}
    cells = "".join(
        "<tr>" + "".join(f"<td{right.get(n, '')}>{html.escape(shown(v))}</td>" for n, v in row.items()) + "</tr>"
        for row in rows[:most]
    )
    names = "".join(f"<th scope='col'{right.get(name, '')}>{html.escape(name)}</th>" for name in head)
    said = f"<caption>{html.escape(' '.join([caption, *_rest(rows, most)]).strip())}</caption>"
    return f"<table>{said}<thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>"


def _is_numeric(rows: Rows, name: str) -> bool:
    return all(isinstance(row[name], (int, float, np.number)) for row in rows)


def _rest(rows: Rows, most: int) -> list[str]:
    return [f"... and {len(rows) - most:,} more"] if len(rows) > most else []


class FactTable(dict[str, Any]):
    """Facts by name that print as a table, in a notebook too. Still a dict."""

    def _rows(self) -> Rows:
        return [{"": name, "value": value} for name, value in self.items()]

    def __repr__(self) -> str:
        return text_table(self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())
