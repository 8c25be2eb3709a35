"""Recommenders that are a matrix applied to what a user has: against dense NumPy, and against the contract of all."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import halfstep as hs
from halfstep.models import item_matrix
from halfstep.models.baselines import ItemKNN, Popularity

from ..contract.refusal import refused

SEEN = sp.random_array((25, 14), density=0.3, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
EVERY = [hs.ItemGraph(), hs.ItemGraph(neighbours=4), hs.EASE(3.0), ItemKNN(neighbours=5), Popularity()]
NAMES = ["graph", "pruned graph", "ease", "knn", "popularity"]
each = pytest.mark.parametrize("model", EVERY, ids=NAMES)


def random_cells(seed, shape=(12, 9)):
    rng = np.random.default_rng(seed)
    cells = rng.integers(1, 4, shape) * (rng.random(shape) < 0.35)
    cells[0, 0] = 1
    return cells.astype(float)


def without_diagonal(matrix):
    return matrix - np.diag(np.diag(matrix))


@given(seed=st.integers(0, 2**32 - 1), a=st.floats(0, 1.5), b=st.floats(0, 1), c=st.floats(-0.5, 1.5))
@settings(max_examples=30, deadline=None)
def test_the_graph_is_its_formula(seed, a, b, c):
    R = random_cells(seed)
    user, item = (np.where(s > 0, s, 1) for s in (R.sum(axis=1), R.sum(axis=0)))
    S = np.diag(item**-a) @ (R.T @ np.diag(user ** (-2 * b)) @ R) @ np.diag(item**-c)
    model = hs.ItemGraph(a, b, c).fit(R)
    np.testing.assert_allclose(model.similarity_.toarray(), without_diagonal(S), rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(model.score_rows(sp.csr_array(R)), R @ without_diagonal(S), rtol=2e-5, atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 10))
@settings(max_examples=25, deadline=None)
def test_a_pruned_graph_keeps_the_strongest_neighbours_of_each_item(seed, k):
    R = random_cells(seed)
    whole = hs.ItemGraph().fit(R).similarity_.toarray()
    kept = hs.ItemGraph(neighbours=k).fit(R).similarity_.toarray()
    for j in range(R.shape[1]):
        largest = np.sort(whole[:, j][whole[:, j] > 0])[::-1][:k]
        np.testing.assert_allclose(np.sort(kept[:, j][kept[:, j] > 0])[::-1], largest, rtol=1e-5)
        np.testing.assert_allclose(kept[kept[:, j] > 0, j], whole[kept[:, j] > 0, j], rtol=1e-5)


@given(seed=st.integers(0, 2**32 - 1), reg=st.floats(0.1, 30))
@settings(max_examples=25, deadline=None)
def test_ease_is_its_formula(seed, reg):
    R = random_cells(seed)
    P = np.linalg.inv(R.T @ R + reg * np.eye(R.shape[1]))
    np.testing.assert_allclose(hs.EASE(reg).fit(R).similarity_, without_diagonal(-P / np.diag(P)), rtol=1e-4, atol=1e-6)


def test_ease_goes_by_blocks_where_items_are_many():
    R = sp.random_array((40, 1030), density=0.02, rng=np.random.default_rng(1), format="csr")
    P = np.linalg.inv((R.T @ R).toarray() + 2 * np.eye(1030))
    np.testing.assert_allclose(hs.EASE(2.0).fit(R).similarity_, without_diagonal(-P / np.diag(P)), rtol=1e-3, atol=1e-6)


def test_ease_says_what_it_would_need_before_it_computes():
    assert hs.EASE.estimate_memory(20_000).peak == 2 * 8 * 20_000**2
    with pytest.raises(ValueError, match=r"X has 20,001 items; EASE takes at most 20,000"):
        hs.EASE().fit(sp.csr_array(([1.0], ([0], [20_000])), shape=(2, 20_001)))


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 12), positive=st.booleans(), threads=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_the_best_of_a_product_are_those_of_the_dense_one(seed, k, positive, threads):
    rng = np.random.default_rng(seed)
    left, right = rng.integers(-2, 3, (70, 6)), rng.integers(-2, 3, (6, 11)) * (rng.random((6, 11)) < 0.5)
    order, seen = rng.permutation(11)[: rng.integers(1, 12)].astype(np.int32), rng.random((70, 11)) < 0.2
    places, scores = item_matrix.best_of_product(
        sp.csr_array(left.astype(float)),
        sp.csr_array(right.astype(float)),
        k,
        sp.csr_array(seen.astype(float)),
        order,
        positive=positive,
        n_threads=threads,
    )
    for row, product in enumerate(left @ right):
        free = [j for j in order if not seen[row, j] and (product[j] > 0 or not positive)]
        best = sorted(free, key=lambda j: -product[j])[:k]  # stable: of equal ones the first in order
        assert places[row].tolist() == best + [-1] * (k - len(best))
        np.testing.assert_array_equal(scores[row, : len(best)], product[best])
        assert np.isnan(scores[row, len(best) :]).all()


@each
def test_lists_agree_with_scores_and_explanations_sum_to_them(model):
    model = clone(model).fit(SEEN)
    scores = model.score_rows(SEEN)
    best = model.recommend(list(range(25)), 5)
    for user in range(25):
        there = ~np.isnan(best.scores[user])
        items = best.ids[user][there].astype(int)
        np.testing.assert_allclose(best.scores[user][there], scores[user, items], rtol=1e-5, atol=1e-6)
        assert not SEEN.toarray()[user, items].any()
        why = model.explain(user, items[0])
        np.testing.assert_allclose([why.score, why.contributions.sum()], scores[user, items[0]], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model.rank_items(SEEN, 5, np.arange(25)), np.where(best.ids == None, -1, best.ids))  # noqa: E711


@each
def test_somebody_new_with_the_items_of_a_user_gets_the_list_of_that_user(model):
    cells = (SEEN > 0).astype(np.float32)
    model = clone(model).fit(cells)
    has = cells.indices[cells.indptr[3] : cells.indptr[4]]
    known, new = model.recommend(3, 4), model.recommend_for(has, 4)
    assert known.ids.tolist() == new.ids.tolist()
    np.testing.assert_allclose(known.scores, new.scores, rtol=1e-6)
    why = model.explain(items=has, item=new.ids[0])
    np.testing.assert_allclose(why.contributions.sum(), new.scores[0], rtol=1e-5)


@each
def test_candidates_exclusions_and_diversity_hold(model):
    model = clone(model).fit(SEEN)
    assert set(model.recommend(2, 9, candidates=[1, 5, 7], keep_seen=True).ids) == {1, 5, 7}
    assert not set(model.recommend(2, 14, exclude=[1, 5], keep_seen=True).ids) & {1, 5}
    assert len(set(model.recommend(2, 4, diversity=0.7).ids)) == 4
    assert model.recommend(2, 50).ids.tolist() == model.recommend(2, 14).ids.tolist()


@each
def test_models_keep_ids_through_a_file(model, tmp_path):
    model = clone(model).fit(hs.datasets.load_sample_skills())
    model.save(tmp_path / "model.safetensors")
    again = hs.load(tmp_path / "model.safetensors")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    for ask in (
        lambda m: m.recommend("Registered nurse", 4),
        lambda m: m.recommend_for(["Python", "SQL"], 4),
        lambda m: m.similar_items("Python", 4),
    ):
        before, after = ask(model), ask(again)
        assert before.ids.tolist() == after.ids.tolist()
        np.testing.assert_array_equal(before.scores, after.scores)
        assert "Python" not in after.ids


@each
def test_frames_are_read_as_everywhere(model):
    frame = pd.DataFrame({"user": ["a", "a", "b", "b", "c"], "item": ["x", "y", "x", "y", "x"]})
    assert clone(model).fit(frame).recommend("c", 1).ids.tolist() == ["y"]


@each
def test_a_refused_fit_changes_nothing(model):
    fitted = clone(model).set_params(**({"n_threads": 1} if "n_threads" in model.get_params() else {})).fit(SEEN)
    ask = lambda m: (m.recommend([0, 3], 4), m.explain(1, 5), m.similar_items(2, 3))  # noqa: E731
    assert refused(lambda: fitted, lambda m: m.fit(SEEN[:9]), ask) > 5


@each
def test_every_recommender_is_evaluated(model):
    result = hs.evaluate.evaluate(model, SEEN, "leave_k_out", baselines=False, n_bootstrap=10, random_state=0)
    assert result.n_users > 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (hs.ItemGraph(a=np.nan), r"a=nan must be a finite number"),
        (hs.ItemGraph(neighbours=0), r"neighbours=0 must be a whole number of at least 1"),
        (hs.EASE(0.0), r"reg=0.0 must be a finite number above 0"),
    ],
)
def test_bad_parameters_of_closed_forms_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(SEEN)


def test_a_file_whose_similarities_do_not_fit_is_refused(tmp_path):
    from halfstep.data import files

    path = tmp_path / "model.safetensors"
    model = hs.ItemGraph().fit(SEEN)
    model.save(path)
    saved = files.read(path)
    broken = saved.arrays | {"similar_indices": saved.arrays["similar_indices"] + 14}
    files.save(path, "ItemGraph", saved.params, broken, {}, saved.indexes)
    with pytest.raises(files.ModelFileError, match="'similar_indices' must hold places below the number of items, 14"):
        hs.load(path)


def test_ease_is_refused_before_it_runs_out_of_memory(monkeypatch):
    monkeypatch.setattr("halfstep.models.ease.machine_memory", lambda: 1e6)
    with pytest.raises(MemoryError, match=r"EASE needs 0.0 GB for 300 items; this machine has 0.0 GB. Use ItemGraph"):
        hs.EASE().fit(sp.csr_array(np.eye(300)))
