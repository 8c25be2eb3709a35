"""The loop, what is minimised, and where half-steps run. Knows two sides, never users or items."""

from halfstep.engine.alternate import Outcome, alternate
from halfstep.engine.local import LocalEngine
from halfstep.engine.problem import Problem, Side, Solver

__all__ = ["LocalEngine", "Outcome", "Problem", "Side", "Solver", "alternate"]
