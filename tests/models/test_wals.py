"""WALS: the estimators' contract, and what is its own."""

import math
import warnings
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from halfstep import _core, losses
from halfstep.core import oracle
from halfstep.core.cells import Observations
from halfstep.core.initial import initial_factors
from halfstep.errors import RowError, UnknownIdError
from halfstep.models.strength import ImplicitFit
from halfstep.models.wals import WALS

from ..contract.estimator import EstimatorContract, random_cells
from .implicit import dense_objective, matrix, small


class TestContract(EstimatorContract):
    estimator = WALS
    base: ClassVar = {
        "rank": 4, "background": 0.1, "reg": 0.05, "max_iter": 4, "tol": 0.0, "dtype": "float64", "random_state": 0,
    }  # fmt: skip
    knobs: ClassVar = {
        "rank": {"rank": 5},
        "background": {"background": 0.3},
        "reg": {"reg": 0.5},
        "reg_scaling": {"reg_scaling": "count"},
        "loss": {"loss": "logistic"},
        "weighting": {"weighting": "bm25"},
        "background_power": {"background_power": 0.5},
        "weight_power": {"weight_power": (-0.3, 0.2)},
        "max_iter": {"max_iter": 5},
        "tol": {"tol": 0.5},
        "solver": {"solver": "cg"},
        "init": {"init": "svd"},
        "n_init": {"n_init": 6},
        "warm_start": {"warm_start": True},
        "dtype": {"dtype": "float32"},
        "random_state": {"random_state": 1},
    }
    inert: ClassVar = {"n_threads", "verbose", "callbacks", "max_seconds", "engine", "feature_reg"} | {
        "common_words",
        "kindred",
        "checkpoint",
        "every",
        "resume",
        "dislikes",  # where no weight is below zero
    }
    data_arguments: ClassVar = {"X", "y", "user", "item", "weight", "keep_on_interrupt"} | {
        "validation",
        "metric",
        "patience",
        "user_features",
        "item_features",
    }

    def fit(self, model, cells):
        return model.fit(matrix(cells))

    def scores(self, model):
        return model.user_factors_ @ model.item_factors_.T

    def reported(self, model):
        values = [record["objective"] for record in model.history_]
        assert model.objective_ == values[-1]
        assert model.n_iter_ == len(values)
        return values

    def dense(self, model, cells):
        return dense_objective(model, matrix(cells))

    def fold_in(self, model, cells):
        return model.transform(matrix(cells)), model.user_factors_

    def turned(self, name, change):
        model = self.fitted(**change)
        return self.fit(model, self.cells()) if name == "warm_start" else model


@pytest.fixture(scope="module")
def X():
    return sp.csr_array(matrix(random_cells(1)))


@pytest.fixture(scope="module")
def model(X):
    return small(rank=5, max_iter=6).fit(X)


# ---------------------------------------------------------------------- the objective


