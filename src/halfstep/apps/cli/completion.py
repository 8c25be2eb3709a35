"""What the shell offers after a tab: words an option knows, columns of the table, names in the model.

Runs while somebody types: it reads little, and what goes wrong offers nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer

MOST = 40

Complete = Callable[[str], list[str]]
InContext = Callable[[typer.Context, str], list[str]]


def begins(known: Iterable[Any], incomplete: str) -> list[str]:
    """Those that begin with what was typed, case ignored."""
    typed = incomplete.casefold()
    return [str(each) for each in known if str(each).casefold().startswith(typed)][:MOST]


def words(*known: str) -> Complete:
    """One of these."""
    return lambda incomplete: begins(known, incomplete)


def lazily(find: Callable[[], Iterable[str]]) -> Complete:
    """One of the words that `find()` gives; what it imports is imported when somebody asks."""
    return lambda incomplete: begins(sorted(find()), incomplete)


def many(find: Callable[[], Iterable[str]]) -> Complete:
    """The same after the last comma."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [before + comma + word for word in begins(sorted(find()), last)]

    return complete


def losses() -> Iterable[str]:
    from halfstep.core.losses import NAMES

    return NAMES


def weightings() -> Iterable[str]:
    from halfstep.core.weighting import WEIGHTINGS

    return WEIGHTINGS


def metrics() -> Iterable[str]:
    from halfstep.judge.rankings import METRICS
    from halfstep.judge.rating_metrics import RATING_METRICS

    return [*METRICS, *RATING_METRICS]


def files(incomplete: str) -> list[str]:
    """Model files below the folder that was typed."""
    folder = Path(incomplete).parent if incomplete and not incomplete.endswith("/") else Path(incomplete or ".")
    found = [p for p in folder.iterdir() if p.is_dir() or p.suffix == ".safetensors"] if folder.is_dir() else []
    return begins((f"{p}/" if p.is_dir() else str(p) for p in sorted(found)), incomplete)


def _argument(context: typer.Context, *names: str) -> str:
    """The file that was named before. An option that still lacks its value leaves arguments where they were typed."""
    found = [context.params[name] for name in names if context.params.get(name)]
    return str((found or [word for word in context.args if not word.startswith("-")])[0])


def columns(context: typer.Context, incomplete: str) -> list[str]:
    """Columns of the table that was named before."""
    from halfstep.data.datasets._sources import read_columns

    found: list[str] = []

    class _Enough(Exception):
        """Nothing but the names is wanted."""

    def look(names: list[Any]) -> dict[str, Any]:
        found.extend(map(str, names))
        raise _Enough

    with contextlib.suppress(Exception):  # somebody is typing: whatever is wrong is said when the command runs
        read_columns(_argument(context, "data", "pairs"), look)
    return begins(found, incomplete)


def names(side: int) -> InContext:
    """Names of users (0) or items (1) of the model that was named before: those that complete what was typed."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from halfstep.apps.cli.asking import names_of
        from halfstep.kinds import load

        try:
            known = names_of(load(_argument(context, "model"), mmap=True), side)
            return [known.label(row) for row in known.complete(incomplete, MOST).tolist()]
        except Exception:  # as above
            return []

    return complete
