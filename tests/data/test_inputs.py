"""Interactions of any kind into one table, and what is said about bad ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from halfstep.data.datasets import Interactions
from halfstep.data.table import read_table
from halfstep.models.wals import WALS

DENSE = np.array([[0, 2, 0, 1], [3, 0, 0, 0], [0, 1, 4, 0]], float)
USERS, ITEMS = ["ann", "bob", "cat"], ["w", "x", "y", "z"]


def weights(table):
    return table.cells.to_csr().toarray()


# ---------------------------------------------------------------------- matrices


@pytest.mark.parametrize("kind", ["coo", "csc", "csr", "lil", "dok", "bsr"])
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_every_sparse_format(kind, make):
    table = read_table(make(DENSE).asformat(kind))
    assert_array_equal(weights(table), DENSE)
    assert table.ids[0].is_range
    assert table.cells.targets == 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64", "uint64"])
def test_every_dtype(dtype):
    assert_array_equal(weights(read_table(DENSE.astype(dtype))), DENSE)
    if dtype != "float16":  # scipy has no sparse float16
        assert_array_equal(weights(read_table(sp.coo_array(DENSE.astype(dtype)))), DENSE)


def test_booleans_are_ones():
    for X in (DENSE > 0, sp.csr_array(DENSE > 0)):
        table = read_table(X)
        assert table.cells.weights == 1.0
        assert_array_equal(weights(table), DENSE > 0)


def test_dense_arrays_are_left_alone():
    for dense in (DENSE.copy(), np.asfortranarray(DENSE), DENSE.astype(np.float32)):
        before = dense.copy()
        assert_array_equal(weights(read_table(dense)), DENSE)
        assert_array_equal(dense, before)


def test_unsorted_entries():
    matrix = sp.csr_array(
        (np.array([1.0, 2, 3, 4, 1]), np.array([3, 1, 0, 2, 1]), np.array([0, 2, 3, 5])), shape=(3, 4)
    )
    table = read_table(matrix)
    assert_array_equal(weights(table), DENSE)
    assert all(np.all(np.diff(part) > 0) for part in np.split(table.cells.indices, [2, 3]))


@pytest.mark.parametrize("kind", ["coo", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, bool])
def test_repeated_entries_are_summed(kind, dtype):
    value = 1 if dtype is bool else 100
    cells = (np.full(3, value, dtype), (np.array([0, 0, 1]), np.array([2, 2, 0])))
    matrix = sp.coo_array(cells, shape=(2, 3))
    if kind == "csr":  # not canonical: scipy sums only when asked to
        matrix = sp.csr_array((cells[0], np.array([2, 2, 0]), np.array([0, 2, 3])), shape=(2, 3))
    assert_array_equal(weights(read_table(matrix)), [[0, 0, 2 * value], [value, 0, 0]])


def test_explicit_zeros_are_unobserved():
    matrix = sp.csr_array((np.array([0.0, 5.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 3))
    table = read_table(matrix)
    assert len(table.cells) == 1
    assert matrix.nnz == 2


def test_int64_indices():
    matrix = sp.csr_array(DENSE)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    table = read_table(matrix)
    assert table.cells.indices.dtype == np.int32
    assert_array_equal(weights(table), DENSE)


@pytest.mark.parametrize("shape", [(3, 2**31), (2**31, 3)])
def test_sides_too_long_for_int32_are_refused_at_once(shape):
    huge = sp.coo_array(([1.0], ([0], [0])), shape=shape)
    with pytest.raises(ValueError, match=r"the matrix has 2,147,483,648 (rows|columns); at most 2,147,483,647 fit"):
        WALS().fit(huge)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((0, 3)), ValueError, r"X of shape \(0, 3\) has no stored cell; a fit needs at least one"),
        (np.zeros((3, 2)), ValueError, r"X of shape \(3, 2\) has no stored cell"),
        (sp.csr_array((4, 5)), ValueError, r"X of shape \(4, 5\) has no stored cell"),
        (sp.csr_array((np.zeros(1), ([0], [1])), shape=(2, 2)), ValueError, "every stored weight of X is zero"),
        (np.array([[1, -2.0]]), ValueError, r"finite and >= 0; 1 are not, first -2\.0 at row 0, column 1"),
        (sp.csr_array([[1.0, 0], [0, -3]]), ValueError, r"first -3\.0 at row 1, column 1"),
        (sp.csr_array([[1.0, np.nan]]), ValueError, r"finite and >= 0; 1 are not, first nan at row 0, column 1"),
        (sp.csr_array([[1.0, np.inf]]), ValueError, "weights must be finite"),
        (np.array([[1, 0], [0, np.nan]]), ValueError, r"X has nan at row 1, column 1; weights must be finite"),
        (np.array([[1, np.inf]]), ValueError, r"X has inf at row 0, column 1"),
        (np.array([["a", "b"]]), TypeError, "X is a matrix of <U1; it must hold weights.*into a frame"),
        (np.array([[1j, 2]]), TypeError, "X holds complex numbers; it must hold real ones"),
        (sp.csr_array([[1j, 2]]), TypeError, "X is a matrix of complex128"),
        (np.ones(3), TypeError, r"got ndarray of shape \(3,\)\. Rows are users"),
        (np.ones((2, 2, 2)), TypeError, r"got ndarray of shape \(2, 2, 2\)"),
        ([[1, 0], [0, 1]], TypeError, "X must be a scipy sparse matrix, a 2-D array.*got list"),
        (None, TypeError, "got NoneType"),
    ],
)  # fmt: skip
def test_bad_matrices(X, error, message):
    with pytest.raises(error, match=message):
        WALS(rank=2).fit(X)


# ---------------------------------------------------------------------- frames


def frame_columns():
    rows, columns = np.nonzero(DENSE)
    return {
        "user": [USERS[r] for r in rows],
        "item": [ITEMS[c] for c in columns],
        "weight": DENSE[rows, columns].tolist(),
        "twice": (2 * DENSE[rows, columns]).tolist(),
    }


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def make_frame(request):
    library = pytest.importorskip(request.param)
    return library.table if request.param == "pyarrow" else library.DataFrame


def test_a_frame_of_every_library(make_frame):
    table = read_table(make_frame(frame_columns()))
    assert table.ids[0].ids.tolist() == USERS
    assert table.ids[1].ids.tolist() == ITEMS
    assert_array_equal(weights(table), DENSE)


def test_column_arguments_matter(make_frame):
    frame = make_frame(frame_columns())
    assert_array_equal(weights(read_table(frame, weight="twice")), 2 * DENSE)
    turned = read_table(frame, user="item", item="user")
    assert_array_equal(weights(turned), DENSE.T)
    assert turned.ids[0].ids.tolist() == ITEMS


def test_without_a_weight_column_pairs_count(make_frame):
    table = read_table(make_frame({"user": [5, 5, 9, 5], "item": ["a", "b", "a", "a"]}))
    assert_array_equal(weights(table), [[2, 1], [1, 0]])
    assert table.ids[0].ids.tolist() == [5, 9]


def test_weights_of_frames_keep_float64(make_frame):
    value = 1 + 1e-12
    table = read_table(make_frame({"user": [0, 1], "item": [0, 0], "weight": [value, 2.0]}), dtype=np.float64)
    assert table.cells.weights[0] == value


def test_bad_frames(make_frame):
    pair = {"user": [0, 1], "item": [0, 0]}
    for columns, message in (
        (pair | {"weight": [1.0, -1.0]}, r"finite and >= 0; 1 are not, first -1\.0 at row 1 of the frame"),
        (pair | {"weight": [0.0, 0.0]}, "every stored weight of X is zero; a fit needs at least one interaction"),
        (pair | {"weight": [1.0, float("nan")]}, r"1 of 2 weights in column 'weight' are missing .*first at row 1"),
        ({"user": [0], "thing": [1], "other": [2]}, "no column looks like the item.*pass item="),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read_table(make_frame(columns))
    with pytest.raises(ValueError, match=r"weight='wait' is not a column.*Did you mean 'weight'\?"):
        read_table(make_frame(pair | {"weight": [1.0, 2.0]}), weight="wait")


def test_a_frame_without_rows():
    pd = pytest.importorskip("pandas")
    empty = pd.DataFrame({"user": np.zeros(0, np.int64), "item": np.zeros(0, np.int64)})
    with pytest.raises(ValueError, match="X has no rows; a fit needs at least one interaction"):
        read_table(empty)


def test_a_frame_and_its_matrix_give_the_same_fit(make_frame):
    fresh = {"rank": 2, "random_state": 0, "dtype": "float64"}
    by_frame = WALS(**fresh).fit(make_frame(frame_columns()))
    by_matrix = WALS(**fresh).fit(sp.csr_array(DENSE))
    assert_array_equal(by_frame.user_factors_, by_matrix.user_factors_)
    assert by_frame.user_ids_.tolist() == USERS


# ---------------------------------------------------------------------- interactions


def test_interactions_bring_ids_and_titles():
    data = Interactions(sp.csr_array(DENSE), np.array(USERS), np.array(ITEMS), item_labels=np.array(list("ABCD")))
    table = read_table(data)
    assert table.ids[0].ids.tolist() == USERS
    assert table.labels[1].tolist() == list("ABCD")
    assert table.labels[0] is None
    assert_array_equal(weights(table), DENSE)


def test_column_names_without_a_frame_are_refused():
    with pytest.raises(ValueError, match=r"weight='clicks' name columns of a frame, but X is a csr_array"):
        read_table(sp.csr_array(np.eye(3)), weight="clicks")
