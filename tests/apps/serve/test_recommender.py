"""The endpoints of a recommender give what the model itself gives."""

import numpy as np
import pytest
import scipy.sparse as sp
from fastapi.testclient import TestClient

from halfstep import WALS
from halfstep.apps.serve import create_app

USER = "Software developer"


def ids(entries):
    return [entry["id"] for entry in entries]


def scores(entries):
    return [entry["score"] for entry in entries]


def test_recommend_one_is_what_the_model_says(client: TestClient, skills: WALS) -> None:
    answer = client.get("/recommend", params={"user": USER, "n": 5}).json()
    expected = skills.recommend(USER, 5)
    assert answer["user"] == {"id": USER, "label": USER}
    assert ids(answer["items"]) == expected.ids.tolist()
    np.testing.assert_allclose(scores(answer["items"]), expected.scores, atol=1e-5)


@pytest.mark.parametrize("options", [{"diversity": 0.7}, {"keep_seen": True}, {"n": 50}])
def test_options_of_recommend_reach_the_model(client: TestClient, skills: WALS, options: dict) -> None:
    answer = client.get("/recommend", params={"user": USER, **options}).json()
    assert ids(answer["items"]) == skills.recommend(USER, **{"n": 10} | options).ids.tolist()


def test_the_quick_way_and_the_documented_route_agree(skills_file) -> None:
    app = create_app(skills_file)
    with TestClient(app) as client:
        quick = client.get("/recommend", params={"user": USER})
        slow = client.get("/recommend", params=[("user", USER), ("n", "10"), ("n", "10")])
    assert quick.json() == slow.json()


def test_recommend_many(client: TestClient, skills: WALS) -> None:
    body = {"users": [USER, "Economist"], "n": 4, "candidates": ["SQL", "R", "Git", "stamina"], "exclude": ["Git"]}
    results = client.post("/recommend", json=body).json()["results"]
    expected = skills.recommend(body["users"], 4, candidates=body["candidates"], exclude=["Git"])
    for result, row in zip(results, expected.ids, strict=True):
        assert ids(result["items"]) == [id for id in row if id is not None]


def test_recommend_for_somebody_new_with_reasons(client: TestClient, skills: WALS) -> None:
    answer = client.post("/recommend_for", json={"items": ["python", "SQL"], "n": 3, "why": 2}).json()
    assert ids(answer["items"]) == skills.recommend_for(["Python", "SQL"], 3).ids.tolist()
    for entry in answer["items"]:
        assert sum(part["contribution"] for part in entry["why"]) == pytest.approx(entry["score"], abs=2e-5)


def test_weights_and_how_change_the_answer(client: TestClient, skills: WALS) -> None:
    body = {"items": ["Python", "stamina"], "weights": [5, 0.1], "how": "average"}
    answer = client.post("/recommend_for", json=body).json()
    expected = skills.recommend_for(["Python", "stamina"], weights=[5, 0.1], how="average")
    assert ids(answer["items"]) == expected.ids.tolist()


def test_explain(client: TestClient, skills: WALS) -> None:
    answer = client.post("/explain", json={"user": USER, "item": "Git", "n": 50}).json()
    expected = skills.explain(USER, "Git")
    assert answer["score"] == pytest.approx(expected.score, abs=1e-5)
    assert [part["id"] for part in answer["contributions"]] == expected.ids.tolist()


def test_similar_items_and_users(client: TestClient, skills: WALS) -> None:
    items = client.get("/similar", params={"item": "Python", "n": 5}).json()
    assert ids(items["results"]) == skills.similar_items("Python", 5).ids.tolist()
    users = client.get("/similar", params={"user": USER, "n": 5}).json()
    assert ids(users["results"]) == skills.similar_users(USER, 5).ids.tolist()
    assert client.get("/similar", params={"item": "Python", "n": 50, "of": "users"}).json()["of"] == "users"


def test_who_is_like_somebody_with_a_known_profile(client: TestClient) -> None:
    has = ids(client.get("/profile", params={"user": USER}).json()["items"])
    found = client.post("/similar", json={"of": "users", "items": has, "n": 3}).json()["results"]
    assert found[0]["id"] == USER
    assert found[0]["score"] > 0.9


def test_similar_never_gives_itself(client: TestClient, skills: WALS) -> None:
    found = client.post("/similar", json={"of": "items", "items": ["Python", "SQL"], "n": 50}).json()["results"]
    assert not {"Python", "SQL"} & set(ids(found))


def test_completion_prefers_beginnings_and_forgives_errors(client: TestClient) -> None:
    def complete(q: str, **more: object) -> list[str]:
        return ids(client.get("/complete", params={"q": q, **more}).json()["results"])

    assert complete("pyt")[0] == "Python"
    assert complete("comunication")[0].endswith("communication")
    assert complete("deve", of="users")[0].lower().find("deve") >= 0
    assert complete("qqqqqq") == []
    assert len(complete("", n=5)) == 5


def test_the_map_has_places_for_items_and_people(client: TestClient) -> None:
    client.app.state.store.current.ranking.places.wait()
    whole = client.get("/map", params={"n": 5000}).json()
    assert whole["total"] == len(whole["points"])
    assert whole["method"] == "t-SNE"
    assert {group["id"] for group in whole["groups"]} < {point["id"] for point in whole["points"]}
    assert max(abs(point[axis]) for point in whole["points"] for axis in "xy") == pytest.approx(1, abs=1e-3)
    placed = client.post("/map", json={"items": ["Python"], "show": ["SQL"], "users": [USER]}).json()
    assert len(placed["position"]) == 2
    by_id = {point["id"]: point for point in whole["points"]}
    assert placed["items"] == [by_id["SQL"]]
    assert ids(placed["users"]) == [USER]


def test_two_profiles_side_by_side(client: TestClient) -> None:
    found = client.post("/compare", json={"to": "Data analyst", "user": USER}).json()
    assert found["to"]["label"] == "Data analyst"
    assert found["lacking"][0]["gain"] >= found["lacking"][-1]["gain"]
    unknown = client.post("/compare", json={"to": "Data analist", "items": ["Python"]})
    assert unknown.status_code == 404
    assert "Data analyst" in unknown.json()["suggestions"]


def test_ids_that_are_numbers_and_labels_that_are_not(tmp_path) -> None:
    weights = sp.random_array((30, 20), density=0.3, rng=np.random.default_rng(0), format="csr")
    model = WALS(rank=3, random_state=0).fit(weights)
    model.save(tmp_path / "m.safetensors")
    with TestClient(create_app(tmp_path / "m.safetensors")) as client:
        assert client.get("/recommend?user=7&n=3").json()["user"]["id"] == 7
        assert client.post("/recommend", json={"users": [7], "n": 3}).status_code == 200
        unknown = client.get("/recommend?user=99999999999999999999")
        assert unknown.status_code == 404
        text = client.post("/recommend", json={"users": ["x"]})
        assert text.status_code == 404


def test_more_wanted_than_there_is_gives_a_shorter_list(client: TestClient, skills: WALS) -> None:
    body = {"users": [USER], "n": 50, "candidates": ["SQL", "stamina"]}
    items = client.post("/recommend", json=body).json()["results"][0]["items"]
    assert 0 < len(items) <= 2
