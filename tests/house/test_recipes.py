"""The recipes of CONTRIBUTING.md work as they are written: in a copy of the package that has all of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from halfstep import _core

from .tree import PACKAGE, ROOT

pytestmark = pytest.mark.heavy
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
KINDS = ("loss", "confidence", "aggregator", "weighting", "endpoint", "loader", "back end")

# An editable install finds the package by a hook of its own; the copy must win.
RUN = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
sys.path.insert(0, sys.argv[1])
import halfstep, pytest
assert halfstep.__file__.startswith(sys.argv[1]), halfstep.__file__
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", "pytest.ini", *sys.argv[2:]]))
"""


def recipes() -> dict[str, list[tuple[str, str]]]:
    """For each kind of thing, the files it touches and what is added to them."""
    found = {}
    for section in TEXT.split("\n### ")[1:]:
        title, _, body = section.partition("\n")
        blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", body, re.DOTALL)
        found[title.split()[-1] if title != "A back end" else "back end"] = blocks
    return found


def test_there_is_a_recipe_for_everything_that_is_added():
    assert sorted(recipes()) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recipe_touches_at_most_two_files_besides_its_test(kind):
    files = [file for file, _ in recipes()[kind]]
    assert [file.startswith("tests/") for file in files] == [False] * (len(files) - 1) + [True]
    assert 1 <= len(files) - 1 <= 2
    assert all((ROOT / file).parent.is_dir() for file in files)


def test_recipes_work_as_they_are_written(tmp_path: Path):
    copy = tmp_path / "src" / "halfstep"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "_core.*.so"))
    shutil.copy(_core.__file__, copy)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = []
    for blocks in recipes().values():
        for file, code in blocks:
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as end:
                end.write(("\n\n" if path.stat().st_size else "") + code)
        tests.append(blocks[-1][0])
    command = [sys.executable, "-c", RUN, str(tmp_path / "src"), *tests]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(tests)} passed" in run.stdout or run.stdout.count(".") >= len(tests), run.stdout
