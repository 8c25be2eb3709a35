"""What lists may hold, who they are for, and searches outside of the model: against plain sorting."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import halfstep as hs
from halfstep.errors import UnknownIdError

SKILLS = hs.datasets.load_sample_skills()
MODELS = {
    "WALS": hs.WALS(8, random_state=0, max_iter=3),
    "ItemGraph": hs.ItemGraph(),
    "EASE": hs.EASE(),
    "Popularity": hs.baselines.Popularity(),
    "Blend": hs.Blend([hs.WALS(4, random_state=0, max_iter=2), hs.ItemGraph()], [1, 1]),
}
FITTED = {name: model.fit(SKILLS) for name, model in MODELS.items()}
each = pytest.mark.parametrize("model", FITTED.values(), ids=FITTED)
ITEMS = SKILLS.item_ids.tolist()
TABLE = pd.DataFrame(
    {"item": ITEMS, "group": [k % 3 for k in range(len(ITEMS))], "level": [float(k % 10) for k in range(len(ITEMS))]}
)
GROUP, LEVEL = (dict(zip(ITEMS, TABLE[name], strict=True)) for name in ("group", "level"))


# ---------------------------------------------------------------------- rules


@each
@pytest.mark.parametrize("most", [1, 2, 7])
def test_no_list_holds_more_of_a_group_than_its_rule_says_and_each_is_the_greedy_one(model, most):
    users, n = SKILLS.user_ids[:4].tolist(), 3 * most
    rules = hs.ItemRules(TABLE, at_most={"group": most})
    everything = model.recommend(users, len(ITEMS)).by_user()
    for user, found in model.recommend(users, n, rules=rules).by_user().items():
        expected, room = [], dict.fromkeys(range(3), most)
        for item in everything[user].ids.tolist():
            if room[GROUP[item]]:
                room[GROUP[item]] -= 1
                expected.append(item)
        assert found.ids.tolist() == expected[:n]


def test_a_limit_looks_as_far_down_as_it_must():
    last = FITTED["WALS"].recommend("Registered nurse", len(ITEMS)).ids[-1]
    rare = dict.fromkeys(ITEMS, "common") | {last: "rare"}
    table = pd.DataFrame({"item": list(rare), "kind": list(rare.values())})
    found = FITTED["WALS"].recommend("Registered nurse", 2, rules=hs.ItemRules(table, at_most={"kind": 1}))
    assert [rare[item] for item in found.ids.tolist()] == ["common", "rare"]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (3.0, lambda level: level == 3),
        ([1.0, 2.0], lambda level: level in (1, 2)),
        ({4.0}, lambda level: level == 4),
        ((7, None), lambda level: level >= 7),
        ((None, 2), lambda level: level <= 2),
        ((2, 3), lambda level: 2 <= level <= 3),
        (lambda values: values > 8, lambda level: level > 8),
    ],
)
@pytest.mark.parametrize("frame", [TABLE, pl.from_pandas(TABLE)], ids=["pandas", "polars"])
def test_conditions_leave_exactly_the_items_that_meet_them(condition, holds, frame):
    rules = hs.ItemRules(frame, where={"level": condition})
    found = FITTED["WALS"].recommend("Registered nurse", len(ITEMS), rules=rules).ids.tolist()
    whole = FITTED["WALS"].recommend("Registered nurse", len(ITEMS)).ids.tolist()
    assert found == [item for item in whole if holds(LEVEL[item])]


def test_rules_hold_for_newcomers_with_diversity_and_beside_candidates():
    rules = hs.ItemRules(TABLE, where={"level": (3, 8)}, at_most={"group": 1})
    found = FITTED["WALS"].recommend_for(["Python", "SQL"], 3, rules=rules, diversity=0.5, candidates=ITEMS[:200])
    assert len({GROUP[item] for item in found.ids}) == len(found.ids) == 3
    assert all(3 <= LEVEL[item] <= 8 and ITEMS.index(item) < 200 for item in found.ids)


def test_items_that_the_table_lacks_meet_no_condition_and_are_not_limited():
    known = TABLE[:100]
    met = FITTED["ItemGraph"].recommend("Registered nurse", 500, rules=hs.ItemRules(known, where={"level": (0, None)}))
    assert set(met.ids) <= set(ITEMS[:100])
    limited = FITTED["ItemGraph"].recommend("Registered nurse", 500, rules=hs.ItemRules(known, at_most={"group": 1}))
    assert sum(item in set(ITEMS[:100]) for item in limited.ids.tolist()) <= 3
    assert len(limited.ids) > 200


def test_missing_values_meet_no_condition_and_belong_to_no_group():
    table = pd.DataFrame({"item": ITEMS, "kind": ["a", None] + [None] * (len(ITEMS) - 2)})
    everything = hs.ItemRules(table, at_most={"kind": 1})
    assert len(FITTED["WALS"].recommend("Registered nurse", 20, rules=everything).ids) == 20
    only = FITTED["WALS"].recommend(
        "Registered nurse", 20, keep_seen=True, rules=hs.ItemRules(table, where={"kind": "a"})
    )
    assert only.ids.tolist() == ITEMS[:1]


def test_bad_rules_are_refused_with_what_is_wrong():
    with pytest.raises(TypeError, match="table must be a data frame"):
        hs.ItemRules({"item": [1]})
    with pytest.raises(ValueError, match="no column that looks like an item"):
        hs.ItemRules(TABLE.rename(columns={"item": "x"}))
    with pytest.raises(ValueError, match="colour"):
        hs.ItemRules(TABLE, where={"colour": 1})
    with pytest.raises(ValueError, match=r"at_most\['group'\]=0"):
        hs.ItemRules(TABLE, at_most={"group": 0})
    with pytest.raises(ValueError, match="more than once"):
        FITTED["WALS"].recommend("Registered nurse", rules=hs.ItemRules(pd.concat([TABLE, TABLE]), where={"level": 1}))
    with pytest.raises(ValueError, match="pair \\(lowest, highest\\)"):
        FITTED["WALS"].recommend("Registered nurse", rules=hs.ItemRules(TABLE, where={"level": (1, 2, 3)}))
    with pytest.raises(ValueError, match="truth values"):
        FITTED["WALS"].recommend("Registered nurse", rules=hs.ItemRules(TABLE, where={"level": lambda values: values}))
    with pytest.raises(TypeError, match="rules is a dict"):
        FITTED["WALS"].recommend("Registered nurse", rules={"level": 1})


# ---------------------------------------------------------------------- people who were not in the fit


@each
def test_a_frame_of_new_users_gets_the_list_that_each_would_get_alone(model):
    has = {"ann": ["Python", "SQL"], "bob": ["patient care"], "cem": ["SQL"]}
    frame = pd.DataFrame([(user, item) for user, items in has.items() for item in items], columns=["user", "item"])
    found = model.recommend_for(frame, 5)
    assert found.users.tolist() == list(has)
    for user, ranking in found.by_user().items():
        alone = model.recommend_for(has[user], 5)
        assert_array_equal(ranking.ids, alone.ids)
        assert_allclose(ranking.scores, alone.scores, rtol=1e-4, atol=1e-6)
    assert found.to_frame()["user"].tolist() == [user for user in has for _ in range(5)]


def test_weights_of_new_users_come_from_a_column():
    frame = pl.DataFrame({"who": [1, 1], "what": ["Python", "SQL"], "much": [4.0, 1.0]})
    found = FITTED["WALS"].recommend_for(frame, 5, user="who", item="what", weight="much")
    alone = FITTED["WALS"].recommend_for(["Python", "SQL"], 5, weights=[4, 1])
    assert_array_equal(found.row(0).ids, alone.ids)
    average = FITTED["WALS"].recommend_for(frame, 5, user="who", item="what", weight="much", how="average")
    mean = FITTED["WALS"].recommend_for(["Python", "SQL"], 5, weights=[4, 1], how="average")
    assert_allclose(average.row(0).scores, mean.scores, rtol=1e-5)


def test_tables_of_new_users_refuse_what_they_cannot_mean():
    frame = pd.DataFrame({"user": [1], "item": ["Python"]})
    model = FITTED["WALS"]
    with pytest.raises(UnknownIdError, match="Pythn"):
        model.recommend_for(frame.replace("Python", "Pythn"))
    with pytest.raises(ValueError, match="weights belong to a list"):
        model.recommend_for(frame, weights=[1.0])
    with pytest.raises(ValueError, match="name columns of a frame"):
        model.recommend_for(["Python"], item="item")
    with pytest.raises(ValueError, match="how='average'"):
        FITTED["ItemGraph"].recommend_for(["Python"], how="average")


@each
def test_users_never_seen_get_what_most_users_have_where_asked(model):
    popular = FITTED["Popularity"].by_popularity_
    counts = FITTED["Popularity"].item_counts_
    with pytest.raises(UnknownIdError):
        model.recommend(["nobody"])
    found = model.recommend(["nobody", "Registered nurse"], 4, unknown="popular")
    assert found.users.tolist() == ["nobody", "Registered nurse"]
    assert_allclose(found.scores[0], counts[popular[:4]] / len(SKILLS.user_ids))
    assert {counts[ITEMS.index(item)] for item in found.ids[0]} == set(counts[popular[:4]])
    assert_array_equal(found.ids[1], model.recommend("Registered nurse", 4).ids)
    alone = model.recommend("nobody", 4, unknown="popular", exclude=[found.ids[0, 0]])
    assert found.ids[0, 0] not in alone.ids
    with pytest.raises(ValueError, match="unknown='random'"):
        model.recommend("nobody", unknown="random")


def test_several_lists_print_beside_their_users():
    text = str(FITTED["ItemGraph"].recommend(["Registered nurse", "Data scientist"], 2))
    assert text.count("Registered nurse") == text.count("Data scientist") == 2
    with pytest.raises(ValueError, match="list of one user"):
        FITTED["ItemGraph"].recommend("Registered nurse", 2).by_user()


# ---------------------------------------------------------------------- searches outside


def test_exported_vectors_order_items_as_the_model_does_by_products_and_by_cosines(tmp_path):
    model = FITTED["WALS"]
    inner, cosine = model.vectors(), model.vectors("cosine")
    scores = model.user_factors_ @ model.item_factors_.T
    assert_allclose(inner.users @ inner.items.T, scores, rtol=1e-5)
    assert_allclose(np.linalg.norm(cosine.items, axis=1), 1, rtol=1e-5)
    lengths = np.linalg.norm(cosine.users, axis=1)
    cosines = (cosine.users / lengths[:, None]) @ cosine.items.T
    assert_allclose(cosines * cosine.scale * lengths[:, None], scores, rtol=1e-3, atol=1e-5)
    saved = np.load(cosine.save(tmp_path / "vectors.npz"))
    assert_array_equal(saved["items"], cosine.items)
    assert saved["item_ids"].tolist() == ITEMS
    with pytest.raises(ValueError, match="measure='l2'"):
        model.vectors("l2")


def test_vectors_of_ratings_have_their_biases():
    pairs, y, _ = hs.datasets.make_ratings(30, 20, 200, random_state=0)
    model = hs.PLQMF(rank=2, random_state=0).fit(pairs, y)
    vectors = model.vectors()
    products = np.array([vectors.users[u] @ vectors.items[i] for u, i in model_places(model, pairs[:9])])
    shift = model.decision_function(pairs[:9]) - products
    assert_allclose(shift, shift[0], atol=1e-5)  # the intercept, which orders nothing


def model_places(model, pairs):
    return zip(model.user_positions(pairs[:, 0]), model.item_positions(pairs[:, 1]), strict=True)


def test_an_index_finds_nearly_the_best_items_with_their_exact_scores():
    pytest.importorskip("usearch")
    rng = np.random.default_rng(0)
    cells = sp.csr_array(((rng.random((400, 3000)) < 0.01) * 1.0).astype(np.float32))
    model = hs.WALS(16, random_state=0, max_iter=2, n_threads=1).fit(cells)
    index = model.item_index()
    users = list(range(40))
    assert index.recall(model.user_factors_[users], 10) > 0.9
    exact, found = model.recommend(users, 10), model.recommend(users, 10, index=index)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.ids.tolist(), found.ids.tolist(), strict=True)]
    assert np.mean(shared) > 9
    for user, ids, scores in zip(users, found.ids, found.scores, strict=True):
        assert not set(ids.tolist()) & set(cells[[user]].indices.tolist())
        assert_allclose(scores, model.item_factors_[ids.astype(int)] @ model.user_factors_[user], rtol=1e-4, atol=1e-6)
    few = model.recommend(3, 5, candidates=[5, 6, 7], index=index)
    assert_array_equal(few.ids, model.recommend(3, 5, candidates=[5, 6, 7]).ids)
    with pytest.raises(ValueError, match="index belongs to another fit"):
        FITTED["WALS"].recommend("Registered nurse", index=index)
    with pytest.raises(ValueError, match="index belongs to another fit"):
        FITTED["ItemGraph"].recommend("Registered nurse", index=index)


def test_without_usearch_an_index_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ImportError, match=r"halfstep\[index\]"):
        FITTED["WALS"].item_index()


# ---------------------------------------------------------------------- dislikes, and rows for scikit-learn


def disliking(seed=0, shape=(20, 12)):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 4, shape) * rng.choice([-1, 0, 1], shape, p=[0.15, 0.5, 0.35]) * 1.0


@pytest.mark.parametrize("solver", ["auto", "exact", "cholesky", "dual", "cg", "subspace"])
def test_a_dislike_has_the_target_zero_and_its_own_weight(solver):
    R, lam, w0 = disliking(), 0.3, 0.1
    given = {"rank": 3, "background": w0, "reg": lam, "reg_scaling": "constant", "dtype": "float64", "random_state": 0}
    model = hs.WALS(**given, dislikes=True, max_iter=400, tol=1e-13, solver=solver).fit(sp.csr_array(R))
    U, V = model.user_factors_, model.item_factors_
    Z = U @ V.T
    W, T = np.where(R != 0, np.abs(R), w0), (R > 0) * 1.0
    assert model.objective_ == pytest.approx(
        (W * (T - Z) ** 2).sum() + lam * (U**2).sum() + lam * (V**2).sum(), rel=1e-6
    )
    for u in range(len(R)):  # every row solves its own problem
        A = (V.T * W[u]) @ V + lam * np.eye(3)
        assert_allclose(U[u], np.linalg.solve(A, V.T @ (W[u] * T[u])), rtol=1e-3, atol=1e-4)


def test_dislikes_are_refused_unless_they_are_meant():
    R = sp.csr_array(disliking())
    for model in (hs.WALS(2), hs.ItemGraph(), hs.EASE(), hs.Blend([hs.ItemGraph()], [1])):
        with pytest.raises(ValueError, match=r"weights must be finite and >= 0.*WALS\(dislikes=True\)"):
            model.fit(R)
    with pytest.raises(ValueError, match="dislikes=True needs loss='squared'"):
        hs.WALS(2, dislikes=True, loss="hinge").fit(R)
    with pytest.raises(ValueError, match="weights must be finite"):
        hs.WALS(2, dislikes=True).fit(np.where(R.toarray() < 0, np.nan, R.toarray()))


def test_dislikes_stay_with_a_model_that_is_saved_folded_in_continued_and_explained(tmp_path):
    R = disliking(1, (30, 15))
    model = hs.WALS(4, dislikes=True, weighting="log", random_state=0, dtype="float64", max_iter=60, tol=1e-10).fit(R)
    assert_allclose(model.transform(R), model.user_factors_, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "m.safetensors")
    loaded = hs.load(tmp_path / "m.safetensors")
    assert_array_equal(loaded.seen(np.arange(30)).toarray(), R)
    items, weights = np.flatnonzero(R[0]).tolist(), R[0][R[0] != 0]
    found = loaded.recommend_for(items, 5, weights=weights)
    assert_allclose(found.scores, model.recommend(0, 5).scores, rtol=1e-3, atol=1e-5)
    why = model.explain(0, found.ids[0])
    assert why.score == pytest.approx(float(found.scores[0]), rel=1e-3)
    disliked = set(np.flatnonzero(R[0] < 0).tolist())
    assert all(part == 0 for item, part in zip(why.ids.tolist(), why.contributions, strict=True) if item in disliked)
    assert not disliked & set(model.recommend(0, 15).ids.tolist())
    more = model.partial_fit(sp.csr_array(R))
    assert_allclose(more.user_factors_, loaded.user_factors_, rtol=1e-2, atol=1e-3)
    assert 0 <= model.score(R[:10]) <= 1


def test_a_dislike_says_more_than_nothing():
    R = np.kron(np.eye(2), np.ones((10, 6)))
    R[0, 0] = 0
    plain = hs.WALS(2, 0.1, 0.1, random_state=0).fit(R)
    R[0, 0] = -5
    disliked = hs.WALS(2, 0.1, 0.1, dislikes=True, random_state=0).fit(R)
    assert disliked.user_factors_[0] @ disliked.item_factors_[0] < plain.user_factors_[0] @ plain.item_factors_[0]


def test_transform_takes_frames_by_id_and_gives_frames_where_asked():
    model = hs.WALS(3, random_state=0, max_iter=3).fit(SKILLS)
    frame = pd.DataFrame({"user": ["bob", "ann", "ann"], "item": ["SQL", "Python", "SQL"]})
    rows = model.transform(frame)
    assert rows.shape == (2, 3)
    alone = np.zeros((1, len(ITEMS)))
    alone[0, [ITEMS.index("Python"), ITEMS.index("SQL")]] = 1
    assert_allclose(rows[0], model.transform(alone)[0], rtol=1e-4)  # ann comes first
    assert_allclose(model.transform(SKILLS), model.transform(SKILLS.matrix), rtol=1e-6)
    with pytest.raises(UnknownIdError):
        model.transform(frame.replace("SQL", "Sqq"))
    for how, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        model.set_output(transform=how)
        found = model.transform(frame)
        assert isinstance(found, kind)
        assert list(found.columns) == ["wals0", "wals1", "wals2"]
        assert_allclose(found.to_numpy(), rows, rtol=1e-6)
        assert model.transform(SKILLS.matrix).shape == (len(SKILLS.user_ids), 3)
    assert model.set_output(transform="pandas").transform(frame).index.tolist() == ["ann", "bob"]
    assert hs.WALS(3, random_state=0, max_iter=3).fit_transform(SKILLS.matrix).shape == (len(SKILLS.user_ids), 3)


@pytest.mark.parametrize("kind", [hs.ItemGraph, lambda: hs.WALS(4, random_state=0, max_iter=2)])
def test_weights_in_a_dict_are_not_lost_silently(kind):
    model = kind().fit(hs.datasets.load_sample_skills())
    with pytest.raises(TypeError, match=r"a dict where a list of names is expected; give list\(it\)"):
        model.recommend_for({"Python": -2.0})


def test_an_index_that_is_none_is_named():
    model = hs.WALS(4, random_state=0, max_iter=2).fit(hs.datasets.load_sample_skills())
    with pytest.raises(TypeError, match=r"index is a str; give what item_index\(\) of this model made"):
        model.recommend("Registered nurse", index="x")
