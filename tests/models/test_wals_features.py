"""WALS with features of users and items: the contract once more, and answers about what was never seen."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import halfstep as hs
from halfstep.data.features import Features
from halfstep.engine.features import with_constant
from halfstep.models.wals import WALS

from .implicit import dense_objective, matrix, small
from .test_wals import TestContract as PlainContract

N, M = 31, 19


def numbers(n: int, p: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.5))


USERS, ITEMS = numbers(N, 5, 0), numbers(M, 40, 1)


def told(**more: Any) -> dict[str, Any]:
    return {"user_features": USERS, "item_features": ITEMS} | more


class TestContractWithFeatures(PlainContract):
    base: ClassVar = PlainContract.base | {"feature_reg": 0.03}
    knobs: ClassVar = PlainContract.knobs | {"feature_reg": {"feature_reg": 2.0}}
    inert: ClassVar = PlainContract.inert - {"feature_reg"}

    def fit(self, model, cells):
        return model.fit(matrix(cells), **told())

    def dense(self, model, cells):
        """The penalties are about where features say, and weights have one of their own."""
        value = dense_objective(model, matrix(cells))
        both = (model.user_factors_, model.fitted_.known[0]), (model.item_factors_, model.fitted_.known[1])
        for side, (rows, known) in zip((0, 1), both, strict=True):
            counts = np.count_nonzero(matrix(cells).toarray(), axis=1 - side)
            lam = 0.05 * (counts + 0.1 * (M, N)[side])
            F = with_constant((USERS, ITEMS)[side])
            W, f = known.weights, np.asarray(F.multiply(F).sum(axis=1)).ravel()
            eta = 0.03 * np.mean(lam * f) / 2
            assert_allclose(known.eta, eta)
            value += lam @ (np.sum((rows - F @ W) ** 2, axis=1) - np.sum(rows**2, axis=1)) / 2 + eta * np.sum(W**2)
        return value

    def test_a_long_fit_settles(self) -> None:
        """Weights and rows follow each other, so the last digits take longer than without features."""
        values = self.reported(self.fitted(max_iter=1000, tol=1e-6))
        assert len(values) < 1000

    def fold_in(self, model, cells):
        return model.transform(matrix(cells), user_features=USERS), model.user_factors_


@pytest.fixture(scope="module")
def frames():
    """Interactions that follow groups, and frames of what is known of users and items."""
    rng = np.random.default_rng(3)
    users, items = [f"u{k}" for k in range(60)], [f"i{k}" for k in range(45)]
    group = {name: "abc"[k % 3] for k, name in enumerate([*users, *items])}
    group |= {name: "abc"[k % 3] for k, name in enumerate(items)}
    pairs = [(u, i) for u in users for i in items if rng.random() < (0.5 if group[u] == group[i] else 0.03)]
    X = pd.DataFrame(pairs, columns=["user", "item"])
    U = pd.DataFrame({"user": users, "group": [group[u] for u in users], "size": rng.normal(size=60)})
    items_frame = pd.DataFrame({"item": items, "group": [group[i] for i in items]})
    return X, U, items_frame, group


@pytest.fixture(scope="module")
def model(frames):
    X, U, items, _ = frames
    return WALS(rank=6, max_iter=10, random_state=0, dtype="float64").fit(X, user_features=U, item_features=items)


def test_somebody_known_by_features_alone_gets_what_people_like_them_have(model, frames):
    group = frames[3]
    best = model.recommend_for(features={"group": "b"}, n=8)
    assert all(group[item] == "b" for item in best.ids)
    many = model.recommend_for(features=pd.DataFrame({"user": ["x", "y"], "group": ["a", "c"]}), n=5)
    assert many.ids.shape == (2, 5)
    assert list(many.users) == ["x", "y"]
    assert {group[item] for item in many.ids[0]} == {"a"}


def test_features_and_items_are_both_heard(model, frames):
    alone = model.recommend_for(["i0", "i3"], n=45)
    both = model.recommend_for(["i0", "i3"], features={"group": "b"}, n=45)
    scores = [dict(zip(*ranking, strict=True)) for ranking in (alone, both)]
    assert scores[1]["i1"] > scores[0]["i1"]
    frame = pd.DataFrame({"user": ["p", "p", "q"], "item": ["i0", "i3", "i1"]})
    who = pd.DataFrame({"user": ["q", "p"], "group": ["a", "b"]})
    table = model.recommend_for(frame, features=who, n=45).by_user()
    assert_allclose(table["p"].scores, both.scores)


def test_new_items_enter_rankings_where_their_features_say(model, frames):
    before = model.fitted_
    grown = hs.WALS(**model.get_params())
    grown.fitted_ = before
    grown.add_items({"new": {"group": "b"}, "newer": {"group": "c"}})
    assert before is model.fitted_
    assert list(grown.item_ids_[-2:]) == ["new", "newer"]
    known = before.known[1]
    assert_allclose(grown.item_factors_[-2:], known.expected(known.features.encode([{"group": "b"}, {"group": "c"}])))
    assert "new" in grown.recommend("u1", n=25).ids
    with pytest.raises(ValueError, match="item 'new' is in the model already"):
        grown.add_items({"new": {"group": "a"}})
    grown.partial_fit(pd.DataFrame({"user": ["u1", "u4"], "item": ["new", "new"]}))
    assert not np.allclose(grown.item_factors_[-2], known.expected(known.features.encode([{"group": "b"}]))[0])


def test_explanations_with_features_sum_to_the_score(model):
    user = model.explain("u1", "i4")
    u, i = model.user_positions(["u1"])[0], model.item_positions(["i4"])[0]
    score = float(model.user_factors_[u] @ model.item_factors_[i])
    assert user.score == pytest.approx(score)
    assert user.contributions.sum() + user.features.contributions.sum() == pytest.approx(score)
    assert {"group=b", "size"} <= set(user.features.names)
    assert user.item_features.contributions.sum() == pytest.approx(score)
    assert "(interactions)" in user.item_features.names
    alone = model.explain(item="i4", features={"group": "b"})
    ranked = dict(zip(*model.recommend_for(features={"group": "b"}, n=45), strict=True))
    assert alone.score == pytest.approx(ranked["i4"])
    assert len(alone.ids) == 0
    both = model.explain(item="i4", items=["i1"], features={"group": "b"})
    assert both.score == pytest.approx(
        dict(zip(*model.recommend_for(["i1"], features={"group": "b"}, n=45), strict=True))["i4"]
    )


def test_a_model_file_keeps_features_and_their_encoding(model, tmp_path, frames):
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = hs.load(path)
    for features in ({"group": "b"}, {"group": "never seen"}, {"size": 2.0}):
        one, two = (each.recommend_for(features=features, n=9) for each in (model, again))
        assert list(one.ids) == list(two.ids)
        assert_allclose(one.scores, two.scores)
    again.add_items({"new": {"group": "b"}})
    again.save(path)
    assert_allclose(hs.load(path).item_factors_, again.item_factors_)


def test_new_rows_of_partial_fit_are_held_where_their_features_say(frames):
    X, U, items, _ = frames
    model = small(rank=5).fit(X[X.user != "u7"], user_features=U, item_features=items)
    W = model.fitted_.known[0].weights
    model.partial_fit(X[X.user == "u7"], user_features=U[U.user == "u7"])
    assert_allclose(model.fitted_.known[0].weights, W)
    row = model.user_factors_[model.user_positions(["u7"])[0]]
    seen = model.seen(model.user_positions(["u7"]))
    assert_allclose(model.transform(seen, user_features=U[U.user == "u7"].drop(columns="user"))[0], row, atol=1e-9)
    assert not np.allclose(model.transform(seen)[0], row, atol=1e-4)
    # other features of somebody known count from then on
    model.partial_fit(X[X.user == "u7"], user_features={"u7": {"group": "c"}})
    assert not np.allclose(model.user_factors_[model.user_positions(["u7"])[0]], row, atol=1e-4)


def test_very_large_feature_reg_is_the_plain_model(frames):
    X, U, items, _ = frames
    plain = small(rank=5, solver="exact").fit(X)
    held = small(rank=5, solver="exact", feature_reg=1e12).fit(X, user_features=U, item_features=items)
    assert_allclose(held.user_factors_ @ held.item_factors_.T, plain.user_factors_ @ plain.item_factors_.T, atol=1e-6)


def test_rows_without_features_are_expected_where_rows_are_on_average(frames):
    X, U, items, _ = frames
    model = small(rank=5).fit(X, user_features=U[:40], item_features=items)
    known = model.fitted_.known[0]
    assert_allclose(model.transform(sp.csr_array((1, 45))), known.weights[-1:] / 2)


def test_a_fit_of_one_sweep_knows_what_features_of_items_weigh(frames):
    """It raised: items, where they are more than users, are zero when their weights are due."""
    X, _, items, _ = frames
    X = X[X.user.isin([f"u{k}" for k in range(20)])]
    short = small(rank=5, max_iter=1).fit(X, item_features=items)
    known = short.fitted_.known[1]
    F = with_constant(known.features.matrix).toarray()
    lam = short.reg_ * (np.bincount(X.item.map(list(short.item_ids_).index)) + short.background_ * 20)
    W = np.linalg.solve((F.T * lam) @ F + 2 * known.eta * np.eye(F.shape[1]), (F.T * lam) @ short.item_factors_)
    assert_allclose(known.weights, W, rtol=1e-6, atol=1e-9)


def test_validation_keeps_the_best_sweep_with_features(frames):
    X, U, items, _ = frames
    model = WALS(rank=5, random_state=0, max_iter=30, tol=0)
    model.fit(X[::2], user_features=U, item_features=items, validation=X[1::2], patience=1)
    cells = model.seen(np.arange(len(model.user_ids_)))
    who = Features.of(U, side="user").of_ids(model.user_ids_)
    assert_allclose(model.transform(cells, user_features=who), model.user_factors_, atol=1e-4)


def test_ranking_what_is_new_is_ranking_by_features(model, frames):
    group = frames[3]
    ranked = model.rank_new(sp.csr_array((2, 45)), 6, user_features=[{"group": "a"}, {"group": "b"}])
    assert {group[item] for item in model.item_ids_[ranked[0]]} == {"a"}
    new = model.rank_new(
        sp.csr_array((3, 3)), 3, model.user_positions(["u0", "u1", "u2"]), item_features=[{"group": g} for g in "abc"]
    )
    assert list(new[:, 0]) == [0, 1, 2]


def test_what_cannot_be_done_with_features_says_so(model, frames):
    X, U, _, _ = frames
    plain = small().fit(X)
    with pytest.raises(ValueError, match=r"features needs a model that was fitted with user_features="):
        plain.recommend_for(features={"group": "b"})
    with pytest.raises(ValueError, match=r"add_items needs a model that was fitted with item_features="):
        plain.add_items({"new": {"group": "b"}})
    with pytest.raises(ValueError, match=r"user_features needs a model that was fitted with user_features="):
        plain.partial_fit(X, user_features=U)
    with pytest.raises(ValueError, match="items and features are both left out"):
        model.recommend_for()
    with pytest.raises(ValueError, match="how='average' looks at items alone"):
        model.recommend_for(["i0"], features={"group": "b"}, how="average")
    with pytest.raises(ValueError, match="Popularity knows no features"):
        hs.baselines.Popularity().fit(X).recommend_for(features={"group": "b"})
    with pytest.raises(ValueError, match="features has 2 rows; it must have 1"):
        model.recommend_for(["i0"], features=[{"group": "b"}, {"group": "a"}])
    with pytest.raises(ValueError, match="a penalty of 0 holds none"):
        small(reg=0.0).fit(X, user_features=U)
    with pytest.raises(ValueError, match="feature_reg=0"):
        small(feature_reg=0.0).fit(X, user_features=U)


def test_a_fit_with_features_that_broke_off_is_resumed_with_the_same_bits(frames, tmp_path, monkeypatch):
    X, U, items, _ = frames
    for name in ("ALWAYS", "WORTH"):  # weights that go on from where they were
        monkeypatch.setattr(f"halfstep.core.regression.{name}", 0)
    given = {"rank": 5, "random_state": 0, "max_iter": 6, "tol": 0.0}
    whole = WALS(**given).fit(X, user_features=U, item_features=items)
    path = tmp_path / "fit.checkpoint"

    def stop(record):
        if record["iteration"] == 4:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        WALS(**given, checkpoint=path, every=1, callbacks=[stop]).fit(X, user_features=U, item_features=items)
    again = WALS(**given, checkpoint=path, every=1, resume=True).fit(X, user_features=U, item_features=items)
    assert np.array_equal(again.user_factors_, whole.user_factors_)
    assert np.array_equal(again.fitted_.known[1].weights, whole.fitted_.known[1].weights)


def test_features_go_with_data_sets_that_call_users_and_items_by_names_of_their_own():
    data = hs.datasets.load_sample_skills()
    about = {skill: {"length": len(str(skill))} for skill in data.item_ids.tolist()}
    model = WALS(rank=4, random_state=0, feature_reg=1.0).fit(data, item_features=about)
    assert len(model.fitted_.known[1].features) == len(data.item_ids)
