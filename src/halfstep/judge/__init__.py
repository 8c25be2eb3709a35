"""Compare models fairly: the same splits, intervals over users, baselines in every table.

Knows rankers and predictors by their contracts, splits and metrics. Must not know any estimator but the baselines.
"""

from halfstep.judge.fusion import FUSION_METRICS, CrossValidation, LabelledFolds, cross_validate, labelled_scorer
from halfstep.judge.rankings import METRICS, PROTOCOLS, FeatureRanker, Ranker
from halfstep.judge.rating_metrics import RATING_METRICS
from halfstep.judge.rating_splits import (
    RATING_PROTOCOLS,
    RatingSplit,
    random_ratings,
    ratings_by_time,
    ratings_of_new_items,
    ratings_of_new_users,
    ratings_per_user,
)
from halfstep.judge.ratings import Predictor
from halfstep.judge.result import Comparison, Estimate, Result
from halfstep.judge.run import evaluate
from halfstep.judge.splits import Split, cold_items, cold_users, few, leave_k_out, strong_generalisation, time_split

__all__ = [
    "FUSION_METRICS",
    "METRICS",
    "PROTOCOLS",
    "RATING_METRICS",
    "RATING_PROTOCOLS",
    "Comparison",
    "CrossValidation",
    "Estimate",
    "FeatureRanker",
    "LabelledFolds",
    "Predictor",
    "Ranker",
    "RatingSplit",
    "Result",
    "Split",
    "cold_items",
    "cold_users",
    "cross_validate",
    "evaluate",
    "few",
    "labelled_scorer",
    "leave_k_out",
    "random_ratings",
    "ratings_by_time",
    "ratings_of_new_items",
    "ratings_of_new_users",
    "ratings_per_user",
    "strong_generalisation",
    "time_split",
]
