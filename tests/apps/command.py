"""The `halfstep` command, inside this process or in one of its own."""

import subprocess
import sys

import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from halfstep.apps.cli.app import app

HALFSTEP = [sys.executable, "-c", "from halfstep.apps.cli import main; main()"]


def run(*arguments: object, **options):
    return CliRunner().invoke(app, [str(a) for a in arguments], **options)


def shell(*arguments: object, **options):
    """The real command in a process of its own."""
    command = [*HALFSTEP, *(str(a) for a in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def one_line(text: str) -> str:
    """The error: the last line, and nothing that looks like a traceback before it."""
    assert "Traceback" not in text
    return text.strip().splitlines()[-1]
