"""Data in: published data sets, your own tables, and generated ones, all as `Interactions`."""

from ._assemble import DataWarning
from .esco import load_esco
from .features_file import read_features
from .generated import make_implicit, make_predictions, make_ratings
from .interactions import Interactions
from .movielens import load_movielens
from .onet import load_onet
from .ratings import Ratings, read_ratings
from .read import read_interactions
from .reviews import make_reviews
from .sample import load_sample_skills

__all__ = [
    "DataWarning",
    "Interactions",
    "Ratings",
    "load_esco",
    "load_movielens",
    "load_onet",
    "load_sample_skills",
    "make_implicit",
    "make_predictions",
    "make_ratings",
    "make_reviews",
    "read_features",
    "read_interactions",
    "read_ratings",
]
