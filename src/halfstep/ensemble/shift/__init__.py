"""Instances unlike the fitted ones: seen, tested, corrected and sent elsewhere. Names only."""

from halfstep.ensemble.shift.estimator import Shift

__all__ = ["Shift"]
