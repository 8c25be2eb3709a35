"""What every estimator owes, from the mathematics: inherit `EstimatorContract` and write the few adapters it lists.

Knows cells, knobs and objectives; never what the rows stand for.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone


@dataclass(frozen=True)
class Cells:
    """Observed cells of an (n, m) matrix, each at most once."""

    rows: Any
    columns: Any
    targets: Any
    weights: Any
    shape: tuple[int, int]

    def take(self, keep: Any) -> Cells:
        """Some of the cells, in any order, repeated or not."""
        return Cells(self.rows[keep], self.columns[keep], self.targets[keep], self.weights[keep], self.shape)

    @property
    def T(self) -> Cells:
        return Cells(self.columns, self.rows, self.targets, self.weights, self.shape[::-1])


def random_cells(seed: int = 0, shape: tuple[int, int] = (31, 19), share: float = 0.25) -> Cells:
    """Cells with integer weights and targets of 1; no row or column is empty."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < share
    mask[np.arange(shape[0]), np.arange(shape[0]) % shape[1]] = True
    rows, columns = np.nonzero(mask)
    return Cells(rows, columns, np.ones(len(rows)), rng.integers(1, 4, len(rows)).astype(float), shape)


class EstimatorContract:
    """Adapters first; the tests below them hold for every family."""

    estimator: Any
    """The class."""
    base: ClassVar[dict[str, Any]]
    """Parameters of a small float64 fit with tol=0 and a fixed seed."""
    knobs: ClassVar[dict[str, dict[str, Any]]]
    """Parameter -> the parameters that turn it, itself among them. Every public parameter is here or in `inert`."""
    inert: ClassVar[set[str]]
    """Parameters that must not change the fit."""
    data_arguments: ClassVar[set[str]] = {"X", "y"}
    """Arguments of `fit` that the adapters or tests of their own cover."""
    rounding = 1e-9
    exact_rows = 1e-7

    def cells(self, seed: int = 0) -> Cells:
        return random_cells(seed)

    def fit(self, model: Any, cells: Cells) -> Any:
        """Fit and return the model."""
        raise NotImplementedError

    def scores(self, model: Any) -> Any:
        """(n, m) predictions of every cell."""
        raise NotImplementedError

    def reported(self, model: Any) -> list[float]:
        """The objective after each sweep, the last one being that of the result."""
        raise NotImplementedError

    def dense(self, model: Any, cells: Cells) -> float:
        """The objective by the oracle, every cell touched."""
        raise NotImplementedError

    def fold_in(self, model: Any, cells: Cells) -> tuple[Any, Any]:
        """The rows of `cells` solved anew, and as they were fitted."""
        raise NotImplementedError

    def make(self, **changes: Any) -> Any:
        return self.estimator(**(self.base | changes))

    def fitted(self, cells: Cells | None = None, **changes: Any) -> Any:
        return self.fit(self.make(**changes), self.cells() if cells is None else cells)

    # ------------------------------------------------------------------ the contract

    def test_the_reported_objective_is_the_dense_one_and_never_rises(self) -> None:
        model = self.fitted(max_iter=8)
        values = np.array(self.reported(model))
        assert len(values) == 8
        assert np.all(np.diff(values) <= self.rounding * np.abs(values[1:]))
        assert values[-1] < values[0] * (1 - 1e-4)  # and it does fall
        assert_allclose(values[-1], self.dense(model, self.cells()), rtol=self.rounding)

    def test_every_parameter_is_decided_upon(self) -> None:
        known = set(self.make().get_params(deep=False))
        assert known == set(self.knobs) | self.inert
        assert not set(self.knobs) & self.inert
        assert set(inspect.signature(self.estimator.fit).parameters) - {"self"} == self.data_arguments

    def test_turning_any_knob_changes_the_fit(self) -> None:
        plain = self.scores(self.fitted())
        assert_allclose(self.scores(self.fitted()), plain, rtol=0, atol=0)
        for name, change in self.knobs.items():
            assert name in change
            others = {key: value for key, value in change.items() if key != name}
            before = self.scores(self.fitted(**others)) if others else plain
            after = self.scores(self.turned(name, change))
            same = np.shape(after) == np.shape(before) and np.allclose(after, before, rtol=1e-9, atol=1e-12)
            assert not same, f"{name}={change[name]!r} changes nothing"

    def turned(self, name: str, change: dict[str, Any]) -> Any:
        """The model with a knob turned; some need more than one fit to show."""
        return self.fitted(**change)

    def test_data_changes_the_fit(self) -> None:
        cells = self.cells()
        plain = self.scores(self.fitted(cells))
        heavier = cells.weights.copy()
        heavier[3] += 1
        assert not np.allclose(self.scores(self.fitted(replace(cells, weights=heavier))), plain, atol=1e-9)
        assert not np.allclose(self.scores(self.fitted(cells.take(np.arange(1, len(cells.rows))))), plain, atol=1e-9)

    def test_integer_weights_equal_repeated_cells(self) -> None:
        cells = self.cells()
        repeated = replace(cells, weights=np.ones(len(cells.rows))).take(
            np.random.default_rng(0).permutation(np.repeat(np.arange(len(cells.rows)), cells.weights.astype(int)))
        )
        assert_allclose(self.scores(self.fitted(repeated)), self.scores(self.fitted(cells)), atol=self.exact_rows)

    def test_weight_zero_equals_absent(self) -> None:
        cells = self.cells()
        weights = cells.weights.copy()
        weights[::7] = 0
        absent = self.fitted(cells.take(weights > 0))
        assert_allclose(
            self.scores(self.fitted(replace(cells, weights=weights))), self.scores(absent), atol=self.exact_rows
        )

    def test_folding_in_a_training_row_returns_its_fitted_row(self) -> None:
        cells = self.cells()
        again, fitted = self.fold_in(self.fitted(cells), cells)
        assert_allclose(again, fitted, atol=self.exact_rows)

    def test_one_and_many_threads_give_the_same_bits(self) -> None:
        one = self.scores(self.fitted(n_threads=1))
        for n_threads in (2, 3):
            assert np.array_equal(self.scores(self.fitted(n_threads=n_threads)), one)

    def test_the_same_seed_gives_the_same_bits(self) -> None:
        assert np.array_equal(self.scores(self.fitted()), self.scores(self.fitted()))
        assert not np.array_equal(self.scores(self.fitted()), self.scores(self.fitted(random_state=99)))

    def test_fit_leaves_parameters_and_data_alone(self) -> None:
        cells = self.cells()
        copies = [np.array(v) for v in (cells.rows, cells.columns, cells.targets, cells.weights)]
        model = self.make()
        before = dict(model.get_params(deep=False))
        self.fit(model, cells)
        assert model.get_params(deep=False) == before
        for now, then in zip((cells.rows, cells.columns, cells.targets, cells.weights), copies, strict=True):
            assert np.array_equal(now, then)

    def test_fitting_again_starts_anew(self) -> None:
        model = self.fitted(self.cells(5))
        assert_allclose(self.scores(self.fit(model, self.cells())), self.scores(self.fitted()), rtol=0, atol=0)

    def test_a_clone_has_the_parameters_and_no_fit(self) -> None:
        model = self.fitted()
        copy = clone(model)
        assert copy.get_params(deep=False) == model.get_params(deep=False)
        assert not [name for name in vars(copy) if name.endswith("_") and not name.startswith("_")]

    def test_a_long_fit_settles(self) -> None:
        values = self.reported(self.fitted(max_iter=300, tol=1e-7))
        assert len(values) < 300
        assert abs(values[-1] - values[-2]) <= 1e-6 * abs(values[-1])

    def test_bad_common_parameters_are_refused(self) -> None:
        for name, bad in {"max_iter": 0, "tol": -1.0, "rank": 0, "dtype": "int8", "n_threads": 0}.items():
            if name in self.make().get_params(deep=False):
                with pytest.raises(ValueError, match=f"{name}={bad!r}"):
                    self.fitted(**{name: bad})
