"""Where half-steps run, and what every such place owes. Knows two sides, never users or items."""

from halfstep.core.loop import Outcome, alternate
from halfstep.core.problem import Problem, Side, Solver
from halfstep.engine.here import LocalEngine

__all__ = ["LocalEngine", "Outcome", "Problem", "Side", "Solver", "alternate"]
