"""What the core draws for cells: words of Philox, weights, cut normals, class likelihoods, sums of residuals.

Bounds on z-scores are 6.5: a normal exceeds that once in 10^10.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import gamma, kstest, truncnorm

from halfstep import _core

ALL = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        (0, (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (ALL << 32 | ALL, (ALL,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0 << 32 | 0xA4093822,
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_words(key, counter, words):
    assert _core.philox(key, *counter) == words


@pytest.mark.parametrize("given", [1.0, 3.0])
def test_weights_of_cells_have_their_gamma_law(given):
    n, nu, alpha, e = 20_000, 4.0, 1.7, 0.9
    indptr = np.arange(0, n + 1, 20)
    drawn = _core.draw_weights(indptr, np.full(n, e), np.full(n, given), nu, alpha, 5, 3, 0, 2)
    law = gamma((nu + given) / 2, scale=given / ((nu + alpha * given * e * e) / 2))
    # A false alarm in 10^8.
    assert kstest(drawn, law.cdf).pvalue > 1e-8
    again = _core.draw_weights(indptr, np.full(n, e), np.full(n, given), nu, alpha, 5, 3, 0, 1)
    assert (again == drawn).all()
    assert (_core.draw_weights(indptr, np.full(n, e), None, nu, alpha, 5, 4, 0, 1) != drawn).mean() > 0.99


@pytest.mark.parametrize(
    ("z", "low", "high"),
    [
        (0.0, -np.inf, 0.0),
        (2.0, -np.inf, 0.0),
        (-6.0, 0.0, np.inf),
        (0.3, 0.0, 0.5),
        (-4.0, 0.0, 0.2),
        (1.0, -1.0, 3.5),
    ],
)
def test_cut_normals_have_their_law(z, low, high):
    n = 20_000
    cuts = np.array([-np.inf, *[c for c in (low, high) if np.isfinite(c)], np.inf])
    code = 0 if low == -np.inf else 1
    drawn = np.asarray(
        _core.draw_latent(np.arange(0, n + 1, 10), np.full(n, z), np.full(n, code, np.int32), cuts, 1, 0, 0, 2)
    )
    assert (drawn > low - 1e-6).all()
    assert (drawn < high + 1e-6).all()
    assert kstest(drawn, truncnorm(low - z, high - z, loc=z).cdf).pvalue > 1e-8


def test_class_sums_are_the_log_likelihood_and_its_derivatives():
    rng = np.random.default_rng(0)
    z, codes = rng.normal(size=200), rng.integers(0, 4, 200).astype(np.int32)
    inner = np.array([-0.7, 0.1, 1.2])

    def value(c):
        ends = np.concatenate([[-np.inf], c, [np.inf]])
        return np.log(ndtr(ends[codes + 1] - z) - ndtr(ends[codes] - z)).sum()

    def gradient(c):
        steps = 1e-5 * np.eye(3)
        return np.array([(value(c + s) - value(c - s)) / 2e-5 for s in steps])

    sums = np.asarray(_core.class_sums(z, codes, np.concatenate([[-np.inf], inner, [np.inf]]), 2))
    assert_allclose(sums[0], value(inner), rtol=1e-12)
    assert_allclose(sums[1:4], gradient(inner), rtol=1e-6)
    second = np.array([(gradient(inner + s) - gradient(inner - s)) / 2e-4 for s in 1e-4 * np.eye(3)])
    assert_allclose(sums[4:7], np.diag(second), rtol=1e-4)
    assert_allclose(sums[7:9], np.diag(second, 1), rtol=1e-4)


def test_class_sums_stay_finite_far_out():
    cuts = np.array([-np.inf, 0.0, 1.0, np.inf])
    sums = np.asarray(_core.class_sums(np.array([-60.0, 60.0, 30.0, 0.5]), np.array([2, 0, 1, 1], np.int32), cuts, 1))
    assert np.isfinite(sums).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_residuals(dtype):
    rng = np.random.default_rng(1)
    n, m, d = 30, 20, 7
    left, moved, right = (rng.normal(size=(k, d)).astype(dtype) for k in (n, n, m))
    base, counts = rng.normal(size=n).astype(dtype), rng.integers(0, 9, n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    rows, columns = np.repeat(np.arange(n), counts), rng.integers(0, m, counts.sum()).astype(np.int32)
    t, w = rng.normal(size=len(rows)).astype(dtype), rng.uniform(0, 2, len(rows)).astype(dtype)
    sums, e, x = _core.residuals(left, moved, base, right, indptr, columns, t, w, True, 2)
    want_e = t - np.sum(left[rows] * right[columns], axis=1)
    want_x = base[rows] + np.sum(moved[rows] * right[columns], axis=1)
    assert_allclose(e, want_e, rtol=1e-4, atol=1e-5)
    assert_allclose(x, want_x, rtol=1e-4, atol=1e-5)
    parts = np.stack([w, w * e, w * x, w * e * e, w * e * x, w * x * x], axis=1)
    want = np.stack([np.bincount(rows, column, n) for column in parts.T], axis=1)
    assert_allclose(sums, want, rtol=1e-4, atol=1e-4)
