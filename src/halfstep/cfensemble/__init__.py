"""Fusing the predictions of many classifiers by factorising them. Names only; each file says what it knows."""

from halfstep.cfensemble.estimator import CFEnsemble

__all__ = ["CFEnsemble"]
