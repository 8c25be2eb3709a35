"""The loop: when it stops, what it records, what it leaves behind."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep import losses
from halfstep.core import oracle
from halfstep.core.loop import measure
from halfstep.engine import LocalEngine, Solver, alternate

from ..contract.engine import coordinates, dense_objective, random_problem


def session(seed=0):
    problem, factors = random_problem(losses.Squared(), seed)
    return LocalEngine(1).open(problem, factors, Solver())


def test_sweeps_are_those_of_the_oracle():
    run = session()
    problem = run.problem
    own, other = problem.sides
    _, _, history = oracle.alternate(
        *run.snapshot(), *coordinates(problem.observations), problem.background, own.penalty, other.penalty,
        problem.loss, sweeps=5,
    )  # fmt: skip
    outcome = alternate(run, order=(0, 1), max_iter=5, tol=0)
    assert_allclose([record["objective"] for record in outcome.history], history[1::2], rtol=1e-9)
    assert [record["iteration"] for record in outcome.history] == [1, 2, 3, 4, 5]
    assert outcome.objective == outcome.history[-1]["objective"]
    assert not outcome.converged


def test_it_stops_when_the_objective_falls_by_less_than_tol():
    run = session()
    outcome = alternate(run, max_iter=200, tol=1e-3)
    values = [record["objective"] for record in outcome.history]
    falls = -np.diff(values) / values[1:]
    assert outcome.converged
    assert len(values) < 200
    assert falls[-1] <= 1e-3 < falls[:-1].min()


def test_the_last_side_is_solved_once_more():
    run = session()
    outcome = alternate(run, order=(0, 1), max_iter=2, tol=0, last=0)
    assert_allclose(outcome.objective, dense_objective(run.problem, run.factors), rtol=1e-10)
    before = run.factors[0] @ run.factors[1].T
    run.half_step(0)
    assert_allclose(run.factors[0] @ run.factors[1].T, before, atol=1e-9)  # it was optimal already


def test_a_true_callback_stops_and_every_callback_is_called():
    seen = []
    outcome = alternate(session(), max_iter=9, tol=0, callbacks=[lambda r: r["iteration"] == 3, seen.append])
    assert len(outcome.history) == 3
    assert [record["iteration"] for record in seen] == [1, 2, 3]


def test_no_sweep_begins_after_max_seconds():
    outcome = alternate(session(), max_iter=50, tol=0, max_seconds=0.02, callbacks=[lambda r: time.sleep(0.03)])
    assert len(outcome.history) <= 2
    assert alternate(session(), max_iter=3, tol=0, max_seconds=0).history[-1]["iteration"] == 1


def interrupt(record):
    if record["iteration"] == 2:
        raise KeyboardInterrupt


def test_ctrl_c_raises_unless_the_fit_is_to_be_kept():
    with pytest.raises(KeyboardInterrupt):
        alternate(session(), max_iter=5, tol=0, callbacks=[interrupt])
    outcome = alternate(session(), max_iter=5, tol=0, callbacks=[interrupt], keep_on_interrupt=True)
    assert outcome.interrupted
    assert len(outcome.history) == 2


def test_verbose_prints_a_line_for_each_sweep(capsys):
    alternate(session(), max_iter=2, tol=0, verbose=2, label="demo")
    printed = "".join(capsys.readouterr())
    assert "demo 1: objective " in printed
    assert "demo 2: objective " in printed


def test_quiet_says_nothing(capsys):
    alternate(session(), max_iter=2, tol=0)
    assert "".join(capsys.readouterr()) == ""


def test_the_record_is_what_the_fit_measures():
    run = session()

    def twice(sums):
        record = measure(run, sums)
        return record | {"objective": 2 * record["objective"], "doubled": True}

    plain = alternate(session(), max_iter=3, tol=0, last=0)
    outcome = alternate(run, max_iter=3, tol=0, last=0, measured=twice)
    assert [r["objective"] for r in outcome.history] == [2 * r["objective"] for r in plain.history]
    assert outcome.objective == 2 * plain.objective
    assert all(record["doubled"] for record in outcome.history)
    assert run.past is outcome.history  # a session knows the sweeps it made


def test_rows_are_solved_to_a_fifth_of_what_the_last_sweep_gained():
    solver = Solver(tolerance=1e-2, settled=1e-4)
    assert solver.after([]).tolerance == solver.after([{"objective": 9.0}]).tolerance == 1e-2
    for before, now, expected in ((2.0, 1.0, 1e-2), (1.01, 1.0, 2e-3), (1.0, 1.0, 1e-4), (1.0, 0.0, 1e-4)):
        assert solver.after([{"objective": before}, {"objective": now}]).tolerance == pytest.approx(expected)
    assert Solver(tolerance=0.3).after([{"objective": 1.0}] * 3).tolerance == 0.3
