"""Baselines that fuse the predictions of many classifiers, all with one interface. Names only."""

from halfstep.baselines.ensemble.averages import BestSingle, BiasAdjustedMean, Mean, WeightedMean
from halfstep.baselines.ensemble.base import FusionClassifier
from halfstep.baselines.ensemble.dawid_skene import DawidSkene
from halfstep.baselines.ensemble.selection import GreedySelection
from halfstep.baselines.ensemble.spectral import SpectralMetaLearner
from halfstep.baselines.ensemble.stacking import LogisticStacking, ShrunkenStacking

__all__ = [
    "BestSingle",
    "BiasAdjustedMean",
    "DawidSkene",
    "FusionClassifier",
    "GreedySelection",
    "LogisticStacking",
    "Mean",
    "ShrunkenStacking",
    "SpectralMetaLearner",
    "WeightedMean",
]
