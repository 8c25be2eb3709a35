"""The `halfstep` command: what people type. Knows estimators and files; computes nothing itself.

Exit codes: 0 done, 1 failed (one line on standard error says why), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command with the arguments of this process."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by whoever started the command: nobody wants to hear it
            setattr(sys, stream, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        from halfstep.apps.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"halfstep: the command needs {error.name}; `pip install 'halfstep[cli]'` brings it")
    try:
        app(prog_name="halfstep")
    except OSError as error:  # commands tell their own; this is help that cannot be written
        if os.environ.get("HALFSTEP_DEBUG"):
            raise
        sys.exit(f"halfstep: {error.strerror or error}")
