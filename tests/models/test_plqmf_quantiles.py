"""PLQMF under several quantiles at once: they do not cross, intervals cover what they say, files keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import halfstep as hs
from halfstep import PLQMF, losses
from halfstep.losses import Quantiles

from .test_plqmf import X, Y

PAIRS, STARS, _ = hs.datasets.make_ratings(400, 300, 12_000, random_state=7)
TEST = np.arange(len(STARS)) % 5 == 0


@pytest.fixture(scope="module")
def fit() -> PLQMF:
    noisy = STARS + np.random.default_rng(0).normal(0, 0.1, len(STARS))
    return PLQMF(loss=Quantiles((0.05, 0.25, 0.5, 0.75, 0.95)), random_state=0).fit(PAIRS[~TEST], noisy[~TEST])


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_cover_what_they_say(fit: PLQMF, level: float) -> None:
    low, high = fit.predict_interval(PAIRS[TEST], level).T
    assert (low <= high).all()
    covered = np.mean((STARS[TEST] >= low) & (STARS[TEST] <= high))
    assert covered == pytest.approx(level, abs=0.04)  # 2,400 ratings: four standard errors


def test_quantiles_do_not_cross(fit: PLQMF) -> None:
    found = fit.predict_quantiles(PAIRS[TEST])
    assert found.shape == (TEST.sum(), 5)
    assert (np.diff(found, axis=1) >= 0).all()
    apart = PLQMF(loss=losses.Quantile(0.5), random_state=0)
    noisy = STARS + np.random.default_rng(0).normal(0, 0.1, len(STARS))
    np.testing.assert_array_equal(fit.predict(PAIRS), apart.fit(PAIRS[~TEST], noisy[~TEST]).predict(PAIRS))


def test_the_levels_must_be_there(fit: PLQMF) -> None:
    with pytest.raises(ValueError, match=r"level=0.8 lies between the quantiles 0.1 and 0.9; .* has 0.05, 0.25, 0.75"):
        fit.predict_interval(PAIRS, 0.8)
    with pytest.raises(ValueError, match=r"level=1.5 must lie between 0 and 1"):
        fit.predict_interval(PAIRS, 1.5)
    assert not hasattr(PLQMF(loss="absolute"), "predict_interval")
    assert not hasattr(PLQMF(loss="ordinal"), "predict_quantiles")
    for levels in ((0.5, 0.5), (0.0, 0.5), (), 3):
        with pytest.raises(ValueError, match=r"levels=.* is not valid"):
            Quantiles(levels)  # type: ignore[arg-type]


def test_levels_are_sorted_and_named_in_text() -> None:
    assert losses.get("quantiles:0.9,0.1,0.45") == Quantiles((0.1, 0.45, 0.9))
    assert Quantiles((0.9, 0.1, 0.45)).q == 0.45
    assert losses.get(Quantiles().to_dict()) == Quantiles()
    with pytest.raises(ValueError, match=r"must list numbers, such as 'quantiles:0.05,0.5,0.95'"):
        losses.get("quantiles:low")


def test_files_and_more_pairs_keep_all_quantiles(tmp_path: Path) -> None:
    model = PLQMF(rank=2, loss=Quantiles(), random_state=0).fit(X, Y)
    model.save(tmp_path / "model.safetensors")
    back = hs.load(tmp_path / "model.safetensors")
    assert isinstance(back, PLQMF)
    for each in (model, back):
        each.partial_fit(np.array([[3, 0], [900, 7]]), [1.0, 5.0])
    asked = np.concatenate([X, [[900, 7]]])
    np.testing.assert_array_equal(back.predict_interval(asked), model.predict_interval(asked))
    np.testing.assert_array_equal(back.predict_quantiles(asked), model.predict_quantiles(asked))


def test_intervals_of_levels_come_from_their_probabilities() -> None:
    model = PLQMF(loss="ordinal", random_state=0).fit(PAIRS[~TEST], STARS[~TEST])
    low, high = model.predict_interval(PAIRS[TEST], 0.8).T
    below = np.cumsum(model.predict_proba(PAIRS[TEST]), axis=1)
    np.testing.assert_array_equal(low, model.classes_[np.argmax(below >= 0.1, axis=1)])
    np.testing.assert_array_equal(high, model.classes_[np.argmax(below >= 0.9, axis=1)])
    assert 0.8 < np.mean((STARS[TEST] >= low) & (STARS[TEST] <= high)) < 0.97
