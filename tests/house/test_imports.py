"""Imports look downwards only. `make lint` holds the layers; here stands that no two modules need each other."""

import tomllib
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter

from .tree import ROOT, imports, modules


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_cycle_is_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert not cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_no_module_needs_itself_through_others_even_lazily():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    soon = [each for contract in contracts for each in contract.get("ignore_imports", ())]
    mended = {
        name: {to for to in imports(name) if not any(fnmatch(f"{name} -> {to}", each) for each in soon)}
        for name in modules()
    }
    assert not cycle(mended)


def test_only_tests_import_the_oracle():
    assert not [name for name in modules() if "halfstep.core.oracle" in imports(name)]


def test_nobody_imports_the_facade_that_stands_above_everything():
    assert not [name for name in modules() if "halfstep" in imports(name)]
