"""What is minimised, as data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep.core.problem import scaled_penalty
from halfstep.engine import Side, Solver

COUNTS = np.array([0, 1, 4])


def test_penalty_of_a_side():
    rng = np.random.default_rng(0)
    x, lam, mu = rng.normal(size=(6, 4)), rng.random(6), rng.normal(size=(6, 2))
    assert_allclose(Side(0.5).cost(x), 0.5 * np.sum(x**2))
    assert_allclose(Side(0.5).cost(x, x.T @ x), 0.5 * np.sum(x**2))
    assert_allclose(Side(lam).cost(x, x.T @ x), lam @ np.sum(x**2, axis=1))
    assert_allclose(Side(0.5, free=(1, 3)).cost(x, x.T @ x), 0.5 * np.sum(x[:, 1:3] ** 2))
    assert_allclose(Side(lam, free=(1, 3), prior=mu).cost(x), lam @ np.sum((x[:, 1:3] - mu) ** 2, axis=1))


def test_scaled_penalty_formulas():
    assert scaled_penalty(0.5, "constant", COUNTS, 0.1, 10) == 0.5
    assert scaled_penalty(0.5, 0, COUNTS, 0.1, 10) == 0.5
    assert_allclose(scaled_penalty(0.5, "count", COUNTS, 0.1, 10), [0.5, 0.5, 2.0])
    assert_allclose(scaled_penalty(0.5, 1.0, COUNTS, 0.1, 10), [0.5, 1.0, 2.5])
    assert_allclose(scaled_penalty(0.5, 0.5, COUNTS, 0.1, 10), 0.5 * np.sqrt([1.0, 2.0, 5.0]))


@pytest.mark.parametrize("scaling", ["count", 1.0, 0.5, -1.0])
def test_a_row_without_cells_and_background_is_still_held(scaling):
    lam = scaled_penalty(0.5, scaling, COUNTS, 0.0, 10)
    assert np.isfinite(lam.astype(np.float32)).all()
    assert lam.astype(np.float32).min() > 0


def test_unknown_names():
    with pytest.raises(ValueError, match=r"reg_scaling='counts' is not known; use 'constant', 'count' or a number"):
        scaled_penalty(0.5, "counts", COUNTS, 0.1, 10)
    with pytest.raises(ValueError, match=r"solver='choleski' is not known.*Did you mean 'cholesky'\?"):
        Solver("choleski")
