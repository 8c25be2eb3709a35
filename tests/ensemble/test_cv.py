"""CFEnsembleCV: what it owes at any number of labels, its table, its weights, its files and its errors."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score, log_loss

import halfstep
from halfstep import CFEnsembleCV, baselines
from halfstep.core.loop import timeless
from halfstep.ensemble import CFEnsemble
from halfstep.ensemble.predictions import PredictionWarning, expit, logit

from ..contract.refusal import refused, unchanged

N, M = 400, 15


def pool(seed: int = 0, missing: float = 0.5, n: int = N) -> tuple[Any, Any]:
    """Predictions of M classifiers whose skill and bias differ, and the truth."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.3).astype(int)
    signal = np.where(truth == 1, 1.0, -1.0) + rng.normal(size=n)
    shared = rng.normal(size=n)  # an error that half of the classifiers make together
    slope = np.linspace(0.1, 1.5, M)
    noise = rng.normal(size=(n, M)) + np.outer(shared, np.arange(M) % 2)
    P = expit(np.outer(signal, slope) + rng.normal(size=M) + noise)
    P[rng.random(P.shape) < missing] = np.nan
    P[np.arange(n), rng.integers(M, size=n)] = 0.4
    return P, truth


def labelled(truth: Any, count: int) -> Any:
    """The first `count` labels, with two of each class among them where that is possible."""
    order = np.concatenate([np.flatnonzero(truth == 1)[:2], np.flatnonzero(truth == 0)[:2], np.arange(len(truth))])
    rows = np.array(list(dict.fromkeys(order.tolist())))[:count]
    y = np.full(len(truth), np.nan)
    y[rows] = truth[rows]
    return y


def fit(P: Any, y: Any, **parameters: Any) -> CFEnsembleCV:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PredictionWarning)
        return CFEnsembleCV(**{"ranks": (1, 3), **parameters}).fit(P, y)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 20, 200])
def test_works_from_no_label_up(count: int) -> None:
    P, truth = pool()
    model = fit(P, labelled(truth, count))
    proba = model.predict_proba()
    assert proba.shape == (N, 2)
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1)
    assert average_precision_score(truth, proba[:, 1]) > 0.7


def test_labels_of_one_class_alone_are_used_with_care() -> None:
    P, truth = pool()
    y = np.full(N, np.nan)
    y[np.flatnonzero(truth == 1)[:3]] = 1
    none, some = fit(P, None).predict_proba()[:, 1], fit(P, y).predict_proba()[:, 1]
    assert some.mean() > none.mean()
    assert average_precision_score(truth, some) > average_precision_score(truth, none) - 0.03


def test_beats_mean_and_stacking_where_half_is_missing() -> None:
    gaps: dict[str, list[float]] = {"mean": [], "stacking": [], "loss": []}
    for seed in range(3):
        P, truth = pool(seed, 0.7)
        y = labelled(truth, 60)
        test = np.isnan(y)
        ours = fit(P, y).predict_proba()[test, 1]
        mean = baselines.Mean().fit(P, y).predict_proba()[test, 1]
        stacking = baselines.ShrunkenStacking(impute="column_mean").fit(P, y).predict_proba()[test, 1]
        score = average_precision_score(truth[test], ours)
        gaps["mean"].append(score - average_precision_score(truth[test], mean))
        gaps["stacking"].append(score - average_precision_score(truth[test], stacking))
        gaps["loss"].append(log_loss(truth[test], stacking) - log_loss(truth[test], ours))
    assert {name: np.mean(gap) > 0.005 for name, gap in gaps.items()} == dict.fromkeys(gaps, True)


def test_new_instances_get_the_answers_of_the_fitted_ones() -> None:
    P, truth = pool()
    model = fit(P, labelled(truth, 50))
    assert_allclose(model.predict_proba(P), model.predict_proba(), atol=1e-12)
    assert_allclose(model.predict_proba(P[7:9]), model.predict_proba()[7:9], atol=1e-12)
    assert_allclose(model.uncertainty(P), model.uncertainty_, atol=1e-12)
    assert_array_equal(model.predict(P), model.predict_proba(P).argmax(axis=1))


