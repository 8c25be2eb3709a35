"""From scikit-learn estimators and X to fused probabilities: names only; each file says what it knows."""

from halfstep.ensemble.from_estimators.estimator import FusionClassifier
from halfstep.ensemble.from_estimators.named import out_of_fold

__all__ = ["FusionClassifier", "out_of_fold"]
