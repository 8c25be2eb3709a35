"""A name means one thing, and a private name is used by the file that has it."""

import ast
import re
from collections import defaultdict

from .tree import file_of, modules

SKLEARN = r"\b(BaseEstimator|ClassifierMixin|RegressorMixin|TransformerMixin|ClusterMixin)\b"


def test_a_class_name_means_one_thing():
    places = defaultdict(list)
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice


def own_names(tree: ast.Module) -> set[str]:
    """Names that a file gives: functions, classes, fields, and attributes of `self`."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                found.add(name)
    return found


def test_nobody_reaches_into_privates_of_another_file():
    given = {name: own_names(tree) for name, tree in modules().items()}
    everywhere = set().union(*given.values())
    reaches = []
    for name, tree in modules().items():
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(attr=attr):
                    private = [attr]
                case ast.ImportFrom(module=str(module)) if module.startswith("halfstep"):
                    private = [alias.name for alias in node.names if alias.name != "_core"]
                case _:
                    continue
            reaches += [
                f"{name}:{node.lineno} {each}"
                for each in private
                if re.match("_[^_]", each) and each in everywhere - given[name]
            ]
    assert not reaches


def test_no_method_is_typed_by_any_self():
    found = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for argument in (*node.args.posonlyargs, *node.args.args)[:1]
        if argument.arg in ("self", "cls") and argument.annotation and "Any" in ast.unparse(argument.annotation)
    ]
    assert not found


def test_what_mypy_is_told_to_overlook_is_scikit_learn():
    found = [
        f"{name}:{number} {line.strip()}"
        for name in modules()
        for number, line in enumerate(file_of(name).read_text(encoding="utf-8").splitlines(), 1)
        if "type: ignore[misc]" in line and not re.search(SKLEARN, line)
    ]
    assert not found
