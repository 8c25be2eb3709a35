"""Writes the tables of files in docs/design.md from what every file says of itself in its first lines.

python tools/map.py            # rewrites the section "Every file"; tests/house/test_map.py says when it is due
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design.md"
PACKAGE = ROOT / "src" / "halfstep"
LAYERS = ("", "apps", "judge", "models", "ensemble", "figures", "engine", "data", "core")
SECTION = re.compile(r"(?<=^## Every file\n).*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LONGEST = 180

# What cannot speak for itself.
OTHERS = {
    "_core.pyi": "The face of the compiled core: generated from it",
    "page.html": "The page of a report, filled by `page.py`",
    "page.css": "Its looks, light and dark, on paper too",
    "page.js": "Its tables that sort and search, its tips",
    "sample_skills.csv": "What `sample.py` reads",
    "static/": "The explorer in the browser: plain HTML, CSS and modules of JavaScript, nothing to build",
}


def room(path: Path) -> str:
    """The first sentences of a file about itself: of its docstring, or of the comment at its top."""
    if path.name in OTHERS:
        return OTHERS[path.name]
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        said = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    else:
        said = re.sub(r"^// ?", "", re.split(r"^(?!// )", text, maxsplit=1, flags=re.MULTILINE)[0], flags=re.MULTILINE)
    sentences = re.split(r"(?<=[.?]) (?=[A-Z`])", " ".join(said.split()))
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + len(sentence) > LONGEST:
            break
        kept += " " + sentence
    return kept.rstrip(".:").replace("|", "/")


def table(folder: Path, names: list[str]) -> str:
    rows = [f"| `{name}` | {room(folder / name) if not name.endswith('/') else OTHERS[name]} |" for name in names]
    return "\n".join([f"### `{folder.relative_to(ROOT)}/`", "| file | room |", "| --- | --- |", *rows, ""])


def folders() -> list[Path]:
    """Folders of Python files from the top layer down, then the core."""
    below = [
        sorted({path.parent for path in (PACKAGE / layer).rglob("*.py")}) if layer else [PACKAGE] for layer in LAYERS
    ]
    return [*(folder for layer in below for folder in layer), ROOT / "cpp"]


def files(folder: Path) -> list[str]:
    """Names in a folder, `__init__.py` first; a folder without Python files is one name."""
    inside = [path for path in folder.iterdir() if path.suffix not in (".so", ".typed") and path.name != "__pycache__"]
    names = [path.name for path in inside if path.is_file()]
    names += [f"{path.name}/" for path in inside if path.is_dir() and not list(path.rglob("*.py"))]
    return sorted(names, key=lambda name: (name != "__init__.py", name))


def written() -> str:
    """The section as it should stand."""
    return "\n".join(table(folder, files(folder)) for folder in folders()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(SECTION.sub(lambda _: written(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
