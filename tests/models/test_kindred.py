"""What rows alike have beyond their factors: in scores of rows without cells, learned, explained, kept in files."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import halfstep as hs
from halfstep.data.features import Features
from halfstep.metrics import ndcg_at_k
from halfstep.models.kindred import KINDRED, NEAREST, Kin

N_USERS, N_ITEMS, COLD = 190, 160, 20


def crafts(n, rng):
    """Everybody is of two crafts of thirty; a matrix (n, 30)."""
    return np.array([np.isin(np.arange(30), rng.choice(30, 2, replace=False)) for _ in range(n)], float)


@pytest.fixture(scope="module")
def told():
    """Far more crafts than factors: what those of one craft have, factors of two columns cannot say."""
    rng = np.random.default_rng(0)
    U, V = crafts(N_USERS, rng), crafts(N_ITEMS, rng)
    X = ((U @ V.T > 0) | (rng.random((N_USERS, N_ITEMS)) < 0.02)).astype(float)
    return X, U, V


def fitted(told, users=N_USERS - COLD, items=N_ITEMS - COLD, **more):
    X, U, V = told
    options = {"rank": 2, "feature_reg": 1.0, "common_words": 0.0, "random_state": 0, "dtype": "float64"} | more
    return hs.WALS(**options).fit(X[:users, :items], user_features=U[:users], item_features=V[:items])


def shares_by_hand(new, features, speaking):
    """a, a row at a time."""
    found = np.zeros((len(new), len(features)))
    for row, f in enumerate(new):
        alike = np.where(speaking, features @ f, 0.0)
        nearest = np.argsort(-alike, kind="stable")[:NEAREST]
        weights = np.maximum(alike[nearest], 0) ** 2
        found[row, nearest] = weights / max(weights.sum(), 1e-300)
    return found


def cold_users(model, told, **given):
    """Scores (COLD, items) of users of whom only features are known."""
    nothing = sp.csr_array((COLD, len(model.item_ids_)))
    return model._of_rows(nothing, None, told[1][-COLD:], **given).scores()


def test_shares_are_those_of_the_nearest_by_hand():
    rng = np.random.default_rng(1)
    known, new = rng.normal(size=(130, 6)), rng.normal(size=(9, 6))
    new[4] = 0
    speaking = rng.random(130) < 0.8
    kin = Kin(sp.csr_array(known), rng.normal(size=(130, 3)), speaking)
    found = kin.shares(sp.csr_array(new), 1).toarray()
    assert_allclose(found, shares_by_hand(new, known, speaking), atol=1e-12)
    assert_allclose(found.sum(axis=1), np.arange(9) != 4)
    assert (np.count_nonzero(found, axis=1)[np.arange(9) != 4] <= NEAREST).all()


def test_new_users_and_new_items_score_as_the_formula_says(told):
    X, U, V = told
    n, m = N_USERS - COLD, N_ITEMS - COLD
    model, plain = fitted(told, kindred=(0.4, 0.7)), fitted(told, kindred=0)
    assert_allclose(model.user_factors_, plain.user_factors_)  # the fit does not know them
    beyond = X[:n, :m] - plain.user_factors_ @ plain.item_factors_.T
    expected = 0.4 * shares_by_hand(U[n:], U[:n], X[:n, :m].any(axis=1)) @ beyond * X[:n, :m].any(axis=0)
    nothing = sp.csr_array((COLD, m))
    plainly = plain._of_rows(nothing, None, U[n:])
    assert_allclose(cold_users(model, told) - plainly.left @ plainly.right.T, expected, atol=1e-12)
    rows = np.arange(20)
    new = Features.of(V[m:])
    plainly = plain._of_rows(nothing, rows, None, new)
    more = model._of_rows(nothing, rows, None, new).scores() - plainly.left @ plainly.right.T
    assert_allclose(more, 0.7 * beyond[:20] @ shares_by_hand(V[m:], V[:m], X[:n, :m].any(axis=0)).T, atol=1e-12)


def test_rows_with_cells_are_said_by_them(told):
    model, plain = fitted(told, kindred=0.5), fitted(told, kindred=0)
    rows = np.arange(30)
    seen = model.seen(rows)
    assert_array_equal(model.score_rows(seen, rows), plain.score_rows(seen, rows))
    for ask in (lambda each: each.recommend_for([3, 5], features=told[1][-1:], n=9), lambda each: each.recommend(4)):
        one, two = ask(model), ask(plain)
        assert list(one.ids) == list(two.ids)
        assert_allclose(one.scores, two.scores)


def test_items_added_and_users_without_cells_in_the_fit_are_new_too(told):
    X, U, V = told
    held = X.copy()
    held[7], held[:, 9] = 0, 0
    model, plain = (fitted((held, U, V), kindred=strength) for strength in (0.5, 0))
    rows = np.array([7, 8])
    more = model.score_rows(model.seen(rows), rows) - plain.score_rows(plain.seen(rows), rows)
    assert np.ptp(more[0]) > 0 == more[0, 9]  # nobody has item 9: no user can say it
    assert np.flatnonzero(more[1]).tolist() == [9]
    place = len(model.item_ids_)
    new = model._of_rows(sp.csr_array((2, COLD)), rows, None, Features.of(V[-COLD:])).scores()
    model.add_items(V[-COLD:])
    assert_allclose(model.score_rows(model.seen(rows), rows)[1, place:], new[1])


def test_explanations_sum_to_the_score(told):
    X, U, V = told
    held = X.copy()
    held[:, 9] = 0
    model = fitted((held, U, V), kindred=0.5)
    rows = np.array([3])
    score = model.score_rows(model.seen(rows), rows)[0, 9]
    known = model.explain(user=3, item=9)
    fresh = model.explain(item=4, features=U[-1:])
    nothing = sp.csr_array((1, len(model.item_ids_)))
    wanted = model._of_rows(nothing, None, U[-1:]).scores()[0, 4]
    for found, value in ((known, score), (fresh, wanted)):
        assert found.score == pytest.approx(value)
        assert found.contributions.sum() + found.features.contributions.sum() == pytest.approx(found.score)
        assert found.item_features.contributions.sum() == pytest.approx(found.score)
        assert dict(zip(*found.features, strict=True))[KINDRED] != 0
    assert KINDRED not in set(model.explain(user=3, item=4).features.names)


def test_strengths_are_learned_help_who_is_cold_and_are_kept(told, tmp_path):
    X = told[0]
    model, plain = fitted(told), fitted(told, kindred=0)
    assert min(model.fitted_.chosen.kindred) > 0
    relevant = sp.csr_array(X[-COLD:, : N_ITEMS - COLD])
    options = {"user_features": told[1][-COLD:]}
    worth = [
        ndcg_at_k(each.rank_new(sp.csr_array(relevant.shape), 10, **options), relevant, 10).mean()
        for each in (plain, model)
    ]
    assert worth[1] > worth[0] + 0.05
    model.save(tmp_path / "model.safetensors")
    assert_allclose(cold_users(hs.load(tmp_path / "model.safetensors"), told), cold_users(model, told))


def test_without_features_or_strength_there_is_nothing_of_it(told):
    assert fitted(told, kindred=0).fitted_.kindred is None
    assert hs.WALS(rank=4, kindred=0.5, random_state=0).fit(told[0]).fitted_.kindred is None
    one_side = hs.WALS(rank=2, feature_reg=1.0, random_state=0).fit(told[0], user_features=told[1])
    assert one_side.fitted_.chosen.kindred[0] > 0 == one_side.fitted_.chosen.kindred[1]


@pytest.mark.parametrize("given", [-0.1, (0.1, -1.0), (1, 2, 3), "much"])
def test_strengths_are_checked(told, given):
    with pytest.raises(ValueError, match="kindred"):
        fitted(told, kindred=given)


def test_a_frame_by_id_is_served_alike(told):
    X, U, _ = told
    users = [f"u{k}" for k in range(N_USERS)]
    pairs = [(users[i], f"i{j}") for i, j in zip(*np.nonzero(X[: N_USERS - COLD]), strict=True)]
    about = pd.DataFrame(U, columns=[f"c{k}" for k in range(30)]).assign(user=users)
    frame = pd.DataFrame(pairs, columns=["user", "item"])
    found = hs.WALS(rank=2, feature_reg=1.0, kindred=0.5, random_state=0).fit(frame, user_features=about)
    each = found.recommend_for(features=about.tail(2), n=5)
    alone = found.recommend_for(features=about.tail(1), n=5)
    assert list(each.ids[1]) == list(np.ravel(alone.ids))
