"""The package as syntax trees: what every test of the house reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "halfstep"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def file_of(module: str) -> Path:
    """The file of a dotted name."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that may run: everything but what stands under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from (below for child in node.orelse for below in (child, *running(child)))
            continue
        yield node
        yield from running(node)


@cache
def imports(module: str) -> set[str]:
    """Modules of the package that `module` imports anywhere: at its top, in functions, by name through `importlib`."""
    names = modules()
    package = module if file_of(module).name == "__init__.py" else module.rpartition(".")[0]
    wanted: list[str] = []
    for node in running(names[module]):
        if isinstance(node, ast.Import):
            wanted += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            wanted += [f"{origin}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            wanted += [each.value for each in node.args if isinstance(each, ast.Constant)]
    # `from a.b import c` means the module a.b.c, or the name c of a.b
    known = {*names, "halfstep._core"}
    found = {name if name in known else name.rpartition(".")[0] for name in wanted}
    return found & names.keys() - {module}
