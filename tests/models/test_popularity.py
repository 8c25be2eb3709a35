"""Powers of counts in background and weights: the objective is the documented one, every answer follows it."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import halfstep as hs
from halfstep import losses
from halfstep.core import oracle

from .implicit import count_factors, dense_objective, penalties, small

POWERS = {"background_power": (0.4, 0.7), "weight_power": (-0.3, 0.2)}


@pytest.fixture
def X():
    rng = np.random.default_rng(3)
    popular = rng.random(14) ** 2
    return (rng.random((30, 14)) < popular) * rng.integers(1, 4, (30, 14)).astype(float)


@pytest.mark.parametrize("solver", ["auto", "exact", "cholesky", "dual", "cg", "subspace"])
@pytest.mark.parametrize("powers", [POWERS, {"background_power": 0.7}, {"background_power": (-0.5, 0.0)}])
def test_the_printed_objective_is_the_dense_one_and_never_rises(X, solver, powers):
    model = small(solver=solver, max_iter=6, **powers).fit(X)
    assert_allclose(model.objective_, dense_objective(model, X), rtol=1e-8)
    values = [record["objective"] for record in model.history_]
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(values))


def test_users_are_the_optimum_of_the_dense_row_problem(X):
    model = small(max_iter=3, **POWERS).fit(X)
    V, w0 = model.item_factors_, model.background * count_factors(model.background_power, X)
    weights = X * count_factors(model.weight_power, X)
    lam = next(iter(penalties(model, X)))
    for i in range(len(X)):
        s = np.where(X[i] > 0, weights[i], w0[i])
        solved = np.linalg.solve(lam[i] * np.eye(V.shape[1]) + (V.T * s) @ V, V.T @ weights[i])
        assert_allclose(model.user_factors_[i], solved, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", ["huber", "logistic"])
def test_other_losses_have_the_same_background(X, loss):
    model = small(loss=loss, max_iter=4, background_power=0.7).fit(X > 0)
    w0 = model.background * count_factors(model.background_power, X)
    rows, columns = np.nonzero(X)
    ones = np.ones(len(rows))
    U, V = model.user_factors_, model.item_factors_
    dense = oracle.objective(U, V, rows, columns, ones, ones, w0, *penalties(model, X > 0), losses.get(loss))
    assert_allclose(model.objective_, dense, rtol=1e-6)


def test_a_training_row_folds_in_as_it_was_fitted(X):
    model = small(max_iter=4, **POWERS).fit(X)
    assert_allclose(model.transform(X), model.user_factors_, rtol=1e-7, atol=1e-10)


def test_explanations_sum_to_the_score(X):
    model = small(max_iter=4, **POWERS).fit(X)
    assert_allclose(model.explain(3, 5).score, model.user_factors_[3] @ model.item_factors_[5], rtol=1e-7)


def test_partial_fit_solves_the_touched_rows_of_the_grown_problem(X):
    model = small(max_iter=4, **POWERS).fit(X)
    more = X.copy()
    more[2, np.flatnonzero(X[2] == 0)[:2]] = 1
    model.partial_fit(more)
    assert_allclose(model.objective_, dense_objective(model, more), rtol=1e-8)


def test_files_keep_the_powers(X, tmp_path):
    model = small(max_iter=3, **POWERS).fit(X)
    model.save(tmp_path / "m.safetensors")
    again = hs.load(tmp_path / "m.safetensors")
    assert_allclose(again.transform(X), model.transform(X))


def test_validation_ranks_under_the_same_powers(X):
    held = (X == 0) & (np.random.default_rng(0).random(X.shape) < 0.1)
    model = small(max_iter=4, **POWERS).fit(X, validation=held.astype(float))
    assert "ndcg@10" in model.history_[0]


def test_a_background_that_grows_with_counts_spreads_lists(X):
    """Popular items are held back: the mean count of what is recommended falls as the power rises."""
    counts = (X > 0).sum(axis=0)

    def mean_count(power):
        model = small(max_iter=10, background=0.3, background_power=power).fit(X)
        return counts[model.rank_items(X, 3, np.arange(len(X)))].mean()

    assert mean_count(1.0) < mean_count(0.0)


@pytest.mark.parametrize("name", ["background_power", "weight_power"])
@pytest.mark.parametrize("bad", [np.nan, "much", (1, 2, 3), True])
def test_bad_powers_are_named(X, name, bad):
    with pytest.raises((ValueError, TypeError), match=name):
        small(**{name: bad}).fit(X)
