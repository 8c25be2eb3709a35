"""Anderson's mixing finds where a linear iteration goes, and forgets on demand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from halfstep.core.extrapolate import Extrapolation, Momentum


@given(st.integers(0, 1000), st.integers(1, 4))
def test_a_linear_iteration_of_few_dimensions_is_solved_at_once(seed, d):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    matrix = (basis * rng.uniform(0.2, 0.95, d)) @ basis.T
    shift = rng.normal(size=d)
    goal = np.linalg.solve(np.eye(d) - matrix, shift)
    x, mixing = np.zeros(d), Extrapolation()
    for _ in range(d + 2):
        x = mixing.propose(x, matrix @ x + shift)
    assert np.linalg.norm(x - goal) <= 1e-3 * np.linalg.norm(goal)


def test_the_first_sweep_is_taken_as_it_is():
    after = np.array([3.0, 4.0])
    assert np.array_equal(Extrapolation().propose(np.zeros(2), after), after)


def test_it_remembers_so_many_sweeps_and_forgets_all_but_the_last():
    mixing = Extrapolation(memory=2)
    for k in range(6):
        mixing.propose(np.full(3, float(k)), np.full(3, k + 0.5**k))
    assert [len(mixing.before), len(mixing.after)] == [3, 3]
    mixing.forget()
    assert mixing.before[0][0] == 5
    assert len(mixing.after) == 1


def test_a_sweep_that_moves_nothing_proposes_nothing_else():
    mixing, x = Extrapolation(), np.ones(3)
    for _ in range(3):
        assert np.array_equal(mixing.propose(x, x), x)


def test_momentum_grows_from_nothing_and_begins_again_on_demand():
    momentum = Momentum()
    assert [momentum.share() for _ in range(4)] == [0, 1 / 4, 2 / 5, 3 / 6]
    momentum.restart()
    assert momentum.share() == 1 / 4  # the sweep that was taken back to is the first
