"""Write the types of the compiled core as nanobind's stubgen reads them off it; `--check` only says if they are old."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

from halfstep import _core

STUB = Path(__file__).parents[1] / "src" / "halfstep" / "_core.pyi"

HEAD = """\
# Written by tools/stub.py from the compiled core: run `make format`, do not edit.
# mypy takes arrays of float32 and of float64 for overlapping types; the core does not.
# mypy: disable-error-code="overload-overlap"
"""


def ruff(text: str, *command: str) -> str:
    """The text as ruff wants it."""
    call = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(STUB), "-"]
    return subprocess.run(call, input=text, text=True, check=True, capture_output=True).stdout


def current() -> str:
    generator = StubGen(_core)
    generator.put(_core)
    return ruff(ruff(HEAD + generator.get(), "check", "--fix", "--exit-zero"), "format")


if __name__ == "__main__":
    if "--check" not in sys.argv:
        STUB.write_text(current())
    elif STUB.read_text() != current():
        sys.exit(f"{STUB} is not what the compiled core has: run `make format`.")
