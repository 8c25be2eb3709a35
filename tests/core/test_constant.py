"""The best constant for every loss, against a search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfstep.core import losses
from halfstep.core.losses.constant import best_constant

NAMES = ["squared", "absolute", "huber", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive", "hinge",
         "squared_hinge", "smoothed_hinge", "logistic", "bernoulli", "poisson"]  # fmt: skip


def targets(loss: losses.Loss, rng: np.random.Generator, n: int) -> np.ndarray:
    if loss.form == "margin":
        return np.concatenate([[-1.0, 1.0], rng.choice([-1.0, 1.0], n - 2)])
    if loss.name == "bernoulli":
        return rng.uniform(0.05, 0.95, n)
    return np.append(1.0, rng.poisson(2, n - 1)) if loss.name == "poisson" else np.round(rng.normal(1, 2, n), 1)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000), n=st.integers(2, 40))
def test_no_constant_is_better(name: str, seed: int, n: int) -> None:
    rng, loss = np.random.default_rng(seed), losses.get(name)
    z, t, w = rng.normal(size=n), targets(loss, rng, n), rng.random(n) + 1e-3
    best = best_constant(loss, z, t, w)
    cost = [float(w @ loss.value(z + c, t)) for c in np.append(best + np.linspace(-3, 3, 601), best)]
    assert cost[-1] <= min(cost) + 1e-9 * (1 + abs(min(cost)))


def test_the_middle_of_many_best_ones() -> None:
    zeros, ones = np.zeros(4), np.ones(4)
    assert best_constant(losses.Absolute(), zeros, np.array([1.0, 2.0, 4.0, 9.0]), ones) == 3.0
    assert best_constant(losses.Squared(), zeros, np.array([1.0, 2.0, 4.0, 9.0]), ones) == 4.0
    assert best_constant(losses.Quantile(0.25), zeros, np.array([1.0, 2.0, 4.0, 9.0]), ones) == 1.5


def test_counts_that_are_all_zero_stay_finite() -> None:
    assert np.isfinite(best_constant(losses.Poisson(), np.zeros(3), np.zeros(3), np.ones(3)))


@pytest.mark.parametrize("name", NAMES)
def test_what_else_depends_on_the_constant_is_counted(name: str) -> None:
    rng, loss = np.random.default_rng(3), losses.get(name)
    z, t, w, (curve, slope) = rng.normal(size=9), targets(loss, rng, 9), rng.random(9) + 0.1, (0.7, -1.3)
    best = best_constant(loss, z, t, w, (curve, slope))
    places = np.append(best + np.linspace(-1, 1, 2001), best)
    cost = [float(w @ loss.value(z + c, t)) + curve * c * c / 2 + slope * c for c in places]
    assert cost[-1] <= min(cost) + 1e-9


def test_no_cell_of_any_weight_moves_nothing() -> None:
    assert best_constant(losses.Squared(), np.zeros(2), np.ones(2), np.zeros(2)) == 0.0
