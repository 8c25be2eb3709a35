"""Tuning on ratings: the default is the first trial, the winner is judged on ratings that no trial has seen."""

import numpy as np
import pytest

pytest.importorskip("optuna")

from halfstep import PLQMF, BayesMF
from halfstep.apps.tune import RECIPES, tune
from halfstep.data.datasets import Ratings, make_ratings

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    pairs, y, _ = make_ratings(120, 80, 3000, random_state=4)
    return Ratings(pairs, y, np.arange(3000))


@pytest.fixture(scope="module")
def tuning(data):
    return tune(data, PLQMF(max_iter=5), n_trials=10, n_threads=1, random_state=2)


def test_the_same_seed_and_trials_choose_the_same(data, tuning):
    again = tune(data, PLQMF(max_iter=5), n_trials=10, n_threads=2, random_state=2)
    assert again.best_params == tuning.best_params
    assert [t["value"] for t in again.trials] == [t["value"] for t in tuning.trials]


def test_the_default_is_tried_first_so_that_it_cannot_win(tuning):
    first = tuning.trials[0]
    assert (first["rank"], first["reg_times"], first["reg_bias_times"]) == (16, 1.0, 1.0)
    assert tuning.best_value <= first["value"]
    assert tuning.best_value == min(t["value"] for t in tuning.finished)
    assert tuning.metric == "rmse"


def test_poor_trials_are_given_up_after_a_split(tuning):
    assert {t["state"] for t in tuning.trials} == {"complete", "pruned"}
    values = [row["value"] for row in tuning.front()]
    assert values == sorted(values, reverse=True)


def test_the_winner_stands_beside_both_baselines_on_unseen_ratings(tuning):
    result = tuning.test
    assert list(result.table) == ["Constant", "Biases", "PLQMF default", "PLQMF tuned"]
    assert result.table["PLQMF tuned"]["rmse"].mean < result.table["Biases"]["rmse"].mean
    outer, seen = tuning.subject.outer, set()
    for split in tuning.subject.inner:
        seen |= set(map(tuple, np.concatenate([split.train.pairs, split.test.pairs]).tolist()))
    assert not seen & set(map(tuple, outer.test.pairs.tolist()))
    assert tuning.to_dict()["test"]["models"]["PLQMF tuned"]["metrics"]["rmse"]["low"] > 0


def test_the_best_model_holds_multiples_of_what_all_ratings_teach(data, tuning):
    model = tuning.best_model()
    learned = PLQMF(max_iter=1, n_threads=1, random_state=model.random_state).fit(data.pairs, data.y).penalty_
    assert model.reg_user == pytest.approx(tuning.best_params["reg_times"] * learned.user, rel=1e-6)
    assert model.rank == tuning.best_params["rank"]
    assert model.max_iter == 5
    assert np.isfinite(model.fit(data.pairs, data.y).predict(data.pairs[:3])).all()


@pytest.mark.parametrize(
    ("loss", "metric"),
    [("absolute", "mae"), ("huber:0.5", "mae"), ("quantile:0.9", "pinball@0.9"), ("epsilon_insensitive", "rmse")],
)
def test_each_loss_is_tuned_by_its_own_metric(data, loss, metric):
    small = data.take(np.arange(800))
    found = tune(small, PLQMF(loss=loss, max_iter=2), n_trials=1, space={"rank": 2}, n_threads=1, protocol="by_time")
    assert found.metric == metric
    assert len(found.subject.inner) == 1
    assert found.best_params["rank"] == 2


def test_two_classes_are_tuned_by_log_loss(data):
    liked = Ratings(data.pairs, np.where(data.y > 3, "yes", "no"))
    found = tune(liked, PLQMF(loss="logistic", max_iter=3), n_trials=2, n_threads=1)
    assert found.metric == "log_loss"
    assert set(found.test.metrics) == {"log_loss"}


def test_draws_are_tuned_too(data):
    model = BayesMF(n_sweeps=8)
    found = tune(data, model, n_trials=2, space={"rank": (2, 6)}, n_threads=1, protocol="by_time")
    assert set(found.best_params) == set(RECIPES["BayesMF"].space)
    assert found.best_model().n_sweeps == 8
    assert "BayesMF tuned" in found.test.table


def test_a_study_of_ratings_goes_on_and_refuses_another_loss(data, tmp_path):
    options = {"storage": tmp_path / "s.db", "n_threads": 1, "space": {"rank": 2}}
    first = tune(data, PLQMF(max_iter=2), n_trials=1, **options)
    again = tune(data, PLQMF(max_iter=2), n_trials=2, **options)
    assert again.trials[0]["value"] == first.trials[0]["value"]
    with pytest.raises(ValueError, match="another model"):
        tune(data, PLQMF(max_iter=2, loss="absolute"), metric="rmse", n_trials=2, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": PLQMF(C=1.0)}, "fixes C, which the search is about"),
        ({"model": object()}, "model='object' cannot be tuned on ratings.*'PLQMF', 'BayesMF'"),
        ({"metric": "ndcg@10"}, "metrics='ndcg' is not known"),
        ({"metric": "coverage@0.9"}, "metric='coverage' says nothing about errors alone"),
        ({"protocol": "leave_k_out"}, "is not a protocol of ratings"),
        ({"space": {"reg": 1}}, "space='reg' is not known"),
    ],
)
def test_wrong_searches_are_named(data, options, message):
    with pytest.raises(ValueError, match=message):
        tune(data, **options)


def test_rankings_are_tuned_with_wals(data):
    from halfstep.data.datasets import load_sample_skills

    with pytest.raises(TypeError, match="model is a PLQMF; rankings are tuned with WALS"):
        tune(load_sample_skills(), PLQMF())
