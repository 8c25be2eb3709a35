"""Somebody new over HTTP, known by features."""

import pandas as pd
import pytest
from fastapi.testclient import TestClient

from halfstep import WALS
from halfstep.apps.serve import create_app


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    pairs = [(f"u{k}", item) for k in range(12) for item in (("a", "b", "c"), ("x", "y"))[k % 2]]
    about = pd.DataFrame({"user": [f"u{k}" for k in range(12)], "group": ["left", "right"] * 6, "size": range(12)})
    model = WALS(rank=3, random_state=0, feature_reg=0.1)
    model.fit(pd.DataFrame(pairs, columns=["user", "item"]), user_features=about)
    path = tmp_path_factory.mktemp("models") / "features.safetensors"
    model.save(path)
    with TestClient(create_app(path), raise_server_exceptions=False) as client:
        yield lambda **body: client.post("/recommend_for", json=body)


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