def test_a_label_does_not_leak_into_the_answer_of_its_instance() -> None:
    """Twins, one labelled against all evidence: they must get one answer."""
    P, truth = pool()
    y = labelled(truth, 50)
    P[10] = P[11]
    y[10], y[11] = 1 - truth[11], np.nan
    proba = fit(P, y).predict_proba()
    assert_allclose(proba[10], proba[11], atol=1e-12)


def test_the_table_of_members() -> None:
    P, truth = pool()
    model = fit(P, labelled(truth, 80))
    weights = [row["weight"] for row in model.members_]
    assert len({row["name"] for row in model.members_}) == len(weights) == len(model.weights_)
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1)
    losses = np.array([row["log_loss"] for row in model.members_])
    assert_array_equal(losses, np.sort(losses))  # the heavier, the lower its loss
    expected = np.exp(-(80 / model.temperature) * (losses - losses[0]))
    assert_allclose(weights, expected / expected.sum())
    assert all(row["seconds"] > 0 for row in model.members_)
    assert model.log_loss_ is not None
    assert model.log_loss_ < np.mean(losses)


def test_few_labels_mean_nearly_equal_weights_and_none_mean_equal_ones() -> None:
    P, truth = pool()
    spread = {count: np.ptp(fit(P, labelled(truth, count)).weights_) for count in (0, 3, 10, 300)}
    assert spread[0] == spread[3] == 0
    assert 0 < spread[10] < spread[300]
    assert np.ptp(fit(P, labelled(truth, 300), temperature=np.inf).weights_) == 0


def test_uncertainty_is_larger_where_less_is_known() -> None:
    P, truth = pool(missing=0.0, n=600)
    rng = np.random.default_rng(1)
    poor = np.arange(600) < 300
    gone = poor[:, None] & (rng.random(P.shape) < 0.85)
    gone[:, 0] = False
    P[gone] = np.nan
    model = fit(P, labelled(truth, 60))
    assert (model.uncertainty_ >= 0).all()
    assert model.uncertainty_[poor].mean() > 1.1 * model.uncertainty_[~poor].mean()


def test_uncertain_instances_are_more_often_wrong() -> None:
    P, truth = pool(2, 0.7, 900)
    model = fit(P, labelled(truth, 60))
    wrong = (model.predict_proba()[:, 1] - truth) ** 2
    sure = model.uncertainty_ <= np.median(model.uncertainty_)
    assert wrong[~sure].mean() > wrong[sure].mean()


def test_no_missing_prediction_and_no_prediction_at_all() -> None:
    P, truth = pool(missing=0.0)
    P[5] = np.nan
    P[:, 3] = np.nan
    proba = fit(P, labelled(truth, 50)).predict_proba()
    assert np.isfinite(proba).all()
    assert 0.1 < proba[5, 1] < 0.6  # near the average, for want of anything better


def test_probabilities_follow_the_share_of_positives() -> None:
    P, truth = pool(n=1500)
    for shift in (-2.0, 2.0):
        moved = expit(logit(P, 1e-6) + shift)
        proba = fit(moved, labelled(truth, 300)).predict_proba()[:, 1]
        assert proba.mean() == pytest.approx(truth.mean(), abs=0.05)


def test_several_classes() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    scores = np.eye(3)[truth][:, None, :] * rng.uniform(0.5, 2, (1, 8, 1)) + rng.normal(size=(300, 8, 3))
    P = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    y = np.where(np.arange(300) < 60, truth, -1)
    model = fit(P, y, ranks=(1, 2))
    proba = model.predict_proba()
    assert proba.shape == (300, 3)
    assert_allclose(proba.sum(axis=1), 1)
    assert (proba.argmax(axis=1) == truth)[60:].mean() > (P.mean(axis=1).argmax(axis=1) == truth)[60:].mean() - 0.02


