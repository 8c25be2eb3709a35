"""The maker of mutants makes what it says, and tells those that tests notice from others."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import mutants

SOURCE = '''
"""Text is left alone."""
def f(x: int = 3) -> bool:
    if x < 1 and x != -2:
        raise ValueError(f"{x + 1}")
    return x * 2 > 0
'''


def test_every_change_is_one_small_one() -> None:
    words = [mutants.mutated(SOURCE, at, k)[1].split(": ", 1)[1] for at, k in mutants.mutants(SOURCE)]
    assert sorted(words) == sorted(
        [
            "3 -> 4",
            "x < 1 and x != -2 -> x < 1 or x != -2",
            "x < 1 -> x <= 1",
            "1 -> 2",
            "x != -2 -> x == -2",
            "-2 -> --2",
            "2 -> 3",
            "return x * 2 > 0 -> return None",
            "x * 2 > 0 -> x * 2 >= 0",
            "x * 2 -> x / 2",
            "2 -> 3",
            "0 -> 1",
        ]
    )
    for at, k in mutants.mutants(SOURCE):
        assert ast.unparse(mutants.mutated(SOURCE, at, k)[0]) != ast.unparse(ast.parse(SOURCE))


FATE = """
import ast, sys
import mutants

path = mutants.SOURCE / "errors.py"
text = path.read_text(encoding="utf-8")
for more in ("", "def close_matches(*given, **more):\\n    return []\\n"):
    print(mutants.fate(path, ast.parse(text + "\\n\\n" + more), sys.argv[1:], 120))
"""


@pytest.mark.heavy
def test_a_change_that_a_test_notices_is_killed_and_another_lives(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "def test_it():\n"
        "    from halfstep.errors import close_matches\n"
        "    assert close_matches('abd', ['abc']) == ['abc']\n"
    )
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", FATE, test], capture_output=True, text=True, cwd=tmp_path, env=here)
    assert done.stdout == "alive\nkilled\n", done.stderr
