"""Ranked lists: against plain sorting, never a seen item, with ids, titles and files."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from halfstep.data.datasets import Interactions
from halfstep.errors import UnknownIdError
from halfstep.models.recommend import Ranking, is_many, top_k
from halfstep.models.wals import WALS

ITEMS = np.array(["py", "sql", "java", "bake", "fry", "knit", "weld", "solder"])
TITLES = np.array(
    ["Python programming", "SQL", "Java", "baking bread", "frying", "knitting", "welding", "soldering boards"], object
)
USERS = np.array([f"u{i}" for i in range(12)])


def weights():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, (12, 8)) * (rng.random((12, 8)) < 0.6)
    dense[0] = 1  # has everything
    dense[1] = [1, 1, 0, 0, 0, 0, 0, 0]
    return dense.astype(float)


def fit(labels=True, **changes):
    data = Interactions(sp.csr_array(weights()), USERS, ITEMS, item_labels=TITLES if labels else None)
    return WALS(**({"rank": 3, "reg": 0.05, "random_state": 0, "dtype": "float64"} | changes)).fit(data)


@pytest.fixture(scope="module")
def model():
    return fit()


def expected(model, row, *, seen=True, allowed=None):
    """(ids, scores) of one user, best first, by plain sorting."""
    scores = model.item_factors_ @ model.user_factors_[row]
    keep = np.ones(8, bool) if allowed is None else np.isin(ITEMS, allowed)
    if seen:
        keep &= weights()[row] == 0
    order = [k for k in np.argsort(-scores, kind="stable") if keep[k]]
    return ITEMS[order].tolist(), scores[order]


# ---------------------------------------------------------------------- recommend


def test_one_user_gets_what_is_left_best_first(model):
    for row, user in enumerate(USERS):
        ids, scores = expected(model, row)
        found = model.recommend(user, n=20)  # more than the catalogue: simply shorter
        assert found.ids.tolist() == ids
        assert_allclose(found.scores, scores)
        assert model.recommend(user, n=2).ids.tolist() == ids[:2]


def test_many_users_are_padded_and_nothing_seen_is_padding(model):
    found = model.recommend(USERS.tolist(), n=10)
    assert found.ids.shape == found.scores.shape == (12, 10)
    for row in range(12):
        ids, _ = expected(model, row)
        assert found.ids[row].tolist() == ids + [None] * (10 - len(ids))
        assert_array_equal(np.isnan(found.scores[row]), np.arange(10) >= len(ids))


def test_somebody_who_has_everything_gets_nothing(model):
    assert len(model.recommend("u0").ids) == 0
    assert model.recommend(["u0"], n=2).ids.tolist() == [[None, None]]


def test_keep_seen(model):
    ids, scores = expected(model, 0, seen=False)
    found = model.recommend("u0", n=8, keep_seen=True)
    assert found.ids.tolist() == ids
    assert_allclose(found.scores, scores)


def test_candidates_and_exclude(model):
    allowed = ["weld", "py", "fry", "knit"]
    assert model.recommend("u1", candidates=allowed).ids.tolist() == expected(model, 1, allowed=allowed)[0]
    left = [i for i in ITEMS if i not in ("weld", "fry")]
    assert model.recommend("u1", exclude=["weld", "fry"]).ids.tolist() == expected(model, 1, allowed=left)[0]
    both = model.recommend("u1", candidates=allowed, exclude=["weld"]).ids.tolist()
    assert both == expected(model, 1, allowed=["py", "fry", "knit"])[0]
    assert len(model.recommend("u1", candidates=[]).ids) == 0
    assert len(model.recommend("u1", candidates=["py", "sql"]).ids) == 0  # both seen
    assert len(model.recommend("u1", exclude=ITEMS).ids) == 0
    assert model.recommend(["u1", "u2"], n=3, candidates=["knit"]).ids.shape == (2, 3)


def test_diversity(model):
    plain = model.recommend("u1", n=4)
    assert model.recommend("u1", n=4, diversity=0.0).ids.tolist() == plain.ids.tolist()
    spread = model.recommend("u1", n=6, diversity=1.0)
    assert spread.ids[0] == plain.ids[0]
    assert sorted(spread.ids) == sorted(model.recommend("u1", n=6).ids)  # the same six, in another order
    assert spread.ids.tolist() != model.recommend("u1", n=6).ids.tolist()
    assert not set(spread.ids) & {"py", "sql"}
    assert model.recommend(["u0", "u1"], n=9, diversity=0.5).ids[0].tolist() == [None] * 9


@pytest.mark.parametrize("bad", [0, -1, 2.5, "3", None])
def test_a_bad_n_is_refused(model, bad):
    for call in (model.recommend, model.similar_users):
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            call("u1", n=bad)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_a_bad_diversity_is_refused(model, bad):
    with pytest.raises(ValueError, match=r"must lie between 0 \(by score\) and 1"):
        model.recommend("u1", diversity=bad)


def test_collections_of_users(model):
    pd = pytest.importorskip("pandas")
    for users in (["u1", "u2"], np.array(["u1", "u2"]), pd.Series(["u1", "u2"])):
        assert is_many(users)
        assert model.recommend(users, n=2).ids.shape == (2, 2)
    assert not is_many("u1")
    assert not is_many(("a", 1))
    assert model.recommend([], n=2).ids.shape == (0, 2)


# ---------------------------------------------------------------------- somebody new


def test_a_new_user_is_folded_in(model):
    found = model.recommend_for(["py", "bake"], n=20, weights=[2.0, 1.0])
    new = np.zeros((1, 8))
    new[0, [0, 3]] = 2, 1
    scores = model.item_factors_ @ model.transform(new)[0]
    order = [k for k in np.argsort(-scores) if k not in (0, 3)]
    assert found.ids.tolist() == ITEMS[order].tolist()
    assert_allclose(found.scores, scores[order])


def test_a_training_user_described_by_items_gets_the_same(model):
    row = 4
    has = np.flatnonzero(weights()[row])
    found = model.recommend_for(ITEMS[has], n=8, weights=weights()[row, has])
    assert found.ids.tolist() == model.recommend(USERS[row], n=8).ids.tolist()


def test_how_average_scores_by_the_mean_item(model):
    found = model.recommend_for(["py", "bake"], n=20, how="average", weights=[3.0, 1.0])
    scores = model.item_factors_ @ (0.75 * model.item_factors_[0] + 0.25 * model.item_factors_[3])
    order = [k for k in np.argsort(-scores) if k not in (0, 3)]
    assert found.ids.tolist() == ITEMS[order].tolist()
    with pytest.raises(ValueError, match=r"how='mean' is not known; it must be one of \['fold_in', 'average'\]"):
        model.recommend_for(["py"], how="mean")


@pytest.mark.parametrize("how", ["fold_in", "average"])
def test_a_weight_of_zero_counts_as_unobserved(model, how):
    zero = model.recommend_for(["py", "bake"], n=8, weights=[1.0, 0.0], how=how)
    assert zero.ids.tolist() == model.recommend_for(["py"], n=8, how=how).ids.tolist()
    with pytest.raises(ValueError, match="every weight is zero; give at least one item a weight above 0"):
        model.recommend_for(["py"], weights=[0.0], how=how)


def test_bad_descriptions_of_somebody_new(model):
    with pytest.raises(ValueError, match="items is empty; give at least one item"):
        model.recommend_for([])
    for bad in ([1.0], [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match=r"weights must be 2 finite numbers from 0 to .*, one for each item"):
            model.recommend_for(["py", "sql"], weights=bad)


# ---------------------------------------------------------------------- titles


def test_titles_work_as_ids_in_any_case(model):
    assert model.item_positions(["PYTHON programming", "sql", "weld"]).tolist() == [0, 1, 6]
    by_title = model.recommend_for(["python programming", "Baking Bread"])
    assert by_title.ids.tolist() == model.recommend_for(["py", "bake"]).ids.tolist()


@pytest.mark.parametrize(
    ("wrong", "right"), [("Pyton programming", "Python programming"), ("solderin", "soldering boards")]
)
def test_misspelt_titles_bring_suggestions(model, wrong, right):
    with pytest.raises(
        UnknownIdError, match=rf"item '{wrong}' is neither an id nor a label.*Did you mean .*'{right}'"
    ) as error:
        model.recommend_for([wrong])
    assert right in error.value.suggestions


def test_misspelt_ids_without_titles():
    with pytest.raises(UnknownIdError, match=r"unknown item.* 'solderr'.*Did you mean 'solder'\?"):
        fit(labels=False).recommend_for(["solderr"])


def test_answers_carry_labels_in_the_shape_of_their_ids(model):
    title = dict(zip(ITEMS, TITLES, strict=True))
    one = model.recommend("u2", n=3)
    assert one.labels.tolist() == [title[i] for i in one.ids]
    several = model.recommend(["u2", "u1"], n=20)
    assert several.labels.shape == several.ids.shape
    assert [title.get(i) for i in several.ids.ravel()] == several.labels.ravel().tolist()
    assert one.labels[0] in str(one)
    assert one.labels[0] in one._repr_html_()
    assert len(one) == 2  # still a pair
    assert model.similar_items("SQL", n=1).labels.tolist() == [title[i] for i in model.similar_items("sql", n=1).ids]
    why = model.explain("u2", "sql")
    assert why.labels.tolist() == [title[i] for i in why.ids]
    assert str(why).endswith("together")
    assert fit(labels=False).recommend("u2").labels is None


def test_rankings_survive_pickling_with_their_labels(model):
    ranking = pickle.loads(pickle.dumps(model.recommend("u2", n=3)))
    assert ranking.labels.tolist() == model.recommend("u2", n=3).labels.tolist()


def test_users_are_found_by_label_too():
    names = np.array([f"Job {i}" for i in range(12)], object)
    model = WALS(rank=3, max_iter=3, random_state=0).fit(
        Interactions(sp.csr_array(weights()), USERS, ITEMS, user_labels=names, item_labels=TITLES)
    )
    assert model.recommend("job 3").ids.tolist() == model.recommend("u3").ids.tolist()
    assert model.recommend(["Job 3", "u4"]).ids.tolist() == model.recommend(["u3", "u4"]).ids.tolist()
    assert model.explain("Job 3", "SQL").score == model.explain("u3", "sql").score
    assert model.similar_users("Job 3").ids.tolist() == model.similar_users("u3").ids.tolist()
    with pytest.raises(UnknownIdError, match=r"user 'Jb 3' is neither an id nor a label.*Did you mean 'Job 3'"):
        model.recommend("Jb 3")


def test_a_label_of_several_rows_is_refused():
    twice = np.array(["Python programming"] * 2 + TITLES[2:].tolist(), object)
    model = WALS(rank=3, max_iter=2, random_state=0).fit(
        Interactions(sp.csr_array(weights()), USERS, ITEMS, item_labels=twice)
    )
    with pytest.raises(UnknownIdError, match=r"item 'python programming' is the label of 2 items; give an id, such as"):
        model.recommend_for(["python programming"])
    assert len(model.recommend_for(["py"]).ids)


def test_one_name_instead_of_a_list_is_refused(model):
    with pytest.raises(TypeError, match=r"'SQL' is one name where a list is expected; write \['SQL'\]"):
        model.recommend_for("SQL")


def test_labels_that_contain_the_text_are_suggested(model):
    with pytest.raises(UnknownIdError) as caught:
        model.recommend_for(["bread"])
    assert caught.value.suggestions == ["baking bread"]


# ---------------------------------------------------------------------- similar, explain


def test_similar_rows_by_cosine(model):
    for found, factors, ids in (
        (model.similar_items("java", n=20), model.item_factors_, ITEMS),
        (model.similar_users("u5", n=20), model.user_factors_, USERS),
    ):
        unit = factors / np.linalg.norm(factors, axis=1, keepdims=True)
        row = {"java": 2, "u5": 5}["java" if ids is ITEMS else "u5"]
        order = [k for k in np.argsort(-(unit @ unit[row])) if k != row]
        assert found.ids.tolist() == ids[order].tolist()
        assert_allclose(found.scores, (unit @ unit[row])[order], atol=1e-12)


def test_contributions_sum_to_the_score(model):
    for user in ("u2", "u7"):
        row = USERS.tolist().index(user)
        for item in (2, 6):
            why = model.explain(user, ITEMS[item])
            assert_allclose(why.contributions.sum(), why.score)
            assert_allclose(why.score, model.user_factors_[row] @ model.item_factors_[item], atol=1e-7)
            assert sorted(why.ids) == sorted(ITEMS[np.flatnonzero(weights()[row])])
            assert np.all(np.diff(np.abs(why.contributions)) <= 0)


def test_explain_somebody_new_and_bad_calls(model):
    why = model.explain(items=["py", "bake"], item="SQL")
    found = model.recommend_for(["py", "bake"], n=8)
    assert_allclose(why.score, found.scores[found.ids.tolist().index("sql")], atol=1e-9)
    for call in ({"user": "u1"}, {"item": "py"}, {"user": "u1", "item": "py", "items": ["sql"]}):
        with pytest.raises(ValueError, match="explain needs `item` and either `user`"):
            model.explain(**call)


def test_rank_items_for_evaluation(model):
    seen = sp.csr_array(weights()[[1, 0]])
    known = model.rank_items(seen, 10, np.array([1, 0]))
    assert known.shape == (2, 10)
    assert ITEMS[known[0][known[0] >= 0]].tolist() == expected(model, 1)[0]
    assert (known[1] == -1).all()
    assert_array_equal(model.rank_items(seen, 10), known)  # fold-in of what was trained on


# ---------------------------------------------------------------------- files, arrays


@pytest.mark.parametrize("users", [None, ["u3", "u1"]])
def test_recommend_to_file(model, tmp_path, users):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "best.parquet"
    count = model.recommend_to_file(path, users, n=3)
    table = parquet.read_table(path)
    assert [str(field.type) for field in table.schema] == ["string", "int32", "string", "float", "string"]
    rows = table.to_pylist()
    assert len(rows) == count
    wanted = [
        {"user": user, "rank": place + 1, "item": item}
        for user in (USERS.tolist() if users is None else users)
        for place, item in enumerate(model.recommend(user, n=3).ids)
    ]
    assert [{k: row[k] for k in ("user", "rank", "item")} for row in rows] == wanted
    assert [row["item_label"] for row in rows] == [TITLES[ITEMS.tolist().index(row["item"])] for row in rows]
    assert [path.name for path in tmp_path.iterdir()] == ["best.parquet"]


def test_a_file_without_recommendations_keeps_its_column_types(model, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert model.recommend_to_file(tmp_path / "none.parquet", ["u0"]) == 0
    schema = parquet.read_schema(tmp_path / "none.parquet")
    assert [str(field.type) for field in schema] == ["string", "int32", "string", "float", "string"]


def test_a_file_for_unknown_users_is_not_written(model, tmp_path):
    with pytest.raises(UnknownIdError):
        model.recommend_to_file(tmp_path / "best.parquet", ["nobody"])
    assert not list(tmp_path.iterdir())


def test_top_k_takes_unsorted_masks_and_other_dtypes():
    left, right = np.eye(2, 3), np.arange(12.0).reshape(4, 3)
    seen = sp.csr_array((np.ones(2), np.array([3, 1]), np.array([0, 2, 2])), shape=(2, 4))
    places, scores = top_k(left, right.astype(np.float32), 3, seen, 1)
    assert_array_equal(places, [[2, 0, -1], [3, 2, 1]])
    assert_array_equal(scores, [[6, 0, np.nan], [10, 7, 4]])


def test_a_ranking_shows_itself_as_a_table():
    shown = Ranking(np.array(["<b>", None], object), np.array([0.5, np.nan]))._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "None" not in shown
