"""A fit that is led to where the cells are begins sweeps ahead, on bits that do not depend on threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import halfstep as hs
from halfstep.core.cells import Observations
from halfstep.core.initial import initial_factors
from halfstep.core.leading import STEP
from halfstep.engine import LocalEngine, Problem, Side, Solver

SKILLS = hs.datasets.load_sample_skills().matrix


def opened(matrix=SKILLS, rank=20, n_threads=1, dtype=np.float32, **about):
    cells = Observations.from_weights(sp.csr_array(matrix), dtype)
    problem = Problem(cells, (Side(0.5), Side(0.5)), background=0.03, **about)
    factors, order = initial_factors(cells, rank, "power", 0, dtype)
    return LocalEngine(n_threads).open(problem, factors, Solver()), order


@pytest.mark.parametrize("matrix", [SKILLS, SKILLS.T])
def test_one_side_is_led_and_the_other_is_back_at_zero(matrix):
    session, (told, fixed) = opened(matrix)
    before, rows = session.factors[fixed].copy(), session.factors[fixed]
    session.lead((told, fixed))
    assert session.factors[fixed] is rows  # it may lie in a file
    assert not session.factors[told].any()
    assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(1.0, rel=1e-4)
    gram = rows.T @ rows
    assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-4 * gram.max()
    assert not np.allclose(rows, before, atol=0.1)


def test_bits_do_not_depend_on_threads():
    rows = []
    for n_threads in (1, 3):
        session, order = opened(n_threads=n_threads)
        session.lead(order)
        rows.append(session.factors[order[-1]])
    assert_array_equal(*rows)


def test_the_loss_of_the_fit_has_no_part_in_it():
    rows = []
    for loss in (hs.losses.Squared(), hs.losses.Logistic()):
        session, order = opened(loss=loss)
        session.lead(order)
        rows.append(session.factors[order[-1]])
    assert_array_equal(*rows)


def test_cells_that_weigh_nothing_lead_nowhere():
    session, order = opened(sp.csr_array((8, 6)), rank=2)
    before = session.factors[order[-1]].copy()
    session.lead(order)
    assert_array_equal(session.factors[order[-1]], before)


def test_two_sweeps_do_what_takes_three_from_a_random_start():
    led, plain = (
        hs.WALS(init=init, max_iter=n, tol=0, random_state=0).fit(SKILLS) for init, n in (("power", 2), ("scaled", 3))
    )
    assert led.objective_ < 1.05 * plain.objective_
    one, other = (hs.WALS(init=init, max_iter=1, random_state=0).fit(SKILLS) for init in ("power", "scaled"))
    assert one.objective_ < 0.7 * other.objective_


def test_without_a_background_it_is_scaled():
    one, other = (
        hs.WALS(4, background=0.0, reg=0.1, init=init, random_state=0).fit(SKILLS) for init in ("power", "scaled")
    )
    assert_array_equal(one.user_factors_, other.user_factors_)


def test_a_fit_that_goes_on_is_not_led(tmp_path):
    """Neither from a file, which has the sweeps after it, nor from present factors."""
    settings = {"rank": 8, "tol": 0, "random_state": 0, "solver": "exact"}
    whole = hs.WALS(**settings, max_iter=3).fit(SKILLS)
    warm = hs.WALS(**settings, max_iter=2, warm_start=True).fit(SKILLS)
    warm.set_params(max_iter=1).fit(SKILLS)
    assert warm.objective_ == pytest.approx(whole.objective_, rel=1e-2)

    def lost(record):
        if record["iteration"] == 2:
            raise RuntimeError("lost")

    file = tmp_path / "sweeps"
    with pytest.raises(RuntimeError, match="lost"):
        hs.WALS(**settings, max_iter=3, checkpoint=file, callbacks=[lost]).fit(SKILLS)
    resumed = hs.WALS(**settings, max_iter=3, checkpoint=file, resume=True).fit(SKILLS)
    assert_array_equal(resumed.user_factors_, whole.user_factors_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_row_takes_the_steps_that_a_short_one_takes(dtype):
    """From the sum of its cells, as executors finish the rows that they share."""
    rng = np.random.default_rng(0)
    session, _ = opened(rank=5, dtype=dtype)
    session.factors = [rng.normal(size=rows.shape).astype(dtype) for rows in session.factors]
    own, gram = session.factors[0], session.gram(1)
    for steps in (1, 3):
        solver = Solver("cg", STEP.tolerance, steps)
        one, other = own.copy(), own.copy()
        session.problem.rows(0, one, session.factors[1], solver, gram=gram).solve(False, 1)
        rows = session.problem.rows(0, other, session.factors[1], solver, gram=gram)
        rows.finish(rows.quadratics(1), 1)
        np.testing.assert_allclose(other, one, rtol=0, atol=2e-4 if dtype == np.float32 else 1e-12)
        assert not np.allclose(one, own)
