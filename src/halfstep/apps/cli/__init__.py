"""The `halfstep` command: what people type. Knows estimators and files; computes nothing itself.

Exit codes: 0 done, 1 failed (one line on standard error says why), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command with the arguments of this process."""
    try:
        from halfstep.apps.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"halfstep: the command needs {error.name}; `pip install 'halfstep[cli]'` brings it")
    app(prog_name="halfstep")
