"""Features of rows: encoded from any source with names kept, aligned to ids, and the same columns for later rows."""

import json

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from halfstep.data.features import Features
from halfstep.data.ids import Index

COLUMNS = {
    "item_id": ["a", "b", "c", "d"],
    "group": ["25", "26", None, "25"],
    "year": [2000, 2010, None, 2020],
    "hot": [True, False, None, True],
    "genres": [["Crime", "Drama"], ["Drama"], None, []],
    "title": ["python developer", "python teacher", "", None],
}
FRAMES = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "lazy": lambda: pl.LazyFrame(COLUMNS),
    "pyarrow": lambda: pa.table(COLUMNS),
}


def dense(features):
    return dict(zip(features.names, features.matrix.toarray().T, strict=True))


@pytest.mark.parametrize("library", FRAMES)
def test_every_kind_of_column_gets_its_columns_in_every_library(library):
    features = Features.of(FRAMES[library](), text=["title"])
    columns = dense(features)
    assert features.ids.ids.tolist() == ["a", "b", "c", "d"]
    assert list(columns) == ["group=25", "group=26", "year", "hot", "genres=Crime", "genres=Drama", "title: python"]
    assert columns["group=25"].tolist() == [1, 0, 0, 1]
    np.testing.assert_allclose(columns["year"], np.array([-10, 0, 0, 10]) / np.std([2000, 2010, 2020]))
    assert columns["hot"].tolist() == [1, 0, 0, 1]
    np.testing.assert_allclose(columns["genres=Drama"], [np.sqrt(0.5), 1, 0, 0])
    assert columns["title: python"].tolist() == [1, 1, 0, 0]  # "developer" and "teacher" are in one row each
    assert features.matrix.dtype == np.float64
    assert isinstance(features.matrix, sparse.csr_array)


def test_a_dict_of_dicts_is_the_frame_of_the_same_values():
    rows = {id: {name: COLUMNS[name][row] for name in COLUMNS if name != "item_id"} for row, id in enumerate("abcd")}
    del rows["c"]["year"]  # what a row does not say is missing
    from_dict, from_frame = (Features.of(source, text=["title"]) for source in (rows, pd.DataFrame(COLUMNS)))
    assert from_dict.names == from_frame.names
    np.testing.assert_allclose(from_dict.matrix.toarray(), from_frame.matrix.toarray())


def test_tf_idf_is_that_of_scikit_learn():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["red red green", "green blue", "blue red", "green", "blue blue blue red"]
    features = Features.of({id: {"title": text} for id, text in enumerate(texts)}, text=["title"])
    expected = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
    np.testing.assert_allclose(features.matrix.toarray(), expected.toarray())


def test_several_text_columns_and_lists_of_texts_are_one_text():
    rows = {
        1: {"title": "nurse", "altLabels": ["ward nurse", "sister"]},
        2: {"title": "ward sister", "altLabels": None},
    }
    assert Features.of(rows, text=["title", "altLabels"]).names == ("title: nurse", "title: sister", "title: ward")[1:]


@pytest.mark.parametrize("library", FRAMES)
def test_new_rows_get_the_same_columns_and_what_was_never_seen_is_zero(library):
    features = Features.of(FRAMES[library](), text=["title"])
    again = features.encode(FRAMES[library]())
    np.testing.assert_array_equal(again.matrix.toarray(), features.matrix.toarray())
    new = features.encode(
        [{"group": "99", "genres": ["Western", "Drama"], "title": "Python, unheard of"}, {"year": 2010}]
    )
    assert new.names == features.names
    assert {name: value for name, value in dense(new).items() if value.any()}.keys() == {
        "genres=Drama",
        "title: python",
    }
    assert features.encode({"hot": True}).matrix.toarray().sum() == 1
    assert features.encode({"z": {"hot": True}}).ids.ids.tolist() == ["z"]


def test_rows_follow_the_ids_of_a_fit_and_the_others_are_kept_aside():
    features = Features.of(pd.DataFrame(COLUMNS), text=["title"])
    index = Index(["d", "unknown", "a"], "item")
    aligned = features.aligned(index)
    np.testing.assert_array_equal(aligned.toarray()[[0, 2]], features.matrix.toarray()[[3, 0]])
    assert aligned[[1]].nnz == 0
    assert features.outside(index).ids.ids.tolist() == ["b", "c"]
    assert features.of_ids(["c", "a"]).ids.ids.tolist() == ["c", "a"]
    with pytest.raises(ValueError, match=r"no item of the fit has features.*\[1\].*\['a'\]"):
        features.aligned(Index([1, 2], "item"))


def test_matrices_and_arrays_are_taken_as_they_are():
    array = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    for source in (array, sparse.coo_matrix(array), array.astype(np.float32)):
        features = Features.of(source)
        np.testing.assert_array_equal(features.aligned(Index.range(3)).toarray(), array)
        assert features.names == ("feature 0", "feature 1")
        np.testing.assert_array_equal(features.encode([5.0, 6.0]).matrix.toarray(), [[5, 6]])
    named = Features.of(array, ids=["x", "y", "z"], names=["price", "size"])
    np.testing.assert_array_equal(named.aligned(Index(["z"])).toarray(), [[3, 0]])
    assert Features.of(named) is named


def test_ids_come_from_an_index_with_a_name_or_of_text():
    plain = pd.DataFrame({"price": [1.0, 2.0]}, index=["a", "b"])
    assert Features.of(plain).ids.ids.tolist() == ["a", "b"]
    assert Features.of(pd.DataFrame({"price": [1.0, 2.0]}, index=pd.Index([7, 9], name="film"))).ids.ids.tolist() == [
        7,
        9,
    ]
    filtered = pd.DataFrame({"item": ["a", "b", "c"], "price": [1.0, 2.0, 3.0]}).iloc[1:]
    assert Features.of(filtered).ids.ids.tolist() == ["b", "c"]


