"""Fusing the predictions of many classifiers by factorising them. Names only; each file says what it knows."""

from halfstep.cfensemble.cv import CFEnsembleCV
from halfstep.cfensemble.estimator import CFEnsemble

__all__ = ["CFEnsemble", "CFEnsembleCV"]
