"""A checkpoint of a fit on this machine: one file, written whole or not at all every so many sweeps.

Knows arrays and JSON, not what a fit computes: a fit hands over what it needs to go on, and takes it back.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.cells import Observations
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
            found.update(json.dumps(part, sort_keys=True, default=_described).encode())
    return found.hexdigest()[:16]


def digest_of_cells(cells: Observations) -> str:
    """The same for the same cells, targets and weights."""
    return digest_of(*(np.asarray(v) for v in (cells.indptr, cells.indices, cells.targets, cells.weights)))


def _described(value: Any) -> Any:
    """An object in a form that is the same in every process: what it is, and what is in it."""
    if isinstance(value, np.ndarray):
        return digest_of(value)
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "__qualname__"):  # functions and classes
        return f"{value.__module__}.{value.__qualname__}"
    return [type(value).__qualname__, getattr(value, "__dict__", None) or str(value)]


def seconds_of(every: int | str) -> float | None:
    """The seconds that "90s" stands for; None for a number of sweeps, which is checked."""
    if isinstance(every, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*s", every.strip())
        if found is None:
            raise ValueError(f"every={every!r} must be a whole number of sweeps, or seconds such as '60s'.")
        return float(found[1])
    check_number("every", every, at_least=1, whole=True)
    return None


@dataclass(frozen=True)
class SweepFile:
    """Where a fit keeps itself every so many sweeps, or seconds ("60s"). mark : which fit, digests by what they are of.

    resume : go on from what is there. Without it a file that is there is refused.
    """

    path: Path
    every: int | str
    resume: bool
    mark: Mapping[str, str]
    _written: list[float] = field(default_factory=lambda: [time.monotonic()], repr=False)

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str] | None,
        every: int | str,
        resume: bool,
        random_state: Any,
        mark: Mapping[str, str],
    ) -> SweepFile | None:
        """None where there are no checkpoints."""
        seconds_of(every)
        if path is None:
            if resume:
                raise ValueError("resume=True needs `checkpoint`, the file that the lost fit wrote to.")
            return None
        if not isinstance(random_state, int | np.integer):
            raise ValueError(
                f"random_state={random_state!r} does not go with checkpoint: a resumed fit must draw the same numbers. "
                "Give an int."
            )
        return cls(Path(path), every, bool(resume), mark)

    def marked(self, **mark: str) -> SweepFile:
        """The same file, of which more is known."""
        return replace(self, mark={**self.mark, **mark})

    def beside(self, number: int) -> SweepFile:
        """The file of another part of the same fit, such as a restart; part 0 has the file itself."""
        path = self.path.with_name(f"{self.path.stem}-{number}{self.path.suffix}") if number else self.path
        return replace(self, path=path, _written=[time.monotonic()])

    def load(self) -> Saved | None:
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
        if not self.resume:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} already holds sweep {saved.meta['sweep']} of this fit; pass "
                "resume=True to continue from it, or name a new file to start again."
            )
        return saved

    def due(self, sweep: int) -> bool:
        """Whether enough sweeps, or seconds, have passed since the last time."""
        seconds = seconds_of(self.every)
        return sweep % int(self.every) == 0 if seconds is None else time.monotonic() >= self._written[0] + seconds

    def save(self, sweep: int, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Everything after so many sweeps, in the place of what was there."""
        files.save(self.path, KIND, {}, arrays, {"mark": dict(self.mark), "sweep": sweep, **meta})
        self._written[0] = time.monotonic()
