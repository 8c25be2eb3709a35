"""Many classes, jointly, and hard votes: what CFEnsembleCV takes, and that it finds what there is."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import halfstep
from halfstep import CFEnsembleCV
from halfstep.core.loop import timeless
from halfstep.core.softmax import softmax_loss, softmax_of
from halfstep.ensemble.family.analysis import FactorAnalysis
from halfstep.ensemble.family.classes.cells import ClassCells
from halfstep.ensemble.family.classes.members import single_losses
from halfstep.ensemble.family.confusion import VoteModel, VoteTable
from halfstep.ensemble.predictions import PredictionWarning

from ..contract.refusal import refused, unchanged

CLASSES = 4


def soft(n=150, m=6, k=CLASSES, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    scores = np.eye(k)[truth][:, None, :] * rng.uniform(0.5, 3, (1, m, 1)) + rng.normal(size=(n, m, k))
    P = softmax_of(scores)
    P[rng.random((n, m)) < missing] = np.nan
    P[:, 0] = np.where(np.isnan(P[:, 0]), 1 / k, P[:, 0])
    return P, truth


def some(truth, count):
    return np.where(np.arange(len(truth)) < count, truth, -1)


def cast(truth, accuracy, k, seed=0):
    """(n, m) votes that are right with these probabilities."""
    rng = np.random.default_rng(seed)
    wrong = (truth[:, None] + rng.integers(1, k, size=(len(truth), len(accuracy)))) % k
    return np.where(rng.random(wrong.shape) < accuracy, truth[:, None], wrong)


def fit(P, y, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PredictionWarning)
        return CFEnsembleCV(**{"ranks": (1, 2), **parameters}).fit(P, y)


# ---------------------------------------------------------------------- probabilities


@pytest.mark.parametrize("count", [0, 1, 3, 10, 60])
def test_any_number_of_labels_gives_probabilities(count):
    P, truth = soft(missing=0.4)
    model = fit(P, some(truth, count), classes=range(CLASSES))
    proba = model.predict_proba()
    assert proba.shape == (len(P), CLASSES)
    assert_allclose(proba.sum(axis=1), 1)
    assert (model.predict() == truth).mean() > 0.6
    assert (model.uncertainty() >= 0).all()


def test_it_is_better_than_the_mean_and_than_one_class_against_the_rest_was():
    P, truth = soft(600, 10, missing=0.5, seed=1)
    model = fit(P, some(truth, 80))
    ours = softmax_loss(np.log(model.predict_proba()[80:]), truth[80:]).mean()
    mean = softmax_loss(np.log(np.nanmean(P, axis=1)[80:]), truth[80:]).mean()
    assert ours < 0.7 * mean
    assert model.log_loss_ == pytest.approx(ours, abs=0.15)


def test_more_classes_than_labels_can_be_fused():
    P, truth = soft(200, 8, k=40, seed=2)
    model = fit(P, some(truth, 30), classes=range(40))
    assert model.predict_proba().shape == (200, 40)
    assert (model.predict()[30:] == truth[30:]).mean() > 0.8
    assert set(model.predict()) - set(truth[:30])


def test_numbers_from_zero_need_no_classes_and_other_labels_do():
    P, truth = soft()
    few = np.where(some(truth, 60) == 2, -1, some(truth, 60))
    assert_array_equal(fit(P, few).classes_, range(CLASSES))
    with pytest.raises(ValueError, match=r"y has 3 classes.*pass classes="):
        fit(P, np.where(few >= 0, few + 1, -1))
    named = np.array(["d", "a", "c", "b"])  # the order of the last axis of P
    labels = [None if code < 0 else named[code] for code in few]
    model = fit(P, labels, classes=named)
    assert_array_equal(model.classes_, named)
    assert_allclose(model.predict_proba(), fit(P, few).predict_proba())
    assert (model.predict() == named[truth]).mean() > 0.8
    with pytest.raises(ValueError, match="name each of them once"):
        fit(P, labels, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="y has the label 'd'"):
        fit(P, labels, classes=["a", "b", "c", "e"])


def test_a_prediction_that_is_missing_for_some_classes_only_is_refused():
    P, truth = soft()
    P[3, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"P\[3, 2\] is NaN for some of its 4 classes only"):
        fit(P, some(truth, 60))


def test_new_instances_get_the_answers_of_the_fitted_ones_and_files_keep_them(tmp_path):
    P, truth = soft(missing=0.3)
    model = fit(P, some(truth, 60), classes=[0, 1, 2, 3])
    assert_allclose(model.predict_proba(P[:20]), model.predict_proba()[:20], atol=1e-12)
    assert_allclose(model.uncertainty(P[:20]), model.uncertainty()[:20], atol=1e-12)
    model.save(tmp_path / "many.safetensors")
    again = halfstep.load(tmp_path / "many.safetensors")
    assert_array_equal(again.predict_proba(P[:20]), model.predict_proba(P[:20]))
    assert again.members_ == timeless(model.members_)
    with pytest.raises(ValueError, match="P has 3 classes on its last axis, but the model was fitted with 4"):
        model.predict_proba(P[:, :, :3])


def test_instances_without_predictions_get_an_answer_without_nan():
    P, truth = soft()
    P[0] = np.nan
    P[:, 5] = np.nan
    assert np.isfinite(fit(P, some(truth, 60)).predict_proba()).all()


def test_classes_change_places_with_their_columns():
    P, truth = soft(missing=0.3)
    turn = np.array([2, 0, 3, 1])
    ours, turned = fit(P, some(truth, 60)), fit(P[:, :, turn], some(np.argsort(turn)[truth], 60))
    assert_allclose(turned.predict_proba()[80:], ours.predict_proba()[80:, turn], atol=0.05)


def test_one_excellent_classifier_among_many_poor_ones_is_found():
    rng = np.random.default_rng(0)
    P, truth = soft(400, 40, seed=3)
    P[:, 1:] = softmax_of(rng.normal(size=(400, 39, CLASSES)))
    P[:, 0] = softmax_of(4 * np.eye(CLASSES)[truth] + rng.normal(size=(400, CLASSES)))
    single = (P[:, 0].argmax(axis=1) == truth)[60:].mean()
    assert (fit(P, some(truth, 60)).predict()[60:] == truth[60:]).mean() > single - 0.02


@pytest.mark.heavy
def test_a_refused_fit_changes_nothing():
    P, truth = soft(6, 2, 3)
    model = fit(P, some(truth, 2), ranks=(1,), classes=range(3))
    unchanged(model, lambda: model.fit(P * 2), ValueError, lambda: model.predict_proba(P[:5]))
    assert refused(lambda: model, lambda each: each.fit(P[:5]), lambda each: each.predict_proba(P[:2])) > 20


# ---------------------------------------------------------------------- votes


def test_votes_of_text_and_of_numbers_are_the_same_votes():
    truth = np.random.default_rng(0).integers(3, size=150)
    V = cast(truth, np.linspace(0.4, 0.8, 6), 3)
    gone = np.random.default_rng(1).random(V.shape) < 0.2
    names = np.array(["cat", "cow", "dog"])
    y = some(truth, 40)
    numbers = fit(np.where(gone, -1, V), y)
    text = fit(np.where(gone, None, names[V]), [None if code < 0 else names[code] for code in y])
    floats = fit(np.where(gone, np.nan, V), y, votes=True)
    assert_array_equal(text.classes_, names)
    assert_allclose(text.predict_proba(), numbers.predict_proba())
    assert_allclose(floats.predict_proba(), numbers.predict_proba())
    assert_allclose(text.predict_proba(names[V[:5]]), numbers.predict_proba(V[:5]))
    majority = np.apply_along_axis(lambda row: np.bincount(row, minlength=3).argmax(), 1, V)
    assert (numbers.predict()[40:] == truth[40:]).mean() >= (majority == truth)[40:].mean() - 0.01


def test_votes_with_nan_where_somebody_abstains_need_no_word():
    """Integers with NaN are floats, or objects in a frame of nullable integers; they were taken for probabilities."""
    import pandas as pd

    truth = np.random.default_rng(0).integers(3, size=150)
    V = cast(truth, np.linspace(0.4, 0.8, 6), 3)
    gone = np.random.default_rng(1).random(V.shape) < 0.2
    y = some(truth, 40)
    expected = fit(np.where(gone, -1, V), y).predict_proba()
    floats = np.where(gone, np.nan, V)
    assert_allclose(fit(floats, y).predict_proba(), expected)
    assert_allclose(fit(pd.DataFrame(floats).astype("Int64"), y).predict_proba(), expected)
    assert_allclose(fit(floats.tolist(), y).predict_proba(), expected)
    floats[0, 0] = 1.5
    with pytest.raises(ValueError, match="P"):
        fit(floats, y)


def test_numbers_in_the_unit_interval_are_never_votes():
    P = np.random.default_rng(0).integers(2, size=(40, 5))
    y = np.where(np.arange(40) < 20, P[:, 0], -1)
    assert_allclose(fit(P, y).predict_proba(), fit(P.astype(float), y).predict_proba())
    asked = fit(P, y, votes=True)
    assert asked.fitted_.naming.voted is not None
    assert fit(P, y).fitted_.naming.voted is None


def test_integers_that_are_no_labels_are_refused_unless_they_are_said_to_be_votes():
    P = np.random.default_rng(0).integers(100, size=(40, 5))
    y = np.where(np.arange(40) < 20, np.arange(40) % 2, -1)
    with pytest.raises(ValueError, match=r"no probability and no label of y; pass votes=True"):
        fit(P, y)


def test_votes_follow_with_names_ids_labels_instances_and_classifiers():
    pd = pytest.importorskip("pandas")
    truth = np.random.default_rng(0).integers(3, size=90)
    names = np.array(["cat", "cow", "dog"])
    V = pd.DataFrame(names[cast(truth, np.full(6, 0.7), 3)], columns=list("abcdef"), index=[f"i{i}" for i in range(90)])
    V.iloc[3, 2] = None
    y = {f"i{i}": names[truth[i]] for i in range(30)}
    model = fit(V, y)
    assert_array_equal(model.feature_names_in_, list("abcdef"))
    assert_allclose(model.predict_proba(V[list("fedcba")]), model.predict_proba(), atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PredictionWarning)
        parts = fit(V.iloc[:60, :4], y).partial_fit(V.iloc[60:, :4]).add_classifiers(V[["e", "f"]])
    assert_allclose(parts.predict_proba(), model.predict_proba(), atol=1e-9)
    assert set(model.query(2)) <= {f"i{i}" for i in range(30, 90)}
    assert model.predict_set(level=0.8).shape == (90, 3)
    assert model.classifier_weights_.shape == (6,)


def test_a_frame_with_one_column_of_text_holds_no_votes():
    pd = pytest.importorskip("pandas")
    P = pd.DataFrame({"a": [0.1, 0.7], "note": ["x", "y"]})
    with pytest.raises(TypeError, match="its column 'note' is not"):
        CFEnsembleCV().fit(P, [0, 1])


def test_a_vote_for_an_unknown_class_is_refused_later():
    truth = np.random.default_rng(0).integers(3, size=60)
    model = fit(cast(truth, np.full(5, 0.7), 3), some(truth, 30))
    with pytest.raises(ValueError, match=r"P has a vote for no class .the label 7"):
        model.predict_proba(np.full((2, 5), 7))
    with pytest.raises(ValueError, match="P has 4 classifiers"):
        model.predict_proba(np.zeros((2, 4), int))


def test_vote_models_are_kept_by_files(tmp_path):
    truth = np.random.default_rng(0).integers(3, size=90)
    names = np.array(["cat", "cow", "dog"])
    V = names[cast(truth, np.full(7, 0.7), 3)]
    model = fit(V, [names[t] if i < 40 else None for i, t in enumerate(truth)])
    model.save(tmp_path / "votes.safetensors")
    assert_array_equal(halfstep.load(tmp_path / "votes.safetensors").predict_proba(V[:9]), model.predict_proba(V[:9]))


def test_one_excellent_voter_among_seventy_poor_ones_is_found():
    truth = np.random.default_rng(0).integers(7, size=400)
    V = cast(truth, np.r_[0.97, np.full(69, 0.2)], 7)
    ours = (fit(V, some(truth, 60)).predict()[60:] == truth[60:]).mean()
    assert ours > (V[:, 0] == truth)[60:].mean() - 0.02


# ---------------------------------------------------------------------- parts


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_rows_that_miss_the_same_cells_share_their_covariance(seed):
    rng = np.random.default_rng(seed)
    scores, observed = rng.normal(size=(7, 3, 5)), rng.random((7, 5)) < 0.6
    model = FactorAnalysis(rng.normal(size=5), rng.normal(size=(5, 2)), rng.uniform(0.2, 2, 5))
    together, covariance = model.posterior_together(scores, observed)
    apart, spread = model.posterior(scores.reshape(21, 5), np.repeat(observed, 3, axis=0))
    assert_allclose(together.reshape(21, 2), apart, atol=1e-10)
    assert_allclose(np.repeat(np.broadcast_to(covariance, (7, 2, 2)), 3, axis=0), spread, atol=1e-10)


def test_log_ratios_are_centred_and_zero_where_missing():
    P, _ = soft(missing=0.5)
    cells = ClassCells(P.transpose(0, 2, 1))
    assert_allclose(cells.ratios.sum(axis=1), 0, atol=1e-12)
    assert not cells.ratios.transpose(0, 2, 1)[~cells.observed].any()


def test_the_best_slope_of_each_classifier_is_found():
    P, truth = soft(60)
    scores = ClassCells(P.transpose(0, 2, 1)).ratios
    grid = np.exp(np.linspace(-3, 2, 100))
    held = [[softmax_loss(s * scores[:, :, j], truth).sum() + 0.25 * (s - 1) ** 2 for s in grid] for j in range(6)]
    assert_allclose(single_losses(scores, truth), np.min(held, axis=1), rtol=1e-3)


def test_confusion_says_who_mistakes_what_for_what():
    truth = np.random.default_rng(0).integers(3, size=900)
    V = cast(truth, np.full(6, 0.8), 3)
    V[:, 0] = np.where(truth == 2, 1, truth)  # never says 2
    model = VoteModel.learn(VoteTable.of(V, 3), some(truth, 60), coin=False)
    told = np.exp(model.logs[0])  # vote, true class
    assert told[1, 2] > 0.85
    assert told[0, 0] > 0.9
    assert_allclose(told.sum(axis=0), 1)
    coin = np.exp(VoteModel.learn(VoteTable.of(V, 3), some(truth, 60), coin=True).logs[3])
    assert coin[0, 0] == pytest.approx(coin[1, 1])
    assert coin[0, 0] == pytest.approx(0.8, abs=0.05)


def test_votes_for_two_classes_have_dawid_and_skene_among_the_members(tmp_path):
    """One coin that is nearly always right among thirty poor ones: the mean hears it as one of thirty-one."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 500)
    right = rng.random((500, 31)) < np.r_[0.97, rng.uniform(0.5, 0.65, 30)]
    votes = np.where(np.where(right, truth[:, None], 1 - truth[:, None]) == 1, "yes", "no").astype(object)
    votes[rng.random(votes.shape) < 0.2] = None
    y = [["no", "yes"][t] if i < 60 else None for i, t in enumerate(truth)]
    model = CFEnsembleCV(ranks=(1, 2)).fit(votes, y)
    weight = {row["name"]: row["weight"] for row in model.members_}
    assert weight["Dawid-Skene, one coin"] > weight["mean"]
    said = model.predict() == np.array(["no", "yes"])[truth]
    majority = (votes == "yes").mean(axis=1) > (votes == "no").mean(axis=1)
    assert said[60:].mean() > (majority == (truth == 1))[60:].mean() + 0.05
    model.save(tmp_path / "votes.safetensors")
    np.testing.assert_array_equal(
        halfstep.load(tmp_path / "votes.safetensors").predict_proba(votes), model.predict_proba()
    )
    probabilities = CFEnsembleCV(ranks=(1,)).fit(rng.random((90, 5)), np.arange(90) % 2)
    assert not any("Dawid" in row["name"] for row in probabilities.members_)
