"""Apps and the judge use what models show: no attribute with one underscore but of the object or file itself."""

import ast
import re
from pathlib import Path

import pytest

import halfstep

ROOT = Path(halfstep.__file__).parent
FILES = sorted(path for layer in ("apps", "judge", "figures") for path in (ROOT / layer).rglob("*.py"))


def reaches(tree: ast.AST) -> list[str]:
    """Private attributes of anything but self, cls, super() and the parts of self's own class."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match("_[^_]", node.attr)
        and node.attr not in own
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]


def test_a_reach_is_found():
    assert reaches(ast.parse("def f(model): return model._y")) == ["model._y"]
    assert not reaches(ast.parse("class A:\n  def f(self): return self._y.shape"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_of_a_model_is_used(path):
    assert not reaches(ast.parse(path.read_text(encoding="utf-8")))
