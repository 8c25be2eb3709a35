"""What published files say beside a model: lists narrowed by it, relations told apart, names in other languages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from halfstep import WALS
from halfstep.apps.serve import create_app
from halfstep.data.datasets import load_esco, load_sample_skills

from ..tiny_esco import SKILLS, write_esco


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_esco(tmp_path_factory.mktemp("esco"))


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "esco.safetensors"
    WALS(rank=2, random_state=0, n_threads=1).fit(load_esco(folder)).save(path)
    return path


@pytest.fixture(scope="module")
def client(model: Path, folder: Path) -> Iterator[TestClient]:
    with TestClient(create_app(model, about=str(folder)), raise_server_exceptions=False) as client:
        yield client


def labels(entries):
    return [entry["label"] for entry in entries]


def test_the_server_says_what_lists_can_be_narrowed_by(client):
    filters = client.get("/model").json()["filters"]
    assert {facet["name"] for facet in filters["items"]} == {"type", "reuse"}
    types = next(facet for facet in filters["items"] if facet["name"] == "type")["values"]
    assert [(each["value"], each["count"]) for each in types] == [("knowledge", 3), ("skill", 3)]
    groups = filters["users"][0]["values"]
    assert {"value": "2", "title": "2 Professionals", "count": 6} in groups
    assert filters["relations"] == ["essential", "optional"]


def test_lists_hold_what_is_asked_for_alone(client):
    asked = {"items": ["lead"], "n": 6}
    every = client.post("/recommend_for", json=asked).json()["items"]
    narrow = client.post("/recommend_for", json=asked | {"where": {"type": ["knowledge"]}}).json()["items"]
    assert labels(narrow) == [name for name in labels(every) if SKILLS.index(name) % 2]
    both = {"type": ["knowledge"], "reuse": ["transversal"]}
    assert labels(client.post("/recommend_for", json=asked | {"where": both}).json()["items"]) == ["speak"]
    many = client.post("/recommend", json={"users": ["o/0"], "keep_seen": True, "where": both}).json()["results"]
    assert labels(many[0]["items"]) == ["speak"]
    none = client.post("/recommend_for", json={"items": ["speak"], "where": both}).json()
    assert none == {"items": []}


def test_like_occupations_can_be_of_one_group(client):
    found = client.post("/similar", json={"of": "users", "user": "o/0", "where": {"group": ["26"]}}).json()["results"]
    assert sorted(labels(found)) == ["occupation 2", "occupation 4"]


def test_essential_relations_are_told_from_optional_ones(client, folder):
    essential = client.get("/profile", params={"user": "o/1", "relation": "essential"}).json()["items"]
    alone = load_esco(folder, weights={"essential": 1})
    row = alone.user_ids.tolist().index("o/1")
    assert {entry["id"] for entry in essential} == set(alone.item_ids[alone.matrix[[row]].indices].tolist())
    gap = client.post("/compare", json={"to": "o/1", "items": ["write"], "relation": "essential"}).json()
    assert {entry["id"] for entry in gap["lacking"]} <= {entry["id"] for entry in essential}
    assert len(gap["lacking"]) + len(gap["both"]) == len(essential)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"kind": ["knowledge"]}, "where.kind: is nothing that is known of items; it has type, reuse"),
        ({"type": ["knowlege"]}, "where.type: 'knowlege' is none of its values. Did you mean 'knowledge'?"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(client, where, said):
    answer = client.post("/recommend_for", json={"items": ["lead"], "where": where})
    assert answer.status_code == 422
    assert said in answer.json()["error"]


def test_a_server_without_files_says_so(model):
    with TestClient(create_app(model), raise_server_exceptions=False) as client:
        assert client.get("/model").json()["filters"] is None
        answer = client.post("/recommend_for", json={"items": ["lead"], "where": {"type": ["knowledge"]}})
        assert "started without --about" in answer.json()["error"]


def test_names_come_in_the_language_that_is_asked_for(client):
    assert client.get("/model").json()["languages"] == ["de", "en"]
    german = {"Accept-Language": "de-AT,de;q=0.9"}
    assert client.get("/recommend", params={"user": "o/1"}, headers=german).json()["user"]["label"] == "Beruf 1"
    found = client.post("/recommend_for", json={"items": ["lead"], "why": 1}, headers=german).json()["items"]
    assert all(entry["label"].startswith("Fertigkeit") for entry in found)
    assert found[0]["why"][0]["label"] == "Fertigkeit 5"
    typed = client.get("/complete", params={"q": "fert"}, headers=german).json()["results"]
    assert len(typed) == 6
    assert client.get("/recommend", params={"user": "o/1"}).json()["user"]["label"] == "occupation 1"


def test_other_names_are_found_by_search(client):
    assert labels(client.get("/complete", params={"q": "singing"}).json()["results"]) == ["sing"]
    assert labels(client.get("/complete", params={"q": "job 3", "of": "users"}).json()["results"]) == ["occupation 3"]


def test_a_folder_about_something_else_is_refused(folder, tmp_path):
    path = tmp_path / "sample.safetensors"
    WALS(rank=2, random_state=0).fit(load_sample_skills()).save(path)
    with pytest.raises(ValueError, match="knows none of the occupations of this model"):
        create_app(path, about=str(folder))
