"""Where factors start."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from halfstep.core.cells import Observations
from halfstep.core.initial import BLOCK_ROWS, initial_factors, random_rows, seed_from


def cells(n, m, seed=0):
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((n, m)) < 0.3)
    return Observations.from_cells(rows, columns, (n, m), weights=rng.uniform(0.5, 2, len(rows)), dtype=np.float64)


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (5, BLOCK_ROWS + 3), (BLOCK_ROWS - 1, 2 * BLOCK_ROWS + 1)])
def test_any_part_of_the_rows_is_the_same(start, stop):
    whole = random_rows(7, 1, 0, 3 * BLOCK_ROWS, 3)
    assert_array_equal(random_rows(7, 1, start, stop, 3), whole[start:stop])


def test_rows_depend_on_seed_side_and_number():
    base = random_rows(0, 0, 0, 50, 4)
    assert not np.array_equal(base, random_rows(1, 0, 0, 50, 4))
    assert not np.array_equal(base, random_rows(0, 1, 0, 50, 4))
    assert len(np.unique(random_rows(0, 0, 0, 3 * BLOCK_ROWS, 1))) > 2.9 * BLOCK_ROWS


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
@pytest.mark.parametrize("init", ["scaled", "normal", "svd"])
def test_the_small_side_is_filled_and_the_large_one_solved_first(shape, init):
    factors, order = initial_factors(cells(*shape), 4, init, 0, np.float32)
    small = int(np.argmin(shape))
    assert order == (1 - small, small)
    assert [f.shape for f in factors] == [(n, 4) for n in shape]
    assert not factors[1 - small].any()
    assert np.abs(factors[small]).min() > 0
    assert {f.dtype for f in factors} == {np.dtype(np.float32)}


def test_scales():
    observed = cells(3000, 2000)
    for init, scale in (("scaled", 0.1 / np.sqrt(9)), ("normal", 0.1)):
        factors, _ = initial_factors(observed, 9, init, 0, np.float64)
        assert_allclose(factors[1].std(), scale, rtol=0.03)


def test_svd_spans_the_leading_singular_vectors():
    observed = cells(30, 12)
    factors, _ = initial_factors(observed, 5, "svd", 0, np.float64)
    _, values, right = np.linalg.svd(observed.to_csr().toarray())
    lengths = np.linalg.norm(factors[1], axis=0)
    assert_allclose(lengths, np.sqrt(values[:5]), rtol=1e-4)
    assert_allclose(np.abs(right[:2] @ factors[1][:, :2] / lengths[:2]), np.eye(2), atol=1e-3)


def test_svd_takes_any_seed():
    for seed in (0, 2**32, 2**63 - 2):
        factors, _ = initial_factors(cells(30, 12), 5, "svd", seed, np.float64)
        assert np.isfinite(factors[1]).all()


def test_a_rank_no_svd_reaches_starts_at_random():
    factors, _ = initial_factors(cells(30, 6), 6, "svd", 0, np.float64)
    assert np.abs(factors[1]).min() > 0


def test_unknown_init():
    with pytest.raises(ValueError, match=r"init='scald' is not known.*Did you mean 'scaled'\?"):
        initial_factors(cells(5, 4), 2, "scald", 0, np.float32)


def test_seeds():
    assert seed_from(5) == seed_from(np.int64(5)) == 5
    assert seed_from(None) != seed_from(None)
    assert seed_from(np.random.default_rng(3)) == seed_from(np.random.default_rng(3))
    assert seed_from(np.random.RandomState(3)) == seed_from(np.random.RandomState(3))
    with pytest.raises(ValueError, match="random_state=-1 must not be negative"):
        seed_from(-1)
    with pytest.raises(TypeError, match="random_state='x' must be None, an int, a Generator or a RandomState"):
        seed_from("x")
