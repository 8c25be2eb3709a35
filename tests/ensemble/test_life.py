"""Life after fit for an average: the same as one fit on everything, by name, with sets and intervals."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import halfstep as hs
from halfstep.data.datasets.generated import make_predictions
from halfstep.ensemble.conformal import conformal_threshold, label_sets
from halfstep.ensemble.predictions import PredictionWarning

from ..contract.refusal import refused

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
P, Y, TRUTH = make_predictions(150, 7, missing=0.2, labels=0.4, random_state=1)
FEW = np.where(np.arange(len(Y)) < 80, Y, np.nan)


def average(**more):
    return hs.CFEnsembleCV(ranks=(1, 2), **more)


def test_more_labels_are_those_of_one_fit():
    model = average().fit(P, FEW)
    model.partial_fit(y=Y)
    assert_array_equal(model.predict_proba(), average().fit(P, Y).predict_proba())
    fresh = int(model.query(1)[0])
    model.partial_fit(y={fresh: TRUTH[fresh]})
    assert model.fitted_.labels[fresh] == TRUTH[fresh]


def test_more_instances_are_those_of_one_fit():
    model = average().fit(P[:100], Y[:100])
    model.partial_fit(P[100:], Y[100:])
    assert_array_equal(model.predict_proba(), average().fit(P, Y).predict_proba())
    with pytest.raises(ValueError, match="partial_fit needs P"):
        model.partial_fit()


def test_more_classifiers_are_those_of_one_fit(tmp_path):
    model = average().fit(P[:, :5], Y)
    model.save(tmp_path / "m.safetensors")
    model = hs.load(tmp_path / "m.safetensors")
    model.add_classifiers(P[:, 5:])
    assert_array_equal(model.predict_proba(), average().fit(P, Y).predict_proba())
    assert model.n_features_in_ == 7
    with pytest.raises(ValueError, match="P_extra has 3 instances, but the model was fitted with 150"):
        model.add_classifiers(P[:3, 5:])


def test_a_refused_change_leaves_the_average_as_it_was():
    model = lambda: average(links=("logit",)).fit(P[:30, :4], Y[:30])  # noqa: E731
    answers = lambda model: (model.predict_proba(), model.predict_proba(P[:3, :4]), model.query(2))  # noqa: E731
    assert refused(model, lambda model: model.partial_fit(y=TRUTH[:30]), answers) > 10


def test_weights_of_classifiers_are_derivatives_of_the_answer():
    whole = np.clip(np.where(np.isnan(P), 0.5, P), 0.05, 0.95)
    good = np.clip(np.where(TRUTH == 1, 0.8, 0.2) + np.random.default_rng(0).normal(0, 0.05, len(P)), 0.05, 0.95)
    model = average().fit(np.column_stack([whole, good]), Y)
    weights = model.classifier_weights_
    assert weights.shape == (8,)
    assert weights.argmax() == 7
    moved = np.column_stack([whole, 1 / (1 + np.exp(-(np.log(good / (1 - good)) * 0.99)))])
    odds = lambda p: np.log(p[:, 1] / p[:, 0])  # noqa: E731
    step = -0.01 * np.log(good / (1 - good))
    change = (odds(model.predict_proba(moved)) - odds(model.predict_proba())) / step
    assert_allclose(change.mean(), weights[7], rtol=0.1)
    low, high = model.classifier_intervals(0.9, repeats=5).T
    assert (low < weights).all()
    assert (weights < high).all()
    with pytest.raises(ValueError, match="four labels of each class"):
        average().fit(P, np.where(np.arange(len(Y)) < 6, TRUTH, np.nan)).classifier_intervals()


def test_asked_labels_are_unlabelled_and_differ():
    model = average().fit(P, FEW)
    asked = model.query(10)
    assert len(set(asked.tolist())) == 10
    assert np.isnan(FEW[asked]).all()
    with pytest.raises(ValueError, match="n=0 must be between 1 and"):
        model.query(0)


def test_noise_is_novel():
    """Novelty was a relative residual, which noise of any size has little of."""
    model = average().fit(P, Y)
    noise = np.random.default_rng(0).uniform(size=P.shape)
    assert np.median(model.novelty(noise)) > 0.75  # of seven classifiers
    assert_allclose(np.median(model.novelty()), 0.5, atol=0.02)
    about = model.diagnostics_
    assert about.difficulty.shape == about.novelty.shape == (len(P),)
    assert about.classifier_similarity.shape == (7, 7)
    assert 0 < about.rmse_unlabelled < 0.5


# ---------------------------------------------------------------------- sets


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=6), st.sampled_from([0.3, 0.5, 0.6, 0.75, 0.8, 0.9]))
def test_conformal_coverage_is_exact(scores, level):
    """Of all orders of exchangeable scores, ties included, the last one is covered at least as often as was said."""
    values = np.array(scores, float)
    covered = [values[last] <= conformal_threshold(np.delete(values, last), level) for last in range(len(values))]
    assert np.mean(covered) >= level - 1e-12
    if len(set(scores)) == len(scores):
        n = len(scores) - 1
        assert math.isclose(np.mean(covered), min(math.ceil((n + 1) * level - 1e-9), n + 1) / (n + 1))


def test_sets_hold_the_truth_as_often_as_they_say():
    held = []
    for seed in range(12):
        Q, _, truth = make_predictions(400, 6, labels=0.0, random_state=seed)
        y = np.where(np.arange(400) < 60, truth, np.nan)
        model = hs.CFEnsembleCV(ranks=(1,), links=("logit",)).fit(Q, y)
        held.append(model.predict_set(level=0.9)[60:][np.arange(340), truth[60:]].mean())
    assert 0.87 < np.mean(held) < 0.97
    assert model.predict_set(level=0.99).all()  # 60 labels cannot promise 99 of 100
    assert model.predict_set(Q[:4], level=0.8).shape == (4, 2)
    with pytest.raises(ValueError, match="level=1 must lie strictly"):
        model.predict_set(level=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PredictionWarning)
        with pytest.raises(ValueError, match="predict_set needs labels"):
            hs.CFEnsembleCV(ranks=(1,)).fit(Q).predict_set()


def test_a_set_is_never_empty():
    p = np.array(list(itertools.product([0.1, 0.4, 0.6, 0.9], repeat=1)))
    assert label_sets(np.column_stack([1 - p, p]), 0.2).any(axis=1).all()
