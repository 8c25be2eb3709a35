"""Words that texts of both sides have in common: in every score, learned, explained, kept in files."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import halfstep as hs
from halfstep.data.features import Features
from halfstep.metrics import ndcg_at_k
from halfstep.models.common_words import ENOUGH, Vocabulary

CRAFTS = [f"craft{k}" for k in range(40)]


def texts(names, prefix):
    return pd.DataFrame({prefix: list(names), "title": [f"{prefix} of {name} work" for name in names]})


@pytest.fixture(scope="module")
def told():
    """Two people and two things of every craft. Nobody learns a craft from others: its word is of one craft alone."""
    rng = np.random.default_rng(0)
    users = [f"{craft} {k}" for craft in CRAFTS for k in "ab"]
    items = [f"{craft} {k}" for craft in CRAFTS for k in "xyz"]
    pairs = [(u, i) for u in users for i in items if u.split()[0] == i.split()[0] or rng.random() < 0.03]
    X = pd.DataFrame(pairs, columns=["user", "item"])
    U = Features.of(texts(users, "user"), side="user", text=["title"])
    V = Features.of(texts(items, "item"), side="item", text=["title"])
    return X, U, V


def fitted(told, rows=None, **more):
    X, U, V = told
    model = hs.WALS(**({"rank": 8, "feature_reg": 1.0, "random_state": 0, "dtype": "float64"} | more))
    return model.fit(X if rows is None else X[rows], user_features=U, item_features=V)


@pytest.fixture(scope="module")
def model(told):
    return fitted(told, common_words=0.5)


def by_hand(model, U, V, user, item):
    """c t_u.t_i from the words of both titles."""
    words = sorted({n.split(": ")[1] for n in U.names} & {n.split(": ")[1] for n in V.names})
    t = []
    for side, name in ((U, user), (V, item)):
        row = dict(zip(side.names, side.of_ids([name]).matrix.toarray()[0], strict=True))
        t.append(np.array([row[f"title: {word}"] for word in words]))
        t[-1] /= np.linalg.norm(t[-1])
    n = len(model.seen(model.user_positions([user])).indices)
    return t[0] @ t[1] / (1 + n / ENOUGH)


def test_words_in_common_are_a_part_of_every_score(model, told):
    _, U, V = told
    plain = fitted(told, common_words=0.0)
    assert_allclose(model.user_factors_, plain.user_factors_)  # the fit does not know them
    rows = np.array([0, 5])
    seen = model.seen(rows)
    more = model.score_rows(seen, rows) - plain.score_rows(seen, rows)
    for place, row in enumerate(rows):
        for item in (0, 3, 17):
            hand = 0.5 * by_hand(model, U, V, model.user_ids_[row], model.item_ids_[item])
            assert more[place, item] == pytest.approx(hand)
    ranking = model.recommend(model.user_ids_[rows].tolist(), n=7)
    for place in (0, 1):
        expected = dict(zip(model.item_ids_, model.score_rows(seen, rows)[place], strict=True))
        assert_allclose([expected[item] for item in ranking.ids[place]], ranking.scores[place])
    candidates = ["craft3 x", "craft5 x"]
    assert set(model.recommend("craft0 a", n=5, candidates=candidates).ids) <= set(candidates)


def test_a_word_that_nobody_could_learn_ranks_a_newcomer_and_what_is_new(told):
    X = told[0]
    cold = X.user.str.startswith("craft7 ")
    rankings = {}
    for strength in (0.0, 2.0):
        model = fitted(told, ~cold, common_words=strength)
        rankings[strength] = model.recommend_for(features={"title": "user of craft7 work"}, n=3).ids
        model.add_items({"new": {"title": "all about craft9"}})
        best = model.recommend("craft9 a", n=1).ids[0]
        assert (best == "new") == (strength > 0)
    assert {each.split()[0] for each in rankings[2.0]} == {"craft7"}
    assert {each.split()[0] for each in rankings[0.0]} != {"craft7"}


def test_cold_rankings_of_both_sides_use_words(model, told):
    U = told[1]
    new_users = U.of_ids(["craft3 a", "craft4 a"])
    ranked = model.rank_new(
        sp.csr_array((2, len(model.item_ids_))), 3, user_features=Features(new_users.matrix, U.names, None, U.blocks)
    )
    for craft, row in zip((3, 4), ranked, strict=True):
        assert {item.split()[0] for item in model.item_ids_[row]} == {f"craft{craft}"}
    rows = model.user_positions(["craft3 a", "craft4 a"])
    titles = [{"title": "craft4"}, {"title": "craft3"}]
    new = model.rank_new(sp.csr_array((2, 2)), 2, rows, item_features=titles)
    assert new[:, 0].tolist() == [1, 0]


def test_many_interactions_say_it_better(model, told):
    """What words add falls with the cells of somebody, but for items that nobody has."""
    few = model.recommend_for(["craft0 x"], n=120, features={"title": "craft1"})
    plain = fitted(told, common_words=0.0)
    added = {}
    for items in ([], ["craft0 x"], [f"craft{k} x" for k in range(10, 30)]):
        scores = [
            dict(zip(*each.recommend_for(items or None, n=120, features={"title": "craft1"}), strict=True))
            for each in (model, plain)
        ]
        added[len(items)] = scores[0]["craft1 y"] - scores[1]["craft1 y"]
    assert added[1] == pytest.approx(added[0] / (1 + 1 / ENOUGH))
    assert added[20] == pytest.approx(added[0] / 2)
    assert len(few.ids) == 119


def test_explanations_have_words_and_sum_to_the_score(model):
    found = model.explain("craft2 a", "craft2 y")
    rows = model.user_positions(["craft2 a"])
    score = model.score_rows(model.seen(rows), rows)[0, model.item_positions(["craft2 y"])[0]]
    assert found.score == pytest.approx(score)
    assert found.contributions.sum() + found.features.contributions.sum() == pytest.approx(score)
    assert found.item_features.contributions.sum() == pytest.approx(score)
    said = dict(zip(*found.features, strict=True))
    assert said["both say: craft2"] > said["both say: work"] > 0
    alone = model.explain(item="craft2 y", features={"title": "craft2"})
    assert alone.score == pytest.approx(
        dict(zip(*model.recommend_for(features={"title": "craft2"}, n=120), strict=True))["craft2 y"]
    )


def test_a_file_keeps_what_words_count(model, told, tmp_path):
    learned = fitted(told)
    assert learned.fitted_.chosen.common_words > 0
    for each in (model, learned):
        each.save(tmp_path / "model.safetensors")
        again = hs.load(tmp_path / "model.safetensors")
        one, two = (m.recommend_for(features={"title": "craft8"}, n=9) for m in (each, again))
        assert list(one.ids) == list(two.ids)
        assert_allclose(one.scores, two.scores)


def test_their_strength_is_learned_and_helps_who_is_cold(told):
    X, U, _ = told
    cold = X.user.str.endswith(" b") & (X.user.str[5:7].str.strip().astype(int) % 4 == 0)
    worth = []
    for strength in (0.0, None):
        model = fitted(told, ~cold, common_words=strength)
        who = sorted(set(X.user[cold]))
        relevant = sp.csr_array((len(who), len(model.item_ids_))).tolil()
        for user, item in X[cold].itertuples(index=False):
            if item in set(model.item_ids_):
                relevant[who.index(user), model.item_positions([item])[0]] = 1
        known = U.of_ids(who)
        known = Features(known.matrix, known.names, None, known.blocks)
        ranked = model.rank_new(sp.csr_array(relevant.shape), 10, user_features=known)
        worth.append(ndcg_at_k(ranked, sp.csr_array(relevant), 10).mean())
    assert worth[1] > worth[0]


def test_where_words_say_nothing_they_mostly_count_for_nothing():
    """By chance alone some strength is better than none by a standard error now and then."""
    words, found = [f"word{k}" for k in range(12)], []
    for seed in range(7):
        rng = np.random.default_rng(seed)
        X = sp.csr_array((rng.random((150, 120)) < 0.1).astype(float))
        made = []
        for n, side in ((150, "user"), (120, "item")):
            frame = pd.DataFrame({side: range(n), "title": [" ".join(rng.choice(words, 3)) for _ in range(n)]})
            made.append(Features.of(frame, side=side, text=["title"]))
        told = {"user_features": made[0], "item_features": made[1]}
        model = hs.WALS(rank=4, feature_reg=30.0, random_state=0).fit(X, **told)
        found.append(model.fitted_.chosen.common_words)
    assert np.median(found) == 0, found


def test_one_side_of_texts_or_none_has_nothing_in_common(told):
    X, U, V = told
    numbers = Features(V.matrix, tuple(f"c{k}" for k in range(V.shape[1])), V.ids)
    model = hs.WALS(rank=4, feature_reg=1.0, random_state=0).fit(X, user_features=U, item_features=numbers)
    assert model.fitted_.chosen.common_words == 0
    assert Vocabulary.of(U, numbers).words == ()
    assert hs.WALS(rank=4, feature_reg=1.0, random_state=0).fit(X, user_features=U).fitted_.words is None


def test_new_rows_of_partial_fit_have_words_too(model, told):
    grown = fitted(told, common_words=0.5)
    new = pd.DataFrame({"user": ["late"], "item": ["craft1 x"]})
    grown.partial_fit(new, user_features={"late": {"title": "craft6"}})
    assert grown.recommend("late", n=3).ids[0].startswith("craft6 ")
    assert not fitted(told, common_words=0).partial_fit(new).recommend("late", n=3).ids[0].startswith("craft6 ")


def test_vectors_refuse_what_they_do_not_have(model, told):
    for ask in (model.vectors, model.item_index):
        with pytest.raises(ValueError, match=r"words in common are a part of the scores .* fit with common_words=0"):
            ask()
    assert fitted(told, common_words=0).vectors().items.shape[1] == 8
    with pytest.raises(ValueError, match="common_words=-1"):
        fitted(told, common_words=-1)
