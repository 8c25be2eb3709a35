"""Rows of kinked losses from warm starts: as good as from nothing, whatever the sweep before has left behind."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import halfstep as hs
from halfstep import losses
from halfstep.core.loop import Outcome, _tell_stalled
from halfstep.core.oracle import row_objective

from .test_plq_rows import random_row, rounded, solve

KINKED = [
    losses.Absolute(),
    losses.Quantile(0.3),
    losses.EpsilonInsensitive(0.3),
    losses.Hinge(),
    losses.Huber(0.5),
]


@pytest.mark.parametrize("loss", KINKED, ids=[loss.name for loss in KINKED])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_kinked_losses_do_not_stall_on_warm_starts(loss, dtype):
    """In the first edition one row in twenty ended more than 1% above its optimum, and said it was solved."""
    for seed in range(60):
        problem, other, cells = random_row(loss, seed)
        rng = np.random.default_rng(seed)
        cold, _ = solve(problem, other, cells, tolerance=1e-9)
        best = row_objective(cold, problem)
        for start in (0.0, 1.0, 100.0, 1e4):
            duals = (rng.choice([-1.0, 0.0, 0.3, 1.0], len(cells)) * rng.choice([1, 10])).astype(dtype)
            row, sums = solve(problem, other, cells, dtype, tolerance=1e-6, start=start, duals=duals)
            told = sums["stalled"] >= 0
            assert told or row_objective(row, problem) - best <= 1e-3 * best + 1e-9, (seed, start)


def test_a_gap_is_relative_to_the_row_that_is_kept():
    """A start at 1e4 had a scale beside which everything was solved."""
    problem, other, cells = random_row(losses.Absolute(), 45)
    duals = np.zeros(len(cells), np.float32)
    _, sums = solve(problem, other, cells, np.float32, tolerance=1e-6, start=1e4, duals=duals)
    assert 0 <= sums["gap"] < 1e-3


@pytest.mark.parametrize("loss", ["absolute", "quantile", "epsilon_insensitive"])
def test_fits_of_kinked_losses_solve_all_their_rows(loss, recwarn):
    pairs, y, _ = hs.datasets.make_ratings(80, 60, 1500, random_state=1)
    model = hs.PLQMF(loss=loss, row_tol=1e-5, dtype="float64", max_iter=15, random_state=0).fit(pairs, y)
    assert model.history_[-1]["gap"] <= 1e-5
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]


def test_a_row_that_stays_short_of_its_tolerance_is_named():
    session, outcome = SimpleNamespace(stalled=[-1, 17]), Outcome([{"gap": 0.25}])
    with pytest.warns(ConvergenceWarning, match=r"row 17 of side 1 .*gap 0.25"):
        _tell_stalled(session, outcome)


def row_of(loss, spread=1.0, lam=1e-6, n=3, seed=0):
    """A row that its cells leave room to fit, so that its value is far below the value at zero."""
    problem, other, cells = random_row(loss, seed)
    while problem.w0 > 0 or len(cells) > n or problem.offsets.any():
        seed += 1
        problem, other, cells = random_row(loss, seed)
    return rounded(replace(problem, lam=lam, weights=problem.weights * spread), other, cells, np.float32), cells


@pytest.mark.parametrize("loss", [*KINKED, losses.Squared(), losses.SquaredHinge()], ids=lambda loss: loss.name)
def test_rows_that_float32_cannot_tell_from_nothing_are_redone_in_float64(loss):
    """A hinge row was 0.35% above its optimum at a tolerance of 1e-6, a squared one 100 times: nobody was told."""
    for seed in range(40):
        (problem, other), cells = row_of(loss, spread=10.0, seed=1000 * seed)
        exact, _ = solve(problem, other, cells, tolerance=1e-9)
        duals = np.zeros(len(cells), np.float32) if loss.keeps_duals else None
        row, sums = solve(problem, other, cells, np.float32, tolerance=1e-6, start=0.1, duals=duals)
        best, zero = row_objective(exact, problem), row_objective(0 * row, problem)
        assert sums["stalled"] >= 0 or row_objective(row, problem) <= 1.001 * best + 2e-15 * zero + 1e-30, seed