@pytest.mark.parametrize("solver", ["auto", "exact", "cholesky", "dual", "cg", "subspace"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reg_scaling", ["constant", "count", 1.0, 0.5])
def test_the_objective_is_that_of_the_docstring(X, solver, dtype, reg_scaling):
    model = small(solver=solver, dtype=dtype, reg_scaling=reg_scaling).fit(X)
    assert_allclose(model.objective_, dense_objective(model, X), rtol=1e-4 if dtype == "float32" else 1e-9)
    values = [record["objective"] for record in model.history_]
    assert np.all(np.diff(values) <= 1e-6 * values[-1])


@pytest.mark.parametrize("shape", [(31, 19), (19, 31)])
def test_a_fit_is_the_oracle_from_the_same_start(shape):
    cells = random_cells(3, shape)
    for background in (0.0, 0.1):
        settings = {"background": background, "reg_scaling": "constant", "max_iter": 3}
        model = small(**settings, solver="exact", init="scaled").fit(matrix(cells))
        start, order = initial_factors(Observations.from_weights(matrix(cells), np.float64), 4, "scaled", 0, np.float64)
        arguments = [(cells.rows, cells.columns), (cells.columns, cells.rows)]
        first, second = order
        first_factors, second_factors, history = oracle.alternate(
            start[first], start[second], *arguments[first], cells.targets, cells.weights, background, 0.05, 0.05,
            losses.Squared(), sweeps=4,
        )  # fmt: skip
        U, V = (first_factors, second_factors) if first == 0 else (second_factors, first_factors)
        values = [record["objective"] for record in model.history_]
        assert_allclose(values[:2], history[1:4:2], rtol=1e-9)
        if first == 0:  # users are solved once more at the end
            assert_allclose(values[-1], history[6], rtol=1e-9)
        else:
            assert_allclose(values[-1], history[5], rtol=1e-9)
        assert U.shape == model.user_factors_.shape
        assert V.shape == model.item_factors_.shape


def test_fitting_the_transpose_swaps_the_factors(X):
    one = small(max_iter=300, tol=1e-13, init="svd").fit(X)
    two = small(max_iter=300, tol=1e-13, init="svd").fit(X.T)
    assert_allclose(one.objective_, two.objective_, rtol=1e-6)
    assert_allclose(one.user_factors_ @ one.item_factors_.T, (two.user_factors_ @ two.item_factors_.T).T, atol=1e-3)


def test_history_says_what_it_measures(X):
    model = small().fit(X)
    Z, seen = model.user_factors_ @ model.item_factors_.T, X.toarray() > 0
    record = model.history_[-1]
    assert_allclose(record["rmse"], np.sqrt(np.mean((1 - Z[seen]) ** 2)), rtol=1e-9)
    assert_allclose(record["rmse_all"], np.sqrt(np.mean((seen - Z) ** 2)), rtol=1e-9)
    assert record["error_reduction"] == 1 - record["rmse"]
    assert_allclose(record["data"] + record["background"] + record["penalty"], record["objective"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_do_not_matter_where_a_row_is_split(dtype):
    rng = np.random.default_rng(0)
    n = _core.long_row + 300
    X = sp.random_array((n, 12), density=0.05, format="lil", rng=rng)
    X[:, 4] = 1.0  # one item that everybody has
    one, two = (small(dtype=dtype, max_iter=2, n_threads=t).fit(X) for t in (1, 4))
    assert one.user_factors_.tobytes() == two.user_factors_.tobytes()
    assert one.item_factors_.tobytes() == two.item_factors_.tobytes()
    assert one.objective_ == two.objective_
    assert_allclose(one.objective_, dense_objective(one, X), rtol=1e-4 if dtype == "float32" else 1e-8)


def test_empty_rows_and_columns_are_held_at_zero():
    X = np.zeros((6, 5))
    X[:4, :3] = np.random.default_rng(0).integers(0, 3, (4, 3)) + np.eye(4, 3)
    for background in (0.0, 0.2):
        for reg_scaling in ("constant", "count", 1.0):
            model = small(rank=2, background=background, reg_scaling=reg_scaling, dtype="float32").fit(X)
            assert not model.user_factors_[4:].any()
            assert not model.item_factors_[3:].any()


def test_rows_that_nothing_determines_are_named():
    X = np.zeros((6, 5))
    X[0, 0] = X[1, 1] = 2
    with pytest.raises(RowError, match=r"row \d+ of side [01] has no finite solution.*raise `reg`"):
        small(reg=0.0, background=0.0).fit(X)  # rows without cells, penalty or background


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rank_beyond_the_data_without_penalty_stays_bounded(dtype):
    X = np.ones((6, 5))
    X[0, 0] = X[1, 1] = 2
    model = small(rank=8, reg=0.0, dtype=dtype).fit(X)
    assert np.abs(model.user_factors_ @ model.item_factors_.T).max() < 10
    assert np.abs(model.user_factors_).max() * np.abs(model.item_factors_).max() < 1e6
    values = [record["objective"] for record in model.history_]
    assert np.all(np.diff(values) <= 1e-4)


# ---------------------------------------------------------------------- starting and stopping


def test_n_init_keeps_the_best(X):
    alone = [small(random_state=seed, max_iter=2).fit(X).objective_ for seed in range(5)]
    assert small(n_init=5, max_iter=2).fit(X).objective_ == min(alone)


@pytest.mark.parametrize("init", ["scaled", "normal", "svd"])
def test_every_start_takes_no_seed(X, init):
    assert np.isfinite(small(init=init, random_state=None).fit(X).objective_)


def test_random_state_takes_generators(X):
    one, two = (small(random_state=np.random.default_rng(3)).fit(X) for _ in range(2))
    assert one.user_factors_.tobytes() == two.user_factors_.tobytes()


def test_warm_start_continues(X):
    warm = small(max_iter=3, warm_start=True)
    first = warm.fit(X).objective_
    second = warm.fit(X)
    assert second.objective_ < first
    assert second.history_[0]["objective"] <= first
    assert_allclose(second.objective_, small(max_iter=6).fit(X).objective_, rtol=1e-2)


def test_warm_start_needs_the_same_users_items_and_rank(X):
    warm = small(warm_start=True).fit(X)
    with pytest.raises(ValueError, match=r"warm_start=True needs the users, items and rank.*use partial_fit"):
        warm.fit(X[:-1])
    with pytest.raises(ValueError, match="warm_start=True needs"):
        warm.set_params(rank=3).fit(X)


def test_callbacks_stop_and_see_the_history(X):
    seen = []
    model = small(max_iter=20, callbacks=[lambda r: seen.append(r["objective"]) or len(seen) == 3]).fit(X)
    assert model.n_iter_ == 3
    assert not model.converged_
    assert seen[:2] == [record["objective"] for record in model.history_[:2]]


def test_an_interrupted_fit_is_kept_where_asked_and_not_restarted(X):
    calls = []

    def interrupt(record):
        calls.append(record)
        if record["iteration"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small(callbacks=[interrupt]).fit(X)
    calls.clear()
    model = small(callbacks=[interrupt], n_init=3).fit(X, keep_on_interrupt=True)
    assert model.interrupted_
    assert model.n_iter_ == len(calls) == 2
    assert_allclose(model.objective_, dense_objective(model, X), rtol=1e-9)
    assert not small().fit(X).interrupted_


def test_max_seconds_stops(X):
    assert small(max_iter=1000, max_seconds=0).fit(X).n_iter_ == 1


def test_tol_stops_and_says_so(X):
    model = small(max_iter=500, tol=1e-3).fit(X)
    assert model.converged_
    assert model.n_iter_ < 500
    assert not small(max_iter=2).fit(X).converged_


# ---------------------------------------------------------------------- scikit-learn


def test_before_fit_everything_says_so(X, tmp_path):
    fresh = WALS()
    for call in (
        lambda: fresh.recommend(0),
        lambda: fresh.recommend_for([0]),
        lambda: fresh.similar_items(0),
        lambda: fresh.similar_users(0),
        lambda: fresh.explain(0, 0),
        lambda: fresh.transform(X),
        lambda: fresh.score(X),
        lambda: fresh.rank_items(X, 3),
        lambda: fresh.save(tmp_path / "m.safetensors"),
        lambda: fresh.recommend_to_file(tmp_path / "m.parquet"),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_score_is_the_mean_ndcg_of_held_out_cells():
    train = np.zeros((4, 6))
    train[:, :2] = 1
    held_out = np.zeros((4, 6))
    held_out[0, 3] = held_out[2, 5] = 1
    model = small(rank=1).fit(train)
    rows = np.ones((4, 1)), np.array([[9.0], [8], [1], [3], [2], [0]])
    fit = model.fitted_
    model.fitted_ = ImplicitFit.here(fit.table, rows, fit.outcome, chosen=fit.chosen)
    # user 0: item 3 is first of what is left; user 2: item 5 is fourth
    assert model.score(held_out) == pytest.approx((1 + 1 / np.log2(5)) / 2)
    with pytest.raises(ValueError, match="no row of X has three cells"):
        model.score(held_out[:3])
    with pytest.raises(ValueError, match="X holds no cell; score needs at least one that was held out"):
        model.score(np.zeros((4, 6)))


def test_a_grid_can_search(X):
    everyone = np.arange(X.shape[0])
    grid = GridSearchCV(small(max_iter=2), {"rank": [2, 3]}, cv=[(everyone, everyone)], error_score="raise")
    assert grid.fit(X).best_params_["rank"] in (2, 3)
    assert clone(grid.best_estimator_).get_params()["rank"] == grid.best_params_["rank"]


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 0}, r"rank=0 must be a whole number of at least 1"),
        ({"rank": 2.5}, r"rank=2\.5 must be a whole number of at least 1"),
        ({"rank": True}, r"rank=True must be a whole number"),
        ({"background": -0.1}, r"background=-0\.1 must be a finite number of at least 0"),
        ({"background": math.nan}, r"background=nan must be a finite number"),
        ({"reg": -1}, r"reg=-1 must be a finite number of at least 0"),
        ({"reg": "small"}, r"reg='small' must be a finite number"),
        ({"reg_scaling": "rows"}, r"reg_scaling='rows' is not known; use 'constant', 'count' or a number"),
        ({"reg_scaling": math.inf}, r"reg_scaling=inf must be a finite number"),
        ({"max_iter": 0}, r"max_iter=0 must be a whole number of at least 1"),
        ({"tol": -1}, r"tol=-1 must be a finite number of at least 0"),
        ({"solver": "choleski"}, r"solver='choleski' is not known.*Did you mean 'cholesky'\?"),
        ({"init": "random"}, r"init='random' is not known; it must be one of \['power', 'scaled', 'normal', 'svd'\]"),
        ({"n_init": 0}, r"n_init=0 must be a whole number of at least 1"),
        ({"dtype": "float16"}, r"dtype='float16' is not known; it must be one of \['float32', 'float64'\]"),
        ({"n_threads": 0}, r"n_threads=0 must be a whole number of at least 1, or None"),
        ({"n_threads": "two"}, r"n_threads='two' must be a whole number of at least 1, or None"),
        ({"random_state": -1}, r"random_state=-1 must not be negative"),
        ({"max_seconds": -1}, r"max_seconds=-1 must be a finite number of at least 0"),
        ({"max_seconds": "1"}, r"max_seconds='1' must be a finite number of at least 0"),
        ({"loss": "squard"}, r"squard"),
    ],
)
def test_bad_parameters(X, change, message):
    with pytest.raises(ValueError, match=message):
        small(**change).fit(X)


def test_unknown_users_are_named(model):
    with pytest.raises(UnknownIdError, match=r"unknown user.* 999; there are 31 user"):
        model.recommend(999)
    with pytest.raises(UnknownIdError, match=r"unknown item.* 999"):
        model.similar_items(999)
    with pytest.raises(UnknownIdError, match=r"2 of the 3 given are unknown"):
        model.recommend([0, 998, 999])


# ---------------------------------------------------------------------- real data


def test_esco_fits_and_the_objective_falls(real_data):
    from halfstep.data.datasets import load_esco

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one occupation has no title
        data = load_esco(real_data / "esco-1.1.1")
    model = WALS(rank=16, max_iter=4, tol=0, random_state=0).fit(data)
    values = [record["objective"] for record in model.history_]
    assert np.all(np.diff(values) < 0)
    assert np.isfinite(model.user_factors_).all()
    best = model.recommend(model.user_ids_[:3].tolist(), 5)
    assert best.ids.shape == (3, 5)
    assert model.history_[-1]["error_reduction"] > 0.1


def test_a_warm_start_goes_on_at_a_larger_rank_from_where_the_smaller_one_was():
    cells = sp.random_array((60, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    model = WALS(4, 0.1, 0.001, random_state=0, max_iter=40, tol=0, warm_start=True, dtype="float64").fit(cells)
    small = model.objective_
    wide = model.set_params(rank=8, max_iter=1).fit(cells)
    assert wide.user_factors_.shape == (60, 8)
    cold = WALS(8, 0.1, 0.001, random_state=0, max_iter=1, tol=0, dtype="float64", init="scaled").fit(cells)
    assert wide.objective_ < small
    assert wide.objective_ < cold.objective_
    with pytest.raises(ValueError, match="or a larger rank"):
        model.set_params(rank=2).fit(cells)
    assert model.user_factors_.shape == (60, 8)
