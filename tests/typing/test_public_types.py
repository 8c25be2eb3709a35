"""Public names have types: what is wrong is refused where it is written. One run of mypy for all of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import halfstep as hs

ROOT, HERE = Path(__file__).parents[2], Path(__file__).parent


@pytest.mark.heavy
def test_mypy_accepts_what_works_and_refuses_what_does_not() -> None:
    pytest.importorskip("mypy")
    files = [HERE / "accepted.py", HERE / "refused.py"]
    command = [sys.executable, "-m", "mypy", "--config-file", HERE / "mypy.ini", "--no-pretty", *files]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert not run.stderr
    found = re.findall(r"^\S*?(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", run.stdout, re.MULTILINE)
    expected = [
        (file.name, str(number), code)
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        for code in re.findall(r"# refused: ([\w-]+)", line)
    ]
    assert found == expected, run.stdout


@pytest.mark.parametrize("name", hs.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(hs, name) is not None
    assert name in dir(hs)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Wals'"):
        _ = hs.Wals  # type: ignore[attr-defined]
