"""Fusing the predictions of many classifiers by factorising them. Names only; each file says what it knows."""

from halfstep.ensemble.estimator import CFEnsemble
from halfstep.ensemble.family.estimator import CFEnsembleCV
from halfstep.ensemble.from_estimators import FusionClassifier, out_of_fold
from halfstep.ensemble.shift import Shift

__all__ = ["CFEnsemble", "CFEnsembleCV", "FusionClassifier", "Shift", "out_of_fold"]
