"""`model.report(path)` asks for a page, and pages are made far above the models.

So nothing is imported here: `halfstep/__init__.py`, which stands above everything and runs before any part of the
package, puts the writer of pages into `write`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol


class Writer(Protocol):
    """Writes a page about a fitted model and returns its path."""

    def __call__(
        self, model: object, path: str | os.PathLike[str], *, title: str | None = None, **evidence: Any
    ) -> Path: ...


write: Writer
