"""What given ratings leave open: what to rate next, what does not fit, tables of ratings that somebody brings."""

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from halfstep import PLQMF, BayesMF
from halfstep.apps.serve import create_app
from halfstep.apps.serve.given_ratings import what_next
from halfstep.apps.serve.rating import RatingAnswers
from halfstep.apps.serve.settings import Settings
from halfstep.baselines import Biases, Constant

rng = np.random.default_rng(0)
USERS, ITEMS = 60, 12
LEFT, RIGHT = rng.normal(size=USERS), rng.normal(size=ITEMS)
PLACES = np.array([(u, i) for u in range(USERS) for i in range(ITEMS) if rng.random() < 0.7])
PAIRS = np.array([[f"user {u}", f"film {i}"] for u, i in PLACES.tolist()], object)
Y = 5 + 2 * LEFT[PLACES[:, 0]] * RIGHT[PLACES[:, 1]] + 0.2 * rng.normal(size=len(PLACES))


@pytest.fixture(scope="module", params=["drawn", "solved"])
def model(request):
    made = BayesMF(rank=1, n_sweeps=40, random_state=0) if request.param == "drawn" else PLQMF(1, random_state=0)
    return made.fit(PAIRS, Y)


@pytest.fixture(scope="module")
def client(model, tmp_path_factory) -> Iterator[TestClient]:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    model.save(path)
    with TestClient(create_app(path), raise_server_exceptions=False) as client:
        yield client


def test_the_item_that_tells_most_is_the_one_that_taste_turns_on(client):
    found = client.post("/rate_next", json={"items": [], "n": 3}).json()["results"]
    assert int(found[0]["label"].removeprefix("film ")) == np.argmax(np.abs(RIGHT))
    gains = [entry["gain"] for entry in found]
    assert gains == sorted(gains, reverse=True)
    assert 0 < gains[0] <= 1
    told = client.post("/rate_next", json={"items": [found[0]["id"]], "n": 3}).json()["results"]
    assert found[0]["id"] not in [entry["id"] for entry in told]
    assert told[0]["gain"] < gains[0]  # the first one has settled most


def test_a_known_user_is_not_asked_about_what_they_rated(client):
    found = client.post("/rate_next", json={"user": "user 3", "n": ITEMS}).json()["results"]
    rated = {item for user, item in PAIRS.tolist() if user == "user 3"}
    assert {entry["id"] for entry in found} == {f"film {i}" for i in range(ITEMS)} - rated


def test_what_a_rating_settles_is_what_it_takes_from_the_variance(model):
    rating = RatingAnswers.of(model, Settings()) if isinstance(model, BayesMF) else None
    if rating is None:
        pytest.skip("the formula is the same for both; draws have a noise of their own")
    first = what_next(rating, items=[], n=1)["results"][0]
    taste, j = rating.taste, rating.items.row(first["id"], "item")
    before = taste.items @ taste.spread @ taste.items.T
    seen = taste.items[[j]]
    after = before - before[:, [j]] @ before[[j]] / (taste.noise + (seen @ taste.spread @ seen.T)[0, 0])
    weight = rating.items.popularity / rating.items.popularity.sum()
    assert first["gain"] == pytest.approx(1 - weight @ np.diag(after) / (weight @ np.diag(before)), abs=1e-6)


def test_the_rating_that_does_not_fit_stands_first(client):
    best = np.argsort(-np.abs(RIGHT))[:5]
    told = (5 + 3 * RIGHT[best]).tolist()
    wrong = 2
    told[wrong] = 5 - 3 * RIGHT[best[wrong]]
    found = client.post("/misfits", json={"items": [f"film {i}" for i in best], "ratings": told}).json()["results"]
    assert found[0]["label"] == f"film {best[wrong]}"
    assert np.sign(found[0]["surprise"]) == np.sign(found[0]["given"] - found[0]["expected"])
    assert len(found) == 5


def test_a_table_of_ratings_is_judged(client):
    rows = [f"{u},{i},{y}" for (u, i), y in zip(PAIRS[:50].tolist(), Y[:50], strict=True)]
    rows[7] = ",".join([*PAIRS[7], str(Y[7] + 9)])
    table = "user,item,rating\n" + "\n".join([*rows, "nobody,film 1,3"]) + "\n"
    found = client.post("/table", content=table, headers={"Content-Type": "text/csv"}).json()
    assert (found["rows"], found["unknown"]) == (51, 1)
    first = found["results"][0]
    assert [first["user"]["id"], first["item"]["id"]] == PAIRS[7].tolist()
    if found["covered"] is not None:
        assert found["level"] == 0.9
        assert found["covered"] > 0.6


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("user,item\na,b\n", "no column looks like rating"),
        ("user,item,rating\na,b,good\n", "'good' in row 1, which is no number"),
        ("user,item,rating\na,b,3\n", "the model knows user and item of no row"),
    ],
)
def test_a_table_that_cannot_be_judged_says_why(client, table, said):
    answer = client.post("/table", content=table, headers={"Content-Type": "text/csv"})
    assert answer.status_code == 422
    assert said in answer.json()["error"]


@pytest.mark.parametrize("plain", [Biases(), Constant()], ids=["Biases", "Constant"])
def test_what_knows_no_taste_asks_for_nothing(plain, tmp_path):
    path = tmp_path / "model.safetensors"
    plain.fit(PAIRS, Y).save(path)
    with TestClient(create_app(path), raise_server_exceptions=False) as client:
        facts = client.get("/model").json()
        assert not {"/rate_next", "/misfits"} & set(facts["answers"])
        assert facts["middle"] == pytest.approx(plain.intercept_, abs=1)
        assert client.get("/complete", params={"q": "film 1", "of": "items"}).json()["results"][0]["id"] == "film 1"
        table = "user,item,rating\nuser 1,film 1,3\n"
        assert client.post("/table", content=table, headers={"Content-Type": "text/csv"}).json()["rows"] == 1
