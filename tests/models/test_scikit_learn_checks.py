"""scikit-learn's own checks on the estimators whose X is a matrix of numbers: recommenders here, `FusionClassifier` in
tests/ensemble. Those of ratings take pairs of ids, those of ensembles probabilities: its generated X is neither.

A check that fails is listed with the reason; one that begins to pass must leave the list (xfail is strict).
"""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import halfstep as hs
from halfstep import baselines

WORDS = "says the same in words of its own, which name the argument and what to do"
TYPE = "a TypeError, as for everything that is no matrix of weights: ids belong into a frame"
RECOMMENDER = {
    "check_positive_only_tag_during_fit": WORDS,
    "check_complex_data": TYPE,
    "check_dtype_object": TYPE,
    "check_estimators_empty_data_messages": WORDS,
    "check_estimators_nan_inf": WORDS,
    "check_fit1d": TYPE,
}
EXPECTED = {
    "WALS": RECOMMENDER
    | {
        "check_n_features_in_after_fitting": WORDS,
        "check_fit2d_predict1d": WORDS,
        "check_transformer_data_not_an_array": TYPE,
    },
}


def expected(estimator: Any) -> dict[str, str]:
    return EXPECTED.get(type(estimator).__name__, RECOMMENDER)


MODELS = [
    hs.WALS(rank=2, max_iter=2, random_state=0, n_threads=1),
    hs.EASE(n_threads=1),
    hs.ItemGraph(n_threads=1),
    baselines.ItemKNN(n_threads=1),
    baselines.Popularity(),
]


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(MODELS, expected_failed_checks=expected)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)
