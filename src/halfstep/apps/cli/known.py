"""Somebody or something new, as the command is told of it: rows of features by id, or values as typed.

Knows files and columns. Must not know what a model makes of them.
"""

from __future__ import annotations

from typing import Any

import typer
from rich.markup import escape

from halfstep.apps.cli.sources import opened
from halfstep.apps.console import say
from halfstep.data.datasets.whole_tables import rows_by_id
from halfstep.data.features import Features


def sizes_of(features: dict[str, Features]) -> dict[str, Any]:
    """Columns and stored values of each, for an estimate of memory."""
    return {name: (each.shape[1], each.matrix.nnz) for name, each in features.items()}


def rows_of(source: str, side: str) -> dict[Any, dict[str, Any]]:
    """A table as a dict of id to dict: new rows, in the words of the table that the fit was given."""
    with opened(source) as path:
        key, rows = rows_by_id(path, side)
    say(f"took {escape(repr(key))} of {escape(source)} as {side}")
    return rows


def values_in(pairs: list[str]) -> dict[str, Any]:
    """{column: value} from NAME=VALUE as typed; numbers are numbers."""
    found: dict[str, Any] = {}
    for text in pairs:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise typer.BadParameter(f"--feature {text!r} must be NAME=VALUE, such as sector=food")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            found[name.strip()] = value.strip()
    return found
