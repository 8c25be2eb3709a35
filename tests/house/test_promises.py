"""docs/promises.md names tests that are there, and what is promised of licences and locked packages holds."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from .tree import ROOT

PROMISES = [
    line.split("|")[1:3]
    for line in (ROOT / "docs" / "promises.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| what holds", "| ---"))
]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@cache
def names_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("what", "tests"), PROMISES, ids=[what.strip()[:40] for what, _ in PROMISES])
def test_every_promise_has_a_test_that_is_there(what: str, tests: str) -> None:
    named = TEST.findall(tests)
    assert named, what
    assert not TEST.sub("", tests).strip(" ,"), tests
    assert [(file, name) for file, name in named if name not in names_of(ROOT / file)] == []


def test_everything_locked_has_a_hash() -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text(encoding="utf-8").strip())
    locked = {}
    for entry in entries:
        name, version = re.match(r"([\w.-]+)==(\S+)", entry).groups()
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), name
        locked[name.lower().replace("_", "-")] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.search(r"^LOCKED := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1].split()
    wanted = project["dependencies"] + [one for extra in extras for one in project["optional-dependencies"][extra]]
    names = {re.match(r"[\w.-]+", one)[0].lower().replace("_", "-") for one in wanted}
    assert names - locked.keys() == set()


def test_what_is_linked_in_has_its_licence() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for name, words in (
        ("nanobind", "Redistributions in binary form must reproduce the above copyright notice"),
        ("robin-map", 'THE SOFTWARE IS PROVIDED "AS IS"'),
    ):
        _, _, licence = notice.partition(f"-- {name} --")
        assert words in " ".join(licence.split()), name
    linked = re.findall(r"^#include <(\w+)/", "".join(path.read_text() for path in (ROOT / "cpp").iterdir()), re.M)
    assert set(linked) - {"sys"} == {"nanobind"}
