"""Where half-steps run, and what every such place owes. Knows two sides, never users or items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfstep.core.loop import Outcome, alternate
from halfstep.core.problem import Problem, Side, Solver

__all__ = ["LocalEngine", "Outcome", "Problem", "Side", "Solver", "alternate"]

if TYPE_CHECKING:
    from halfstep.engine.here import LocalEngine
else:

    def __getattr__(name: str) -> object:
        """This machine's engine reads frames, and executors of a cluster import this package: they need none of it."""
        if name != "LocalEngine":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from halfstep.engine.here import LocalEngine

        return LocalEngine
