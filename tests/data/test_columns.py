"""One verdict on column names at every door: files, frames, pairs."""

from itertools import cycle, islice, product

import numpy as np
import pandas as pd
import pytest

from halfstep.data.columns import RECOGNISED, choose_columns
from halfstep.data.datasets import read_interactions
from halfstep.data.frames import interactions_from_frame, pairs_from
from halfstep.models.wals import WALS

# The names that only one of the two former tables had.
ONLY_FILES = [("client", "page"), ("reader", "content"), ("onetsoccode", "technology"), ("soccode", "activity")]
ONLY_FRAMES = [("reviewer", "listing"), ("person", "element"), ("username", "skillname"), ("instance", "classifier")]


@pytest.mark.parametrize(("user", "item"), ONLY_FILES + ONLY_FRAMES)
def test_names_one_door_took_and_the_other_refused(user, item):
    columns = {item: ["a", "b", "a"], user: [1, 2, 3]}
    data = read_interactions(columns)
    model = WALS(rank=1, max_iter=1, random_state=0).fit(pd.DataFrame(columns))
    assert data.report["columns"] == {"user": user, "item": item}
    assert model.user_ids_.tolist() == data.user_ids.tolist() == [1, 2, 3]
    assert model.item_ids_.tolist() == data.item_ids.tolist() == ["a", "b"]


def test_both_doors_give_the_same_verdict_on_every_name():
    for user, item in product(RECOGNISED["user"], RECOGNISED["item"]):
        asked = dict.fromkeys(("user", "item", "weight", "timestamp"))
        assert choose_columns(asked, [item, user]) == {"user": user, "item": item}
    longest = max(len(RECOGNISED[role]) for role in ("user", "item"))
    for user, item in islice(zip(cycle(RECOGNISED["user"]), cycle(RECOGNISED["item"]), strict=False), longest):
        frame = pd.DataFrame({item: ["a"], user: [1]})
        assert interactions_from_frame(frame).names == {"user": user, "item": item}
    for name in RECOGNISED["weight"]:
        columns = {name: [2.0], "item": ["a"], "user": [1]}
        expected = {"user": "user", "item": "item", "weight": name}
        assert interactions_from_frame(pd.DataFrame(columns)).names == expected
        assert read_interactions(columns).report["columns"] == expected
    for name in RECOGNISED["timestamp"]:  # fits have no use for times
        assert read_interactions({name: [2.0], "item": ["a"], "user": [1]}).report["columns"]["timestamp"] == name


@pytest.mark.parametrize("name", ["User-ID", "user.id", "USER ID", "user_id", "O*NET-SOC Code"])
def test_marks_and_case_do_not_matter_at_either_door(name):
    columns = {name: [1], "Item (id)": [2]}
    assert read_interactions(columns).report["columns"]["user"] == name
    assert interactions_from_frame(pd.DataFrame(columns)).names["item"] == "Item (id)"
    users, _ = pairs_from(pd.DataFrame({"Item (id)": [2], name: [1]}))
    assert np.asarray(users).tolist() == [1]


def test_no_name_has_two_roles():
    names = [name for known in RECOGNISED.values() for name in known]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"user": "wer"}, r"user='wer' is not a column; the columns are \['who', 'what'\]"),
        ({"user": "who", "item": "who"}, "item='who' is also the user; name two different columns"),
        ({"user": "who"}, r"no column looks like the item; the columns are \['who', 'what'\]: pass item="),
    ],
)
def test_both_doors_refuse_with_the_same_words(asked, message):
    columns = {"who": [1], "what": [2]}
    for door in (read_interactions, lambda data, **named: interactions_from_frame(pd.DataFrame(data), **named)):
        with pytest.raises(ValueError, match=message):
            door(columns, **asked)