def test_labels_of_any_kind() -> None:
    P, truth = pool()
    y = labelled(truth, 50)
    words = np.where(np.isnan(y), None, np.where(y == 1, "yes", "no"))
    model = fit(P, words, positive="yes")
    assert_allclose(model.predict_proba(), fit(P, y).predict_proba())
    assert set(model.predict()) <= {"yes", "no"}


def test_every_parameter_changes_the_fit() -> None:
    P, truth = pool()
    y = labelled(truth, 60)
    plain = fit(P, y).predict_proba()
    turned = {
        "ranks": (2,),
        "links": ("logit",),
        "temperature": 50.0,
        "folds": 3,
        "calibrate": False,
        "clip": 0.2,
        "max_seconds": 0,
        "random_state": 3,
        "estimators": [("ours", CFEnsemble(rank=1, max_iter=3))],
    }
    for name, value in turned.items():
        assert np.abs(fit(P, y, **{name: value}).predict_proba() - plain).max() > 1e-7, name
    inert = fit(P, y, n_threads=1, verbose=0)
    assert_allclose(inert.predict_proba(), plain, atol=1e-9)


def test_further_members_are_refitted_for_each_fold() -> None:
    P, truth = pool()
    y = labelled(truth, 60)
    model = fit(P, y, estimators=[("weighted mean", baselines.WeightedMean()), ("stack", baselines.LogisticStacking())])
    rows = {row["name"]: row for row in model.members_}
    assert rows["weighted mean"]["weight"] > 0
    fitted = baselines.LogisticStacking().fit(P, y).predict_proba()[:, 1]
    seen = ~np.isnan(y)
    assert rows["stack"]["log_loss"] > log_loss(y[seen], fitted[seen])  # held-out labels were not learned from
    assert_allclose(model.predict_proba(P), model.predict_proba(), atol=1e-9)


def test_a_time_budget_keeps_the_first_views() -> None:
    P, truth = pool()
    model = fit(P, labelled(truth, 50), max_seconds=0)
    names = {row["name"].split(",")[0] for row in model.members_}
    assert names == {"mean", "bias-adjusted mean", "factors 1"}


def test_ranks_stop_at_a_third_of_the_classifiers() -> None:
    P, truth = pool()
    few = fit(P[:, :4], labelled(truth, 50), ranks=(1, 2, 4, 7))
    assert {row["name"].split(",")[0] for row in few.members_} >= {"factors 1"}
    assert not any(row["name"].startswith("factors 2") for row in few.members_)
    assert np.isfinite(fit(P[:, :1], labelled(truth, 50)).predict_proba()).all()


def test_save_and_load(tmp_path: Any) -> None:
    P, truth = pool()
    model = fit(P, labelled(truth, 50))
    model.save(tmp_path / "model.safetensors")
    again = halfstep.load(tmp_path / "model.safetensors")
    assert isinstance(again, CFEnsembleCV)
    assert_array_equal(again.predict_proba(), model.predict_proba())
    assert_array_equal(again.predict_proba(P[:30]), model.predict_proba(P[:30]))
    assert_array_equal(again.uncertainty(P[:30]), model.uncertainty(P[:30]))
    assert again.members_ == timeless(model.members_)
    assert clone(again).get_params()["temperature"] == model.temperature


