"""Mutants of losses, weights, loop, momentum and metrics: one small change at a time, and whether the tests notice.

    python tests/faults/mutants.py [--each 10] [--seed 0] [--only metrics]

An operator, comparison, number, sign or returned value of a module is changed in its syntax tree; an import hook puts
the result in place of the module, in a forked process that runs the tests that concern it until one fails. No file is
changed. Texts, annotations, decorators and what stands behind `raise` are left alone. `--each` mutants of each file are
drawn from all of them; a mutant is killed where a test fails, an import fails, or nothing ends within `LIMIT` times the
time of the unchanged module. Hypothesis draws the same examples every time, and does not shrink.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.machinery
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "halfstep"
LIMIT = 4
TESTS = {
    "core/losses/*.py": ["core/test_losses", "core/test_ordinal", "core/test_constant"],
    "core/weighting.py": ["core/test_weighting", "models/test_weighting"],
    "core/loop.py": ["core/test_loop", "core/test_guard", "models/test_stopping", "engine/test_momentum"],
    "core/extrapolate.py": ["core/test_extrapolate", "engine/test_momentum"],
    "metrics.py": ["judge/test_metrics"],
}
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    """What can be changed at this place, each as a call that does it."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED:
            yield lambda: setattr(node, "op", SWAPPED[type(op)]())
        case ast.Compare(ops=ops):
            for k, op in enumerate(ops):
                yield lambda k=k, op=op: ops.__setitem__(k, SWAPPED[type(op)]())  # type: ignore[misc]
        case ast.UnaryOp(op=op, operand=operand):  # twice is not at all
            yield lambda: setattr(node, "operand", ast.UnaryOp(op, operand))
        case ast.Constant(value=bool(value)):
            yield lambda: setattr(node, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield lambda: setattr(node, "value", value + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield lambda: setattr(node, "value", ast.Constant(None))


def places(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree that may be changed, in a fixed order."""
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from places(child)


def mutants(text: str) -> list[tuple[int, int]]:
    """(place, change) of every mutant of a source."""
    return [(at, k) for at, node in enumerate(places(ast.parse(text))) for k, _ in enumerate(changes(node))]


def mutated(text: str, at: int, k: int) -> tuple[ast.Module, str]:
    """The tree of a mutant, and what it is in words."""
    tree = ast.parse(text)
    node = list(places(tree))[at]
    before = ast.unparse(node)
    list(changes(node))[k]()
    ast.fix_missing_locations(tree)
    return tree, f"line {getattr(node, 'lineno', 0)}: {before!s:.70} -> {ast.unparse(node):.70}"


class Mutated(importlib.machinery.SourceFileLoader):
    """Loads one module from a tree in place of its file; a finder of itself, to stand first."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        super().__init__(name, str(path))
        self.tree = tree

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        return compile(self.tree, self.path, "exec")


def module_name(path: Path) -> str:
    return ".".join(["halfstep", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


def fate(path: Path, tree: ast.Module, tests: list[str], limit: float) -> str:
    """What comes of this tree in a process of its own: "alive" where all tests pass, "killed", or "late"."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.setsid()
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        sys.meta_path.insert(0, Mutated(module_name(path), path, tree))  # type: ignore[arg-type]
        import pytest

        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not heavy and not spark and not browser"]
        code = 1
        try:
            code = int(pytest.main([*arguments, *tests]))
        finally:
            os._exit(code)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "killed" if status else "alive"
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "late"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--each", type=int, default=10, help="mutants of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files with this in their name")
    options = parser.parse_args()
    os.chdir(ROOT)
    import hypothesis

    for heavy in ("scipy.optimize", "scipy.sparse", "scipy.special", "sklearn.metrics", "tqdm.auto"):
        importlib.import_module(heavy)  # once, not in every child

    everything = [phase for phase in hypothesis.Phase if phase not in (hypothesis.Phase.shrink, hypothesis.Phase.reuse)]
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, phases=everything)
    hypothesis.settings.load_profile("mutants")
    drawn = killed = possible = 0
    for pattern, names in TESTS.items():
        tests = [f"tests/{name}.py" for name in names]
        paths = [path for path in sorted(SOURCE.glob(pattern)) if options.only in str(path.relative_to(SOURCE))]
        begun = time.monotonic()
        if paths and fate(paths[0], ast.parse(paths[0].read_text()), tests, 600) != "alive":
            sys.exit(f"these tests fail without any change: {' '.join(tests)}")
        limit = LIMIT * (time.monotonic() - begun) + 5
        for path in paths:
            where, text = str(path.relative_to(SOURCE)), path.read_text()
            every = mutants(text)
            chosen = sorted(random.Random(f"{options.seed} {where}").sample(every, min(options.each, len(every))))
            alive, late = [], 0
            for at, k in chosen:
                tree, words = mutated(text, at, k)
                found = fate(path, tree, tests, limit)
                alive += [words] * (found == "alive")
                late += found == "late"
            done = len(chosen) - len(alive)
            print(f"{where}: {done} of {len(chosen)} killed, {late} by time; {len(every)} possible", flush=True)
            print("".join(f"    {words}\n" for words in alive), end="", flush=True)
            drawn, killed, possible = drawn + len(chosen), killed + done, possible + len(every)
    print(f"{killed} of {drawn} mutants killed ({killed / max(drawn, 1):.0%}), drawn from {possible}")


if __name__ == "__main__":
    main()
