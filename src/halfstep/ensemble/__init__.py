"""Fusing the predictions of many classifiers by factorising them. Names only; each file says what it knows."""

from halfstep.ensemble.estimator import CFEnsemble
from halfstep.ensemble.family.estimator import CFEnsembleCV
from halfstep.ensemble.from_estimators import FusionClassifier, out_of_fold

__all__ = ["CFEnsemble", "CFEnsembleCV", "FusionClassifier", "out_of_fold"]
