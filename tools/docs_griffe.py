"""Docstrings as the pages of the API want them: what stands as `name : text` for a terminal is a list in Markdown."""

import re
from typing import Any

import griffe

_NAMED = re.compile(r"^([A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)*(?: \([^)]*\))?) : (.*)$")
_UNDER = re.compile(r"^([A-Z][\w ]+)\n-{3,}$", re.MULTILINE)


def as_markdown(text: str) -> str:
    """Headings bold, named lines as items; what is indented by four stays code."""
    text = _UNDER.sub(r"**\1**\n", text)
    lines: list[str] = []
    named = False
    for line in text.splitlines():
        found = _NAMED.match(line)
        if found:
            if not named and lines and lines[-1].strip():
                lines.append("")
            named = True
            lines.append(f"- `{found[1]}`: {found[2]}")
        else:
            named = named and (line.startswith("    ") or not line.strip())
            lines.append(line)
    return "\n".join(lines)


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
