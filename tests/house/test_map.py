"""docs/design.md is the map: it names every file, and its paths lead through functions that exist."""

from __future__ import annotations

import ast
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType

import pytest

import halfstep as hs

from .tree import PACKAGE, ROOT

TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
LONGEST = {"WALS": 15, "PLQMF": 15, "CFEnsemble": 20, "CFEnsembleCV": 20}


def section(title: str) -> str:
    """What stands under a heading, up to the next one of its level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"docs/design.md has no section {title!r}"
    return found[1]


def named() -> list[str]:
    """Files of the tables: a heading `folder/`, names in the first column below it; a name with a slash is a folder."""
    found = []
    for part in re.split("^### ", section("Every file"), flags=re.MULTILINE)[1:]:
        folder = re.match(r"`([\w/]+/)`", part)
        assert folder, f"a table of files has no folder: {part[:60]!r}"
        for line in part.splitlines():
            if line.startswith("| `"):
                found += [folder[1] + name for name in re.findall(r"`([^`]+)`", line.split(" | ")[0])]
    return found


def tree() -> set[str]:
    """Files that are kept: of the package, and of the core."""
    files = {path for folder in (PACKAGE, ROOT / "cpp") for path in folder.rglob("*") if path.is_file()}
    left_out = {".so", ".pyc", ".typed"}
    return {str(path.relative_to(ROOT)) for path in files if path.suffix not in left_out}


def test_the_map_names_every_file_once():
    names = named()
    folders = tuple(name for name in names if name.endswith("/"))
    files = {file for file in tree() if not file.startswith(folders)} if folders else tree()
    assert sorted(set(names) - set(folders) - files) == [], "these are named and not there"
    assert sorted(files - set(names)) == [], "these are there and not named"
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_the_map_says_of_a_file_what_the_file_says_itself():
    found = spec_from_file_location("map", ROOT / "tools" / "map.py")
    assert found
    assert found.loader
    tool = module_from_spec(found)
    found.loader.exec_module(tool)
    assert section("Every file") == tool.written(), "run `python tools/map.py`"


def paths() -> dict[str, list[tuple[str, str]]]:
    """The hops of each family: file and function."""
    found = {}
    for part in re.split("^### ", section("The path of a cell"), flags=re.MULTILINE)[1:]:
        hops = re.findall(r"^\d+\. `([\w/.]+): ([\w.]+)`", part, re.MULTILINE)
        assert len(hops) == len(re.findall(r"^\d+\. ", part, re.MULTILINE)), "a hop is `file: function`"
        found[part.split()[0].strip("`")] = hops
    return found


@pytest.mark.parametrize("family", LONGEST)
def test_the_path_of_a_cell_is_short(family):
    assert 5 <= len(paths()[family]) <= LONGEST[family]


@pytest.mark.parametrize(("family", "file", "name"), [(f, *hop) for f, hops in paths().items() for hop in hops])
def test_every_hop_exists(family, file, name):
    path = (ROOT if file.startswith("cpp/") else PACKAGE) / file
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        assert defined(ast.parse(text), name.split(".")), f"{file} has no {name}"
    else:
        assert re.search(rf"\b{name.rpartition('.')[2]}\b *[<(]", text), f"{file} has no {name}"


def fit_and_ask(family: str) -> None:
    """One small fit of a family, and one answer."""
    if family == "WALS":
        hs.WALS(rank=2, max_iter=2, random_state=0).fit(hs.datasets.load_sample_skills()).recommend("Data scientist")
    elif family == "PLQMF":
        pairs, y, _ = hs.datasets.make_ratings(20, 15, 150, random_state=0)
        hs.PLQMF(2, loss="absolute", max_iter=2, random_state=0).fit(pairs, y).predict(pairs)
    else:
        P, y, _ = hs.datasets.make_predictions(60, 6, random_state=0)
        chosen = {"CFEnsemble": {"confidence": "certainty", "max_iter": 2}, "CFEnsembleCV": {"ranks": (1,)}}
        getattr(hs, family)(**chosen[family]).fit(P, y).predict_proba()


@pytest.mark.parametrize("family", LONGEST)
def test_a_cell_really_takes_that_path(family):
    hops = [hop for hop in paths()[family] if not hop[0].startswith("cpp/")]
    taken: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            hop = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname
            if hop in hops:
                taken.append(hop)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        fit_and_ask(family)
    finally:
        sys.setprofile(before)
    assert [hop for hop in hops if hop not in taken] == []
    rest = iter(taken)
    assert [hop for hop in hops if hop not in rest] == [], "hops stand in another order than they are taken"


def defined(tree: ast.AST, names: list[str]) -> bool:
    """Whether a class or function of that name stands in a tree, with the rest of the names inside."""
    if not names:
        return True
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return any(
        defined(node, names[1:])
        for node in ast.iter_child_nodes(tree)
        if isinstance(node, kinds) and node.name == names[0]
    )
