"""Ids in, row numbers out, and the same ids back: for every kind of id and every frame library."""

import json
import pickle
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from halfstep.data import ids as ids_module
from halfstep.data.ids import Index, encode
from halfstep.data.plain_ids import IntLookup
from halfstep.errors import UnknownIdError

int64s = st.integers(-(2**63), 2**63 - 1)
plain_ids = st.one_of(int64s, st.text(), st.tuples(st.integers(), st.text()))


def columns_of(values):
    """The same values as each library holds them."""
    return {
        "list": list(values),
        "numpy": np.array(values),
        "object": np.array(values, dtype=object),
        "pandas": pd.Series(values),
        "pandas object": pd.Series(values, dtype=object),
        "pandas category": pd.Series(values).astype("category"),
        "polars": pl.Series(values),
        "pyarrow": pa.chunked_array([pa.array(values[:2]), pa.array(values[2:])]),
        "pyarrow dictionary": pa.chunked_array([pa.array(values).dictionary_encode()]),
    }


@pytest.mark.parametrize("library", columns_of([1, 2, 3]))
@pytest.mark.parametrize("values", [[30, 10, 30, -5, 10], ["b", "a", "b", "ä", "Z"]], ids=["int", "str"])
def test_encode_is_the_same_for_every_library(library, values):
    index, codes = encode(columns_of(values)[library], name="user")
    assert index.ids.tolist() == sorted(set(values))
    assert {type(id) for id in index.ids.tolist()} == {type(values[0])}
    assert codes.dtype == np.int32
    assert index.take(codes).tolist() == values
    assert index.positions(columns_of(values)[library]).tolist() == codes.tolist()


@given(st.lists(plain_ids))
def test_encode_and_take_are_inverse(values):
    index, codes = encode(values)
    assert index.take(codes).tolist() == values
    assert len(index) == len(set(values))


@given(st.lists(int64s, unique=True), st.lists(int64s))
def test_integers_are_found_as_a_dict_finds_them(known, wanted):
    rows = {id: row for row, id in enumerate(known)}
    asked = known + wanted
    assert Index(known).find(np.array(asked, dtype=np.int64)).tolist() == [rows.get(id, -1) for id in asked]


@pytest.mark.parametrize("stride", [1, 3, 2**40], ids=["table", "sparse table", "hash"])
def test_many_integers_are_found_by_each_kind_of_lookup(stride):
    known = np.random.default_rng(0).permutation(5000) * stride
    index = Index(known)
    assert np.array_equal(index.positions(known), np.arange(5000))
    assert np.all(index.find(known + stride * 5000) == -1)
    assert np.all(index.find(np.array([-1, -(2**63), 2**63 - 1])) == -1)
    encoded, codes = encode(np.tile(known, 2))
    assert np.array_equal(encoded.ids, np.sort(known))
    assert np.array_equal(encoded.take(codes), np.tile(known, 2))


def test_the_same_id_in_another_type_is_found():
    index = Index([7, 8])
    assert index.position(np.int8(8)) == index.position(8.0) == index.position(np.float32(8)) == 1
    assert index.find(np.array([8, 7], dtype=np.uint64)).tolist() == [1, 0]
    assert index.find([8, "8", 7.5, np.int64(7)]).tolist() == [1, -1, -1, 0]
    names = Index(np.array(["x", "y"]))
    assert names.position(np.str_("y")) == 1
    assert type(names.ids[0]) is str
    assert Index([1, "a", (1, 2)]).find([np.int32(1), 1.0, "a", (1, 2), (2, 1)]).tolist() == [0, 0, 1, 2, -1]


def test_integral_floats_become_integers_and_others_stay():
    assert Index([1.0, 2.0]).ids.dtype == np.int64
    assert Index([0.5, 2.0]).ids.tolist() == [0.5, 2.0]
    assert Index(np.array([2**64 - 1, 1], dtype=np.uint64)).position(2**64 - 1) == 0
    assert Index([2**70, 1]).position(2**70) == 0


