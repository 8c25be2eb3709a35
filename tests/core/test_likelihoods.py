"""Noise precision and degrees of freedom are drawn from what is left of them once scales are integrated out."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import chisquare

from halfstep.core.drawn_cells import Chance, Prior
from halfstep.core.likelihoods import FEWEST, MOST, Scales

COUNTS = np.array([1.0, 3.0, 3.0, 8.0, 20.0, 0.0, 2.5])
SQUARES = np.array([0.2, 9.0, 1.5, 4.0, 60.0, 0.0, 0.3])


def marginal(alpha, nu):
    """Log density of all cells, up to what neither changes, scale by scale by quadrature."""
    total = 0.0
    for count, squares in zip(COUNTS, SQUARES, strict=True):

        def density(h, count=count, squares=squares):
            prior = np.exp(nu / 2 * np.log(nu / 2) - gammaln(nu / 2) + (nu / 2 - 1) * np.log(h) - nu / 2 * h)
            return prior * (alpha * h) ** (count / 2) * np.exp(-alpha * h * squares / 2)

        total += np.log(quad(density, 0, np.inf, limit=200)[0])
    return total


def chance(rng):
    return Chance(0, 0, rng)


@pytest.mark.parametrize("what", ["alpha", "nu"])
def test_draws_have_the_law_with_scales_integrated_out(what):
    """Thinned draws in 8 bins of equal probability, chi-square: a false alarm in one of 10^6."""
    prior, rng, scales = Prior(noise_shape=2.0, noise_rate=1.5), np.random.default_rng(3), Scales.of(COUNTS)
    grid = np.linspace(-5, 4, 400) if what == "alpha" else np.linspace(np.log(FEWEST), np.log(MOST), 400)[1:-1]
    if what == "alpha":
        log = [marginal(np.exp(a), 5.0) + prior.noise_shape * a - prior.noise_rate * np.exp(a) for a in grid]
    else:
        log = [marginal(0.7, np.exp(x)) - x for x in grid]
    mass = np.cumsum(np.exp(np.array(log) - np.max(log)))
    edges = np.interp(np.arange(1, 8) / 8, mass / mass[-1], grid + (grid[1] - grid[0]) / 2)
    at, found = 3.0, []
    for number in range(6000):
        if what == "alpha":
            at = scales.draw_alpha(at, 5.0, SQUARES, chance(rng), prior)
        else:
            at = scales.draw_nu(0.7, at, SQUARES, chance(rng))
        if number % 6 == 5:
            found.append(np.log(at))
    counts = np.bincount(np.searchsorted(edges, found), minlength=8)
    assert chisquare(counts).pvalue > 1e-6, counts


def test_groups_that_are_alike_are_told_by_one_number():
    """Cells of weight 1 have one count; the answer is that of counts written out."""
    squares = np.abs(np.sin(np.arange(50.0))) * 3
    one, many = Scales.of(np.ones(50)), Scales(50, np.ones(50), (np.array([1.0]), np.array([50.0])))
    assert one.counts == 1.0
    for name, given in (("draw_nu", ()), ("draw_alpha", (Prior(),))):
        drawn = [getattr(s, name)(0.9, 4.0, squares, chance(np.random.default_rng(1)), *given) for s in (one, many)]
        np.testing.assert_allclose(*drawn, rtol=1e-10)
