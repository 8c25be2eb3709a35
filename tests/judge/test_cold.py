"""Cold protocols: whole rows or columns are held out, and rankers that know features are told those, no more."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from halfstep.baselines import Biases, FeatureKNN, FeatureRidge, Popularity
from halfstep.datasets import Interactions, Ratings, make_ratings
from halfstep.judge import RATING_PROTOCOLS, FeatureRanker, cold_items, cold_users, evaluate, few

from .matrices import random_matrix
from .test_splits import assert_disjoint_union, cells_of

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.sampled_from([0.1, 0.5, 3, 10]))
@settings(deadline=None)
def test_cold_users_lose_and_leak_no_cell(seed, holdout):
    matrix = random_matrix(seed)
    split = cold_users(matrix, holdout, random_state=seed)
    assert_disjoint_union(
        [cells_of(split.train, split.trained), cells_of(split.relevant, split.users)], cells_of(matrix)
    )
    assert not set(split.trained) & set(split.users)
    assert split.seen.nnz == 0
    assert split.rows is None


@given(seeds, st.sampled_from([0.2, 0.5, 4]))
@settings(deadline=None)
def test_cold_items_lose_no_cell_of_those_ranked_for_and_leak_none(seed, holdout):
    matrix = random_matrix(seed)
    split = cold_items(matrix, holdout, random_state=seed)
    warm = np.setdiff1d(np.arange(matrix.shape[1]), split.items)
    np.testing.assert_array_equal(split.train.toarray(), matrix[:, warm].toarray())
    np.testing.assert_array_equal(split.relevant.toarray(), matrix[split.users][:, split.items].toarray())
    assert (np.diff(split.relevant.indptr) > 0).all()
    assert split.left_out == matrix.shape[0] - len(split.users)


@given(seeds, st.integers(1, 5))
@settings(deadline=None)
def test_few_shows_as_many_cells_as_asked(seed, shown):
    matrix = random_matrix(seed)
    split = few(matrix, shown, 3, random_state=seed)
    parts = [
        cells_of(split.train, split.trained),
        cells_of(split.seen, split.users),
        cells_of(split.relevant, split.users),
    ]
    assert_disjoint_union(parts, cells_of(matrix))
    assert (np.diff(split.seen.indptr) == shown).all()
    assert (np.diff(split.relevant.indptr) > 0).all()


@pytest.fixture
def towns():
    """Who lives where decides what they have: 90 users of three towns, 30 items."""
    random = np.random.default_rng(0)
    town, kind = np.arange(90) % 3, np.arange(30) % 3
    R = (random.random((90, 30)) < np.where(town[:, None] == kind, 0.6, 0.02)).astype(float)
    ids = np.array([f"u{i}" for i in range(90)]), np.array([f"i{j}" for j in range(30)])
    users = pd.DataFrame({"user": ids[0], "town": np.array(["a", "b", "c"])[town]})
    items = {id: {"kind": f"k{kind[j]}", "size": float(j)} for j, id in enumerate(ids[1])}
    return Interactions(sparse.csr_array(R), *ids), users, items


def test_features_find_what_new_users_want(towns):
    data, users, _ = towns
    result = evaluate([FeatureRidge(1.0)], data, "cold_users", ["ndcg"], 10, user_features=users, random_state=0)
    names = ["Popularity", "GroupPopularity", "FeatureKNN", "FactorRidge", "FeatureRidge"]
    assert [record["model"] for record in result.records()] == names
    values = {name: result.models[name].value("ndcg@10") for name in names}
    assert min(values["FeatureRidge"], values["GroupPopularity"], values["FeatureKNN"]) > values["Popularity"] + 0.2


def test_features_find_who_wants_new_items(towns):
    data, _, items = towns
    result = evaluate(
        [FeatureKNN(5)], data, "cold_items", ["ndcg"], 5, item_features=items, random_state=0,
        protocol_options={"holdout_items": 0.4},
    )  # fmt: skip
    assert result.models["FeatureKNN"].value("ndcg@5") > 0.65  # random lists have about 0.4
    assert "Popularity" not in result.models


class Asked:
    """Remembers what it was told."""

    told = None

    def fit(self, matrix, user_features=None, item_features=None):
        Asked.told = {"fit": (matrix, user_features, item_features)}
        return self

    def rank_items(self, seen, n, rows=None):
        Asked.told["ranked"] = (seen, rows, None, None)
        return np.full((seen.shape[0], n), -1, np.int32)

    def rank_new(self, seen, n, rows=None, *, user_features=None, item_features=None):
        Asked.told["ranked"] = (seen, rows, user_features, item_features)
        return np.full((seen.shape[0], n), -1, np.int32)


@pytest.mark.parametrize("protocol", ["cold_users", "cold_items", "few", "leave_k_out"])
def test_a_model_is_told_the_features_of_what_it_sees(towns, protocol):
    data, users, items = towns
    assert isinstance(Asked(), FeatureRanker)
    assert not isinstance(Popularity(), FeatureRanker)
    options = {"user_features": users, "item_features": items, "baselines": False, "random_state": 0}
    evaluate([Asked()], data, protocol, ["ndcg"], 3, **options)
    matrix, of_users, of_items = Asked.told["fit"]
    seen, rows, new_users, new_items = Asked.told["ranked"]
    assert (len(of_users), len(of_items)) == matrix.shape
    assert (new_users is None) == (protocol in ("cold_items", "leave_k_out"))
    assert (new_items is None) == (protocol != "cold_items")
    if new_users is not None:
        assert len(new_users) == seen.shape[0]
        assert len(new_users) + len(of_users) == 90
        assert rows is None
    if new_items is not None:
        assert len(new_items) == seen.shape[1]
        assert len(new_items) + len(of_items) == 30


def test_features_of_the_data_serve_where_none_are_given(tmp_path):
    (tmp_path / "ratings.dat").write_text("".join(f"{u}::{i}::5::1\n" for u in range(1, 9) for i in range(1, 6)))
    (tmp_path / "movies.dat").write_text("".join(f"{i}::Film {i} (1999)::{'AB'[i % 2]}\n" for i in range(1, 6)))
    from halfstep.datasets import load_movielens

    result = evaluate([FeatureKNN()], load_movielens(tmp_path), "cold_items", k=1, baselines=False, random_state=0)
    assert result.protocol == "cold_items"


def test_what_cannot_be_judged_says_why(towns):
    data, users, items = towns
    for call, text in [
        (lambda: evaluate([], data, "cold_users"), "protocol='cold_users' ranks by features alone.*user_features="),
        (
            lambda: evaluate([Popularity()], data, "cold_items", item_features=items, k=3),
            "'Popularity' is a Popularity",
        ),
        (lambda: evaluate([], data, "cold_users", user_features=users.iloc[:0]), "no user of the fit has features"),
        (lambda: evaluate([], cold_users(data.matrix), user_features=users), "data is a Split already"),
        (lambda: evaluate([], data, "few", protocol_options={"given": 0}), "given=0"),
        (lambda: cold_items(data.matrix, 1.0 * 31), "the number of items with a cell"),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            call()


@pytest.mark.parametrize(("protocol", "side"), [("cold_users", 0), ("cold_items", 1)])
def test_all_ratings_of_new_users_or_items_are_held_out(protocol, side):
    pairs, y, _ = make_ratings(40, 30, 500, random_state=0)
    split = RATING_PROTOCOLS[protocol](Ratings(pairs, y), share=0.25, seed=3)
    assert len(split.train) + len(split.test) == 500
    assert not set(split.train.pairs[:, side]) & set(split.test.pairs[:, side])
    assert len(set(split.test.pairs[:, side])) == round(0.25 * len(set(pairs[:, side])))
    assert split.cold == len(split.test)
    result = evaluate({"mine": Biases()}, Ratings(pairs, y), protocol, random_state=0)
    assert result.protocol == protocol
