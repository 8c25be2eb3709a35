"""Rows by id, by title, by what somebody has typed, or by something near to it: one table for every door."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfstep.data.ids import Index
from halfstep.data.names import Aliases, Names
from halfstep.errors import UnknownIdError

LABELS = np.array(["Nurse", "Night nurse", "Data analyst", "data analyst", "Café owner", "New\nline"], object)


def names(labels=LABELS) -> Names:
    count = len(labels)
    return Names(Index([f"u/{k}" for k in range(count)], "user"), labels, np.arange(count))


def test_ids_come_before_labels_and_case_does_not_matter():
    assert names().find(["u/4", "nurse", "DATA ANALYST", "new line", "nobody"]).tolist() == [4, 0, 2, 5, -1]
    assert names().positions(["u/4", " nurse "]).tolist() == [4, 0]


def test_ids_are_found_without_a_look_at_titles_and_other_names():
    table = Names(
        Index(["a", "b"]), np.array(["x", "y"], object), aliases=Aliases(np.array(["z"], object), np.zeros(1))
    )
    assert table.positions(["b", "a"]).tolist() == table.find(["b", "a"]).tolist() == [1, 0]
    assert not {"_names", "_by_name", "_also"} & vars(table).keys()


def test_an_id_that_is_also_a_label_is_an_id():
    table = Names(Index(["a", "b", "c"], "item"), np.array(["b", "b", "a"], object))
    assert table.positions(["b", "a"]).tolist() == [1, 0]


def test_positions_refuse_a_shared_label_and_find_takes_the_first():
    with pytest.raises(UnknownIdError, match=r"'Data Analyst' is the label of 2 users; give an id.*'u/2', 'u/3'"):
        names().positions(["Data Analyst"])
    assert names().find(["Data Analyst"]).tolist() == [2]


def test_unknown_names_bring_what_is_near():
    with pytest.raises(UnknownIdError, match="user 'Nurze' is neither an id nor a label") as caught:
        names().positions(["Nurse", "Nurze"])
    assert caught.value.suggestions == ["Nurse", "Night nurse"]
    assert Names(Index(["alpha", "beta"])).near("alpa") == ["alpha"]
    with pytest.raises(TypeError, match=r"write \['Nurse'\]"):
        names().positions("Nurse")


def test_numbers_as_text_and_lists_as_tuples():
    numbers = Names(Index([10, 20], "user"))
    assert numbers.find(["20", "x"], text=True).tolist() == [1, -1]
    assert numbers.find(["20"]).tolist() == [-1]
    assert numbers.find([None, 20]).tolist() == [-1, 1]
    assert Names(Index([("a", 1), ("b", 2)], "user")).find([["b", 2]]).tolist() == [1]


def test_ids_that_are_strings_are_found_in_any_case():
    assert Names(Index(["Alpha", "beta"])).find(["ALPHA"]).tolist() == [0]


def test_completion_orders_beginnings_words_and_insides():
    assert names().complete("nur", 5).tolist() == [0, 1]
    assert names().complete("ana", 5).tolist() == [3, 2]  # the more popular first
    assert names().complete("fé", 5).tolist() == [4]
    assert names().complete("nghit nurs", 1).tolist() == [1]
    assert names().complete(" ", 2).tolist() == [5, 4]


def test_descriptions():
    assert names().label(0) == "Nurse"
    assert Names(Index.range(3)).label(2) == "2"
    assert names().describe(np.array([1])) == [{"id": "u/1", "label": "Night nurse"}]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=12, unique=True), st.text(max_size=6))
def test_completion_of_any_text_gives_rows(labels, typed):
    found = names(np.array(labels, object)).complete(typed, 4)
    assert len(set(found.tolist())) == len(found) <= 4
    assert all(0 <= row < len(labels) for row in found)


def test_other_names_serve_where_no_title_does():
    other = Aliases(np.array(["ward sister", "nurse", "number cruncher", "Number  Cruncher", "boss", "boss"], object),
                    np.array([0, 1, 2, 2, 4, 5]))  # fmt: skip
    table = Names(Index([f"u/{k}" for k in range(6)], "user"), LABELS, np.arange(6), other)
    assert table.positions(["Ward Sister", "nurse", "number cruncher"]).tolist() == [0, 0, 2]  # the title comes first
    assert table.find(["boss"]).tolist() == [4]
    assert table.complete("ward", 3).tolist() == [0]
    assert table.complete("crunch", 3).tolist() == [2]
    assert table.near("ward siste") == ["Nurse"]
    with pytest.raises(
        UnknownIdError, match=r"'boss' is another name of 2 users; give an id, such as \['u/4', 'u/5'\]"
    ):
        table.positions(["boss"])


def test_a_misspelt_word_finds_the_name_with_that_word_before_longer_likenesses():
    labels = ["plankton production", "advise on pollution prevention", "Python (computer programming)", "typing"]
    table = Names(Index(range(4), "skill"), np.array(labels, object), np.array([9, 9, 1, 9]))
    assert table.near("Pyton")[0] == "Python (computer programming)"
    assert table.near("computer programing")[0] == "Python (computer programming)"
    assert table.near("xyzzy") == []


def test_what_is_typed_in_full_comes_first_however_rare():
    labels = np.array(["Python libraries", "Python"], object)
    assert Names(Index(["a", "b"]), labels, np.array([9, 1])).complete("python", 1).tolist() == [1]
    assert Names(Index([10, 1, 100]), None, np.array([5, 1, 9])).complete("1", 2).tolist() == [1, 2]
