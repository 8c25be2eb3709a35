"""Sweeps that begin where the ones before them point, and rows that are coarse early: never a higher objective, the
exact solver's answer, the same bits."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import halfstep as hs
from halfstep import _core, losses
from halfstep.core.cells import Observations
from halfstep.core.extrapolate import Momentum
from halfstep.core.initial import initial_factors
from halfstep.engine import LocalEngine, Problem, Side, Solver, alternate

from ..contract.engine import dense_objective, random_problem


def noise(rank=12, n_threads=1):
    """A session under "auto" on cells without structure, where sweeps converge slowly; and the order of its sides."""
    rng = np.random.default_rng(0)
    cells = Observations.from_weights(sp.csr_array(rng.random((300, 200)) < 0.3, dtype=np.float32))
    problem = Problem(cells, (Side(1.0), Side(1.0)), background=0.05)
    factors, order = initial_factors(cells, rank, "scaled", 0, np.float32)
    return LocalEngine(n_threads).open(problem, factors, Solver("auto")), order


def objectives(outcome):
    return np.array([record["objective"] for record in outcome.history])


def test_the_answer_comes_in_fewer_sweeps_and_the_objective_never_rises():
    run, order = noise()
    exact, _ = noise()
    exact.solver, exact.reached = exact.solver.exactly(), None
    slow = objectives(alternate(exact, order=order, max_iter=60, tol=0))
    outcome = alternate(run, order=order, max_iter=60, tol=0)
    fast = objectives(outcome)
    assert (np.diff(fast) <= 1e-6 * fast[1:]).all()
    assert np.argmax(fast <= slow[-1]) < 30
    assert fast[-1] == pytest.approx(dense_objective(run.problem, run.factors), rel=1e-5)
    assert [record["leapt"] for record in outcome.history[:2]] == [0, 0]
    assert sum(record["leapt"] for record in outcome.history) > 30


def test_coarse_sweeps_come_first_and_the_last_ones_are_exact():
    run, order = noise(rank=64)
    run.solver = replace(run.solver, exact_after=4)
    coarse = [record["coarse"] for record in alternate(run, order=order, max_iter=6, tol=0).history]
    assert min(coarse[:4]) > 0
    assert coarse[4:] == [0, 0]
    run, order = noise(rank=64)
    outcome = alternate(run, order=order, max_iter=99, tol=1e-3)  # the solver is exact below a gain of 1e-3
    assert outcome.converged
    assert outcome.history[-1]["coarse"] == 0


def test_rows_that_a_sweep_replaces_are_turned_only_where_somebody_asks_how_far_they_moved(monkeypatch):
    """Of a sweep that leapt: its first half-step is judged by its objective alone."""
    run, order = noise()
    run.solver = run.solver.exactly()
    turned = []
    rotate = _core.rotate
    monkeypatch.setattr(_core, "rotate", lambda rows, *more: (turned.append(len(rows)), rotate(rows, *more)))
    large, small = (run.problem.observations.shape[side] for side in order)
    run.lead(order)
    assert turned == [small, large, small, small]  # not the rows that are zero there
    outcome = alternate(run, order=order, max_iter=4, tol=0)
    assert outcome.history[-1]["leapt"]
    assert turned[-5:] == [small, small, large, small, small]  # the other side, the one that ended the sweep before ...


@pytest.mark.parametrize("last", [0, 1])
def test_a_fit_that_is_stopped_early_leaves_no_coarse_rows(last):
    run, order = noise(rank=64)
    stopped = alternate(run, order=order, max_iter=50, tol=0, last=last, callbacks=[lambda record: True])
    assert len(stopped.history) == 1
    assert stopped.history[-1]["coarse"] == 0
    before = run.factors[0] @ run.factors[1].T
    run.half_step(last)
    np.testing.assert_allclose(run.factors[0] @ run.factors[1].T, before, atol=1e-4)


def test_where_it_would_rise_a_sweep_begins_where_the_last_one_ended(monkeypatch):
    monkeypatch.setattr(Momentum, "share", lambda self: 50.0)
    run, order = noise()
    run.solver = replace(run.solver, exact_after=0)
    exact, _ = noise()
    exact.solver, exact.reached = exact.solver.exactly(), None
    outcome = alternate(run, order=order, max_iter=8, tol=0)
    assert not any(record["leapt"] for record in outcome.history)
    assert objectives(outcome) == pytest.approx(objectives(alternate(exact, order=order, max_iter=8, tol=0)), rel=1e-5)


def test_an_interrupt_on_the_way_leaves_rows_where_the_last_sweep_ended(monkeypatch):
    run, order = noise()
    plain, calls = type(run).half_step, []

    def interrupted(self, side, evaluate=False):
        if evaluate and side == order[0] and not calls:
            calls.append(side)
            raise KeyboardInterrupt
        return plain(self, side, evaluate)

    monkeypatch.setattr(type(run), "half_step", interrupted)
    outcome = alternate(run, order=order, max_iter=20, tol=0, keep_on_interrupt=True)
    assert outcome.interrupted
    assert calls
    assert dense_objective(run.problem, run.factors) <= outcome.objective * (1 + 1e-6)


def test_a_lost_fit_goes_on_with_the_same_bits_and_threads_change_none():
    whole, order = noise()
    alternate(whole, order=order, max_iter=9, tol=0)
    for n_threads in (1, 3):
        first, _ = noise(n_threads=n_threads)
        outcome = alternate(first, order=order, max_iter=5, tol=0)
        second, _ = noise(n_threads=n_threads)
        second.restore(first.state())
        second.past = outcome.history
        alternate(second, order=order, max_iter=9, tol=0)
        for got, expected in zip(second.factors, whole.factors, strict=True):
            assert_array_equal(got, expected)


@pytest.mark.parametrize("loss", [losses.Squared(), losses.Bernoulli()], ids=repr)
@pytest.mark.parametrize("pinned", [0, 1])
def test_smooth_losses_and_pinned_columns_are_extrapolated_too(loss, pinned):
    problem, factors = random_problem(loss, background=0.0 if pinned else 0.1, pinned=pinned)
    values = {}
    for method in ("exact", "auto"):
        session = LocalEngine(1).open(problem, [f.copy() for f in factors], Solver(method, tolerance=1e-10))
        outcome = alternate(session, max_iter=40, tol=0)
        values[method] = objectives(outcome)
        assert (np.diff(values[method]) <= 1e-9 * np.abs(values[method][1:])).all()
        assert values[method][-1] == pytest.approx(dense_objective(problem, session.factors), rel=1e-8)
    assert any(record["leapt"] for record in outcome.history)
    assert values["auto"][-1] <= values["exact"][-1] * (1 + 1e-9)


def test_what_is_bounded_or_learns_stays_where_sweeps_end():
    plain, factors = random_problem(losses.Squared())
    learning = replace(plain, loss=losses.get("ordinal"), background=0.0)
    assert LocalEngine(1).open(learning, factors, Solver("auto")).reached is None
    bounded = replace(plain, sides=(replace(plain.sides[0], nonnegative=(0, 1)), plain.sides[1]))
    assert LocalEngine(1).open(bounded, factors, Solver("auto")).reached is None
    assert LocalEngine(1).open(plain, factors, Solver()).reached is None


def test_the_default_ends_where_the_exact_solver_does():
    cells = sp.random_array((120, 80), density=0.15, rng=np.random.default_rng(1), format="csr")
    cells.data[:] = 1.0
    fits = [
        hs.WALS(6, 0.05, 0.3, solver=s, max_iter=500, tol=1e-9, dtype="float64", random_state=0)
        for s in ("auto", "exact")
    ]
    auto, exact = (model.fit(cells) for model in fits)
    assert auto.converged_
    assert auto.objective_ <= exact.objective_ * (1 + 1e-5)
    assert auto.n_iter_ < exact.n_iter_