def test_a_file_cannot_hold_estimators(tmp_path: Any) -> None:
    P, truth = pool()
    model = fit(P, labelled(truth, 20), estimators=[("mine", baselines.Mean())])
    with pytest.raises(ValueError, match=r"estimators=\['mine'\] cannot be held by a model file; fit without them"):
        model.save(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ranks": ()}, r"ranks=\(\) must name at least one number"),
        ({"ranks": (0,)}, r"ranks=0 must be a whole number of at least 1"),
        ({"links": "logit"}, r"links='logit' must be a sequence with 'logit', 'identity' or both"),
        ({"links": ("logits",)}, r"links='logits' is not known.*Did you mean 'logit'"),
        ({"temperature": 0}, r"temperature=0 must be positive; infinity is the plain average"),
        ({"folds": 1}, r"folds=1 must be a whole number of at least 2"),
        ({"clip": 0.5}, r"clip=0.5 must lie strictly between 0 and 0.5"),
        ({"max_seconds": -1}, r"max_seconds=-1 must be a finite number of at least 0"),
        ({"estimators": [("a", None), ("a", None)]}, r"estimators have the names \['a', 'a'\]; each must have its own"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CFEnsembleCV(**parameters).fit(np.full((4, 3), 0.5), [0, 1, 0, 1])


def test_estimators_need_two_classes() -> None:
    with pytest.raises(ValueError, match=r"estimators= serve two classes; y has 3"):
        CFEnsembleCV(estimators=[("mean", baselines.Mean())]).fit(np.full((6, 3, 3), 1 / 3), [0, 1, 2, 0, 1, 2])


def test_no_labels_and_few_labels_are_said() -> None:
    P, truth = pool()
    with pytest.warns(PredictionWarning, match="y has no labels at all"):
        CFEnsembleCV(ranks=(1,)).fit(P)
    with pytest.warns(PredictionWarning, match="fewer than two of a class nothing can be held out"):
        CFEnsembleCV(ranks=(1,)).fit(P, labelled(truth, 3))


def test_it_works_inside_scikit_learn() -> None:
    from sklearn.ensemble import StackingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.naive_bayes import GaussianNB

    P, truth = pool(missing=0.0, n=150)
    proba = cross_val_predict(CFEnsembleCV(ranks=(1,)), P, truth, cv=2, method="predict_proba")
    assert average_precision_score(truth, proba[:, 1]) > 0.7
    members = [("a", GaussianNB()), ("b", LogisticRegression())]
    stack = StackingClassifier(members, final_estimator=CFEnsembleCV(ranks=(1,)), cv=2).fit(P, truth)
    assert stack.score(P, truth) > 0.7


@pytest.mark.heavy
def test_a_refused_fit_leaves_the_model_as_it_was() -> None:
    P, truth = pool(n=60)
    y = labelled(truth, 20)
    stages = refused(
        lambda: fit(P, y, ranks=(1,), links=("logit",), estimators=[("mean", baselines.Mean())]),
        lambda model: model.fit(P[:40, :8], y[:40]),
        lambda model: (model.predict_proba(), model.predict_proba(P[:5]), model.uncertainty(), model.members_),
    )
    assert stages > 50


@pytest.mark.parametrize("y", [[0, 1, 0], np.arange(60), np.ones((60, 2))], ids=["short", "many classes", "table"])
def test_labels_that_are_refused_change_nothing(y: Any) -> None:
    P, truth = pool(n=60)
    model = fit(P, labelled(truth, 20))
    unchanged(model, lambda: model.fit(P, y), ValueError, lambda: (model.predict_proba(), model.predict()))


def test_a_family_with_further_members_can_be_pickled_and_does_not_hold_the_rows() -> None:
    P, truth = pool(n=60)
    model = fit(P, labelled(truth, 20), estimators=[("mean", baselines.Mean())])
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(P[:9]), model.predict_proba(P[:9]))
    assert not hasattr(model.fitted_.committee.members[-1], "_refit")


def test_what_was_fitted_cannot_be_set() -> None:
    P, _ = pool(n=60)
    model = fit(P, None)
    with pytest.raises(AttributeError, match="weights_ belongs to the fit"):
        model.weights_ = np.ones(3)
    with pytest.raises(NotFittedError, match="not fitted"):
        CFEnsembleCV().predict_proba()


def test_files_keep_labels_and_old_ones_without_them_load(tmp_path: Any) -> None:
    P, truth = pool(n=60)
    model = fit(P, labelled(truth, 20))
    model.save(tmp_path / "model.safetensors")
    assert_array_equal(halfstep.load(tmp_path / "model.safetensors").fitted_.labels, model.fitted_.labels)
    model.fitted_ = replace(model.fitted_, labels=None)
    model.save(tmp_path / "old.safetensors")
    assert halfstep.load(tmp_path / "old.safetensors").fitted_.labels is None
