"""Where half-steps run, and what every such place owes. Knows two sides, never users or items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfstep._later import later
from halfstep.core.loop import Outcome, alternate
from halfstep.core.problem import Problem, Side, Solver

__all__ = ["LocalEngine", "Outcome", "Problem", "Side", "Solver", "alternate"]

# This machine's engine reads frames, and executors of a cluster import this package: they need none of it.
if TYPE_CHECKING:
    from halfstep.engine.here import LocalEngine
else:
    __getattr__ = later(__name__, LocalEngine="halfstep.engine.here")