def test_numbers_can_be_names_of_groups_and_lists_can_be_text():
    frame = pd.DataFrame({"id": [1, 2], "zone": [3, np.nan], "genres": ["Crime|Drama", "Drama"]})
    features = Features.of(frame, categories=["zone"], lists={"genres": "|"})
    assert features.names == ("zone=3", "genres=Crime", "genres=Drama")
    assert features.encode({"zone": 3, "genres": "Drama|Crime"}).matrix.nnz == 3


@pytest.mark.parametrize("source", [pd.DataFrame(COLUMNS), np.eye(3)])
def test_features_come_back_from_plain_json_and_tensors(source):
    text = {"text": ["title"]} if isinstance(source, pd.DataFrame) else {}
    features = Features.of(source, **text)
    state, arrays = features.to_state()
    back = Features.from_state(json.loads(json.dumps(state)), arrays, features.ids)
    assert back.names == features.names
    assert back.blocks == features.blocks
    np.testing.assert_array_equal(back.matrix.toarray(), features.matrix.toarray())
    new = {"title": "python", "year": 2003} if features.blocks else [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(back.encode(new).matrix.toarray(), features.encode(new).matrix.toarray())


@pytest.mark.parametrize(
    "change",
    [{"blocks": [{"kind": "pickle"}]}, {"blocks": [{"kind": "flags", "place": 3}]}, {"blocks": [3]}, {"names": ["x"]}],
)
def test_a_state_that_was_not_written_here_is_refused(change):
    state, arrays = Features.of(pd.DataFrame(COLUMNS), text=["title"]).to_state()
    with pytest.raises(ValueError):
        Features.from_state({**state, **change}, arrays, None)


def test_what_cannot_be_features_says_what_to_do():
    frame = pd.DataFrame(COLUMNS)
    cases = [
        (lambda: Features.of(np.array([[1.0, np.nan]])), r"not finite or beyond 1e\+30, the first in row 0, column 1"),
        (lambda: Features.of(sparse.csr_array([[0.0, np.inf]])), "not finite"),
        (lambda: Features.of(np.array([["a", "b"]])), "array of numbers"),
        (lambda: Features.of(frame, id="itemid"), "Did you mean 'item_id'"),
        (lambda: Features.of(frame, text=["titel"]), "Did you mean 'title'"),
        (lambda: Features.of(frame, text="title"), r"write \['title'\]"),
        (lambda: Features.of(pd.concat([frame, frame])), "must be unique, but 'a'"),
        (lambda: Features.of(frame.drop(columns="item_id")), "no column looks like the id"),
        (lambda: Features.of(np.eye(2), ids=["a"]), "ids has 1 entries"),
        (lambda: Features.of(np.eye(2), text=["title"]), "text cannot be used with a matrix"),
        (lambda: Features.of(frame).encode({"gruop": "25"}), "Did you mean 'group'"),
        (
            lambda: Features.of(frame).encode({"year": "long ago"}),
            "column 'year' holds numbers, and 'long ago' is none",
        ),
        (lambda: Features.of(frame).encode({"hot": "no"}), "neither true nor false"),
        (lambda: Features.of(frame).encode({"genres": "Crime|Drama"}), "lists={"),
        (lambda: Features.of(frame).encode({"group": ["25", "26"]}), "give one value"),
        (lambda: Features.of(frame).encode({"year": float("inf")}), "infinite in row 0"),
        (lambda: Features.of(frame).encode({"year": 10**400}), "infinite in row 0"),
        (lambda: Features.of(frame).encode({"year": -1e300}), r"'year' is beyond all bounds \(-1e\+300\) in row 0"),
        (
            lambda: Features.of({0: {"x": 1.0}, 1: {"x": 1 + 1e-15}}, side="item").encode({"x": 1e20}),
            "beyond all bounds",
        ),
        (lambda: Features.of({k: {"x": 1e308} for k in range(3)}, side="item"), "beyond all bounds"),
        (lambda: Features.of(np.full((2, 1), 1e200)), "beyond 1e"),
        (lambda: Features.of(frame).encode(np.eye(2)), "give a frame"),
        (lambda: Features.of(np.eye(2)).encode({"group": "25"}), "a matrix of 2 columns"),
        (lambda: Features.of(np.eye(2)).encode(np.eye(3)), "3 columns; those of the fit have 2"),
        (lambda: Features.of(np.eye(2)).aligned(Index.range(3, "user")), "2 rows and no ids, and the fit has 3 users"),
        (lambda: Features.of(np.eye(2)).aligned(Index(["a", "b"], "user")), "Features.of"),
        (lambda: Features.of({"a": {"when": object()}}), "holds object"),
        (lambda: Features.of({"a": {"x": 1}, "b": 2}), "dict of id to dict"),
    ]
    for call, text in cases:
        with pytest.raises((ValueError, TypeError), match=text):
            call()


def test_a_column_that_only_looks_like_an_id_stays_a_feature_of_new_rows():
    features = Features.of(pd.DataFrame({"sku": [1, 2], "artist": ["x", "y"]}))
    assert features.names == ("artist=x", "artist=y")
    assert features.encode(nw.from_native(pd.DataFrame({"artist": ["y"]})).to_native()).matrix.toarray().tolist() == [
        [0, 1]
    ]
