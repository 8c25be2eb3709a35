"""The loop, what is minimised, and where half-steps run. Knows two sides, never users or items."""

from halfstep.core.loop import Outcome, alternate
from halfstep.core.problem import Problem, Side, Solver
from halfstep.engine.local import LocalEngine

__all__ = ["LocalEngine", "Outcome", "Problem", "Side", "Solver", "alternate"]
