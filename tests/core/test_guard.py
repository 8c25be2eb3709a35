"""The guard of the loop: float32 that diverges goes on in float64, what is printed is the dense objective."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import halfstep as hs
from halfstep.core.guard import guarded
from halfstep.errors import RowError


def _dense(model, R, background, reg, loss="squared"):
    U, V = model.user_factors_.astype(float), model.item_factors_.astype(float)
    Z = U @ V.T
    cells = np.where(R > 0, R * hs.losses.get(loss).value(Z, np.ones_like(Z)), background * Z**2)
    return cells.sum() + reg * ((U**2).sum() + (V**2).sum())


def _drawn(seed, spread=0.0):
    """A small table of weights, and a rank above both of its sides."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(3, 40, 2)
    R = (rng.random((n, m)) < 0.3) * np.exp(spread * rng.normal(size=(n, m)))
    R[0, 0] = 1
    return R, int(min(n, m) + rng.integers(1, 10))


@pytest.mark.parametrize("solver", ["exact", "cholesky", "dual", "cg", "subspace"])
@pytest.mark.parametrize("seed", range(4))
def test_float32_with_a_rank_above_both_sides_no_longer_diverges(solver, seed):
    R, rank = _drawn(seed)
    settings = dict(rank=rank, reg=1e-7, reg_scaling=0, background=1.0, solver=solver, random_state=seed)
    model = hs.WALS(max_iter=40, tol=0, **settings).fit(R)
    objective = np.array([record["objective"] for record in model.history_])
    assert model.user_factors_.dtype == np.float32
    assert (objective[1:] <= objective[:-1] * 1.001).all()
    assert _dense(model, R, 1.0, 1e-7) == pytest.approx(model.objective_, rel=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "huber", "squared"])
@pytest.mark.parametrize("seed", range(6))
def test_rows_that_are_convex_are_solved_in_float32_too(loss, seed):
    R, rank = _drawn(seed, spread=2.0)
    model = hs.WALS(rank=rank, reg=1e-6, reg_scaling=0, background=10.0, loss=loss, random_state=seed).fit(R)
    assert _dense(model, R, 10.0, 1e-6, loss) == pytest.approx(model.objective_, rel=1e-4)
    first = model.history_[0]["objective"]
    assert model.objective_ <= first * 1.0001 < np.inf


def test_new_rows_that_float32_cannot_solve_are_folded_in_by_float64():
    R, rank = _drawn(1)
    settings = dict(rank=rank, reg=1e-7, reg_scaling=0, background=1.0, loss="logistic")
    rows = hs.WALS(**settings, random_state=0).fit(R).transform(R)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()


def test_ordinary_fits_stay_in_float32(monkeypatch):
    from halfstep.engine.local import LocalSession

    monkeypatch.setattr(LocalSession, "_in_float64", lambda self: pytest.fail("an ordinary fit was widened"))
    hs.WALS(random_state=0).fit(hs.datasets.load_sample_skills())
    pairs, y, _ = hs.datasets.make_ratings(60, 40, 900, random_state=0)
    for loss in ("squared", "absolute", "huber"):
        hs.PLQMF(loss=loss, random_state=0).fit(pairs, y)


class _Session:
    """Ends its sweeps on given objectives."""

    epsilon = 1e-7
    begun = widened = 0

    class problem:
        background = 0.0

    def __init__(self, *objectives, can_widen=True):
        self.objectives, self.can_widen = list(objectives), can_widen

    def overlap(self):
        return 0.0

    def begin(self, side):
        self.begun += 1

    def widen(self):
        self.widened += 1
        return self.can_widen

    def sweep(self):
        value = self.objectives.pop(0)
        return {"data": value, "squares": 1.0, "shaken": 0.0, "scores": 1.0}, {"objective": value, "data": value}


def test_a_sweep_that_raises_the_objective_is_made_again():
    session = _Session(2.0, 0.9)
    assert guarded(session, 1, 1.0, session.sweep)["objective"] == 0.9
    assert session.begun == session.widened == 1


def test_a_sweep_that_falls_is_left_alone():
    session = _Session(0.99)
    assert guarded(session, 1, 1.0, session.sweep)["objective"] == 0.99
    assert session.widened == 0


@pytest.mark.parametrize("value", [2.5, np.nan, np.inf])
def test_a_rise_that_float64_does_not_mend_is_refused_with_the_cause(value):
    session = _Session(value, value)
    with pytest.raises(RowError, match=r"rose from 1 to .*penalty is too small.*reg"):
        guarded(session, 1, 1.0, session.sweep)


def test_a_rise_where_there_are_no_wider_numbers_is_refused():
    session = _Session(2.5, can_widen=False)
    with pytest.raises(RowError, match="rose"):
        guarded(session, 1, 1.0, session.sweep)


def test_a_rise_in_the_widest_numbers_is_told():
    session = _Session(1.5)
    session.epsilon = 0.0
    with pytest.warns(ConvergenceWarning, match=r"raised the objective from 1 to 1\.5"):
        assert guarded(session, 1, 1.0, session.sweep)["objective"] == 1.5


def test_rounding_that_one_heavy_cell_makes_is_doubted():
    """An average over cells hid what one weight of 1e9 does."""
    session = _Session(0.99, 0.98)
    heavy = session.sweep

    def sweep():
        sums, record = heavy()
        return sums | {"shaken": 1e-3}, record

    assert guarded(session, 1, 1.0, sweep)["objective"] == 0.98
    assert session.widened == 1


def test_a_fit_whose_rows_lose_the_objective_by_rounding_says_so(monkeypatch):
    from halfstep.engine.local import LocalSession

    R, rank = _drawn(0)
    settings = dict(rank=rank, reg=1e-7, reg_scaling=0, background=1.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hs.WALS(**settings).fit(R)
    truly = LocalSession.kept
    monkeypatch.setattr(LocalSession, "kept", lambda self: [rows * 1.5 for rows in truly(self)])
    with pytest.warns(ConvergenceWarning, match="Pass dtype='float64'"):
        hs.WALS(**settings).fit(R)
