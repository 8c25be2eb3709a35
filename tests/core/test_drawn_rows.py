"""Rows that the core draws: moments against the analytic posterior, and bits that depend on numbers alone.

Bounds on z-scores are 6.5: a normal exceeds that once in 10^10, and no test here looks at more than 1,000 of them, so a
test fails by chance less than once in 10^6.
"""

import numpy as np
import pytest

from halfstep import _core

BOUND = 6.5


def draws(cells, n_rows, lam, mu, other, *, dtype=np.float64, seed=1, sweep=0, side=0, first_row=0, n_threads=1):
    """The same row, (indices, targets, weights), drawn as each of `n_rows` rows; column 0 is pinned to 0.5."""
    indices, targets, weights = cells
    own = np.zeros((n_rows, other.shape[1]), dtype)
    own[:, 0] = 0.5
    rows = _core.half_step(own, other.astype(dtype))
    rows.cells(
        np.arange(n_rows + 1, dtype=np.int64) * len(indices),
        np.tile(indices, n_rows).astype(np.int32),
        np.tile(targets, n_rows).astype(dtype),
        np.tile(weights, n_rows).astype(dtype),
    )
    rows.columns(1, other.shape[1])
    rows.penalty(lam)
    rows.prior(np.ascontiguousarray(mu[None, :], dtype))
    rows.method(_core.Method.draw, 1e-5, 1, 64)
    rows.noise(seed, sweep, side, first_row)
    assert rows.solve(False, n_threads)["failed"] == -1
    return own[:, 1:]


def problem(n_cells, f, seed=0):
    rng = np.random.default_rng(seed)
    other = rng.normal(size=(50, f + 1))
    cells = rng.integers(0, 50, n_cells), rng.normal(size=n_cells), rng.uniform(0.2, 2, n_cells)
    return cells, 1.5, rng.normal(size=f), other


def posterior(cells, lam, mu, other):
    """Mean, and the lower Cholesky factor of the precision."""
    indices, targets, weights = cells
    x, pinned = other[indices, 1:], 0.5 * other[indices, 0]
    precision = lam * np.eye(len(mu)) + (x * weights[:, None]).T @ x
    linear = lam * mu + x.T @ (weights * (targets - pinned))
    return np.linalg.solve(precision, linear), np.linalg.cholesky(precision)


def assert_standard(whitened):
    """Means, variances and covariances of columns that should be independent standard normals."""
    n = len(whitened)
    assert np.abs(whitened.mean(axis=0)).max() * np.sqrt(n) < BOUND
    second = whitened.T @ whitened / n
    assert np.abs(np.diag(second) - 1).max() * np.sqrt(n / 2) < BOUND
    assert np.abs(second - np.diag(np.diag(second))).max(initial=0) * np.sqrt(n) < BOUND


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_cells", [0, 1, 3, 40])
@pytest.mark.parametrize("f", [1, 5, 18])
def test_moments_are_those_of_the_posterior(f, n_cells, dtype):
    case = problem(n_cells, f)
    mean, lower = posterior(*case)
    assert_standard((draws(case[0], 20_000, *case[1:], dtype=dtype) - mean) @ lower)


def test_a_long_row_in_chunks_is_drawn_from_its_posterior():
    case = problem(40_000, 4)
    mean, lower = posterior(*case)
    drawn = np.concatenate([draws(case[0], 1, *case[1:], sweep=s, n_threads=2) for s in range(300)])
    assert_standard((drawn - mean) @ lower)


def test_neighbours_in_every_number_are_independent():
    case = problem(3, 6)
    mean, lower = posterior(*case)
    streams = [{}, {"sweep": 1}, {"side": 1}, {"seed": 2}, {"first_row": 5_000}, {"seed": 1 + 2**32}]
    drawn = [(draws(case[0], 5_000, *case[1:], **named) - mean) @ lower for named in streams]
    assert_standard(np.concatenate(drawn, axis=1))


@pytest.mark.parametrize("n_cells", [5, 20_000])
def test_a_draw_has_the_same_bits_wherever_its_row_is_drawn(n_cells):
    case = problem(n_cells, 7)
    whole = draws(case[0], 12, *case[1:], dtype=np.float32)
    for n_threads in (2, 3):
        assert (draws(case[0], 12, *case[1:], dtype=np.float32, n_threads=n_threads) == whole).all()
    assert (draws(case[0], 4, *case[1:], dtype=np.float32, first_row=8) == whole[8:]).all()
    assert (draws(case[0], 12, *case[1:], dtype=np.float32, seed=2) != whole).all()


def test_tables_bounds_and_missing_noise_are_refused():
    own, other = np.zeros((2, 3)), np.ones((4, 3))

    def rows():
        made = _core.half_step(own, other)
        made.cells(np.array([0, 1, 2]), np.array([0, 1], np.int32), 1.0, 1.0)
        made.penalty(1.0)
        made.method(_core.Method.draw, 1e-5, 1, 64)
        return made

    with pytest.raises(ValueError, match="call noise first"):
        rows().solve(False, 1)
    bounded = rows()
    bounded.noise(0, 0, 0)
    bounded.nonnegative(0, 3)
    with pytest.raises(ValueError, match="without bounds"):
        bounded.solve(False, 1)
    with pytest.raises(ValueError, match="side must be 0 or 1"):
        rows().noise(0, 0, 2)
