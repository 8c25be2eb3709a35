"""What a new method must beat. Names only; each file says what it knows."""

from halfstep.ensemble.baselines import (
    BestSingle,
    BiasAdjustedMean,
    DawidSkene,
    GreedySelection,
    LogisticStacking,
    Mean,
    ShrunkenStacking,
    SpectralMetaLearner,
    WeightedMean,
)
from halfstep.models.baselines import ItemKNN, Popularity

__all__ = [
    "BestSingle",
    "BiasAdjustedMean",
    "DawidSkene",
    "GreedySelection",
    "ItemKNN",
    "LogisticStacking",
    "Mean",
    "Popularity",
    "ShrunkenStacking",
    "SpectralMetaLearner",
    "WeightedMean",
]
