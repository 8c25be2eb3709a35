"""The map beside a model, and two profiles side by side."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from halfstep import EASE, WALS, Blend, ItemGraph
from halfstep.apps.serve.comparing import compare
from halfstep.apps.serve.names import NamesAsked
from halfstep.apps.serve.places import Places
from halfstep.apps.serve.problems import FieldError
from halfstep.apps.serve.ranking import RankingAnswers
from halfstep.apps.serve.settings import Settings
from halfstep.baselines import ItemKNN, Popularity
from halfstep.data.datasets import load_sample_skills
from halfstep.data.ids import Index
from halfstep.figures.neighbours import NeighbourMap
from halfstep.figures.plane import unit_rows
from halfstep.serve import create_app


@pytest.fixture(scope="module")
def clouds() -> tuple[np.ndarray, np.ndarray]:
    """Three bundles of directions, thirty rows each, and how much each row counts."""
    rng = np.random.default_rng(0)
    centres = np.eye(6)[:3] * 4
    return np.repeat(centres, 30, axis=0) + 0.3 * rng.normal(size=(90, 6)), rng.integers(1, 50, 90)


def test_rows_of_like_direction_stand_together(clouds: tuple[np.ndarray, np.ndarray]) -> None:
    factors, counts = clouds
    near = NeighbourMap.of(factors, counts)
    assert np.abs(near.places).max() == pytest.approx(1)
    centre = near.places.reshape(3, 30, 2).mean(axis=1)
    own = np.linalg.norm(near.places - np.repeat(centre, 30, axis=0), axis=1)
    others = min(np.linalg.norm(centre[a] - centre[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert np.median(own) < others / 2
    np.testing.assert_allclose(near.place(5 * factors), near.places, atol=1e-6)  # length says nothing
    assert np.linalg.norm(near.place(np.eye(6)[:1]) - centre[0]) < others / 2  # somebody new among their likes


def test_a_map_is_kept_beside_the_model_and_only_for_its_own_factors(
    tmp_path: Path, clouds: tuple[np.ndarray, np.ndarray]
) -> None:
    factors, counts = clouds
    names = NamesAsked(Index.range(90, "skill"), None, counts, None)
    made = Places(factors, names, tmp_path / "model.safetensors")
    made.lay_out()
    assert made.method == "t-SNE"
    assert (tmp_path / "model.safetensors.map").is_file()
    again = Places(factors, names, tmp_path / "model.safetensors")
    again.prepare()
    np.testing.assert_array_equal(again.plane.place(factors), made.plane.place(factors))
    assert again.groups == made.groups != []
    other = Places(factors + 1, names, tmp_path / "model.safetensors")
    assert other._kept() is None
    (tmp_path / "model.safetensors.map").write_bytes(b"PK\x03\x04 cut off")
    assert again._kept() is None


def test_arrays_that_are_no_map_are_refused(clouds: tuple[np.ndarray, np.ndarray]) -> None:
    factors, counts = clouds
    arrays = NeighbourMap.of(factors, counts).to_arrays()
    for name, value in (("rows", 90), ("groups", -1), ("heads", 4_000_000), ("places", np.nan)):
        broken = {key: array.copy() for key, array in arrays.items()}
        broken[name].flat[0] = value
        with pytest.raises(ValueError, match="not the map"):
            NeighbourMap.from_arrays(broken, factors)


@pytest.fixture(scope="module")
def ranking() -> RankingAnswers:
    return RankingAnswers(WALS(rank=8, random_state=0).fit(load_sample_skills()), Settings())


def test_the_gain_of_a_lacking_skill_is_that_of_folding_it_in(ranking: RankingAnswers) -> None:
    found = compare(ranking, "Data analyst", items=["Python", "SQL"])
    goal = ranking.model.user_factors_[[ranking.users.row("Data analyst", "to")]]
    best = found["lacking"][0]

    def likeness(items: list[str]) -> float:
        return float(unit_rows(ranking.vector(items)[None, :])[0] @ unit_rows(goal)[0])

    assert found["likeness"] == pytest.approx(likeness(["Python", "SQL"]), abs=1e-5)
    gain = likeness(["Python", "SQL", best["label"]]) - likeness(["Python", "SQL"])
    assert best["gain"] == pytest.approx(gain, abs=1e-5)
    assert [e["gain"] for e in found["lacking"]] == sorted((e["gain"] for e in found["lacking"]), reverse=True)
    has = {ranking.items.label(row) for row in ranking.items_of(ranking.users.row("Data analyst", "to"))}
    assert {e["label"] for e in found["both"]} | {e["label"] for e in found["lacking"]} == has
    assert {e["label"] for e in found["only_you"]} == {"Python", "SQL"} - has


def test_a_comparison_needs_one_of_user_and_items(ranking: RankingAnswers) -> None:
    with pytest.raises(FieldError, match="either"):
        compare(ranking, "Data analyst")
    with pytest.raises(FieldError, match="empty"):
        compare(ranking, "Data analyst", items=[])


def test_the_words_of_the_data_reach_the_page(ranking: RankingAnswers) -> None:
    assert (ranking.users.noun, ranking.items.noun) == ("occupation", "skill")
    assert ranking.example["label"] in set(ranking.users.index.ids)


@pytest.mark.parametrize(
    "model", [ItemGraph(), EASE(), ItemKNN(), Popularity(), Blend([ItemGraph(), ItemKNN()], weights=[1, 1])], ids=str
)
def test_recommenders_without_factors_are_served_without_a_map(model: Any, tmp_path: Path) -> None:
    model.fit(load_sample_skills()).save(tmp_path / "m.safetensors")
    with TestClient(create_app(tmp_path / "m.safetensors")) as client:
        facts = client.get("/model").json()
        assert "/map" not in facts["answers"]
        assert facts["example"]["label"]
        best = client.get("/recommend", params={"user": "Economist", "n": 3}).json()["items"]
        assert [entry["id"] for entry in best] == model.recommend("Economist", 3).ids.tolist()
        given = client.post("/recommend_for", json={"items": ["Python", "SQL"], "n": 3, "why": 2}).json()["items"]
        assert [entry["id"] for entry in given] == model.recommend_for(["Python", "SQL"], 3).ids.tolist()
        assert client.get("/similar", params={"item": "SQL", "n": 3}).status_code == 200
        refused = client.post("/similar", json={"of": "users", "items": ["SQL"]})
        assert refused.status_code == 422
        assert "compares items alone" in refused.json()["error"]
        assert client.get("/map").status_code == 404
