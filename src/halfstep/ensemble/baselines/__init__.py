"""Baselines that fuse the predictions of many classifiers, all with one interface. Names only."""

from halfstep.ensemble.baselines.averages import BestSingle, BiasAdjustedMean, Mean, WeightedMean
from halfstep.ensemble.baselines.base import FusionBaseline
from halfstep.ensemble.baselines.dawid_skene import DawidSkene
from halfstep.ensemble.baselines.selection import GreedySelection
from halfstep.ensemble.baselines.spectral import SpectralMetaLearner
from halfstep.ensemble.baselines.stacking import LogisticStacking, ShrunkenStacking

__all__ = [
    "BestSingle",
    "BiasAdjustedMean",
    "DawidSkene",
    "FusionBaseline",
    "GreedySelection",
    "LogisticStacking",
    "Mean",
    "ShrunkenStacking",
    "SpectralMetaLearner",
    "WeightedMean",
]
