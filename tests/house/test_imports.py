"""Imports look downwards only. `make lint` holds the layers; here stands that no two modules need each other."""

from graphlib import CycleError, TopologicalSorter

from .tree import imports, modules


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
    assert not cycle({name: imports(name) for name in modules()})


def test_only_tests_import_the_oracle():
    assert not [name for name in modules() if "halfstep.core.oracle" in imports(name)]


def test_nobody_imports_the_facade_that_stands_above_everything():
    assert not [name for name in modules() if "halfstep" in imports(name)]
