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
from halfstep.models.feature_baselines import FactorRidge, FeatureKNN, FeatureRidge, GroupPopularity
from halfstep.models.rating_baselines import Biases, Constant

__all__ = [
    "BestSingle",
    "BiasAdjustedMean",
    "Biases",
    "Constant",
    "DawidSkene",
    "FactorRidge",
    "FeatureKNN",
    "FeatureRidge",
    "GreedySelection",
    "GroupPopularity",
    "ItemKNN",
    "LogisticStacking",
    "Mean",
    "Popularity",
    "ShrunkenStacking",
    "SpectralMetaLearner",
    "WeightedMean",
]
