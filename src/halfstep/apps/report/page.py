"""What a page is made of, and how it becomes one HTML file. Knows no model and no chart.

A page has chapters (one for each model), a chapter has sections, a section has blocks. Style and script are put
into the file, so that it opens offline and can be sent by mail.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from halfstep._version import __version__
from halfstep.apps.written import decimals
from halfstep.data.files import atomic_write
from halfstep.errors import require


@dataclass
class Prose:
    """A paragraph. Text between backticks is shown as code."""

    text: str
    kind: ClassVar[str] = "prose"


@dataclass
class Note:
    """A remark that matters. level : "warning", "good" or "info"."""

    text: str
    level: str = "warning"
    kind: ClassVar[str] = "note"


@dataclass
class Facts:
    """Names and values side by side."""

    facts: dict[str, Any]
    kind: ClassVar[str] = "facts"

    @property
    def shown(self) -> dict[str, str]:
        return {name: show(value) for name, value in self.facts.items()}


@dataclass
class Table:
    """Rows under column names; people sort it by its heads, and search it where `search` is set.

    best : column in which the largest value is marked. wide : whether it takes the whole width.
    """

    columns: list[str]
    rows: list[list[Any]]
    caption: str = ""
    search: bool = False
    best: str | None = None
    wide: bool = True
    kind: ClassVar[str] = "table"

    @property
    def cells(self) -> list[list[dict[str, Any]]]:
        """Text, sort key and alignment of every cell."""
        numeric = [all(_is_number(sort_key(row[c])) for row in self.rows) for c in range(len(self.columns))]
        digits = [decimals(row[c] for row in self.rows) for c in range(len(self.columns))]
        out = [
            [
                {"text": show(v, digits[c]), "key": sort_key(v), "number": numeric[c], "best": False}
                for c, v in enumerate(row)
            ]
            for row in self.rows
        ]
        if self.best is not None and self.rows:
            column = self.columns.index(self.best)
            top = max(range(len(out)), key=lambda r: out[r][column]["key"])
            for cell in out[top]:
                cell["best"] = True
        return out


@dataclass
class Figure:
    """A drawn chart with its text alternative.

    alt : what the chart shows, in a sentence or two, with its numbers.
    points : for maps, what the script needs to answer the pointer and the search box (see `page.js`).
    wide : whether it takes the whole width. narrow : the same drawn anew for the width of a phone.
    """

    svg: str
    title: str
    alt: str
    caption: str = ""
    points: dict[str, Any] | None = None
    search: str = ""
    wide: bool = False
    narrow: str = ""
    kind: ClassVar[str] = "figure"

    @property
    def data(self) -> str:
        """The points as JSON that cannot end the script element it stands in."""
        return json.dumps(self.points, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


Block = Prose | Note | Facts | Table | Figure


@dataclass
class Section:
    """folded : whether it stands behind its title until somebody opens it."""

    title: str
    blocks: list[Block] = field(default_factory=list)
    lead: str = ""
    folded: bool = False
    slug: str = ""


@dataclass
class Chapter:
    """What is said about one model. notes : what nobody should overlook, before everything else."""

    title: str
    sections: list[Section]
    lead: str = ""
    notes: list[Note] = field(default_factory=list)
    badge: str = ""
    slug: str = ""


@dataclass
class Page:
    title: str
    chapters: list[Chapter]
    lead: str = ""

    def html(self) -> str:
        """The whole page as text."""
        jinja = require("jinja2", "report")
        environment = jinja.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        environment.filters["prose"] = lambda text: _code(text, jinja)
        self._name_anchors()
        folder = resources.files(__package__)
        style, script, template = (
            folder.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js", "page.html")
        )
        made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        text: str = environment.from_string(template).render(
            page=self, style=style, script=script, version=__version__, made=made
        )
        return text

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all."""
        text = self.html()
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return Path(path)

    def _name_anchors(self) -> None:
        for chapter in self.chapters:
            chapter.slug = _slug(chapter.title)
            for section in chapter.sections:
                section.slug = f"{chapter.slug}-{_slug(section.title)}"


def show(value: Any, digits: int | None = None) -> str:
    """A value as people write it. digits : decimals of its column; as many as it needs where none are given."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            return "–"
        if digits is not None:
            return f"{value:,.{digits}f}"
        return f"{value:,.0f}" if abs(float(value)) >= 10_000 else f"{value:.4g}"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(show, value))
    return "–" if value is None else str(value)


def sort_key(value: Any) -> Any:
    """What a column is sorted by: numbers by value, "0.41 [0.38, 0.44]" by its first number, text in lower case."""
    if isinstance(value, (bool, np.bool_, int, float, np.number)):
        return float(value) if np.isfinite(value) else -1e308
    leading = re.match(r"\s*(-?\d+(\.\d+)?(e-?\d+)?)\s*(\[|$)", str(value))
    return float(leading[1]) if leading else str(value).casefold()


def _is_number(value: Any) -> bool:
    return isinstance(value, float)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")


def _code(text: str, jinja: Any) -> Any:
    escaped = str(require("markupsafe", "report").escape(text))
    return require("markupsafe", "report").Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))
