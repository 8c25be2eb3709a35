"""Splits lose and leak no cell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from halfstep.judge import leave_k_out, strong_generalisation, time_split

from .matrices import random_matrix


def cells_of(matrix, users=None):
    """{(user, item): value} with the users' positions in the matrix that was split."""
    matrix = matrix.tocoo()
    rows = matrix.row if users is None else users[matrix.row]
    return dict(zip(zip(rows.tolist(), matrix.col.tolist(), strict=True), matrix.data.tolist(), strict=True))


def assert_disjoint_union(parts, whole):
    assert sum(map(len, parts)) == len(whole)
    assert {cell: value for part in parts for cell, value in part.items()} == whole


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 5))
@settings(deadline=None)
def test_leave_k_out_loses_and_leaks_no_cell(seed, k):
    matrix = random_matrix(seed)
    split = leave_k_out(matrix, k, random_state=seed)
    assert_disjoint_union([cells_of(split.train), cells_of(split.relevant, split.users)], cells_of(matrix))
    n_cells = np.diff(matrix.indptr)
    assert split.users.tolist() == np.flatnonzero(n_cells > k).tolist()
    assert split.left_out == np.count_nonzero(n_cells <= k)
    assert (np.diff(split.relevant.indptr) == k).all()
    assert (split.seen != split.train[split.rows]).nnz == 0


@given(seeds, st.floats(0.05, 0.95), st.sampled_from([0.1, 0.5, 3, 10]))
@settings(deadline=None)
def test_strong_generalisation_loses_and_leaks_no_cell(seed, fold_in, holdout):
    matrix = random_matrix(seed)
    split = strong_generalisation(matrix, holdout, fold_in, random_state=seed)
    trained = np.setdiff1d(np.arange(40), split.users)
    parts = [
        cells_of(split.train, trained),
        cells_of(split.seen, split.users),
        cells_of(split.relevant, split.users),
    ]
    assert_disjoint_union(parts, cells_of(matrix))
    assert len(split.users) == (holdout * 40 if holdout < 1 else holdout)
    assert split.rows is None
    n_cells = np.diff(matrix.indptr)[split.users]
    shown = np.diff(split.seen.indptr)
    assert (shown == np.clip(np.rint(fold_in * n_cells), 1, n_cells - 1)).all()


def test_strong_generalisation_takes_named_users():
    split = strong_generalisation(random_matrix(), np.array([2, 0]), random_state=0)
    assert split.users.tolist() == [0, 2]


@given(seeds, st.floats(0.1, 0.5))
@settings(deadline=None)
def test_time_split_trains_on_the_past_and_counts_what_it_drops(seed, share):
    matrix = random_matrix(seed)
    times = np.random.default_rng(seed).integers(0, 50, matrix.nnz)
    split = time_split(matrix, times, share=share)
    when = cells_of(sparse.csr_matrix((times + 1, matrix.indices, matrix.indptr), shape=matrix.shape))
    train, found = cells_of(split.train), cells_of(split.relevant, split.users)
    assert max(when[cell] for cell in train) < min(when[cell] for cell in found)
    dropped = cells_of(matrix).keys() - train.keys() - found.keys()
    without_past = {user for user in range(40) if not split.train[user].nnz}
    assert {user for user, _ in dropped} <= without_past
    assert train.keys().isdisjoint(found.keys())
    assert split.left_out == 40 - len(split.users)
    assert len(train) >= (1 - share) * matrix.nnz - 1


