"""A chart as a picture of its own: one SVG file that needs no page. Knows drawings and the style sheet, no models."""

from __future__ import annotations

import os
import re
import textwrap
from html import escape
from importlib.resources import files
from pathlib import Path

from halfstep.apps.report.page import Figure
from halfstep.data.files import atomic_write

ROOM, LINE, SMALL, LETTER = 12, 20, 15, 6.0
"""Units around the drawing, for its title, for a line of its caption, and for a letter of that."""
TITLE = "font-size:15px;font-weight:600"


def write_picture(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a chart of `report.charts` as an SVG file with title, caption and text alternative, on white."""
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', figure.svg)
    assert found is not None
    width = int(found[1]) + 2 * ROOM
    told = textwrap.wrap(figure.caption, int(int(found[1]) / LETTER))
    height = int(found[2]) + 2 * ROOM + LINE + SMALL * len(told)
    inner = figure.svg.replace("<svg ", f'<svg x="{ROOM}" y="{ROOM + LINE}" width="{found[1]}" height="{found[2]}" ', 1)
    first = height - ROOM - SMALL * (len(told) - 1)
    caption = "".join(
        f'<text x="{ROOM}" y="{first + SMALL * k}" style="font-size:11px">{escape(line)}</text>'
        for k, line in enumerate(told)
    )
    title = f'<text x="{ROOM}" y="{ROOM + 8}" class="strong" style="{TITLE}">{escape(figure.title)}</text>'
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(figure.alt, quote=True)}" class="chart"><style>{_style()}</style>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f"{title}{inner}{caption}</svg>\n"
    )
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def _style() -> str:
    """What the page says of charts, in its light colours."""
    sheet = files("halfstep.apps.report").joinpath("page.css").read_text(encoding="utf-8")
    light = re.search(r":root \{[^}]*\}", sheet)
    assert light is not None
    rules = [rule for rule in re.findall(r"^\.chart [^{]*\{[^}]*\}", sheet, re.MULTILINE) if ".chart svg" not in rule]
    return " ".join([light[0].replace("\n", ""), "svg { font: 12px system-ui, sans-serif; }", *rules])
