"""Answers as frames, and scores of rows that are new."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV, cross_val_score

import halfstep as hs

SKILLS = hs.datasets.load_sample_skills()


def test_lists_of_several_users_are_one_frame_without_padding():
    model = hs.ItemGraph().fit(SKILLS)
    users = ["Registered nurse", "Data scientist"]
    frame = model.recommend(users, 3).to_frame()
    assert frame.columns.tolist() == ["user", "rank", "item", "score"]
    assert frame["user"].tolist() == [users[0]] * 3 + [users[1]] * 3
    assert frame["rank"].tolist() == [1, 2, 3] * 2
    assert not frame.isna().any().any()
    one = model.recommend(users[0], 1000).to_frame()
    assert one.columns.tolist() == ["rank", "item", "score"]
    assert len(one) < 1000
    why = model.explain(users[0], one["item"][0]).to_frame()
    assert why["contribution"].sum() == pytest.approx(one["score"][0], rel=1e-5)


def test_cross_validation_scores_rows_that_are_new():
    model = hs.WALS(4, max_iter=2, random_state=0, n_threads=1)
    scores = cross_val_score(model, sp.csr_array(SKILLS.matrix), cv=3)
    assert np.isfinite(scores).all()
    assert scores.min() > 0.02
    search = GridSearchCV(model, {"rank": [2, 8]}, cv=2).fit(sp.csr_array(SKILLS.matrix))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
