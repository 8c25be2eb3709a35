"""Numbers at the edge, in float32: penalties and weights over many orders, ranks above both sides, every finish, cold
and warm. A fit either falls to an objective that a dense computation confirms, or is refused with the cause."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import halfstep as hs
from halfstep.errors import RowError

from .test_plq_rows import PIECEWISE, SMOOTH, names, targets_for

FINISHES = ["auto", "exact", "cholesky", "dual", "cg", "subspace"]
penalties = st.floats(-8, 8).map(lambda x: 10.0**x)
orders = st.floats(0, 15)  # of weights, either way
seeds = st.integers(0, 2**20)


def _table(seed: int, spread: float) -> tuple[np.ndarray, int, np.random.Generator]:
    """Weights over 2 * spread orders, none of them in most cells, and a rank above both sides every other time."""
    rng = np.random.default_rng(seed)
    n, m = (int(x) for x in rng.integers(2, 14, 2))
    R = (rng.random((n, m)) < 0.4) * 10.0 ** rng.uniform(-spread, spread, (n, m))
    R[0, 0] = 1.0
    return R, int(rng.integers(1, 4) + (min(n, m) if rng.random() < 0.5 else 0)), rng


def _fitted(make: Any) -> Any:
    """The fit with what it warned of, or None where it was refused with the cause."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return make(), caught
        except RowError as error:
            refused = str(error)
    assert "float64" in refused or "finite" in refused
    return None, caught


def _holds(model: Any, caught: Any, dense: float, size: float) -> None:
    """size : what the objective is a difference of; nearer than its rounding in float64 no sum can be."""
    objective = np.array([record["objective"] for record in model.history_])
    doubted = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    slack = 1e-12 * size
    assert np.isfinite(objective).all()
    assert (objective[1:] <= objective[:-1] + 1e-4 * np.abs(objective[:-1]) + slack).all() or doubted
    assert abs(dense - objective[-1]) <= 2e-4 * abs(dense) + slack or doubted


@pytest.mark.parametrize("solver", FINISHES)
@settings(max_examples=25, deadline=None)
@given(seed=seeds, reg=penalties, spread=orders, background=st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
@example(seed=1, reg=1e-8, spread=0.0, background=1.0)
def test_a_squared_fit_falls_to_what_it_prints(
    solver: str, seed: int, reg: float, spread: float, background: float
) -> None:
    R, rank, _ = _table(seed, spread)
    given = dict(rank=rank, reg=reg, reg_scaling=0, background=background, solver=solver, tol=0, random_state=seed)
    model = hs.WALS(max_iter=6, warm_start=True, **given)
    for _ in range(2):  # cold, then warm
        fitted, caught = _fitted(lambda: model.fit(R))
        if fitted is None:
            return
        U, V = fitted.user_factors_.astype(float), fitted.item_factors_.astype(float)
        Z = U @ V.T
        cells = np.where(R > 0, R * (1 - Z) ** 2, background * Z**2)
        held = reg * ((U**2).sum() + (V**2).sum())
        _holds(fitted, caught, cells.sum() + held, R.sum() + background * (Z**2).sum() + held)


@pytest.mark.parametrize("loss", PIECEWISE + SMOOTH, ids=names)
@settings(max_examples=15, deadline=None)
@given(seed=seeds, reg=penalties, spread=orders)
def test_a_fit_under_every_loss_falls_to_what_it_prints(loss: Any, seed: int, reg: float, spread: float) -> None:
    R, rank, rng = _table(seed, spread)
    pairs, weights = np.argwhere(R), R[R > 0]
    y = targets_for(loss, len(pairs), rng).astype(np.float32)  # what was read is what is fitted
    sides = [len(np.unique(side)) for side in pairs.T]
    assume(min(sides) > 1 and (loss.form != "margin" or len(set(y)) > 1))  # refused otherwise, as are higher ranks
    held_by = {f"reg_{what}": reg for what in ("user", "item", "bias")}
    plain: dict[str, Any] = {"intercept": False, "biases": False, "coarse": False, "max_iter": 6, "tol": 0}
    model = hs.PLQMF(min(rank, max(sides)), loss, random_state=seed, **held_by, **plain)
    fitted, caught = _fitted(lambda: model.fit(pairs, y, weights))
    if fitted is None:
        return
    U, V = fitted.user_factors_.astype(float), fitted.item_factors_.astype(float)
    rows = np.searchsorted(fitted.user_ids_, pairs[:, 0]), np.searchsorted(fitted.item_ids_, pairs[:, 1])
    Z = np.einsum("ij,ij->i", U[rows[0]], V[rows[1]])
    values = fitted.C_ * weights * loss.value(Z, y)
    held = fitted.C_ * reg * ((U**2).sum() + (V**2).sum())
    _holds(fitted, caught, values.sum() + held, np.abs(values).sum() + held)
