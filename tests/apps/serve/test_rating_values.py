"""Rating models over HTTP: intervals, doubt and the parts of a value, from any model that predicts."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

from halfstep import PLQMF, BayesMF
from halfstep.apps.serve import create_app
from halfstep.baselines import Biases

RNG = np.random.default_rng(0)
PLACES = np.column_stack([RNG.integers(0, 20, 400), RNG.integers(0, 15, 400)])
PAIRS = np.array([[f"u{u}", i] for u, i in PLACES.tolist()], object)
Y = np.clip(np.rint(3 + (PAIRS[:, 1].astype(int) % 3 - 1) + RNG.normal(size=400)), 1, 5)
ASKED = [["u1", 2], ["u3", 4]]


def served(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    return TestClient(create_app(tmp_path / "m.safetensors"), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def drawn():
    with pytest.warns(UserWarning, match="R-hat"):
        return BayesMF(rank=2, n_sweeps=12, random_state=0, n_threads=1).fit(PAIRS, Y)


def test_draws_answer_with_intervals_and_doubt(drawn, tmp_path):
    table = np.array(ASKED, object)
    with served(drawn, tmp_path) as client:
        answer = client.post("/predict", json={"pairs": ASKED, "level": 0.8}).json()
        usual = client.post("/predict", json={"pairs": ASKED}).json()
        facts = client.get("/model").json()
    values, doubt = drawn.predict(table, return_std=True)
    np.testing.assert_allclose(answer["values"], values, rtol=1e-5)
    np.testing.assert_allclose(answer["doubt"], doubt, rtol=1e-5)
    np.testing.assert_allclose(answer["intervals"], drawn.predict_interval(table, 0.8), rtol=1e-5)
    assert (answer["level"], usual["level"]) == (0.8, 0.9)
    assert usual["intervals"][0][0] <= answer["intervals"][0][0]
    assert "parts" not in answer
    lists = ["/recommend", "/recommend_for", "/predict", "/table", "/complete", "/rate_next", "/misfits"]
    assert (facts["kind"], facts["answers"]) == ("BayesMF", lists)
    assert facts["sizes"] == {"users": 20, "items": 15}


@pytest.mark.parametrize("model", [PLQMF(rank=2, random_state=0, n_threads=1), Biases()], ids=["PLQMF", "Biases"])
def test_the_parts_of_a_value_sum_to_it(model, tmp_path):
    with served(model.fit(PAIRS, Y), tmp_path) as client:
        answer = client.post("/predict", json={"pairs": ASKED, "parts": True}).json()
    for value, part in zip(answer["values"], answer["parts"], strict=True):
        assert sum(part.values()) == pytest.approx(value, abs=1e-5)
    place = list(model.user_ids_).index("u1")
    assert answer["parts"][0]["user"] == pytest.approx(model.user_bias_[place], abs=1e-5)
    assert answer["parts"][0]["average"] == pytest.approx(model.intercept_, abs=1e-5)


def test_an_average_user_has_a_wider_interval_and_no_warning(drawn, tmp_path, recwarn):
    with served(drawn, tmp_path) as client:
        body = {"pairs": [["u1", 2], ["nobody", 2]], "unknown": "average", "parts": True}
        answer = client.post("/predict", json=body).json()
    assert answer["doubt"][1] > answer["doubt"][0]
    assert answer["parts"][1]["user"] == pytest.approx(0)
    assert not [w for w in recwarn if "not in the fit" in str(w.message)]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"pairs": ASKED, "level": 1.0}, 422, "level"),
        ({"pairs": ASKED, "level": -0.1}, 422, "level"),
        ({"pairs": ASKED, "levle": 0.5}, 422, "levle"),
        ({"pairs": []}, 422, "pairs"),
        ({"pairs": [["u1", 99]]}, 404, "pairs[0]"),
    ],
)
def test_wrong_questions_are_refused(drawn, tmp_path, body, status, field):
    with served(drawn, tmp_path) as client:
        answer = client.post("/predict", json=body)
    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_models_without_intervals_refuse_a_level(tmp_path):
    classes = PLQMF(rank=2, loss="hinge", random_state=0, n_threads=1).fit(PAIRS, np.where(Y > 3, "yes", "no"))
    with served(classes, tmp_path) as client:
        refused = client.post("/predict", json={"pairs": ASKED, "level": 0.5})
        sums = client.post("/predict", json={"pairs": ASKED, "parts": True})
        assert client.post("/predict", json={"pairs": ASKED}).json()["values"][0] in ("yes", "no")
    assert (refused.status_code, refused.json()["field"]) == (422, "level")
    assert (sums.status_code, sums.json()["field"]) == (422, "parts")


def test_the_schema_documents_intervals(drawn, tmp_path):
    with served(drawn, tmp_path) as client:
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert {"values", "level", "intervals", "doubt", "parts"} == set(schemas["Predicted"]["properties"])
    assert "noise" in str(schemas["Predicted"]["properties"]["intervals"])


@pytest.mark.parametrize("strategy", [None, "mean", "upper", "thompson"])
def test_draws_make_lists_by_a_strategy(drawn, tmp_path, strategy):
    asked = {} if strategy is None else {"strategy": strategy}
    new = {"items": [2, 3], "ratings": [5, 1], "n": 4}
    with served(drawn, tmp_path) as client:
        one = client.get("/recommend", params={"user": "u1", "n": 30, "keep_seen": True} | asked).json()
        many = client.post("/recommend", json={"users": ["u1", "u3"], "n": 30, "keep_seen": True} | asked).json()
        unseen = client.get("/recommend", params={"user": "u1"} | asked).json()
        newcomer = client.post("/recommend_for", json=new | asked).json()
    seen = set(PAIRS[PAIRS[:, 0] == "u1", 1])
    assert one["user"]["id"] == "u1"
    assert {entry["id"] for entry in one["items"]} == set(range(15))
    assert {entry["id"] for entry in unseen["items"]} == set(range(15)) - seen
    assert [result["user"]["id"] for result in many["results"]] == ["u1", "u3"]
    assert len(newcomer["items"]) == 4
    assert not {2, 3} & {entry["id"] for entry in newcomer["items"]}
    if strategy != "thompson":
        best = drawn.recommend("u1", 15, keep_seen=True, strategy=strategy or "mean")
        for answer in (one, many["results"][0]):
            np.testing.assert_allclose([entry["score"] for entry in answer["items"]], best.scores, rtol=1e-5)
        best = drawn.recommend_for([2, 3], [5, 1], 4, strategy=strategy or "mean")
        assert [entry["id"] for entry in newcomer["items"]] == best.ids.tolist()


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/recommend", {"users": ["u1"], "strategy": "best"}, "strategy"),
        ("/recommend", {"users": ["u1"], "diversity": 0.5}, "diversity"),
        ("/recommend", {"users": ["u1"], "exclude": [2]}, "exclude"),
        ("/recommend_for", {"items": [2]}, "ratings"),
        ("/recommend_for", {"items": [2], "ratings": [5], "how": "average"}, "how"),
        ("/recommend_for", {"items": [2], "ratings": [5], "weights": [1]}, "weights"),
    ],
)
def test_what_lists_of_draws_do_not_know_is_refused(drawn, tmp_path, path, body, field):
    with served(drawn, tmp_path) as client:
        answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_a_model_without_draws_refuses_a_strategy(tmp_path):
    model = PLQMF(rank=2, random_state=0, n_threads=1).fit(PAIRS, Y)
    with served(model, tmp_path) as client:
        answers = [
            client.get("/recommend", params={"user": "u1", "strategy": "upper"}),
            client.post("/recommend", json={"users": ["u1"], "strategy": "mean"}),
            client.post("/recommend_for", json={"items": [2], "ratings": [5], "strategy": "upper"}),
        ]
    assert [(answer.status_code, answer.json()["field"]) for answer in answers] == [(422, "strategy")] * 3
