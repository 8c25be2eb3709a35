"""Names as people type them, and the plane of the map."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfstep.apps.serve.names import NamesAsked
from halfstep.apps.serve.problems import Unknown
from halfstep.data.ids import Index
from halfstep.figures.plane import LatentMap, unit_rows

LABELS = np.array(["Nurse", "Night nurse", "Data analyst", "data analyst", "Café owner", "New\nline"], object)


def names(labels=LABELS, ids=None) -> NamesAsked:
    count = len(labels)
    return NamesAsked(
        Index(ids if ids is not None else [f"u/{k}" for k in range(count)], "user"), labels, np.arange(count), "job"
    )


def test_ids_come_before_labels_and_case_does_not_matter() -> None:
    found = names().rows(["u/4", "nurse", "DATA ANALYST", "new line"], "users")
    assert found.tolist() == [4, 0, 2, 5]


def test_completion_orders_beginnings_words_and_insides() -> None:
    assert names().complete("nur", 5).tolist() == [0, 1]
    assert names().complete("ana", 5).tolist() == [3, 2]  # the more popular first
    assert names().complete("fé", 5).tolist() == [4]
    assert names().complete("nghit nurs", 1).tolist() == [1]


def test_unknown_names_say_where_and_what_is_near() -> None:
    with pytest.raises(Unknown) as caught:
        names().rows(["Nurse", "Nurze"], "users")
    assert caught.value.field == "users[1]"
    assert caught.value.suggestions == ["Nurse", "Night nurse"]
    with pytest.raises(Unknown, match=r"unknown job 'x{50,}\.\.\."):
        names().row("x" * 400, "user")


def test_numbers_in_a_url_and_tuples_in_json() -> None:
    numbers = NamesAsked(Index([10, 20], "user"), None, np.ones(2), "user")
    assert numbers.row("20", "user", text=True) == 1
    with pytest.raises(Unknown):
        numbers.row("20", "user")
    pairs = NamesAsked(Index([("a", 1), ("b", 2)], "user"), None, np.ones(2), "user")
    assert pairs.row(["b", 2], "user") == 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=12, unique=True), st.text(max_size=6))
def test_completion_of_any_text_gives_rows(labels: list[str], typed: str) -> None:
    found = names(np.array(labels, object)).complete(typed, 4)
    assert len(set(found.tolist())) == len(found) <= 4
    assert all(0 <= row < len(labels) for row in found)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**31))
def test_the_map_is_the_pca_of_unit_rows(d: int, n: int, seed: int) -> None:
    factors = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    placed = LatentMap(factors).place(factors)
    assert placed.shape == (n, 2)
    assert np.isfinite(placed).all()
    assert np.abs(placed).max() <= 1 + 1e-9
    centred = unit_rows(factors) - unit_rows(factors).mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    if d > 1 and n > 2 and singular[0] > 1e-6:
        ratio = np.linalg.norm(placed[:, 1]) / np.linalg.norm(placed[:, 0])
        assert ratio == pytest.approx(singular[1] / singular[0], abs=1e-5)


def test_a_map_of_zeros_is_a_point() -> None:
    placed = LatentMap(np.zeros((3, 4))).place(np.zeros((2, 4)))
    assert np.array_equal(placed, np.zeros((2, 2)))
