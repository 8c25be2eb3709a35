"""`hs.tune(data)`: all recommenders searched, compared on cells that chose nothing, the winner fitted."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import halfstep as hs
from halfstep.apps.tune import recommenders
from halfstep.data import table
from halfstep.models.held_out import HeldOut, RankingMetric, keep_some
from halfstep.tune import RecommenderTuning, find_recommender

SKILLS = hs.datasets.load_sample_skills()


def small(data=SKILLS, **options):
    return hs.tune(data, 600, **{"n_trials": 19, "n_threads": 1} | options)


@pytest.fixture(scope="module")
def found():
    return small()


def test_every_kind_is_tried_and_the_winner_is_fitted_to_all_data(found):
    assert isinstance(found, RecommenderTuning)
    assert {trial["model"] for trial in found.trials} == {"Popularity", "ItemGraph", "ItemKNN", "EASE", "WALS"}
    assert len(found.trials) == 19
    assert found.model.recommend("Registered nurse", 3).ids.shape == (3,)
    assert found.winner == max(found.validation, key=found.validation.get)
    assert set(found.test) == set(found.models)
    assert type(found.model).__name__ == found.winner
    assert found.test[found.winner] > found.test["Popularity"]


def test_the_same_seed_and_trials_give_the_same_winner(found):
    again = small()
    assert again.winner == found.winner
    assert again.validation == found.validation
    assert again.test == found.test


def test_every_trial_is_told():
    told = []
    hs.tune(sp.csr_array(SKILLS.matrix), 600, n_trials=2, on_trial=lambda n, value: told.append((n, value)))
    assert [n for n, _ in told] == [1, 2]
    assert 0 < told[0][1] <= told[1][1] < 1


def test_a_true_answer_ends_the_search():
    found = small(on_trial=lambda n, value: n == 2)
    assert len(found.trials) == 2


def test_the_page_shows_what_was_tried(found, tmp_path):
    page = found.page(tmp_path / "tuning.html").read_text()
    assert "ItemGraph" in page
    assert found.winner in str(found)
    assert "The best of each kind" in page
    assert found.to_dict()["kinds"][0]["test"] == max(found.test.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds=0 must be"),
        ({"n_trials": 0}, "n_trials=0 must be a whole number"),
        ({"metric": "rmse"}, "metric='rmse' is not known"),
    ],
)
def test_a_search_that_cannot_be_made_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        find_recommender(SKILLS, **options)


def test_ranks_that_do_not_fit_are_not_tried(found):
    ranks = [trial["params"].get("rank") for trial in found.trials if trial["model"] == "WALS"]
    assert all(rank is None or rank <= min(SKILLS.matrix.shape) // 2 for rank in ranks)
    assert np.isfinite([trial["value"] for trial in found.trials]).all()


def factors_of(monkeypatch, ranks, gain=0.0):
    """Trials of WALS after the default, where the first stage has 60 of the users and rank 8."""
    for name, value in {"MANY_USERS": 100, "SOME_USERS": 60, "FIRST_RANK": 8, "RANKS": ranks, "GAIN": gain}.items():
        monkeypatch.setattr(recommenders, name, value)
    found = small(n_trials=None)
    return found, [trial for trial in found.trials if trial["model"] == "WALS"][1:]


def test_settings_are_halved_over_users_sweeps_and_ranks(monkeypatch):
    found, factors = factors_of(monkeypatch, (16, 32, 1024))
    stages = [(trial["users"], trial["params"]["rank"]) for trial in factors]
    assert stages == [(60, 8)] * 8 + [(111, 16)] * 4 + [(111, 32)] * 2
    assert any(trial["params"].get("reg_scaling") == "count" for trial in factors)
    assert found.validation["WALS"] == max(trial["value"] for trial in found.trials if trial.get("users") == 111)


def test_no_larger_rank_is_tried_where_the_last_one_gained_little(monkeypatch):
    _, factors = factors_of(monkeypatch, (16, 32, 48), gain=10.0)
    assert [trial["params"]["rank"] for trial in factors] == [8] * 8 + [16] * 4 + [32] * 2


def test_a_winner_fitted_from_scratch_ranks_as_its_trial_did(found):
    rest, _ = keep_some(SKILLS.matrix, 0)
    train, hidden = keep_some(rest, 1)
    kept = HeldOut.of(train, hidden, 0)
    again = clone(found.models["WALS"]).fit(train)
    value = kept.value(RankingMetric.of("ndcg@20"), again.rank_items(kept.seen, 20, kept.rows))
    assert value == pytest.approx(found.validation["WALS"], abs=2e-3)


def test_trials_share_cells_that_are_read_once(monkeypatch):
    read, whole = [], table._from_matrix
    monkeypatch.setattr(table, "_from_matrix", lambda X, *more: read.append(X) or whole(X, *more))
    cells = sp.csr_array(SKILLS.matrix)
    small(data=cells, n_trials=19)
    to_learn_from, to_test = read[:2]
    assert to_learn_from.nnz < to_test.nnz < cells.nnz
    assert all(each is cells for each in read[2:])  # the winner is fitted to the data as given


def test_a_lost_search_goes_on_to_the_same_end(tmp_path):
    whole = small(n_trials=28)
    hs.tune(SKILLS, 600, n_trials=25, n_threads=1, checkpoint=tmp_path / "search")
    again = hs.tune(SKILLS, 600, n_trials=28, n_threads=1, checkpoint=tmp_path / "search", resume=True)
    assert [trial["value"] for trial in again.trials] == [trial["value"] for trial in whole.trials]
    assert again.test == whole.test


def test_what_was_tried_is_a_frame(found):
    frame = found.to_frame()
    assert frame["value"].tolist() == [trial["value"] for trial in found.trials]
    assert {"model", "seconds", "sweeps", "reg"} <= set(frame.columns)


def test_a_frame_of_pairs_is_searched_by_its_ids():
    frame = SKILLS.to_frame("pandas")
    found = hs.tune(frame, 600, n_trials=2, n_threads=1)
    assert found.test == hs.tune(SKILLS, 600, n_trials=2, n_threads=1).test
    assert len(found.model.recommend(frame.iloc[0, 0], 3).ids) == 3


@pytest.mark.parametrize(("cells", "most"), [(np.eye(4), 1), (np.zeros((4, 5)), 0), (np.ones((2, 3)), 3)])
def test_data_too_small_to_search_are_named(cells, most):
    with pytest.raises(ValueError, match=rf"data has no user with four items, the most is {most}"):
        hs.tune(sp.csr_array(cells), 5)
