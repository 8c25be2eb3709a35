"""Losses of levels: the ordinal one and its thresholds; absolute and quantile losses of targets on a grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit

from halfstep import _core, losses
from halfstep.core.losses.coarse import grid_of, on_grid
from halfstep.core.losses.constant import best_constant
from halfstep.core.losses.ordinal import _Scored

THREE = losses.Ordinal((-1.0, 0.5))


def test_values_are_minus_logs_of_probabilities_that_sum_to_one():
    z = np.linspace(-40, 40, 81)
    p = THREE.probabilities(z)
    assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    assert_allclose(p[:, 0], expit(-1 - z), rtol=1e-12)
    for level in range(3):
        assert_allclose(THREE.value(z, np.full(81, level)), -np.log(p[:, level]), rtol=1e-9, atol=1e-15)
    assert_allclose(THREE.decode(z, np.array([1.0, 2.0, 4.0])), p @ [1, 2, 4])


@given(
    cuts=st.lists(st.floats(-5, 5), min_size=1, max_size=6, unique=True).map(sorted),
    z=st.lists(st.floats(-8, 8), min_size=4, max_size=9),
)
@settings(max_examples=40, deadline=None)
def test_slopes_are_those_of_the_value_and_the_core_agrees(cuts, z):
    if np.diff([0.0, *cuts]).min(initial=1) == 0 or (np.diff(cuts) < 1e-3).any():
        return
    loss = losses.Ordinal(tuple(cuts))
    z = np.array(z)
    t, h = np.arange(len(z)) % (len(cuts) + 1) * 1.0, 1e-5
    assert_allclose((loss.value(z + h, t) - loss.value(z - h, t)) / (2 * h), loss.gradient(z, t), atol=1e-6)
    assert_allclose((loss.gradient(z + h, t) - loss.gradient(z - h, t)) / (2 * h), loss.curvature(z, t), atol=1e-6)
    rows = _core.half_step(z[:, None].copy(), np.ones((1, 1)))
    rows.cells(np.arange(len(z) + 1), np.zeros(len(z), np.int32), t, 1.0)
    loss.bind(rows)
    assert rows.evaluate(1)["data"] == pytest.approx(float(loss.value(z, t).sum()), rel=1e-12)


@given(seed=st.integers(0, 10**6), levels=st.integers(2, 8))
@settings(max_examples=25, deadline=None)
def test_thresholds_are_where_no_slope_is_left(seed, levels):
    rng = np.random.default_rng(seed)
    z, w = rng.normal(size=300) * rng.choice([0.1, 3.0]), rng.random(300) + 0.1
    t = np.concatenate([np.arange(levels), rng.integers(0, levels, 300 - levels)]) * 1.0
    found = losses.Ordinal().learned(z, t, w)
    again = found.learned(z, t, w)
    assert_allclose(again.thresholds, found.thresholds, atol=1e-6)
    lowest = float(w @ found.value(z, t))
    for k in range(levels - 1):
        for move in (-1e-3, 1e-3):
            other = np.array(found.thresholds)
            other[k] += move
            if (np.diff(other) > 0).all():
                assert float(w @ losses.Ordinal(tuple(other)).value(z, t)) >= lowest - 1e-9
    assert best_constant(found, z, t, w) == pytest.approx(0, abs=1e-4)  # a shift of all thresholds is a constant


@pytest.mark.parametrize("seed", range(5))
def test_slopes_of_thresholds_are_those_of_their_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = _Scored(rng.normal(size=60), np.arange(60) % 6, rng.uniform(0.1, 3, 60))
    c = np.sort(rng.normal(0, 2, 5)) + np.arange(5)
    here, h = cells.cost(c), 1e-5
    for k, step in enumerate(np.eye(5) * h):
        above, below = cells.cost(c + step), cells.cost(c - step)
        assert_allclose(here.gradient[k], (above.value - below.value) / (2 * h), rtol=1e-5, atol=1e-6)
        assert_allclose(here.hessian[k], (above.gradient - below.gradient) / (2 * h), rtol=1e-5, atol=1e-6)
    assert cells.cost(c[::-1]).value == math.inf


def test_two_levels_are_the_logistic_loss():
    z, t = np.linspace(-3, 3, 7), np.array([0.0, 1, 0, 1, 1, 0, 1])
    assert_allclose(losses.Ordinal((0.0,)).value(z, t), losses.Logistic().value(z, 2 * t - 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.Ordinal((1.0, 1.0)), "must be finite numbers that increase"),
        (lambda: losses.Ordinal().value(0.0, 0), "has no thresholds yet"),
        (lambda: losses.Ordinal().encode_targets([3.0, 3.0]), r"y has 1 distinct values \(3\); .* at least two"),
        (lambda: losses.Ordinal().encode_targets(np.arange(300.0)), "y has 300 distinct values .* Bin y first"),
        (lambda: losses.Ordinal().encode_targets(["a", "b"]), "values that are not numbers"),
        (lambda: losses.Ordinal().encode_targets([1.0, 2.5], np.array([1.0, 2.0])), r"y\[1\] = 2.5; the levels of"),
        (lambda: losses.Ordinal().learned(np.zeros(3), np.array([0.0, 1, 2]), np.array([1.0, 0, 1])), "level 1 of y"),
        (lambda: losses.Coarse(step=0), "step=0 is not valid"),
        (lambda: losses.Huber().probabilities(0.0), "has no probabilities"),
    ],
)
def test_bad_levels_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("bad", [3.0, -1.0, 0.5, math.nan])
def test_the_core_refuses_targets_that_are_no_levels(bad):
    rows = _core.half_step(np.zeros((1, 1)), np.ones((1, 1)))
    rows.cells(np.array([0, 1]), np.zeros(1, np.int32), np.array([bad]), 1.0)
    with pytest.raises(ValueError, match="targets must be levels"):
        THREE.bind(rows)


# ---------------------------------------------------------------------- grids


@given(q=st.floats(0.05, 0.95), step=st.floats(0.1, 10), r=st.floats(-20, 20))
@settings(max_examples=50, deadline=None)
def test_a_coarse_loss_is_the_mean_over_the_interval(q, step, r):
    plain = losses.Quantile(q)
    places = r + step * (np.arange(20_000) + 0.5) / 20_000 - step / 2
    expected = float(np.mean(plain.value(places, 0.0)))
    assert losses.Coarse(*plain.slopes, step=step).value(r, 0.0) == pytest.approx(expected, rel=1e-6, abs=1e-6 * step)


@given(
    q=st.floats(0.02, 0.98),
    counts=st.lists(st.integers(1, 40), min_size=2, max_size=7),
    scale=st.floats(0.1, 50),
    shift=st.floats(-9, 9),
)
@settings(max_examples=60, deadline=None)
def test_the_rounded_best_constant_is_the_quantile_of_the_levels(q, counts, scale, shift):
    levels = np.arange(len(counts))
    t = np.repeat(levels, counts) * 1.0
    if np.abs(np.cumsum(counts) / sum(counts) - q).min() < 1e-6:
        return  # both neighbours are quantiles
    loss = on_grid(losses.Quantile(q), scale * t + shift)
    c = best_constant(loss, np.zeros(len(t)), scale * t + shift, np.ones(len(t)))
    expected = np.quantile(t, q, method="inverted_cdf")
    assert loss.rounded(c) == pytest.approx(scale * expected + shift, rel=1e-6, abs=1e-6)


def test_grids_are_found_and_nothing_else_is():
    assert grid_of(np.array([1.0, 5, 2, 3, 3])) == (1.0, 1.0, 5.0)
    assert grid_of(np.array([0.5, 4.0, 3.5, 5.0], np.float32).astype(float)) == (0.5, 0.5, 5.0)
    assert grid_of(np.array([0.1, 0.2, 0.7], np.float32).astype(float)) == pytest.approx((0.1, 0.1, 0.7))
    assert grid_of(np.array([0.25, 1.25, 3.25])) == (1.0, 0.25, 3.25)  # zero need not be on it
    assert grid_of(np.array([1.0, 2, 3.5])) is None
    assert grid_of(np.full(9, 3.0)) is None
    assert grid_of(np.random.default_rng(0).normal(size=50)) is None
    assert on_grid(losses.Squared(), np.array([1.0, 2])) == losses.Squared()
    assert on_grid(losses.Absolute(), np.array([1.0, 2, 4])) == losses.Coarse(1, 1, 1.0, 1.0, 4.0)


def test_rounding_goes_to_the_nearest_target_and_to_the_lower_one_between():
    loss = losses.Coarse(step=0.5, low=1.0, high=5.0)
    found = loss.rounded([0.2, 1.24, 1.25, 1.26, 3.0, 5.4])
    assert found.tolist() == [1.0, 1.0, 1.0, 1.5, 3.0, 5.0]


def test_grids_end_where_they_say_nothing():
    assert grid_of(np.array([0.0, 1.0])) == (1.0, 0.0, 1.0)
    assert grid_of(np.arange(200.0)) == (1.0, 0.0, 199.0)
    assert grid_of(np.arange(201.0)) is None
    assert grid_of(np.array([0.0, 1.0, 10_000.0])) == (1.0, 0.0, 10_000.0)
    assert grid_of(np.array([0.0, 1.0, 10_001.0])) is None


@pytest.mark.parametrize("bad", [{"below": 0.0}, {"above": math.inf}, {"step": -1.0}])
def test_slopes_and_steps_are_positive_and_finite(bad):
    with pytest.raises(ValueError, match="it must be a finite number > 0"):
        losses.Coarse(**bad)


def test_quantiles_of_levels_are_the_lowest_that_reach_their_share():
    levels, z, shares = np.array([1.0, 2.0, 4.0]), np.linspace(-4, 4, 33) + 0.01, np.array([0.1, 0.5, 0.8])
    reached = np.cumsum(THREE.probabilities(z), axis=1)[:, None, :] >= shares[:, None]
    assert THREE.quantiles(z, levels, shares).tolist() == levels[reached.argmax(axis=2)].tolist()
