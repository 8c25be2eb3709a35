"""Tables that people bring: predictions of new instances, labels of fitted ones."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

from halfstep import CFEnsembleCV
from halfstep.data.datasets import make_predictions
from halfstep.serve import create_app

NAMES = [f"model {j}" for j in range(6)]


@pytest.fixture(scope="module")
def problem():
    P, y, truth = make_predictions(160, 6, random_state=0)
    return P, y, truth


@pytest.fixture(scope="module")
def client(problem, tmp_path_factory):
    P, y, _ = problem
    path = tmp_path_factory.mktemp("served") / "m.safetensors"
    ids = [f"case {i}" for i in range(len(P))]
    CFEnsembleCV(random_state=0).fit(dict(zip(NAMES, P.T, strict=True)), y, ids=ids).save(path)
    with TestClient(create_app(path)) as client:
        yield client


def send(client, lines, status=200):
    answer = client.post("/table", content="\n".join(lines).encode(), headers={"Content-Type": "text/csv"})
    assert answer.status_code == status, answer.text
    return answer.json()


def row(values):
    return ",".join("" if np.isnan(v) else f"{v:.6f}" for v in values)


def test_a_table_is_fused_by_the_names_of_its_columns(client, problem):
    P, _, _ = problem
    found = send(client, ["id," + ",".join(NAMES), *(f"new {k},{row(P[k])}" for k in range(20))])
    assert found["ids"] == [f"new {k}" for k in range(20)]
    turned = send(client, [",".join(NAMES[::-1]), *(row(P[k][::-1]) for k in range(20))])
    assert turned["ids"] == list(range(1, 21))
    assert turned["probabilities"] == found["probabilities"]
    by_name = [dict(zip(NAMES, (None if np.isnan(v) else v for v in P[k]), strict=True)) for k in range(20)]
    fused = client.post("/fuse", json={"predictions": by_name}).json()
    np.testing.assert_allclose(found["probabilities"], fused["probabilities"], atol=1e-4)


def test_labels_judge_it_and_noise_stands_out(client, problem):
    P, _, truth = problem
    lines = [",".join([*NAMES, "label"]), *(f"{row(P[k])},{truth[k]}" for k in range(60))]
    judged = send(client, lines)
    assert judged["judged"]["labelled"] == 60
    assert judged["judged"]["fused_log_loss"] < judged["judged"]["mean_log_loss"]
    noise = np.random.default_rng(0).random((60, 6))
    assert send(client, [",".join(NAMES), *map(row, noise)])["novel"] > judged["novel"] + 0.2


def test_ids_and_labels_alone_are_labels_of_fitted_instances(client):
    found = send(client, ["id;label", "case 3;1", "case 5;", "case 7;0"])
    assert found == {"labels": [{"number": 3, "id": "case 3", "label": 1}, {"number": 7, "id": "case 7", "label": 0}]}
    assert "no fitted instance" in send(client, ["id,label", "case x,1"], 422)["error"]
    assert "none of the classes" in send(client, ["id,label", "case 3,maybe"], 422)["error"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([",".join(NAMES)], "no row"),
        ([",".join(NAMES), "a,b,c,d,e,f"], "no number"),
        ([",".join(NAMES), "0.1,0.2"], "fields"),
        (["other,names", "0.1,0.2"], "other"),
        ([",".join(NAMES), "7,0.2,0.3,0.4,0.5,0.6"], "7"),
    ],
)
def test_a_bad_table_gets_one_clear_sentence(client, lines, said):
    assert said in send(client, lines, 422)["error"]


def test_classifiers_stand_beside_their_likes(client):
    found = client.get("/classifiers").json()
    assert sorted(found["names"]) == NAMES
    assert np.allclose(np.diag(found["similarity"]), 1)
    assert len(found["weights"]) == 6


def test_a_line_of_a_hundred_thousand_names_holds_nobody_up(client):
    """It took a thread for minutes: every name was looked for among all the others."""
    wide = send(client, [",".join(map(str, range(100_000))), ",".join(["0.1"] * 100_000)], 422)
    assert wide["error"] == "body: the table has 100,000 columns; at most 10,000 are read"
