"""A loop that keeps itself in a file, so that one that was lost goes on with the bits of one that was not.

Knows what a loop leaves after a sweep and where that is written; not what the arrays mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halfstep.core.loop import Outcome
from halfstep.data.sweeps import SweepFile


class Stateful(Protocol):
    """Something that changes from sweep to sweep."""

    def state(self) -> dict[str, Any]:
        """Everything that it needs to go on, by name: arrays, None, or what JSON can write."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""


@dataclass(frozen=True, eq=False)
class KeptLoop:
    """The `LoopFile` of a fit on this machine. parts : the session, and whatever else remembers sweeps."""

    file: SweepFile
    parts: Sequence[Stateful]

    def taken_up(self) -> Outcome | None:
        saved = self.file.load()
        if saved is None:
            return None
        for number, (part, plain) in enumerate(zip(self.parts, saved.meta["parts"], strict=True)):
            begins = f"{number}."
            arrays = {name.removeprefix(begins): a for name, a in saved.arrays.items() if name.startswith(begins)}
            part.restore(plain | arrays)
        return Outcome(**saved.meta["outcome"])

    def keep(self, outcome: Outcome) -> None:
        if not (outcome.ended or self.file.due(len(outcome.history))):
            return
        arrays: dict[str, NDArray[Any]] = {}
        plain = []
        for number, part in enumerate(self.parts):
            state = part.state()
            arrays |= {f"{number}.{name}": v for name, v in state.items() if isinstance(v, np.ndarray)}
            plain.append({name: v for name, v in state.items() if not isinstance(v, np.ndarray)})
        self.file.save(len(outcome.history), arrays, {"outcome": asdict(outcome), "parts": plain})
