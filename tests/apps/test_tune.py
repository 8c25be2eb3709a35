"""Tuning: it finds better parameters than bad ones, prunes, resumes, and judges on cells no trial has seen."""

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("optuna")

from halfstep.apps.tune import SPACE, tune
from halfstep.apps.tune.trials import checkpoints
from halfstep.data.datasets import load_sample_skills
from halfstep.models.wals import WALS

OPTIONS = {"protocol": "leave_k_out", "protocol_options": {"k": 3}, "n_threads": 1, "max_iter": 4}


@pytest.fixture(scope="module")
def data():
    return load_sample_skills()


@pytest.fixture(scope="module")
def tuning(data):
    return tune(data, n_trials=16, random_state=3, **OPTIONS)


def test_best_is_the_best_trial_and_can_be_refitted(data, tuning):
    values = [t["value"] for t in tuning.trials if t["state"] == "complete"]
    assert tuning.best_value == max(values)
    assert set(tuning.best_params) == {*SPACE, "max_iter"}
    model = tuning.best_model().fit(tuning.weighted(data))
    assert model.rank == tuning.best_params["rank"]


def test_a_winner_fitted_from_scratch_is_worth_what_its_trial_was(tuning):
    objective = tuning.subject.objective
    again = objective._value(tuning.best_model().fit(objective.split.train))
    assert again == pytest.approx(tuning.best_value, abs=1e-3)


def test_the_first_trial_is_the_untouched_model(data, tuning):
    first, plain = tuning.trials[0], WALS(random_state=0, max_iter=1).fit(tuning.subject.objective.split.train)
    assert first["rank"] == min(plain.rank_, 110)  # below the smaller side
    assert (first["background"], first["reg"]) == pytest.approx((plain.background_, plain.reg_))
    assert (first["reg_scaling"], first["weights"]) == (1.0, "given")


def test_a_trial_ends_where_rankings_get_worse(tuning):
    ended = [list(trial.intermediate_values.values()) for trial in tuning.study.trials]
    assert any(len(values) < len(checkpoints(OPTIONS["max_iter"])) for values in ended)
    for values in ended:
        assert values[:-1] == sorted(values[:-1])


def test_bad_trials_are_given_up_early(tuning):
    pruned = [t for t in tuning.trials if t["state"] == "pruned"]
    assert pruned
    assert all(t["value"] is not None for t in pruned)
    assert len(tuning.trials) == 16


def test_the_front_rises_with_time(tuning):
    front = tuning.front()
    seconds, values = [t["seconds"] for t in front], [t["value"] for t in front]
    assert seconds == sorted(seconds)
    assert values == sorted(values)
    assert values[-1] == tuning.best_value


def test_importance_is_a_share(tuning):
    shares = tuning.importance()
    assert sum(shares.values()) == pytest.approx(1)
    assert set(shares) <= set(SPACE)


def test_the_winner_is_judged_on_unseen_cells_beside_the_baselines(tuning):
    table = tuning.test.table
    assert list(table) == ["Popularity", "ItemKNN", "WALS default", "WALS tuned"]
    assert table["WALS tuned"]["ndcg@10"].mean > table["Popularity"]["ndcg@10"].mean
    assert tuning.to_dict()["test"]["n_users"] == 111


def test_validation_and_test_cells_are_disjoint(data, tuning):
    outer = tuning.subject.outer
    hidden, train = outer.relevant, outer.train[outer.users]
    assert (hidden.multiply(train)).nnz == 0


def test_a_study_goes_on_where_it_ended(data, tmp_path):
    path = tmp_path / "study.db"
    first = tune(data, n_trials=3, storage=path, **OPTIONS)
    again = tune(data, n_trials=5, storage=path, **OPTIONS)
    assert [t["number"] for t in again.trials] == [0, 1, 2, 3, 4]
    assert again.trials[:3] == first.trials
    assert tune(data, n_trials=2, storage=path, **OPTIONS).trials == again.trials


def test_a_study_of_other_data_is_refused(data, tmp_path):
    tune(data, n_trials=1, storage=tmp_path / "s.db", **OPTIONS)
    with pytest.raises(ValueError, match="holds a study of other data"):
        tune(data.filter(min_item=2), n_trials=1, storage=tmp_path / "s.db", **OPTIONS)


def test_a_true_answer_ends_the_search(data):
    seen = []
    tuning = tune(data, n_trials=50, on_trial=lambda done, best: seen.append(done) or done >= 2, **OPTIONS)
    assert seen == [1, 2]
    assert tuning.interrupted


def test_a_space_can_be_narrowed(data):
    tuning = tune(data, n_trials=2, space={"rank": 5, "weights": ["log", "sqrt"]}, **OPTIONS)
    assert all(t["rank"] == 5 and t["weights"] in ("log", "sqrt") for t in tuning.trials)


def test_ranks_stay_below_the_smaller_side_and_equal_weights_are_left_alone():
    rng = np.random.default_rng(0)
    matrix = sparse.csr_array((rng.random((40, 12)) < 0.5).astype(float))
    tuning = tune(matrix, n_trials=3, metric="ndcg@5", protocol="leave_k_out", protocol_options={"k": 1}, max_iter=2)
    assert all(t["rank"] <= 11 and t["weights"] == "given" for t in tuning.trials)


def test_the_best_model_weighs_as_its_trial_did(data):
    tuning = tune(data, n_trials=1, space={"weights": "bm25"}, **OPTIONS)
    assert tuning.best_params["weights"] == tuning.best_model().weighting == "bm25"
    assert tuning.weighted(data) is data


@pytest.mark.parametrize(("sweeps", "expected"), [(1, [1]), (2, [1, 2]), (5, [1, 2, 4, 5]), (16, [1, 2, 4, 8, 16])])
def test_checkpoints_end_with_the_last_sweep(sweeps, expected):
    assert checkpoints(sweeps) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "rmse"}, "rewards predicting 1 everywhere"),
        ({"metric": "coverage@10"}, "does not measure ranking quality"),
        ({"metric": "ndcg@x"}, "needs a whole number after the @"),
        ({"n_trials": 0}, "n_trials=0 must be a whole number of at least 1"),
        ({"space": {"ranks": 3}}, "space='ranks' is not known.*Did you mean 'rank'"),
        ({"space": {"weights": ["cube"]}}, "'cube' is not known"),
        ({"protocol": "time_split"}, "protocol='time_split' is not known"),
    ],
)
def test_bad_input(data, options, message):
    with pytest.raises(ValueError, match=message):
        tune(data, **options)


def test_trials_are_a_frame(tuning):
    frame = tuning.to_frame()
    assert frame["number"].tolist() == [trial["number"] for trial in tuning.trials]
    assert "value" in frame.columns
