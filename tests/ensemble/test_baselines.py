"""Fusion baselines: one contract for all, then what is particular to each."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, roc_auc_score

from halfstep.baselines import (
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
from halfstep.ensemble.baselines.impute import Additive, ColumnMean, FilledLogits
from halfstep.ensemble.baselines.spectral import pairwise_covariance, rank_one
from halfstep.ensemble.predictions import check_predictions

from ..contract.refusal import refused, unchanged

UNSUPERVISED = [
    Mean(),
    BiasAdjustedMean(),
    SpectralMetaLearner(),
    SpectralMetaLearner(votes="soft"),
    DawidSkene(),
]
SUPERVISED = [
    WeightedMean(),
    BestSingle(),
    BestSingle(metric="brier"),
    LogisticStacking(),
    LogisticStacking(impute="bias_adjusted"),
    ShrunkenStacking(),
    ShrunkenStacking(impute="column_mean"),
    GreedySelection(bags=5, rounds=10),
]
EVERY = UNSUPERVISED + SUPERVISED


def make_pool(n=400, m=12, labels=80, missing=0.3, seed=0):
    """Classifiers of differing skill and bias around one latent score; some are useless."""
    random = np.random.default_rng(seed)
    latent = random.normal(size=n) * 2
    truth = (random.random(n) < expit(latent)).astype(int)
    skill = np.where(np.arange(m) % 3 == 2, 0.0, 1.0)
    scores = skill * latent[:, None] + random.normal(size=m) * 0.7 + random.normal(size=(n, m))
    P = expit(scores)
    hidden = random.random((n, m)) < missing
    hidden[np.arange(n), np.arange(n) % m] = False  # nobody is left without a prediction
    P[hidden] = np.nan
    y = np.full(n, np.nan)
    y[:labels] = truth[:labels]
    return P, y, truth


@pytest.fixture(scope="module")
def pool():
    return make_pool()


def ids(models):
    return [repr(model) for model in models]


@pytest.mark.parametrize("model", EVERY, ids=ids(EVERY))
def test_contract(model, pool):
    P, y, truth = pool
    fitted = clone(model).fit(P, y)
    proba = fitted.predict_proba()
    assert proba.shape == (len(P), 2)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert ((proba >= 0) & (proba <= 1)).all()
    np.testing.assert_array_equal(proba, fitted.predict_proba(P))
    np.testing.assert_array_equal(fitted.predict(), proba.argmax(axis=1))
    assert fitted.n_features_in_ == P.shape[1]
    np.testing.assert_array_equal(clone(model).fit(P, y).predict_proba(), proba)
    assert roc_auc_score(truth[80:], proba[80:, 1]) > 0.75


@pytest.mark.parametrize("model", EVERY, ids=ids(EVERY))
def test_text_labels_come_back(model, pool):
    P, y, _ = pool
    text = np.where(np.isnan(y), None, np.where(y == 1, "yes", "no"))
    fitted = clone(model).set_params(positive="yes").fit(P, text)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert set(fitted.predict().tolist()) == {"no", "yes"}
    np.testing.assert_array_equal(fitted.predict_proba(), clone(model).fit(P, y).predict_proba())


@pytest.mark.parametrize("model", EVERY, ids=ids(EVERY))
def test_text_labels_are_not_taken_in_alphabetical_order(model, pool):
    """P is the probability of "sick", which comes before "well"."""
    P, y, truth = pool
    text = np.where(np.isnan(y), None, np.where(y == 1, "sick", "well"))
    with pytest.raises(ValueError, match="positive='sick' or positive='well'"):
        clone(model).fit(P, text)
    fitted = clone(model).set_params(positive="sick").fit(P, text)
    assert fitted.classes_.tolist() == ["sick", "well"]
    assert roc_auc_score(truth, fitted.predict_proba()[:, 0]) > 0.6
    np.testing.assert_allclose(fitted.predict_proba(P), fitted.predict_proba(), atol=1e-12)


def test_columns_of_a_frame_are_known_by_name(pool):
    P, y, _ = pool
    frame = pd.DataFrame(P, columns=[f"c{j}" for j in range(P.shape[1])])
    model = WeightedMean().fit(frame, y)
    np.testing.assert_array_equal(model.predict_proba(frame[frame.columns[::-1]]), model.predict_proba(frame))
    with pytest.raises(ValueError, match="which the model was not fitted with"):
        model.predict_proba(frame.rename(columns={"c0": "d0"}))


@pytest.mark.parametrize("model", EVERY, ids=ids(EVERY))
def test_empty_rows_and_columns_give_finite_answers(model, pool):
    P, y, _ = pool
    P = P.copy()
    P[[3, 200]] = np.nan
    P[:, 5] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proba = clone(model).fit(P, y).predict_proba()
    assert np.isfinite(proba).all()
    assert proba[3, 1] == pytest.approx(proba[200, 1])


@pytest.mark.parametrize("model", UNSUPERVISED, ids=ids(UNSUPERVISED))
def test_works_without_labels(model, pool):
    P, _, truth = pool
    assert roc_auc_score(truth, clone(model).fit(P).predict_proba()[:, 1]) > 0.75


@pytest.mark.parametrize("model", SUPERVISED, ids=ids(SUPERVISED))
def test_labels_are_asked_for_where_needed(model, pool):
    P, _, _ = pool
    with pytest.raises(ValueError, match=f"{type(model).__name__} learns from labels of every class"):
        clone(model).fit(P)


@pytest.mark.parametrize("model", EVERY, ids=ids(EVERY))
def test_a_refused_fit_leaves_the_model_as_it_was(model):
    P, y, _ = make_pool(n=40, m=6, labels=20)
    call = {"P": P[5:, :4], "y": y[5:]}
    stages = refused(
        lambda: clone(model).fit(P, y), lambda m: m.fit(**call), lambda m: (m.predict_proba(), m.predict())
    )
    assert stages > 3
    fitted = clone(model).fit(P, y)
    unchanged(fitted, lambda: fitted.fit(P, y[:3]), ValueError, lambda: fitted.predict_proba(P[:7]))


def test_not_fitted():
    with pytest.raises(NotFittedError):
        Mean().predict_proba()


def test_new_rows_need_the_same_classifiers(pool):
    P, y, _ = pool
    with pytest.raises(ValueError, match=r"P has 11 classifiers .* fitted with 12"):
        Mean().fit(P, y).predict_proba(P[:, 1:])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BiasAdjustedMean(shrinkage=0), "shrinkage=0 must be positive"),
        (WeightedMean(floor=0), "floor=0 must be positive"),
        (WeightedMean(prior_cells=-1), "prior_cells=-1 must be at least 0"),
        (BestSingle(metric="auc"), "metric='auc' is not known"),
        (LogisticStacking(impute="median"), "impute='median' is not known"),
        (ShrunkenStacking(strengths=()), r"strengths=\(\) must be positive numbers"),
        (ShrunkenStacking(cv=1), "cv=1 must be at least 2 folds"),
        (GreedySelection(bags=0), "bags=0 must be at least 1"),
        (GreedySelection(bag_fraction=1.5), r"bag_fraction=1.5 must lie in \(0, 1\]"),
        (GreedySelection(metric="auc"), "metric='auc' is not known"),
        (SpectralMetaLearner(votes="loud"), "votes='loud' is not known"),
        (DawidSkene(smoothing=0), "smoothing=0 must be positive"),
        (DawidSkene(threshold=1), "threshold=1 must lie strictly between 0 and 1"),
        (BiasAdjustedMean(clip=0.7), "clip=0.7 must lie strictly between 0 and 0.5"),
    ],
)
def test_bad_parameters(model, message, pool):
    P, y, _ = pool
    with pytest.raises(ValueError, match=message):
        model.fit(P, y)


KNOBS = [
    (BiasAdjustedMean(), {"shrinkage": 50.0, "clip": 0.1}),
    (WeightedMean(), {"floor": 0.3, "prior_cells": 50.0}),
    (BestSingle(), {"prior_cells": 500.0}),
    (LogisticStacking(), {"C": 0.01, "impute": "bias_adjusted", "class_weight": "balanced", "clip": 0.1}),
    (ShrunkenStacking(), {"strengths": (0.5,), "impute": "column_mean", "clip": 0.1}),
    (
        GreedySelection(bags=5, rounds=10),
        {"rounds": 1, "bags": 9, "bag_fraction": 1.0, "initial": 5, "metric": "brier"}
        | {"impute": "bias_adjusted", "clip": 0.1, "random_state": 1},
    ),
    (SpectralMetaLearner(), {"votes": "soft", "max_iter": 1}),
    (DawidSkene(), {"threshold": 0.3, "smoothing": 20.0, "max_iter": 1}),
]


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [(model, name, value) for model, knobs in KNOBS for name, value in knobs.items()],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else str(value),
)
def test_every_knob_changes_the_fit(model, name, value):
    P, y, _ = make_pool(labels=40, missing=0.6, seed=3)
    before = clone(model).fit(P, y)
    after = clone(model).set_params(**{name: value}).fit(P, y)
    changed = not np.array_equal(before.predict_proba(), after.predict_proba())
    # A chosen classifier may stay the same while its smoothed losses move.
    assert changed or not np.array_equal(before.losses_, after.losses_)


def test_mean_is_the_mean(pool):
    P, y, _ = pool
    np.testing.assert_allclose(Mean().fit(P, y).predict_proba()[:, 1], np.nanmean(P, axis=1))


def test_bias_adjusted_mean_recovers_additive_scores():
    random = np.random.default_rng(0)
    a, b = random.normal(size=50), random.normal(size=6) * 0.5
    P = expit(a[:, None] + b - b.mean())
    P[random.random(P.shape) < 0.5] = np.nan
    P = P[~np.isnan(P).all(axis=1)]
    model = BiasAdjustedMean(shrinkage=1e-9, clip=1e-6).fit(P)
    np.testing.assert_allclose(model.bias_, b - b.mean(), atol=1e-6)
    filling = FilledLogits.fit("bias_adjusted", check_predictions(P), 1e-6)
    assert isinstance(filling.imputer, Additive)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 10))
def test_additive_fit_is_the_least_squares_optimum(seed, shrinkage):
    random = np.random.default_rng(seed)
    n, m = 15, 5
    logits, observed = random.normal(size=(n, m)), random.random((n, m)) < 0.6
    model = Additive.fit(np.where(observed, logits, 0), observed, shrinkage)
    a = model.scores(np.where(observed, logits, 0), observed)
    residual = observed * (logits - a[:, None] - model.bias)
    np.testing.assert_allclose(residual.sum(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(residual.sum(axis=0), shrinkage * model.bias, atol=1e-9)
    assert abs(model.bias.sum()) < 1e-8


def test_column_mean_fill():
    logits, observed = np.array([[1.0, 0.0], [3.0, 5.0]]), np.array([[True, False], [True, True]])
    assert ColumnMean.fit(logits, observed).fill(logits, observed).tolist() == [[1, 5], [3, 5]]


def test_weighted_mean_prefers_the_skilled(pool):
    P, y, _ = pool
    weights = WeightedMean().fit(P, y).weights_
    useless = np.arange(12) % 3 == 2
    assert weights[~useless].min() > weights[useless].max()


def test_best_single_by_hand():
    P = np.array([[0.9, 0.6], [0.1, 0.4], [np.nan, 0.7], [0.8, np.nan]])
    model = BestSingle(prior_cells=0).fit(P, [1, 0, np.nan, np.nan])
    assert model.order_.tolist() == [0, 1]
    np.testing.assert_allclose(model.losses_, [-np.log(0.9), -np.log(0.6)])
    np.testing.assert_allclose(model.predict_proba()[:, 1], [0.9, 0.1, 0.7, 0.8])


def test_infinite_strength_is_the_recalibrated_mean(pool):
    P, y, _ = pool
    model = ShrunkenStacking(strengths=(np.inf,)).fit(P, y)
    assert model.coef_[2:].tolist() == [0.0] * 12
    near = ShrunkenStacking(strengths=(1e9,)).fit(P, y)
    np.testing.assert_allclose(near.predict_proba(), model.predict_proba(), atol=1e-5)


def test_shrunken_stacking_with_one_label_per_class_takes_the_largest_strength(pool):
    P, y, truth = pool
    few = np.full(len(y), np.nan)
    few[[np.flatnonzero(truth == 0)[0], np.flatnonzero(truth == 1)[0]]] = [0, 1]
    assert ShrunkenStacking().fit(P, few).strength_ == np.inf


def test_shrunken_stacking_beats_plain_stacking_with_few_labels():
    gaps = []
    for seed in range(8):
        P, y, truth = make_pool(m=30, labels=40, seed=seed)
        models = (LogisticStacking(), ShrunkenStacking())
        losses = [log_loss(truth[40:], model.fit(P, y).predict_proba()[40:]) for model in models]
        gaps.append(losses[0] - losses[1])
    assert np.mean(gaps) > 0


def test_greedy_selection_picks_a_perfect_classifier():
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 60)
    P = random.uniform(0.2, 0.8, (60, 8))
    P[:, 4] = np.where(truth == 1, 0.97, 0.03)
    model = GreedySelection(bag_fraction=1.0, bags=1, initial=1).fit(P, truth)
    assert model.weights_.tolist() == [0, 0, 0, 0, 1, 0, 0, 0]


def test_spectral_weights_order_by_accuracy_without_labels():
    random = np.random.default_rng(1)
    truth = random.integers(0, 2, 6000)
    accuracy = np.array([0.55, 0.65, 0.75, 0.85, 0.95, 0.3])
    right = random.random((6000, 6)) < accuracy
    P = np.where(right == (truth[:, None] == 1), 0.9, 0.1)
    P[random.random(P.shape) < 0.3] = np.nan
    weights = SpectralMetaLearner().fit(P[~np.isnan(P).all(axis=1)]).weights_
    np.testing.assert_allclose(weights, 2 * accuracy - 1, atol=0.06)


def test_pairwise_covariance_equals_numpy_on_shared_rows():
    random = np.random.default_rng(2)
    votes, mask = random.normal(size=(40, 3)), random.random((40, 3)) < 0.7
    covariance, together = pairwise_covariance(np.where(mask, votes, 0), mask.astype(float))
    both = mask[:, 0] & mask[:, 2]
    assert together[0, 2] == both.sum()
    assert covariance[0, 2] == pytest.approx(np.cov(votes[both, 0], votes[both, 2], bias=True)[0, 1])


def test_rank_one_ignores_the_diagonal():
    v = np.array([0.9, 0.5, 0.3, 0.1])
    noisy = np.outer(v, v) + np.diag([5.0, 1.0, 2.0, 0.0])
    found, _ = rank_one(noisy, np.ones((4, 4)), 2000, 1e-12)
    np.testing.assert_allclose(found, v, atol=1e-6)


def test_spectral_with_constant_votes_falls_back_to_equal_weights():
    assert SpectralMetaLearner().fit(np.full((10, 3), 0.9)).weights_.tolist() == [1, 1, 1]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_dawid_skene_never_lowers_its_posterior(seed):
    P, y, _ = make_pool(n=80, m=6, labels=20, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = DawidSkene(tol=0, max_iter=30).fit(P, y).history_
    assert np.diff(history).min() >= -1e-8 * abs(history[-1])


def test_dawid_skene_recovers_confusions_and_uses_gold():
    random = np.random.default_rng(4)
    truth = (random.random(3000) < 0.3).astype(int)
    hit, alarm = np.array([0.9, 0.7, 0.8, 0.6]), np.array([0.2, 0.1, 0.3, 0.05])
    votes = random.random((3000, 4)) < np.where(truth[:, None] == 1, hit, alarm)
    model = DawidSkene().fit(votes * 0.8 + 0.1, np.where(np.arange(3000) < 600, truth, -1))
    np.testing.assert_allclose(model.confusion_[:, 1, 1], hit, atol=0.06)
    np.testing.assert_allclose(model.confusion_[:, 0, 1], alarm, atol=0.06)
    assert model.class_prior_[1] == pytest.approx(0.3, abs=0.05)
    # Gold labels that say the opposite turn the classifiers round.
    turned = DawidSkene().fit(votes * 0.8 + 0.1, 1 - truth)
    assert turned.confusion_[0, 1, 1] < 0.3
