"""The right columns out of every frame library, and errors that say which columns there are."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from halfstep.data.frames import interactions_from_frame, is_frame, pairs_from
from halfstep.data.ids import encode

DATA = {
    "userId": ["u2", "u1", "u2"],
    "Movie_ID": [10, 20, 30],
    "Rating": [1.0, 2.5, 3.0],
    "timestamp": [3, 1, 2],
    "comment": ["x", "y", "z"],
}
LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
    "duckdb": lambda data: duckdb.from_arrow(pa.table(data)),
}
every_library = pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)


@every_library
def test_columns_are_detected(make):
    frame = make(DATA)
    assert is_frame(frame)
    columns = interactions_from_frame(frame)
    assert columns.names == {"user": "userId", "item": "Movie_ID", "weight": "Rating"}
    users, user_rows = encode(columns.users)
    items, item_rows = encode(columns.items)
    assert users.take(user_rows).tolist() == DATA["userId"]
    assert items.take(item_rows).tolist() == DATA["Movie_ID"]
    assert columns.weights.tolist() == DATA["Rating"]


@every_library
def test_named_columns_win_and_false_leaves_out(make):
    columns = interactions_from_frame(make(DATA), user="comment", item="userId", weight="Movie_ID")
    assert columns.names == {"user": "comment", "item": "userId", "weight": "Movie_ID"}
    assert columns.weights.dtype == np.float64
    assert columns.weights.tolist() == [10, 20, 30]
    assert interactions_from_frame(make(DATA), weight=False).weights is None


@pytest.mark.parametrize(
    ("names", "user", "item"),
    [
        (["occupation", "skill"], "occupation", "skill"),
        (["skill", "occupation"], "occupation", "skill"),
        (["User ID", "item-id", "user"], "user", "item-id"),
        (["MovieID", "UserID"], "UserID", "MovieID"),
        (["job_title", "element.id"], "job_title", "element.id"),
    ],
)
def test_common_names(names, user, item):
    columns = interactions_from_frame(pd.DataFrame({name: ["a"] for name in names}))
    assert (columns.names["user"], columns.names["item"]) == (user, item)
    assert columns.weights is None


def test_a_named_column_is_not_detected_for_another_role():
    frame = pd.DataFrame({"user": ["a"], "user_id": ["b"], "item": ["c"]})
    with pytest.raises(ValueError, match="no column looks like the item"):
        interactions_from_frame(frame, user="item")
    assert interactions_from_frame(frame, item="user").names == {"user": "user_id", "item": "user"}


def test_missing_columns_list_what_there_is():
    frame = pd.DataFrame({"who": [1], "item": [2]})
    with pytest.raises(
        ValueError, match=r"no column looks like the user; the columns are \['who', 'item'\]: pass user="
    ):
        interactions_from_frame(frame)
    with pytest.raises(ValueError, match=r"user='whom' is not a column.*Did you mean 'who'\?"):
        interactions_from_frame(frame, user="whom")
    with pytest.raises(ValueError, match="item='who' is also the user; name two different columns"):
        interactions_from_frame(frame, user="who", item="who")
    with pytest.raises(TypeError, match=r"frame must be a data frame .* got ndarray"):
        interactions_from_frame(np.zeros((2, 2)))


def test_weights_are_checked():
    base = {"user": [1, 2], "item": [1, 2]}
    with pytest.raises(TypeError, match=r"column 'value' was taken as the weight but holds String.*weight=False"):
        interactions_from_frame(pl.DataFrame({**base, "value": ["a", "b"]}))
    for frame in (
        pl.DataFrame({**base, "rating": [1, None]}),
        pl.DataFrame({**base, "rating": [1.0, float("nan")]}),
        pd.DataFrame({**base, "rating": [1.0, np.inf]}),
    ):
        with pytest.raises(ValueError, match=r"1 of 2 weights in column 'rating' .* the first at row 1"):
            interactions_from_frame(frame)
    weights = interactions_from_frame(pd.DataFrame({**base, "count": [True, False]})).weights
    assert weights.tolist() == [1.0, 0.0]
    single = pd.DataFrame({**base, "count": np.array([1, 2], dtype=np.float32)})
    assert interactions_from_frame(single).weights.dtype == np.float32


def test_what_is_a_frame():
    assert not any(map(is_frame, [np.zeros((2, 2)), [[1, 2]], pd.Series([1]), sparse.eye(2), None, "user"]))


@every_library
def test_pairs_from_frames(make):
    users, items = pairs_from(make({"skill": ["s", "t"], "occupation": [1, 2]}))
    assert list(map(str, np.asarray(users))) == ["1", "2"]
    assert list(np.asarray(items)) == ["s", "t"]
    first, second = pairs_from(make({"b": [1, 2], "a": [3, 4]}))
    assert np.asarray(first).tolist() == [1, 2]
    assert np.asarray(second).tolist() == [3, 4]


def test_pairs_from_arrays_and_lists_keep_the_kind_of_ids():
    users, items = pairs_from(np.array([[1, 2], [3, 4]], dtype=np.int32))
    assert users.tolist() == [1, 3]
    assert items.dtype == np.int32
    users, items = pairs_from([("ann", 7), ("bob", 8)])
    assert encode(users)[0].ids.tolist() == ["ann", "bob"]
    assert encode(items)[0].ids.dtype == np.int64
    assert len(pairs_from(np.empty((0, 2)))[0]) == 0


def test_pairs_of_another_shape_raise():
    for wrong, shape in (
        (np.zeros((2, 3)), r"\(2, 3\)"),
        ([1, 2], r"\(2,\)"),
        ([], r"\(0,\)"),
        ([(1, 2), (3,)], r"\(2,\)"),
    ):
        with pytest.raises(ValueError, match=rf"X must be \(user, item\) pairs of shape \(n, 2\).* got shape {shape}"):
            pairs_from(wrong)
    with pytest.raises(TypeError, match=r"got a sparse matrix of shape \(2, 2\)"):
        pairs_from(sparse.eye(2))
    with pytest.raises(ValueError, match=r"X must have two columns.*\['a', 'b', 'c'\]"):
        pairs_from(pd.DataFrame({"a": [1], "b": [1], "c": [1]}))
