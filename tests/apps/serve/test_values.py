"""Rating models and ensembles over HTTP: values of pairs, fused probabilities, votes, labels and a refit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient

from halfstep import PLQMF, CFEnsemble, CFEnsembleCV
from halfstep.apps.serve import create_app


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, PLQMF]]:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 20, 400), rng.integers(0, 15, 400)
    pairs = np.array([[f"u{u}", f"film {i}"] for u, i in zip(users, items, strict=True)], object)
    model = PLQMF(rank=3, loss="absolute", random_state=0, n_threads=1).fit(pairs, rng.normal(3, 1, 400))
    path = tmp_path_factory.mktemp("films") / "model.safetensors"
    model.save(path)
    with TestClient(create_app(path), raise_server_exceptions=False) as client:
        yield client, model


def test_predict_is_what_the_model_says(films: tuple[TestClient, PLQMF]) -> None:
    client, model = films
    pairs = [["u1", "film 2"], ["u3", "film 4"]]
    values = client.post("/predict", json={"pairs": pairs}).json()["values"]
    np.testing.assert_allclose(values, model.predict(pairs))


def test_unknown_ids_of_pairs_are_refused_or_average(films: tuple[TestClient, PLQMF]) -> None:
    client, model = films
    refused = client.post("/predict", json={"pairs": [["u1", "film 2"], ["u1", "flim 2"]]})
    assert refused.status_code == 404
    assert refused.json()["field"] == "pairs[1]"
    assert "film 2" in refused.json()["suggestions"]
    average = client.post("/predict", json={"pairs": [["nobody", "film 2"]], "unknown": "average"}).json()["values"]
    np.testing.assert_allclose(average, model.predict([["nobody", "film 2"]]))
    wrong = client.post("/predict", json={"pairs": [["u1"]]})
    assert wrong.status_code == 422
    assert wrong.json()["field"].startswith("pairs[0]")


def test_recommendations_count_biases(films: tuple[TestClient, PLQMF]) -> None:
    client, model = films
    answer = client.get("/recommend", params={"user": "u3", "n": 4}).json()["items"]
    expected = model.recommend("u3", 4)
    assert [entry["id"] for entry in answer] == expected.ids.tolist()
    np.testing.assert_allclose([entry["score"] for entry in answer], expected.scores, atol=1e-5)


def test_somebody_new_is_described_by_ratings(films: tuple[TestClient, PLQMF]) -> None:
    client, model = films
    body = {"items": ["film 1", "film 2"], "ratings": [5, 1], "n": 3}
    answer = client.post("/recommend_for", json=body).json()["items"]
    assert [entry["id"] for entry in answer] == model.recommend_for(["film 1", "film 2"], [5, 1], 3).ids.tolist()
    refused = client.post("/recommend_for", json={"items": ["film 1"]})
    assert (refused.status_code, refused.json()["field"]) == (422, "ratings")
    assert client.post("/explain", json={"item": "film 1", "items": ["film 2"]}).status_code == 404


@pytest.fixture
def messages(tmp_path: Path) -> Iterator[tuple[TestClient, CFEnsemble]]:
    rng = np.random.default_rng(0)
    truth = np.arange(80) % 3 == 0
    scores = np.where(truth, 1, -1)[:, None] * rng.uniform(0.3, 2, 6) + 1.5 * rng.normal(size=(80, 6))
    P = 1 / (1 + np.exp(-scores))
    P[5, 2] = np.nan
    y = np.full(80, None, object)
    y[:20] = np.where(truth[:20], "spam", "ham")
    model = CFEnsemble(rank=2, random_state=0, n_threads=1, positive="spam").fit(P, y)
    model.save(tmp_path / "model.safetensors")
    with TestClient(create_app(tmp_path / "model.safetensors", max_list=30), raise_server_exceptions=False) as client:
        yield client, model


def test_fuse_is_what_the_model_says(messages: tuple[TestClient, CFEnsemble]) -> None:
    client, model = messages
    rows = [[0.9, 0.8, 0.7, 0.2, None, 0.6], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]
    answer = client.post("/fuse", json={"predictions": rows}).json()
    expected = model.predict_proba(np.array(rows, float))
    assert answer["classes"] == ["ham", "spam"]
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-6)
    assert answer["labels"] == [["ham", "spam"][k] for k in expected.argmax(axis=1)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5] * 5], "P has 5 classifiers (columns), but the model was fitted with 6"),
        ([[0.5] * 6, [0.5] * 5], "every row must have the same shape"),
        ([[1.5] * 6], "less than or equal to 1"),
        ([["x"] * 6], "a valid number"),
        ([], "at least 1"),
        ([[0.5] * 6] * 31, "31 rows are above this server's limit of 30"),
    ],
)
def test_predictions_that_cannot_be_fused(messages: tuple[TestClient, CFEnsemble], rows: object, message: str) -> None:
    client, _ = messages
    refused = client.post("/fuse", json={"predictions": rows})
    assert refused.status_code == 422
    assert refused.json()["field"].startswith("predictions")
    assert message in refused.json()["error"]


def test_instances_by_difficulty_with_their_votes(messages: tuple[TestClient, CFEnsemble]) -> None:
    client, model = messages
    found = client.get("/instances", params={"n": 80}).json()
    order = [entry["number"] for entry in found["results"]]
    assert order == np.argsort(-model.diagnostics_.difficulty, kind="stable").tolist()
    labelled = client.get("/instances", params={"which": "labelled", "order": "number", "offset": 15}).json()
    assert labelled["total"] == 20
    assert [entry["number"] for entry in labelled["results"]] == [15, 16, 17, 18, 19]
    one = client.get("/instance", params={"number": 5}).json()
    assert one["votes"][2]["probabilities"] is None
    assert one["top_votes"][2] is None
    np.testing.assert_allclose(one["probabilities"], model.predict_proba()[5], atol=1e-6)
    assert client.get("/instance", params={"number": 80}).status_code == 404
    assert client.get("/instances", params={"order": "beauty"}).json()["field"] == "order"


def test_labels_change_the_model_in_service_and_not_the_file(messages: tuple[TestClient, CFEnsemble]) -> None:
    client, model = messages
    asked = client.get("/suggestions", params={"n": 3}).json()
    assert [entry["number"] for entry in asked["results"]] == model.query(3).tolist()
    labels = [{"number": entry["number"], "label": "spam"} for entry in asked["results"]]
    file = client.app.state.store.path.read_bytes()
    changes = client.post("/labels", json={"labels": labels}).json()
    assert changes["labelled"] == 23
    known = client.get("/labels").json()["labels"]
    assert all(label | {"id": label["number"]} in known for label in labels)
    y = np.full(80, None, object)
    y[[label["number"] for label in labels]] = "spam"
    expected = model.partial_fit(y=y).predict_proba()
    answers = client.get("/instances", params={"order": "number", "n": 80}).json()["results"]
    np.testing.assert_allclose([entry["probabilities"] for entry in answers], expected, atol=1e-5)
    assert client.app.state.store.path.read_bytes() == file


def test_labels_that_cannot_be_used(messages: tuple[TestClient, CFEnsemble]) -> None:
    client, _ = messages
    strange = client.post("/labels", json={"labels": [{"number": 30, "label": "eggs"}]})
    assert strange.json()["error"] == "labels[0].label: 'eggs' is none of the classes ['ham', 'spam']"
    assert client.post("/labels", json={"labels": [{"number": 99, "label": "ham"}]}).status_code == 404
    assert client.post("/labels", json={"labels": []}).status_code == 422
    assert client.get("/recommend?user=1").json()["error"].startswith("a CFEnsemble does not answer /recommend")


def test_labels_need_one_worker(tmp_path: Path, messages: tuple[TestClient, CFEnsemble]) -> None:
    path = messages[0].app.state.store.path
    with TestClient(create_app(path, workers=2)) as client:
        refused = client.post("/labels", json={"labels": [{"number": 30, "label": "ham"}]})
        assert refused.status_code == 409
        assert "start the server with one worker" in refused.json()["error"]
        assert client.post("/fuse", json={"predictions": [[0.5] * 6]}).status_code == 200


def test_three_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    P = rng.dirichlet(np.ones(3), (90, 5)) + 1.5 * np.eye(3)[truth][:, None, :]
    P /= P.sum(axis=2, keepdims=True)
    y = np.where(np.arange(90) < 30, truth, -1)
    model = CFEnsemble(rank=2, clip=0.01, random_state=0, n_threads=1).fit(P, y)
    model.save(tmp_path / "model.safetensors")
    with TestClient(create_app(tmp_path / "model.safetensors")) as client:
        one = client.get("/instance", params={"number": 40}).json()
        np.testing.assert_allclose([vote["probabilities"] for vote in one["votes"]], P[40], atol=2e-3)
        fused = client.post("/fuse", json={"predictions": P[:2].tolist()}).json()
        np.testing.assert_allclose(fused["probabilities"], model.predict_proba(P[:2]), atol=1e-6)
        refused = client.post("/fuse", json={"predictions": [[0.5] * 5]})
        assert "a list of 3 numbers for each classifier" in refused.json()["error"]


def test_an_ensemble_without_instances_still_fuses(messages: tuple[TestClient, CFEnsemble]) -> None:
    client, model = messages

    class Fuser:
        classes_ = model.classes_

        def predict_proba(self, P: object) -> object:
            return model.predict_proba(P)

        def get_params(self, deep: bool = True) -> dict:
            return {}

    client.app.state.store.replace(Fuser())
    assert client.get("/model").json()["answers"] == ["/fuse", "/table"]
    rows = [[0.9, 0.8, 0.7, 0.2, None, 0.6]]
    assert client.post("/fuse", json={"predictions": rows}).status_code == 200
    assert client.get("/instances").json()["error"] == "a Fuser does not answer /instances; it answers /fuse, /table"


def test_an_average_serves_its_instances_by_name(tmp_path: Path) -> None:
    """Ids of instances and names of classifiers were lost, and an average only fused."""
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3 == 0
    P = 1 / (1 + np.exp(-(np.where(truth, 1, -1)[:, None] * rng.uniform(0.3, 2, 4) + rng.normal(size=(60, 4)))))
    table = pd.DataFrame(P, columns=list("abcd"), index=[f"mail {i}" for i in range(60)])
    labels = {f"mail {i}": "spam" if truth[i] else "ham" for i in range(20)}
    model = CFEnsembleCV(ranks=(1,), n_threads=1, positive="spam").fit(table, labels)
    model.save(tmp_path / "model.safetensors")
    with TestClient(create_app(tmp_path / "model.safetensors")) as client:
        assert {"/fuse", "/instances", "/suggestions"} <= set(client.get("/model").json()["answers"])
        one = client.get("/instance", params={"number": 7}).json()
        assert one["id"] == "mail 7"
        assert [vote["name"] for vote in one["votes"]] == list("abcd")
        asked = [entry["id"] for entry in client.get("/suggestions").json()["results"]]
        assert asked == model.query(5).tolist()
        rows = [dict(reversed(row.items())) for row in table[:2].to_dict("records")]
        fused = client.post("/fuse", json={"predictions": rows}).json()
        np.testing.assert_allclose(fused["probabilities"], model.predict_proba()[:2], atol=1e-6)
        wrong = client.post("/fuse", json={"predictions": [{"z": 0.5}]})
        assert "'z', which the model was not fitted with" in wrong.json()["error"]
        done = client.post("/labels", json={"labels": [{"number": 30, "label": "spam"}]}).json()
        assert (done["labelled"], done["sweeps"]) == (21, 0)
        assert {"number": 30, "id": "mail 30", "label": "spam"} in client.get("/labels").json()["labels"]
