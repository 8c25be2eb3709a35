"""The loop: when it stops, what it records, what it leaves behind."""

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep import losses
from halfstep.core import loop, oracle
from halfstep.core.loop import Outcome, measure, settled, timeless
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


@pytest.mark.parametrize(
    ("verbose", "delay", "leave", "lines"), [(False, 2, False, 0), (1, 0, True, 0), (2, 0, True, 2)]
)
def test_the_bar_stays_where_the_fit_is_to_say_something(monkeypatch, verbose, delay, leave, lines):
    import tqdm.auto

    made, written = [], []

    class Bar(tqdm.auto.tqdm):
        def __init__(self, **given):
            made.append(given)
            super().__init__(**given | {"disable": True})

        @classmethod
        def write(cls, text):
            written.append(text)

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    alternate(session(), max_iter=2, tol=0, **{"verbose": verbose} if verbose else {})
    assert [(bar["delay"], bar["leave"], bar["total"], bar["initial"]) for bar in made] == [(delay, leave, 2, 0)]
    assert len(written) == lines


@pytest.mark.parametrize(("reached", "landed"), [(5.0, False), (6.0, True), (7.0, True), (None, False)])
def test_a_leap_that_ends_above_the_last_sweep_is_taken_back(reached, landed):
    asked = []
    run = by_hand(0.0)
    run.reached, run.retreat = reached, lambda: asked.append("back")
    run.half_step = lambda side, evaluate=False: asked.append(side) or SUMS  # of objective 5 + 0.75
    assert loop._landed(run, 1) is landed
    assert asked == ([1] if landed else [1, "back", 1])


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


SUMS = {
    "data": 5.0,
    "scores": 4.0,
    "squares": 8.0,
    "change": 0.02,
    "size": 0.5,
    "gap": 0.1,
    "steps": 7.0,
    "repaired": 1,
    "coarse": 2,
}


def by_hand(background, cells=2, overlap=10.0):
    """A session of which `measure` is told all it asks."""
    observations = type("Cells", (), {"shape": (3, 4), "__len__": lambda self: cells})()
    return SimpleNamespace(
        problem=SimpleNamespace(background=background, observations=observations),
        overlap=lambda: overlap,
        penalty=lambda side: (0.25, 0.5)[side],
    )


def test_a_record_is_what_its_formulas_say():
    record = measure(by_hand(0.5), SUMS)
    assert record == pytest.approx({
        "objective": 5 + 0.5 * 6 + 0.75, "data": 5, "background": 3, "penalty": 0.75, "rmse": 2,
        "rmse_all": (14 / 12) ** 0.5, "change": 0.2, "gap": 0.1, "steps": 7, "repaired": 1, "coarse": 2,
    })  # fmt: skip
    assert measure(by_hand(0.5, overlap=3.0), SUMS)["background"] == 0  # rounding makes no sum of squares negative


def test_without_a_background_no_unobserved_cell_counts():
    record = measure(by_hand(0.0), SUMS)
    assert record["objective"] == 5.75
    assert record["background"] == 0
    assert "rmse_all" not in record
    assert measure(by_hand(0.0, cells=1), SUMS)["rmse"] == pytest.approx(8**0.5)
    assert measure(by_hand(0.0, cells=0), SUMS | {"size": 0.0, "change": 0.0, "squares": 0.0})["rmse"] == 0


def test_settled_is_a_change_of_no_more_than_tol_either_way():
    def history(*values):
        return [{"objective": value} for value in values]

    assert not settled(history(), 1.0)
    assert not settled(history(4.0), 1.0)
    assert settled(history(9.0, 5.0, 4.0), 0.25)
    assert settled(history(3.0, 4.0), 0.25)
    assert settled(history(-5.0, -4.0), 0.25)
    assert not settled(history(4.0, 5.0, 4.0), 0.2499)


def test_a_coarse_sweep_is_never_the_last_and_one_before_it_is_no_matter():
    sweeps = [{"objective": 4.0}, {"objective": 4.0}, {"objective": 4.0}, {"objective": 4.0}]
    assert not settled([*sweeps[:-1], {"objective": 4.0, "coarse": 2}], 0.1)
    assert settled([sweeps[0], {"objective": 4.0, "coarse": 2}, *sweeps[2:]], 0.1)


def test_seconds_are_those_since_the_loop_began_and_go_on_after_a_pause(monkeypatch):
    ticks = itertools.count(100.0)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    run = session()
    outcome = alternate(run, max_iter=3, tol=0)
    assert [record["seconds"] for record in outcome.history] == [1, 2, 3]
    assert all("seconds" not in record for record in timeless(outcome.history))
    assert timeless(outcome.history)[0]["iteration"] == 1
    outcome = alternate(run, max_iter=5, tol=0, last=0)
    assert [record["iteration"] for record in outcome.history] == [1, 2, 3, 4, 5]
    assert [record["seconds"] for record in outcome.history] == [1, 2, 3, 4, 6]  # the last side once more


class Kept:
    """A loop file that stays in memory."""

    def __init__(self, outcome=None):
        self.outcome, self.ended = outcome, []

    def taken_up(self):
        return self.outcome

    def keep(self, outcome):
        self.ended.append((len(outcome.history), outcome.ended))


def test_a_loop_is_kept_after_every_sweep_and_once_at_its_end():
    file = Kept()
    assert alternate(session(), max_iter=3, tol=0, file=file).ended
    assert file.ended == [(1, False), (2, False), (3, True)]
    file = Kept()
    alternate(session(), max_iter=5, tol=0, callbacks=[interrupt], keep_on_interrupt=True, file=file)
    assert file.ended == [(1, False)]  # what was interrupted is not at its end
    done = Outcome([{"objective": 1.0}], ended=True)
    assert alternate(session(), file=Kept(done)) is done


def test_a_loop_that_had_settled_makes_no_sweep():
    run = session()
    run.past = [{"objective": 2.0001, "seconds": 1.0}, {"objective": 2.0, "seconds": 2.0}]
    outcome = alternate(run, max_iter=9, tol=1e-4)
    assert outcome.converged
    assert outcome.objective == 2.0
    assert len(outcome.history) == 2


def test_rows_left_above_their_optimum_are_named():
    run = SimpleNamespace(stalled=(-1, 0))
    with pytest.warns(UserWarning, match=r"row 0 of side 1 was left .*largest gap 0\.3") as told:
        loop._tell_stalled(run, Outcome([{"gap": 0.3}]))
    assert len(told) == 1


def test_the_objective_is_that_of_the_rows_which_are_kept(recwarn):
    outcome = Outcome([{"objective": 1.0, "gap": 0.3, "rmse": 2.0}], objective=1.0)
    loop._tell_rounded(outcome, {"objective": 1.0 + 0.5e-4, "gap": 9.0, "rmse": 2.5})
    assert outcome.history == [{"objective": 1.0 + 0.5e-4, "gap": 0.3, "rmse": 2.5}]
    assert outcome.objective == 1.0 + 0.5e-4
    assert not recwarn.list
    with pytest.warns(UserWarning, match="reached an objective of 1.00005; its rows in float32 have 1.5"):
        loop._tell_rounded(outcome, {"objective": 1.5})