def test_range_index_needs_no_memory_and_behaves_like_row_numbers():
    index = Index.range(2**31 - 1, name="item")
    assert index.is_range
    assert len(index) == 2**31 - 1
    assert index.position(10**9) == 10**9
    assert index.find([-1, 2**31 - 1, 5, "5"]).tolist() == [-1, -1, 5, -1]
    assert index.take([[0, 3]]).tolist() == [[0, 3]]
    assert Index.range(3) == Index([0, 1, 2])
    with pytest.raises(ValueError, match=r"n=-1 is not a number of rows"):
        Index.range(-1)


def test_take_pads_with_none_and_refuses_rows_that_do_not_exist():
    index = Index(["a", "b"], name="item")
    assert index.take([[0, -1], [1, 0]]).tolist() == [["a", None], ["b", "a"]]
    assert Index.range(2).take([1, -1]).tolist() == [1, None]
    with pytest.raises(IndexError, match=r"from -1 to 1, got 0 to 2: there are 2 item ids"):
        index.take([0, 2])


def test_extend_appends_unseen_ids_in_order_of_appearance():
    assert Index(["a"]).extend(["c", "a", "b", "c"]).ids.tolist() == ["a", "c", "b"]
    assert Index([5, 1]).extend([9, 1, 7, 9]).ids.tolist() == [5, 1, 9, 7]
    assert Index([5]).extend(["x"]).ids.tolist() == [5, "x"]
    assert Index([]).extend([3]).ids.tolist() == [3]
    assert Index.range(3).extend([3, 4]).is_range
    assert Index.range(3).extend([9]).ids.tolist() == [0, 1, 2, 9]
    index = Index(["a"])
    assert index.extend(["a"]) is index


def test_unknown_id_names_the_side_and_close_matches():
    index = Index(["Python", "SQL", "Pytorch", "C++"], name="skill")
    with pytest.raises(
        UnknownIdError, match=r"unknown skill id 'python'; there are 4 skill ids, such as 'Python'"
    ) as caught:
        index.position("python")
    assert caught.value.suggestions[0] == "Python"
    with pytest.raises(UnknownIdError, match=r"'Rust' \(2 of the 3 given are unknown\)"):
        index.positions(["SQL", "Rust", "Go"])
    with pytest.raises(UnknownIdError, match=r"unknown user id '42'.*Did you mean 42\?"):
        Index([41, 42], name="user").position("42")
    with pytest.raises(UnknownIdError, match=r"Did you mean '42'\?"):
        Index(["41", "42"]).position(42)
    with pytest.raises(UnknownIdError, match=r"unknown id '--5'"):
        Index([5]).position("--5")
    with pytest.raises(UnknownIdError, match=r"unknown id '9999"):
        Index([5]).position("9" * 5000)


def test_suggestions_in_a_large_index_look_at_ids_that_start_alike():
    index = Index([f"user-{i}" for i in range(6000)] + ["Zebra-crossing"])
    with pytest.raises(UnknownIdError) as caught:
        index.position("zebra-crosing")
    assert caught.value.suggestions == ["Zebra-crossing"]


@pytest.mark.parametrize("ids", [["a", "b", "a"], [1, 2, 1], [1, 2**60, 1], np.array([3, 3])])
def test_duplicates_are_named(ids):
    with pytest.raises(
        ValueError,
        match=rf"user ids must be unique, but {ids[0]!r} occurs more than once".replace("np.int64(3)", "3"),
    ):
        Index(ids, name="user")


@pytest.mark.parametrize(
    "values",
    [
        [1, None, 2],
        ["a", None, "b"],
        ["a", float("nan")],
        [1.0, float("nan")],
        np.array([1.0, np.nan]),
        np.array(["2020", "NaT"], dtype="datetime64[D]"),
        pd.Series([1, pd.NA], dtype="Int64"),
        pd.Series(["a", pd.NA], dtype=object),
        pd.Series(["a", None]),
        pl.Series(["a", None]),
        pl.Series([1.0, float("nan")]),
        pa.chunked_array([[1, None]]),
    ],
    ids=str,
)
def test_missing_ids_raise_with_count_and_row(values):
    for use in (encode, Index):
        with pytest.raises(ValueError, match=rf"1 of {len(values)} user ids are missing.*the first at row 1"):
            use(values, name="user")


