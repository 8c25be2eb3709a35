"""The ranking baselines against dense formulas written the slow way, and against their contract."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from halfstep.models import item_matrix
from halfstep.models.baselines import ItemKNN, Popularity

SIMILARITIES = ["cosine", "bm25", "tfidf", "jaccard"]


def random_matrix(seed=0, shape=(30, 12), density=0.3):
    random = np.random.default_rng(seed)
    dense = random.integers(1, 5, shape) * (random.random(shape) < density)
    dense[0, 0] = 1
    return sparse.csr_matrix(dense.astype(float))


def dense_similarity(matrix, kind, shrink):
    """The docstring's formulas, one pair of items at a time."""
    cells = matrix.toarray()
    n_items = cells.shape[1]
    of_user = np.count_nonzero(cells, axis=1)[:, None]
    if kind == "tfidf":
        cells = cells * (1 + np.log((1 + n_items) / (1 + of_user)))
    elif kind == "bm25":
        length = cells.sum(axis=0)
        saturation = 1.2 * (0.25 + 0.75 * length / length.mean())
        cells = np.log(1 + (n_items - of_user + 0.5) / (of_user + 0.5)) * 2.2 * cells / (cells + saturation)
    result = np.zeros((n_items, n_items))
    for i in range(n_items):
        for j in range(n_items):
            a, b = cells[:, i], cells[:, j]
            if i == j or not a @ b:
                continue
            if kind == "jaccard":
                result[i, j] = ((a > 0) & (b > 0)).sum() / (((a > 0) | (b > 0)).sum() + shrink)
            else:
                result[i, j] = a @ b / (np.linalg.norm(a) * np.linalg.norm(b) + shrink)
    return result


@pytest.mark.parametrize("kind", SIMILARITIES)
@pytest.mark.parametrize("shrink", [0.0, 7.0])
def test_similarities_match_the_formula(kind, shrink):
    matrix = random_matrix()
    model = ItemKNN(neighbours=12, similarity=kind, shrink=shrink).fit(matrix)
    np.testing.assert_allclose(model.similarity_.toarray(), dense_similarity(matrix, kind, shrink), atol=1e-12)


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_only_the_nearest_neighbours_of_an_item_are_kept(kind):
    matrix = random_matrix(1)
    full = ItemKNN(neighbours=12, similarity=kind).fit(matrix).similarity_.toarray()
    kept = ItemKNN(neighbours=3, similarity=kind).fit(matrix).similarity_.toarray()
    for j in range(12):
        nearest = np.lexsort((np.arange(12), -full[:, j]))[:3]
        expected = np.zeros(12)
        expected[nearest] = full[nearest, j]
        np.testing.assert_array_equal(kept[:, j], expected)


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_item_knn_ranks_by_score_then_popularity_then_position(kind):
    matrix = random_matrix(2)
    model = ItemKNN(neighbours=2, similarity=kind).fit(matrix)
    scores = model.score_rows(matrix)
    history = matrix.toarray() > 0 if kind == "jaccard" else matrix.toarray()
    np.testing.assert_allclose(scores, history @ model.similarity_.toarray(), atol=1e-12)
    ranked = model.rank_items(matrix, 12)
    for user in range(matrix.shape[0]):
        order = np.lexsort((np.arange(12), -model.item_counts_, -scores[user]))
        unseen = [item for item in order if matrix[user, item] == 0]
        assert ranked[user].tolist() == unseen + [-1] * (12 - len(unseen))


def test_popularity_ranks_by_count_and_leaves_seen_out():
    # Counts 2, 3, 1, 2: items 0 and 3 tie, the lower position goes first.
    matrix = sparse.csr_matrix([[5, 1, 0, 0], [1, 1, 0, 1], [0, 9, 1, 1]])
    model = Popularity().fit(matrix)
    assert model.item_counts_.tolist() == [2, 3, 1, 2]
    assert model.by_popularity_.tolist() == [1, 0, 3, 2]
    assert model.rank_items(matrix, 3).tolist() == [[3, 2, -1], [2, -1, -1], [0, -1, -1]]
    assert model.rank_items(sparse.csr_matrix((1, 4)), 5).tolist() == [[1, 0, 3, 2, -1]]
    assert model.score_rows(sparse.csr_matrix((2, 4))).tolist() == [[2, 3, 1, 2]] * 2


@pytest.mark.parametrize("model", [Popularity(), ItemKNN(neighbours=3)], ids=["popularity", "item_knn"])
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 15))
@settings(max_examples=25, deadline=None)
def test_never_recommends_seen_items_nor_repeats_itself(model, seed, n):
    matrix = random_matrix(seed)
    ranked = clone(model).fit(matrix).rank_items(matrix, n)
    assert ranked.shape == (30, n)
    assert ranked.dtype == np.int32
    for user, row in enumerate(ranked):
        items = row[row >= 0]
        assert len(set(items)) == len(items) == min(n, 12 - matrix[user].nnz)
        assert not matrix[user, items].nnz


@pytest.mark.parametrize("model", [Popularity(), ItemKNN(neighbours=4)], ids=["popularity", "item_knn"])
def test_blocks_change_nothing(model, monkeypatch):
    matrix = random_matrix(3)
    whole = clone(model).fit(matrix).rank_items(matrix, 6)
    monkeypatch.setattr(item_matrix, "BLOCK_BYTES", 8 * 12 * 7)  # seven rows at a time
    np.testing.assert_array_equal(clone(model).fit(matrix).rank_items(matrix, 6), whole)


