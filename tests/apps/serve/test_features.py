"""Somebody new over HTTP, known by features."""

import pandas as pd
import pytest
from fastapi.testclient import TestClient

from halfstep import PLQMF, WALS, Features
from halfstep.apps.serve import create_app
from halfstep.apps.serve.told import FeatureNames


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    pairs = [(f"u{k}", item) for k in range(12) for item in (("a", "b", "c"), ("x", "y"))[k % 2]]
    about = pd.DataFrame({"user": [f"u{k}" for k in range(12)], "group": ["left", "right"] * 6, "size": range(12)})
    model = WALS(rank=3, random_state=0, feature_reg=0.1)
    model.fit(pd.DataFrame(pairs, columns=["user", "item"]), user_features=about)
    path = tmp_path_factory.mktemp("models") / "features.safetensors"
    model.save(path)
    with TestClient(create_app(path), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def asked(served):
    return lambda **body: served.post("/recommend_for", json=body)


def test_features_alone_make_a_list_with_reasons(asked):
    answer = asked(features={"group": "right"}, n=2, why=2)
    assert answer.status_code == 200, answer.text
    best = answer.json()["items"]
    assert {item["id"] for item in best} == {"x", "y"}
    assert "group=right" in {reason["id"] for reason in best[0]["why"]}


def test_items_and_features_are_both_heard(asked):
    alone, both = asked(items=["a"], n=4).json(), asked(items=["a"], features={"group": "right"}, n=4).json()
    assert alone != both


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "give one of them"),
        ({"features": {"colour": "red"}}, "none of the columns"),
        ({"features": {}}, "features"),
        ({"features": {"group": "left"}, "items": ["a"], "how": "average"}, "looks at items alone"),
        ({"features": {"size": 1e300}}, "beyond all bounds"),  # a reshape of nothing failed
        ({"features": {"size": 10**400}}, "infinite"),  # 500
    ],
)
def test_what_cannot_be_read_is_refused(asked, body, text):
    answer = asked(**body)
    assert answer.status_code == 422
    assert text in answer.text


def test_a_model_without_features_says_so(client):
    answer = client.post("/recommend_for", json={"features": {"group": "left"}})
    assert answer.status_code == 422
    assert "fitted without features" in answer.text


def test_a_model_of_ratings_says_that_it_is_not_asked_by_features(tmp_path):
    pairs = [(u, i) for u in range(6) for i in range(5)]
    about = {u: {"group": "ab"[u % 2]} for u in range(6)}
    model = PLQMF(rank=2, random_state=0).fit(pairs, [float((u * i) % 5) for u, i in pairs], user_features=about)
    model.save(tmp_path / "ratings.safetensors")
    with TestClient(create_app(tmp_path / "ratings.safetensors")) as client:
        answer = client.post("/recommend_for", json={"features": {"group": "a"}})
    assert answer.status_code == 422
    assert "a PLQMF is not asked by features here" in answer.text


def test_features_are_completed_by_name_with_what_a_request_says(served, asked):
    assert "/features" in served.get("/model").json()["answers"]
    found = served.get("/features", params={"q": "ri"}).json()["results"]
    assert [entry["label"] for entry in found] == ["group=right"]  # size is a number, which no name says
    best = asked(features={found[0]["column"]: found[0]["value"]}, n=2).json()["items"]
    assert {item["id"] for item in best} == {"x", "y"}
    assert len(served.get("/features", params={"n": 1}).json()["results"]) == 1


def test_a_model_without_features_completes_none(client):
    assert "/features" not in client.get("/model").json()["answers"]
    assert client.get("/features").status_code == 404


def test_names_of_each_kind_say_what_makes_them_one():
    table = pd.DataFrame({"id": ["a", "b"], "tags": [["u", "v"], ["u"]], "title": ["one two", "two one"]})
    features = Features.of(table.assign(hot=[True, False], size=[1.0, 2.0]), text=["title"])
    said = {(entry["column"], entry["kind"], entry["value"]) for entry in FeatureNames(features).complete("", 20)}
    assert said == {
        ("tags", "lists", "u"),
        ("tags", "lists", "v"),
        ("title", "words", "one"),
        ("title", "words", "two"),
        ("hot", "flags", "true"),
    }
    assert not FeatureNames(Features.of(features.matrix))


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    pairs = [(f"u{k}", item) for k in range(12) for item in (("a", "b", "c"), ("x", "y"))[k % 2]]
    about = {name: {"kind": "left" if name in "abc" else "right"} for name in "abcxy"}
    model = WALS(rank=3, random_state=0, feature_reg=0.1)
    model.fit(pd.DataFrame(pairs, columns=["user", "item"]), item_features=about)
    model.save(folder / "films.safetensors")
    return model, folder


def test_items_of_a_table_that_nobody_has_enter_the_lists(films):
    model, folder = films
    table = folder / "new.csv"
    table.write_text("item,kind\nnew,right\nx,right\n")  # x is known, as it would be after a later fit
    with TestClient(create_app(folder / "films.safetensors", item_features=str(table))) as client:
        best = client.get("/recommend", params={"user": "u1", "n": 1}).json()["items"]
        assert best[0]["id"] == "new"
        assert client.get("/complete", params={"q": "new"}).json()["results"]
        expected = model.add_items({"new": {"kind": "right"}}).recommend("u1", n=1)
        assert best[0]["score"] == pytest.approx(float(expected.scores[0]), rel=1e-5)


def test_a_table_of_items_for_a_model_without_features_is_refused(skills_file, tmp_path):
    table = tmp_path / "new.csv"
    table.write_text("item,kind\nnew,right\n")
    with pytest.raises(ValueError, match="needs a model that was fitted with item_features="):
        create_app(skills_file, item_features=str(table))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        create_app(skills_file, item_features=str(tmp_path / "other.csv"))
