"""PLQMF with features: exact, printed whole, and answers about users and items that nobody has seen."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import halfstep as hs
from halfstep.engine.features import with_constant
from halfstep.models.plqmf import PLQMF


@pytest.fixture(scope="module")
def ratings():
    """Ratings whose item bias follows a group; items by id, users too."""
    rng = np.random.default_rng(0)
    users, items = [f"u{k}" for k in range(80)], [f"i{k}" for k in range(60)]
    worth = {"good": 1.5, "fair": 0.0, "bad": -1.5}
    about = {name: {"group": list(worth)[k % 3], "size": float(rng.normal())} for k, name in enumerate(items)}
    taste = dict(zip(users, rng.normal(size=80) * 0.5, strict=True))
    pairs = [(u, i) for u in users for i in items if rng.random() < 0.3]
    y = np.array([3 + taste[u] + worth[about[i]["group"]] + 0.3 * rng.normal() for u, i in pairs])
    who = {u: {"kind": "mild" if taste[u] > 0 else "stern"} for u in users}
    return np.array(pairs, object), y, about, who


def small(**more):
    return PLQMF(**({"rank": 3, "random_state": 0, "dtype": "float64"} | more))


@pytest.fixture(scope="module")
def model(ratings):
    X, y, about, who = ratings
    return small().fit(X, y, user_features=who, item_features=about)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_objective_with_features_is_the_documented_one_and_never_rises(ratings, loss):
    X, y, about, who = ratings
    model = small(
        loss=loss, reg_user=0.5, reg_item=0.4, reg_bias=(0.5, 0.4), coarse=False, row_tol=1e-9, feature_reg=0.3
    )
    model.fit(X, y, user_features=who, item_features=about)
    values = [record["objective"] for record in model.history_]
    assert np.all(np.diff(values) <= 1e-8 * values[0])
    residual = model.decision_function(X) - y
    value = np.sum(residual**2 if loss == "squared" else np.abs(residual))
    fit = model.fitted_
    for side, lam in ((0, 0.5), (1, 0.4)):
        start, stop = fit.columns.side(side, 1.0, False).columns(fit.columns.d)
        known = fit.known[side]
        F = with_constant(known.features.matrix)
        eta = 0.3 * lam * np.mean(np.asarray(F.multiply(F).sum(axis=1)))
        value += lam * np.sum((fit.rows[side][:, start:stop] - F @ known.weights) ** 2) + eta * np.sum(known.weights**2)
    assert_allclose(model.objective_, model.C_ * value, rtol=1e-8)


def test_items_that_nobody_rated_are_where_their_features_say(ratings, model):
    X, y, about, who = ratings
    cold = np.array([int(i[1:]) % 5 == 0 for _, i in X])
    fitted = small().fit(X[~cold], y[~cold], user_features=who, item_features=about)
    told = fitted.predict(X[cold], item_features=about)
    with pytest.warns(hs.errors.UnknownIdWarning):
        average = fitted.predict(X[cold])
    errors = [np.sqrt(np.mean((p - y[cold]) ** 2)) for p in (told, average)]
    assert errors[0] < 0.5
    assert errors[1] > 1.0
    new = fitted.predict(
        np.array([("somebody", "i0")], object), item_features=about, user_features={"somebody": {"kind": "mild"}}
    )
    assert np.isfinite(new).all()


def test_a_user_of_the_fit_folded_in_with_their_features_gets_the_fitted_row(ratings, model):
    X, y, _, who = ratings
    tight = small(row_tol=1e-10).fit(X, y, user_features=who)
    mine = X[:, 0] == "u7"
    _, factors, bias = tight.transform(X[mine], y[mine], user_features={"u7": who["u7"]})
    row = list(tight.user_ids_).index("u7")
    assert_allclose(factors[0], tight.user_factors_[row], atol=1e-4)
    assert_allclose(bias[0], tight.user_bias_[row], atol=1e-4)
    other = tight.transform(
        X[mine], y[mine], user_features={"u7": {"kind": "stern" if who["u7"]["kind"] == "mild" else "mild"}}
    )
    assert not np.allclose(other[2][0], bias[0], atol=1e-3)


def test_features_of_ratings_survive_a_file_and_more_pairs(model, tmp_path):
    path = tmp_path / "ratings.safetensors"
    model.save(path)
    again = hs.load(path)
    new = {"never": {"group": "good"}, "seen": {"group": "bad"}}
    pairs = np.array([("u1", "never"), ("u1", "seen")], object)
    assert_allclose(again.predict(pairs, item_features=new), model.predict(pairs, item_features=new))
    again.partial_fit(np.array([("u1", "never")], object), [4.0], item_features={"never": {"group": "good"}})
    assert len(again.fitted_.known[1].features) == len(again.item_ids_)
    assert_allclose(again.fitted_.known[1].weights, model.fitted_.known[1].weights)
    one, two = (
        model.recommend_for(["i1", "i2"], [4.0, 2.0], n=5, features=f).scores
        for f in ({"kind": "mild"}, {"kind": "stern"})
    )
    assert not np.allclose(one, two)


def test_what_features_cannot_do_with_ratings_is_refused(ratings, model):
    X, y, about, _ = ratings
    with pytest.raises(ValueError, match="features do not go with"):
        PLQMF(loss=hs.losses.Quantiles((0.1, 0.9))).fit(X, y, item_features=about)
    plain = small(max_iter=2, tol=1).fit(X, y)
    with pytest.raises(ValueError, match="item_features needs a model that was fitted with item_features="):
        plain.predict(X[:1], item_features=about)
    with pytest.raises(ValueError, match="must say whose they are"):
        model.predict(X[:1], item_features=[{"group": "good"}])
    with pytest.raises(ValueError, match="feature_reg=-1"):
        small(feature_reg=-1).fit(X, y, item_features=about)
    assert sp.issparse(model.fitted_.known[1].features.matrix)


def test_feature_reg_of_ratings_changes_the_fit(ratings):
    X, y, about, _ = ratings
    weak, strong = (small(feature_reg=reg).fit(X, y, item_features=about).predict(X) for reg in (0.05, 20.0))
    assert not np.allclose(weak, strong)
    frame = pd.DataFrame({"item": list(about), "group": [row["group"] for row in about.values()]})
    assert small().fit(X, y, item_features=frame).predict(X).shape == y.shape
