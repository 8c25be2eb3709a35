"""What a client hears when something is wrong: the right status, the field, what would help; never a traceback."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import halfstep as hs
from halfstep.apps.serve import create_app


def problem(response, status: int) -> dict:
    assert response.status_code == status, response.text
    document = response.json()
    assert "Traceback" not in response.text
    assert document["request"] == response.headers["x-request-id"]
    return document


def test_unknown_ids_come_with_near_matches(client: TestClient) -> None:
    user = problem(client.get("/recommend?user=Software develper"), 404)
    assert user["error"].startswith("unknown occupation 'Software develper'. Did you mean 'Software developer'")
    assert user["field"] == "user"
    item = problem(client.post("/recommend_for", json={"items": ["SQL", "Pyton"]}), 404)
    assert item["suggestions"] == ["Python"]
    assert item["field"] == "items[1]"
    assert problem(client.post("/explain", json={"item": "zzzz", "items": ["SQL"]}), 404)["suggestions"] == []


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/recommend_for", {"items": "Python"}, "items"),
        ("/recommend_for", {"items": []}, "items"),
        ("/recommend_for", {"items": ["SQL", None]}, "items[1]"),
        ("/recommend_for", {"items": ["SQL", True]}, "items[1]"),
        ("/recommend_for", {"items": ["SQL"], "n": "ten"}, "n"),
        ("/recommend_for", {"items": ["SQL"], "n": 0}, "n"),
        ("/recommend_for", {"items": ["SQL"], "n": 51}, "n"),
        ("/recommend_for", {"items": ["SQL"], "diversity": 1.5}, "diversity"),
        ("/recommend_for", {"items": ["SQL"], "weights": [1, 2]}, "weights"),
        ("/recommend_for", {"items": ["SQL"], "weights": [-1]}, "weights[0]"),
        ("/recommend_for", {"items": ["SQL"], "how": "guess"}, "how"),
        ("/recommend_for", {"items": ["SQL"], "divresity": 1}, "divresity"),
        ("/recommend_for", {"items": ["SQL"] * 31}, "items"),
        ("/recommend_for", {}, "items"),
        ("/recommend_for", [1], "body"),
        ("/recommend", {"users": ["x" * 501]}, "users[0]"),
        ("/similar", {"of": "users"}, "item"),
        ("/similar", {"of": "things", "item": "SQL"}, "of"),
        ("/explain", {"item": "SQL"}, "user"),
    ],
)
def test_wrong_values_name_their_field(client: TestClient, path: str, body: object, field: str) -> None:
    document = problem(client.post(path, json=body), 422)
    assert document["field"] == field
    assert document["error"].startswith(field)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "user"),
        ("user=a&n=x", "n"),
        ("user=a&n=51", "n"),
        ("user=a&what=1", "what"),
        ("user=a&diversity=2", "diversity"),
    ],
)
def test_wrong_queries_name_their_field(client: TestClient, query: str, field: str) -> None:
    assert problem(client.get(f"/recommend?{query}"), 422)["field"] == field


def test_broken_json_and_other_kinds_of_body(client: TestClient) -> None:
    headers = {"content-type": "application/json"}
    problem(client.post("/recommend_for", content=b"{", headers=headers), 422)
    problem(client.post("/recommend_for", content=b"\xff\xfe", headers=headers), 422)
    problem(client.post("/recommend_for", content=b'{"items": [NaN]}', headers=headers), 422)
    problem(client.post("/recommend_for", content=b'{"items": ["SQL"]}', headers={"content-type": "text/plain"}), 422)


def test_large_bodies_are_refused_whether_announced_or_not(client: TestClient) -> None:
    large = b'{"items": ["' + b"x" * 5000 + b'"]}'
    headers = {"content-type": "application/json"}
    assert "4,000 bytes" in problem(client.post("/recommend_for", content=large, headers=headers), 413)["error"]

    def parts():
        for start in range(0, len(large), 1000):
            yield large[start : start + 1000]

    problem(client.post("/recommend_for", content=parts(), headers=headers), 413)


def test_paths_and_methods_that_do_not_exist(client: TestClient) -> None:
    assert problem(client.get("/recomend"), 404)["suggestions"][0] == "/recommend"
    assert client.delete("/recommend").status_code == 405
    assert problem(client.post("/predict", json={"pairs": [["a", "b"]]}), 404)["error"].startswith(
        "a WALS does not answer /predict; it answers /recommend"
    )
    assert client.get("/static/../app.py").status_code == 404


def test_a_bug_shows_no_traceback(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = client.app.state.store.current.ranking
    monkeypatch.setattr(ranking, "profile", lambda *_, **__: 1 / 0)
    document = problem(client.get("/profile?user=Economist"), 500)
    assert document["error"].startswith("internal error; the log of the server has the details")


@pytest.mark.parametrize("weight", [1e38, 3.4e38, 1e300])
def test_huge_weights_are_answered_or_refused(client: TestClient, weight: float) -> None:
    answer = client.post("/recommend_for", json={"items": ["SQL", "Python"], "weights": [weight, 1], "n": 3})
    assert answer.status_code == 200 or problem(answer, 422)


def test_ratings_without_a_finite_answer_are_refused(tmp_path: Path) -> None:
    pairs = [(u, i) for u in range(6) for i in range(5)]
    hs.PLQMF(rank=2, random_state=0).fit(pairs, [float((u * i) % 5) for u, i in pairs]).save(tmp_path / "m.safetensors")
    with TestClient(create_app(tmp_path / "m.safetensors"), raise_server_exceptions=False) as client:
        body = {"items": [1, 2], "ratings": [1e300, 1], "n": 3}
        assert "1e+300 do not fit float32" in problem(client.post("/recommend_for", json=body), 422)["error"]


def test_more_than_the_catalogue_is_the_catalogue(skills: hs.WALS, skills_file: Path) -> None:
    """10**9 used to be allocated."""
    with TestClient(create_app(skills_file, max_n=1000)) as client:
        for n in (10**9, 10**300):
            everything = client.post("/recommend_for", json={"items": ["SQL"], "n": n}).json()["items"]
            assert len(everything) == len(skills.item_ids_) - 1
            found = client.get("/recommend", params={"user": "Economist", "n": n, "keep_seen": True}).json()["items"]
            assert len(found) == len(skills.item_ids_)
            assert len(client.get("/complete", params={"q": "", "n": n}).json()["results"]) <= len(skills.item_ids_)


def test_the_schema_names_what_may_be_refused(client: TestClient) -> None:
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            assert {"400", "403", "408", "413", "422"} <= set(operation["responses"]), (method, path)
