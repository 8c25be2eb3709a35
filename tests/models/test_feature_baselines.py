"""Recommenders by features alone: each against its formula written out, for new users and for new items."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import halfstep as hs
from halfstep.baselines import FactorRidge, FeatureKNN, FeatureRidge, GroupPopularity
from halfstep.data.features import Features
from halfstep.models import smoothers
from halfstep.models.smoothers import GroupRows, NearestRows, RidgeRows


@pytest.fixture
def known():
    random = np.random.default_rng(0)
    F = random.poisson(0.4, (40, 12)).astype(float)
    R = (random.random((40, 25)) < 0.2).astype(float)
    R[np.arange(25), np.arange(25)] = 1  # no empty column
    R[25:, 0] = 1  # no empty row
    return sparse.csr_array(F), sparse.csr_array(R), sparse.csr_array(random.poisson(0.4, (7, 12)).astype(float))


def ranked(scores, n):
    return np.argsort(-scores, axis=1, kind="stable")[:, :n]


@pytest.mark.parametrize("side", ["user", "item"])
def test_a_ridge_regression_is_that_of_scikit_learn(known, side):
    F, R, new = known
    plain = Ridge(alpha=2.0, fit_intercept=False).fit(F.toarray(), R.toarray() - R.toarray().mean(axis=0))
    expected = plain.predict(new.toarray()) + R.toarray().mean(axis=0)
    model = FeatureRidge(2.0)
    if side == "user":
        model.fit(R, user_features=F)
        found = model.rank_new(sparse.csr_array((7, 25)), 5, user_features=new)
        np.testing.assert_array_equal(found, ranked(expected, 5))
        np.testing.assert_allclose(model.fitted_.sides[0].scores(new), expected)
    else:  # the same, with the sides changed: 25 users, of whom 4 rank 7 new items
        model.fit(R.T.tocsr(), item_features=F)
        rows = np.array([3, 0, 9, 24])
        found = model.rank_new(sparse.csr_array((4, 7)), 5, rows, item_features=new)
        np.testing.assert_array_equal(found, ranked(expected.T[rows], 5))


def test_few_rows_few_columns_and_conjugate_gradients_give_one_regression(known, monkeypatch):
    F, _, new = known
    dual = RidgeRows(sparse.csr_array(F[:8]), 0.7).shares(new)
    dense = F[:8].toarray()
    np.testing.assert_allclose(dual, new @ dense.T @ np.linalg.inv(dense @ dense.T + 0.7 * np.eye(8)))
    primal = RidgeRows(F, 0.7).shares(new)
    monkeypatch.setattr(smoothers, "FACTORED", 1)
    monkeypatch.setattr(smoothers, "TOLERANCE", 1e-12)
    np.testing.assert_allclose(RidgeRows(F, 0.7).shares(new), primal, atol=1e-9)
    np.testing.assert_allclose(RidgeRows(sparse.csr_array(F[:8]), 0.7).shares(new), dual, atol=1e-9)


def test_neighbours_are_those_of_the_largest_cosines(known):
    F, _, new = known
    near = NearestRows(F, 3).shares(new).toarray()
    cosines = (new @ F.T).toarray() / np.outer(
        np.linalg.norm(new.toarray(), axis=1), np.linalg.norm(F.toarray(), axis=1)
    )
    for row, cosine in zip(near, np.nan_to_num(cosines), strict=True):
        assert np.count_nonzero(row) == 3
        assert cosine[row > 0].min() >= np.sort(cosine)[-3]
        np.testing.assert_allclose(row[row > 0], cosine[row > 0] / cosine[row > 0].sum())
    nobody = NearestRows(F, 3).shares(sparse.csr_array((1, 12)))
    assert nobody.nnz == 0


def test_the_smallest_group_with_enough_members_speaks():
    groups = sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]], float))
    new = sparse.csr_array(np.array([[1, 1, 0], [1, 0, 1], [0, 0, 1], [0, 0, 0]], float))
    shares = GroupRows(groups, np.arange(3), least=2, shrink=0.0).shares(new).toarray()
    np.testing.assert_allclose(shares, [[0.5, 0.5, 0, 0], [0.25] * 4, [0] * 4, [0] * 4])


def test_groups_are_categories_and_lists_not_numbers_and_words():
    frame = {i: {"age": float(i), "town": "x" if i < 6 else "y", "title": "word"} for i in range(12)}
    R = np.zeros((12, 2))
    R[:6, 0] = R[6:, 1] = R[0, 1] = 1
    data = hs.datasets.Interactions(sparse.csr_array(R), np.arange(12), np.array(["a", "b"]))
    features = Features.of(frame, side="user", text=["title"])
    model = GroupPopularity().fit(data, user_features=features)
    assert model.recommend_for({"town": "y", "title": "word"}).ids.tolist() == ["b", "a"]
    assert model.recommend_for({"town": "x"}).ids.tolist() == ["a", "b"]


def test_two_steps_are_a_regression_to_factors(known):
    F, R, new = known
    wals = hs.WALS(4, random_state=0, dtype="float64")
    model = FactorRidge(0.5, wals).fit(R, user_features=F)
    fit = hs.WALS(4, random_state=0, dtype="float64").fit(R)
    users, items = fit.user_factors_, fit.item_factors_
    plain = Ridge(alpha=0.5, fit_intercept=False).fit(F.toarray(), users - users.mean(axis=0))
    expected = (plain.predict(new.toarray()) + users.mean(axis=0)) @ items.T
    np.testing.assert_allclose(model.fitted_.sides[0].scores(new), expected, atol=1e-8)
    assert not hasattr(wals, "fitted_")  # the parameter stays as it was given


def test_they_answer_like_other_recommenders(known):
    F, R, _ = known
    frame = pd.DataFrame(F.toarray(), index=pd.Index([f"u{i}" for i in range(40)], name="user"))
    frame.columns = [f"c{i}" for i in range(12)]
    ids = np.array([f"u{i}" for i in range(40)])
    data = hs.datasets.Interactions(R, ids, np.array([f"i{i}" for i in range(25)]))
    model = FeatureKNN(5).fit(data, user_features=frame)
    best = model.recommend("u3", n=4)
    assert not set(best.ids) & {f"i{j}" for j in R[[3]].indices}
    assert len(model.recommend_for(frame.iloc[0].to_dict(), n=3, exclude=["i0"]).ids) == 3
    assert model.similar_items("i2", n=2).ids.shape == (2,)
    rows = np.array([0, 5])
    np.testing.assert_array_equal(
        model.rank_items(R[rows], 3, rows), [[int(i[1:]) for i in ids] for ids in model.recommend(["u0", "u5"], 3).ids]
    )
    everybody = model.rank_items(sparse.csr_array((1, 25)), 3)
    np.testing.assert_array_equal(everybody[0], np.argsort(-R.sum(axis=0), kind="stable")[:3])


def test_what_they_cannot_do_is_said(known):
    F, R, new = known
    with pytest.raises(ValueError, match="FeatureRidge needs user_features, item_features or both"):
        FeatureRidge().fit(R)
    with pytest.raises(ValueError, match="the fit had no item_features"):
        FeatureRidge().fit(R, user_features=F).rank_new(R[:1], 3, np.array([0]), item_features=new)
    with pytest.raises(ValueError, match=r"reg=0 must be a finite number above 0"):
        FeatureRidge(0).fit(R, user_features=F)
    with pytest.raises(ValueError, match="39 rows and no ids, and the fit has 40 users"):
        FeatureKNN().fit(R, user_features=F[:39])


def test_sides_that_have_words_of_their_own_take_features_too():
    import halfstep as hs

    skills = hs.datasets.load_sample_skills()  # occupations and skills
    words = hs.Features.of({user: {"title": user} for user in skills.user_ids.tolist()}, text=["title"])
    model = hs.baselines.FeatureRidge(reg=1.0).fit(skills, user_features=words)
    assert len(model.recommend_for({"title": "Marine engineer"}, n=5).ids) == 5