def test_what_cannot_be_an_id_is_refused():
    with pytest.raises(TypeError, match="ids cannot be booleans; to select by a mask"):
        Index([1, 0]).positions(np.array([True, False]))
    with pytest.raises(TypeError, match="ids cannot be booleans"):
        encode([True, "a"])
    with pytest.raises(TypeError, match="user ids must be a list, an array or a column, got the one value 'abc'"):
        Index(["abc"], name="user").positions("abc")
    with pytest.raises(ValueError, match=r"one-dimensional, got an array of shape \(2, 2\)"):
        Index(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="item ids must be hashable"):
        encode([[1], [2]], name="item")
    with pytest.raises(TypeError, match="must be hashable"):
        Index(["a"]).find([[1]])


def test_in_is_false_for_what_cannot_be_an_id():
    index = Index([0, 1])
    assert 1 in index
    assert np.int16(1) in index
    assert all(strange not in index for strange in (True, None, float("nan"), [1], "1", 2))


def test_too_many_ids_raise(monkeypatch):
    monkeypatch.setattr(ids_module, "MAX_IDS", 2)
    with pytest.raises(ValueError, match="3 distinct user ids: one side can have at most 2"):
        encode([1, 2, 3], name="user")
    with pytest.raises(ValueError, match="at most 2"):
        Index.range(3)


def test_index_is_immutable_and_pickles():
    given_ids = np.array([4, 2])
    index = Index(given_ids, name="user")
    given_ids[0] = 9
    assert index.ids.tolist() == [4, 2]
    with pytest.raises(ValueError, match="read-only"):
        index.ids[0] = 1
    copy = pickle.loads(pickle.dumps(index))
    assert copy == index
    assert copy.position(2) == 1
    assert copy.name == "user"
    assert repr(index) == "Index(2 user ids: 4, 2)"
    assert index != Index([2, 4])


@given(st.lists(plain_ids, unique=True))
def test_state_gives_the_same_ids_back(values):
    index = Index(values, name="user")
    state, arrays = index.to_state()
    back = Index.from_state(json.loads(json.dumps(state)), arrays)
    assert back.ids.tolist() == index.ids.tolist()
    assert (back.kind, back.name) == (index.kind, "user")


def test_state_of_row_numbers_and_of_ids_that_files_cannot_keep():
    state, arrays = Index.range(5).to_state()
    assert arrays == {}
    assert Index.from_state(state, arrays).is_range
    with pytest.raises(ValueError, match=r"user id UUID\(.*\) of type UUID cannot be saved.*say to str"):
        Index([uuid.UUID(int=1)], name="user").to_state()


def test_inconsistent_state_raises():
    state, arrays = Index(["ab", "c"]).to_state()
    with pytest.raises(ValueError, match="2 ids where 3 are announced"):
        Index.from_state({**state, "length": 3}, arrays)
    with pytest.raises(ValueError, match="need a 1-D int64 tensor 'offsets'"):
        Index.from_state(state, {"bytes": arrays["bytes"]})
    with pytest.raises(ValueError, match="do not fit their bytes"):
        Index.from_state(state, {**arrays, "offsets": np.array([0, 9, 3])})
    with pytest.raises(ValueError, match="unknown kind 'pickle'"):
        Index.from_state({**state, "kind": "pickle"}, arrays)
    with pytest.raises(ValueError, match="must be unique"):
        Index.from_state({"kind": "int", "length": 2}, {"ids": np.array([1, 1])}).position(1)


@pytest.mark.parametrize("step", [1_000_003, 10**12 + 39, 2**40, 3 * 2**33])
def test_ids_at_even_distances_keep_slots_of_their_own(step):
    """One product as a hash put 77% of the ids 17, 17 + step, ... into slots of others, each a binary search."""
    lookup = IntLookup(np.arange(100_000, dtype=np.int64) * step + 17)
    assert not lookup.direct
    lost = lookup.table[lookup._slots(lookup.ids)] != np.arange(100_000)
    assert lost.mean() < 0.2
    assert_array_equal(lookup.find(lookup.ids[::-7]), np.arange(100_000)[::-7])
