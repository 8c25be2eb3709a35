"""Interactions: construction, views, and that timestamps and labels follow their cells."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from halfstep.data.datasets import Interactions, read_interactions
from halfstep.errors import UnknownIdError


@pytest.fixture
def small() -> Interactions:
    rows = [("a", "x", 1.0, 10), ("a", "y", 2.0, 20), ("b", "y", 3.0, 30), ("c", "z", 4.0, 40)]
    data = read_interactions(rows, name="small <b>")
    return Interactions(
        data.matrix,
        data.user_ids,
        data.item_ids,
        user_labels=np.array(["A", "B", "C"]),
        item_labels=np.array(["X", "Y", "Z"]),
        timestamps=data.timestamps,
        name=data.name,
        source="test",
        licence="none",
        report={"rows": 4},
    )


def test_shape_length_and_texts(small: Interactions) -> None:
    assert small.shape == (3, 3)
    assert len(small) == 4
    assert repr(small) == "<Interactions small <b>: 3 x 3, 4 cells>"
    text = small.summary()
    assert "3 users x 3 items" in text
    assert "1 to 4, mean 2.5" in text
    assert "rows=4" in text
    assert "small &lt;b&gt;" in small._repr_html_()


def test_to_frame_in_every_backend(small: Interactions) -> None:
    columns = small.to_frame("dict")
    assert columns["user"].tolist() == ["a", "a", "b", "c"]
    assert columns["item"].tolist() == ["x", "y", "y", "z"]
    assert columns["timestamp"].tolist() == [10, 20, 30, 40]
    for backend in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(backend)
        again = read_interactions(small.to_frame(backend))
        assert (again.matrix != small.matrix).nnz == 0
        assert again.user_ids.tolist() == ["a", "b", "c"]
        assert again.timestamps is not None
        assert again.timestamps.tolist() == [10, 20, 30, 40]
    with pytest.raises(ValueError, match=r"backend='panda' is not known.*Did you mean 'pandas'"):
        small.to_frame("panda")


def test_subset_keeps_the_order_given(small: Interactions) -> None:
    part = small.subset(users=["c", "a"], items=["z", "y"])
    assert part.user_ids.tolist() == ["c", "a"]
    assert part.item_labels is not None
    assert part.item_labels.tolist() == ["Z", "Y"]
    assert part.matrix.toarray().tolist() == [[4, 0], [0, 2]]
    assert part.timestamps is not None
    assert part.timestamps.tolist() == [40, 20]
    with pytest.raises(UnknownIdError, match="unknown user"):
        small.subset(users=["nobody"])


def test_filter_repeats_until_both_limits_hold(small: Interactions) -> None:
    # y has two users, but one of them (b) has only y: with min_user=2 only a survives, then no item has two.
    part = small.filter(min_user=2, min_item=2)
    assert part.shape == (0, 0)
    assert part.report["filtered_users"] == 3
    kept = small.filter(min_item=2)
    assert kept.item_ids.tolist() == ["y"]
    assert kept.user_ids.tolist() == ["a", "b"]
    assert kept.report == {"rows": 4, "filtered_users": 1, "filtered_items": 2, "filtered_cells": 2}
    with pytest.raises(ValueError, match="min_user=-1 must be a whole number of at least 0"):
        small.filter(min_user=-1)


def test_transpose_swaps_everything_and_is_its_own_inverse(small: Interactions) -> None:
    flipped = small.transpose()
    assert flipped.user_ids.tolist() == ["x", "y", "z"]
    assert flipped.item_labels is not None
    assert flipped.item_labels.tolist() == ["A", "B", "C"]
    back = flipped.T
    assert (back.matrix != small.matrix).nnz == 0
    assert np.array_equal(back.timestamps, small.timestamps)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=60, unique=True), st.data())
def test_views_carry_every_cell_with_its_time(cells: list[tuple[int, int]], data: st.DataObject) -> None:
    rows = [(u, i, 1 + u + 10 * i, 100 * u + i) for u, i in cells]
    whole = read_interactions(rows)
    users = data.draw(st.lists(st.sampled_from(sorted({u for u, _ in cells})), unique=True, min_size=1))
    view = whole.subset(users=users).T
    assert view.matrix.has_canonical_format
    frame = view.to_frame("dict")
    seen = set(zip(frame["user"].tolist(), frame["item"].tolist(), strict=True))
    assert seen == {(i, u) for u, i in cells if u in users}
    assert np.array_equal(frame["weight"], 1 + frame["item"] + 10 * frame["user"])
    assert np.array_equal(frame["timestamp"], 100 * frame["item"] + frame["user"])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_filter_is_a_core(cells: list[tuple[int, int]], least_user: int, least_item: int) -> None:
    core = read_interactions(cells).filter(min_user=least_user, min_item=least_item)
    counts = core.matrix.astype(bool)
    assert (counts.sum(axis=1) >= least_user).all()
    assert (counts.sum(axis=0) >= least_item).all()


def test_stored_zeros_survive_views() -> None:
    data = read_interactions([("a", "x", 0.0), ("a", "y", 2.0)])
    assert len(data) == 2
    assert len(data.T) == 2


def test_bad_parts_are_refused() -> None:
    matrix = sparse.csr_array(np.eye(2, dtype=np.float32))
    with pytest.raises(TypeError, match="matrix must be a scipy sparse matrix, got ndarray"):
        Interactions(np.eye(2), np.arange(2), np.arange(2))
    with pytest.raises(ValueError, match=r"user_ids has shape \(3,\).*needs \(2,\)"):
        Interactions(matrix, np.arange(3), np.arange(2))
    with pytest.raises(ValueError, match="timestamps has 5 values; the matrix stores 2 cells"):
        Interactions(matrix, np.arange(2), np.arange(2), timestamps=np.zeros(5))


def test_duplicate_cells_of_a_given_matrix_are_summed() -> None:
    matrix = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    data = Interactions(matrix, np.arange(1), np.arange(2))
    assert data.matrix.toarray().tolist() == [[0, 3]]
    twice = sparse.csr_array(([1.0, 2.0], [1, 1], [0, 2]), shape=(1, 2))
    with pytest.raises(ValueError, match="sorted and without duplicates where timestamps"):
        Interactions(twice, np.arange(1), np.arange(2), timestamps=np.arange(2.0))
    assert twice.nnz == 2  # the caller's matrix is left alone


DAY = 86_400


def test_what_happened_a_half_life_ago_counts_half():
    rows = [("a", "x", 4.0, 0), ("a", "y", 1.0, 30 * DAY), ("b", "x", 2.0, 60 * DAY)]
    data = read_interactions(pd.DataFrame(rows, columns=["user", "item", "weight", "timestamp"]))
    older = data.decayed(30)
    assert older.matrix.toarray().tolist() == [[1.0, 0.5], [2.0, 0.0]]
    assert older.report["half_life"] == 30
    assert data.matrix.toarray().tolist() == [[4.0, 1.0], [2.0, 0.0]]  # what was given is as it was
    assert data.decayed(30, now=30 * DAY).matrix.toarray().tolist() == [[2.0, 1.0], [2.0, 0.0]]
    with pytest.raises(ValueError, match="half_life=0 must"):
        data.decayed(0)
    with pytest.raises(ValueError, match="no timestamps"):
        replace(data, timestamps=None).decayed(30)


def test_rows_decay_before_pairs_that_come_twice_are_summed():
    rows = [("a", "x", 0), ("a", "x", 10 * DAY), ("b", "x", 10 * DAY)]
    frame = pd.DataFrame(rows, columns=["user", "item", "time"])
    data = read_interactions(frame, half_life=10)
    assert data.matrix.toarray().ravel().tolist() == [1.5, 1.0]
    with pytest.raises(ValueError, match="half_life needs a timestamp"):
        read_interactions(frame[["user", "item"]], half_life=10)
    with pytest.raises(ValueError, match="nothing to act on"):
        read_interactions(frame, half_life=10, duplicates="count")
    late = read_interactions(frame.assign(time=[0, np.nan, 10 * DAY]), half_life=10)
    assert late.report["rows_without_timestamp"] == 1