def test_times_follow_their_cells_whatever_the_order_and_kind():
    # Columns out of order, and a stored zero. User 0: item 2 at 1, item 0 at 5. User 1: 1 at 2, 2 at 6.
    matrix = sparse.csr_matrix(
        (np.array([1.0, 1, 0, 1, 1]), np.array([2, 0, 1, 1, 2]), np.array([0, 3, 5])), shape=(2, 3)
    )
    times = np.array([1, 5, 9, 2, 6])
    stamped = sparse.csr_matrix((times, matrix.indices, matrix.indptr), shape=matrix.shape)
    days = np.array("2020-01-01", dtype="datetime64[D]") + times
    for split in (
        time_split(matrix, times, cutoff=3),
        time_split(matrix, stamped, cutoff=3),
        time_split(matrix, days, cutoff="2020-01-04"),
        time_split(matrix, days, share=0.5),
        leave_k_out(matrix, 1, timestamps=times),
        leave_k_out(matrix, 1, timestamps=days),
    ):
        assert split.train.toarray().tolist() == [[0, 0, 1], [0, 1, 0]]
        assert split.relevant.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_splits_are_repeatable_and_vary_with_the_seed():
    matrix = random_matrix()
    for split in (leave_k_out, strong_generalisation):
        first, again, other = (split(matrix, random_state=seed).relevant for seed in (1, 1, 2))
        assert first.shape == again.shape
        assert (first != again).nnz == 0
        assert first.shape != other.shape or (first != other).nnz > 0


def test_held_out_cells_are_drawn_evenly():
    matrix = sparse.csr_matrix(np.ones((4000, 4)))
    drawn = np.bincount(leave_k_out(matrix, 1, random_state=0).relevant.indices)
    assert np.abs(drawn - 1000).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)


MATRIX = sparse.csr_matrix([[1.0, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda: leave_k_out(MATRIX, 0), r"k=0; expected a whole number"),
        (lambda: leave_k_out(MATRIX, 2), r"k=2 but no row of matrix has more than 2 cells"),
        (lambda: leave_k_out(sparse.csr_matrix((2, 2))), r"matrix of shape \(2, 2\) has no positive cell"),
        (lambda: leave_k_out(MATRIX.toarray()), r"matrix is a ndarray; expected a scipy sparse"),
        (
            lambda: strong_generalisation(MATRIX, fold_in=1.0),
            r"fold_in=1.0; expected a share between 0 and 1",
        ),
        (lambda: strong_generalisation(MATRIX, 2), r"holdout_users=2; expected .* number from 1 to 1"),
        (lambda: strong_generalisation(MATRIX, 1.5), r"holdout_users=1.5; expected a share below 1"),
        (lambda: strong_generalisation(MATRIX, [5]), r"holdout_users must be positions of rows from 0 to 1"),
        (lambda: strong_generalisation(MATRIX, []), r"holdout_users is empty"),
        (lambda: strong_generalisation(MATRIX, [1]), r"holdout_users names row 1, which has fewer than two"),
        (lambda: strong_generalisation(MATRIX[:1], 1), r"holdout_users leaves no cell to train on"),
        (lambda: time_split(MATRIX, [1, 2]), r"timestamps has shape \(2,\); expected \(3,\)"),
        (lambda: time_split(MATRIX, [1, 2, np.nan]), r"timestamps has 1 missing values"),
        (lambda: time_split(MATRIX, ["a", "b", "c"]), r"timestamps holds <U1; expected numbers or datetimes"),
        (lambda: time_split(MATRIX, MATRIX.T), r"timestamps stores other cells than matrix"),
        (lambda: time_split(MATRIX, [1, 2, 3], share=1), r"share=1; expected a share between 0 and 1"),
        (lambda: time_split(MATRIX, [1, 2, 3], cutoff=9), r"cutoff=9.0 leaves no user with cells both"),
        (lambda: time_split(MATRIX, [1, 2, 3], cutoff="x"), r"cutoff='x' cannot be compared"),
    ],
)
def test_bad_arguments_of_splits_are_named(split, message):
    with pytest.raises((ValueError, TypeError), match=message):
        split()


def test_duplicate_cells_make_times_ambiguous():
    twice = sparse.csr_matrix((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    with pytest.raises(ValueError, match=r"matrix stores a cell twice"):
        time_split(twice, [1, 2])
