"""New users, new cells: rows solved against what was fitted."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from halfstep import losses
from halfstep.core import oracle

from ..contract.estimator import random_cells
from .implicit import dense_objective, matrix, penalties, small


@pytest.fixture(scope="module")
def X():
    return sp.csr_array(matrix(random_cells(1)))


@pytest.mark.parametrize("background", [0.0, 0.1])
@pytest.mark.parametrize("reg_scaling", ["constant", "count", 1.0])
def test_transform_solves_the_row_problem(X, background, reg_scaling):
    model = small(background=background, reg_scaling=reg_scaling).fit(X)
    new = np.zeros((1, X.shape[1]))
    new[0, [2, 5, 7]] = 1, 3, 2
    V, lam = model.item_factors_, next(iter(penalties(model, new)))[0]
    problem = oracle.RowProblem(
        V[[2, 5, 7]], np.ones(3), np.array([1.0, 3, 2]), losses.Squared(), lam, w0=background, gram=V.T @ V
    )
    assert_allclose(model.transform(new)[0], oracle.solve_row(problem), atol=1e-9)
    assert_allclose(model.transform(sp.csr_array(new)), model.transform(new))


def test_transform_of_nothing_is_zero_and_still_checked(X):
    model, m = small(rank=5).fit(X), X.shape[1]
    assert_array_equal(model.transform(np.zeros((3, m))), np.zeros((3, 5)))
    stored = sp.csr_array((np.zeros(1), ([0], [0])), shape=(2, m))
    assert_array_equal(model.transform(stored), np.zeros((2, 5)))
    for wrong in (np.zeros((3, m + 1)), np.ones((3, m + 1)), np.zeros(m)):
        with pytest.raises(ValueError, match=rf"it must have {m} columns, one for each fitted item"):
            model.transform(wrong)
    with pytest.raises(ValueError, match="weights must be finite"):
        model.transform(np.full((1, m), np.nan))


def test_partial_fit_solves_the_touched_rows_and_leaves_the_others(X):
    model = small().fit(X)
    U, V = model.user_factors_.copy(), model.item_factors_.copy()
    more = sp.csr_array(([2.0, 5.0], ([3, 3], [0, 7])), shape=X.shape)
    model.partial_fit(more)
    users, items = np.delete(np.arange(X.shape[0]), 3), np.delete(np.arange(X.shape[1]), [0, 7])
    assert_array_equal(model.user_factors_[users], U[users])
    assert_array_equal(model.item_factors_[items], V[items])
    assert not np.allclose(model.user_factors_[3], U[3])
    merged = X.tolil()
    merged[3, 0], merged[3, 7] = 2.0, 5.0  # a known cell gets the new weight
    assert_allclose(model.objective_, dense_objective(model, merged), rtol=1e-9)
    assert_allclose(model.transform(sp.csr_array(merged)[[3]])[0], model.user_factors_[3], atol=1e-7)
    assert 7 not in model.recommend(3, n=X.shape[1]).ids


def test_partial_fit_takes_new_users_and_items(X):
    model = small().fit(X)
    U, objective = model.user_factors_.copy(), model.objective_
    n, m = X.shape
    more = sp.lil_array((n + 2, m + 1))
    more[n, 1] = more[n, m] = more[n + 1, 4] = 1.0
    model.partial_fit(more)
    assert model.user_factors_.shape == (n + 2, 4)
    assert model.item_factors_.shape == (m + 1, 4)
    assert_array_equal(model.user_factors_[:n], U)
    assert model.item_factors_[m].any()
    assert_array_equal(model.user_ids_, np.arange(n + 2))
    assert model.objective_ > objective  # more cells to pay for
    assert len(model.recommend(n, n=3).ids) == 3


def test_partial_fit_appends_ids_from_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"user": ["b", "a", "a", "c"], "item": [10, 10, 20, 30]})
    model = small(rank=2).fit(frame)
    model.partial_fit(pd.DataFrame({"user": ["z", "a"], "item": [20, 5], "weight": [2.0, 3.0]}))
    assert model.user_ids_.tolist() == ["a", "b", "c", "z"]
    assert model.item_ids_.tolist() == [10, 20, 30, 5]
    assert set(model.recommend("a", n=9).ids) == {30}


def test_partial_fit_first_is_fit(X):
    assert_array_equal(small().partial_fit(X).user_factors_, small().fit(X).user_factors_)


def test_partial_fit_without_ids_needs_the_old_size(X):
    with pytest.raises(ValueError, match=r"X has 5 rows; without ids it needs at least the 31 of the fit"):
        small().fit(X).partial_fit(X[:5])


def test_partial_fit_again_comes_near_a_whole_fit(X):
    part = small(max_iter=30).fit(X[:, :])
    part.partial_fit(X)
    whole = small(max_iter=30).fit(X)
    assert part.objective_ <= whole.objective_ * (1 + 1e-6)