def test_training_rows_keep_their_history_when_only_a_mask_is_given():
    matrix = random_matrix(4)
    model = ItemKNN().fit(matrix)
    rows = np.array([5, 2])
    nothing_seen = sparse.csr_matrix((2, 12))
    np.testing.assert_array_equal(model.score_rows(nothing_seen, rows), model.score_rows(matrix[rows]))
    np.testing.assert_array_equal(model.rank_items(matrix[rows], 5, rows=rows), model.rank_items(matrix[rows], 5))
    assert set(model.rank_items(nothing_seen, 12, rows=rows)[0]) == set(range(12))


def test_a_stored_zero_is_seen_but_says_nothing():
    matrix = random_matrix(5)
    seen = sparse.csr_matrix((np.array([0.0, 2]), np.array([3, 4]), np.array([0, 2])), shape=(1, 12))
    model = ItemKNN().fit(matrix)
    only_4 = sparse.csr_matrix(([2.0], ([0], [4])), shape=(1, 12))
    np.testing.assert_array_equal(model.score_rows(seen), model.score_rows(only_4))
    assert 3 not in model.rank_items(seen, 12)
    assert 3 not in Popularity().fit(matrix).rank_items(seen, 12)


def test_a_new_user_without_history_gets_the_most_popular():
    matrix = random_matrix(6)
    nobody = sparse.csr_matrix((1, 12))
    np.testing.assert_array_equal(
        ItemKNN().fit(matrix).rank_items(nobody, 5), Popularity().fit(matrix).rank_items(nobody, 5)
    )


def test_items_without_cells_have_no_neighbours_and_come_last():
    matrix = sparse.csr_matrix([[1, 1, 0, 0], [1, 1, 0, 1]])
    model = ItemKNN().fit(matrix)
    assert model.similarity_[:, 2].nnz == model.similarity_[2].nnz == 0
    assert model.rank_items(sparse.csr_matrix([[1, 0, 0, 0]]), 3).tolist() == [[1, 3, 2]]


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
@settings(deadline=None)
def test_first_maxima_equals_a_stable_sort(seed, n):
    scores = np.random.default_rng(seed).integers(0, 4, (5, 8)).astype(float)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    np.testing.assert_array_equal(item_matrix.first_maxima(scores, n), expected)


def test_fit_does_not_change_the_matrix_and_clones_carry_parameters():
    matrix = random_matrix(7)
    before = matrix.copy()
    model = clone(ItemKNN(neighbours=5, similarity="bm25", shrink=2.0)).fit(matrix)
    assert (matrix != before).nnz == 0
    assert model.get_params() == {"neighbours": 5, "similarity": "bm25", "shrink": 2.0, "n_threads": None}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"similarity": "cosin"}, r"similarity='cosin' is not known.*Did you mean 'cosine'"),
        ({"neighbours": 0}, r"neighbours=0 must be a whole number of at least 1"),
        ({"neighbours": 2.5}, r"neighbours=2.5 must be a whole number of at least 1"),
        ({"shrink": -1.0}, r"shrink=-1.0 must be a finite number of at least 0"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        ItemKNN(**parameters).fit(random_matrix())


def test_bad_matrices_are_named():
    with pytest.raises(TypeError, match=r"X must be a scipy sparse matrix, a 2-D array"):
        Popularity().fit([[1, 2]])
    with pytest.raises(ValueError, match=r"weights must be finite and >= 0; 1 are not, first -1.0"):
        ItemKNN().fit(sparse.csr_matrix([[-1.0, 1.0]]))
    with pytest.raises(ValueError, match=r"X of shape \(2, 3\) has no stored cell"):
        Popularity().fit(sparse.csr_matrix((2, 3)))
    with pytest.raises(NotFittedError):
        Popularity().rank_items(random_matrix(), 3)
    model = ItemKNN().fit(random_matrix())
    with pytest.raises(TypeError, match=r"seen is a list"):
        model.rank_items([[1]], 3)
    with pytest.raises(ValueError, match=r"seen has 3 items but the model was fitted on 12"):
        model.rank_items(sparse.csr_matrix((1, 3)), 3)
    with pytest.raises(ValueError, match=r"rows has shape \(2,\) but seen has 1 rows"):
        model.rank_items(sparse.csr_matrix((1, 12)), 3, rows=[0, 1])
    with pytest.raises(ValueError, match=r"rows holds positions from 30 to 30; the model was fitted on 30 rows"):
        model.rank_items(sparse.csr_matrix((1, 12)), 3, rows=[30])
    with pytest.raises(ValueError, match=r"n=0; expected a whole number of at least 1"):
        model.rank_items(sparse.csr_matrix((1, 12)), 0)


@pytest.mark.parametrize("model", [Popularity(), ItemKNN(neighbours=4)])
def test_a_refused_refit_leaves_a_baseline_as_it_was(model):
    matrix = random_matrix(3)
    model.fit(matrix)
    before, ranked = dict(vars(model)), model.rank_items(matrix, 5)
    with pytest.raises(ValueError, match="no stored cell"):
        model.fit(sparse.csr_matrix((2, 3)))
    assert vars(model) == before
    np.testing.assert_array_equal(model.rank_items(matrix, 5), ranked)
