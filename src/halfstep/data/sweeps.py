"""A checkpoint of a fit on this machine: one file, written whole or not at all every so many sweeps.

Knows arrays and JSON, not what a fit computes: a fit hands over what it needs to go on, and takes it back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.data import files
from halfstep.data.files import Saved
from halfstep.errors import CheckpointError, check_number

KIND = "checkpoint"


def digest_of(*parts: Any) -> str:
    """A short text that differs where arrays, numbers or texts do."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            found.update(json.dumps(part, sort_keys=True, default=str).encode())
    return found.hexdigest()[:16]


@dataclass(frozen=True)
class SweepFile:
    """Where a fit keeps itself every `every` sweeps. `mark` says which fit: digests by what they are of."""

    path: Path
    every: int
    mark: Mapping[str, str]

    @classmethod
    def of(
        cls, path: str | os.PathLike[str] | None, every: int, resume: bool, mark: Mapping[str, str]
    ) -> SweepFile | None:
        """None where there are no checkpoints."""
        check_number("every", every, at_least=1, whole=True)
        if path is None:
            if resume:
                raise ValueError("resume=True needs `checkpoint`, the file that the lost fit wrote to.")
            return None
        return cls(Path(path), int(every), mark)

    def load(self, resume: bool) -> Saved | None:
        """What was written last; None where a fit begins. Refuses the file of another fit, or one not asked for."""
        if not self.path.exists():
            return None
        saved = files.read(self.path, KIND)
        differ = [name for name in self.mark if saved.meta["mark"].get(name) != self.mark[name]]
        if differ:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} is of another fit: {', '.join(differ)} differ. Name a new file, or "
                "give the data and parameters of the fit that wrote it."
            )
        if not resume:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} already holds sweep {saved.meta['sweep']} of this fit; pass "
                "resume=True to continue from it, or name a new file to start again."
            )
        return saved

    def due(self, sweep: int) -> bool:
        return sweep % self.every == 0

    def save(self, sweep: int, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Everything after so many sweeps, in the place of what was there."""
        files.save(self.path, KIND, {}, arrays, {"mark": dict(self.mark), "sweep": sweep, **meta})
