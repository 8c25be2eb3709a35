"""Weights of features that are drawn: their moments, by both ways of drawing, and the calibration of the sampler."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.stats import chi2_contingency

from halfstep.core import drawn_features
from halfstep.core.draw import Sampler
from halfstep.core.drawn_cells import Prior
from halfstep.core.drawn_features import CentredFeatures, DrawnWeights

from .test_draw import COLUMNS, PRIOR, M, N, asked, from_prior, law, redraw

P = 3


@pytest.mark.parametrize("factored", [2048, 0], ids=["eigenvectors", "gradients"])
def test_weights_have_the_moments_of_their_posterior(factored, monkeypatch):
    """1,500 draws: means have errors of sd / 39, variances of 4%; bounds are five times as far."""
    monkeypatch.setattr(drawn_features, "FACTORED", factored)
    rng = np.random.default_rng(0)
    F = rng.normal(size=(12, 4)) * [1, 1, 3, 0.5] + [0, 5, 0, 1]
    rows, lam, eta = rng.normal(size=(12, 2)), np.array([2.0, 0.5]), np.array([0.7, 6.0])
    features = CentredFeatures(sp.csr_array(F))
    drawn = np.array([features.draw(rows, lam, eta, rng) for _ in range(1500)])
    C = F - F.mean(axis=0)
    for c in (0, 1):
        cov = np.linalg.inv(C.T @ C + eta[c] * np.eye(4)) / lam[c]
        sd = np.sqrt(np.diag(cov))
        assert_allclose((drawn[:, :, c].mean(axis=0) - lam[c] * cov @ C.T @ rows[:, c]) / sd, 0, atol=5 / 39)
        assert_allclose(np.cov(drawn[:, :, c].T) / np.outer(sd, sd), cov / np.outer(sd, sd), atol=0.19)


def test_eta_has_its_gamma_law_given_weights():
    """Given weights, eta ~ Gamma(shape + p / 2, rate / s + lam |w|^2 / 2); 1,500 draws, at five standard errors."""
    rng, prior = np.random.default_rng(1), Prior(shape=2.0, rate=0.5)
    told = DrawnWeights.start(rng.normal(size=(20, 6)), 1)
    ratios = []
    for _ in range(1500):
        told.draw(rng.normal(size=(20, 1)), np.array([3.0]), prior, rng)
        rate = 0.5 / told.features.size + 1.5 * np.sum(told.weights**2)
        ratios.append(told.eta[0] * rate)
    assert abs(np.mean(ratios) - 5.0) < 5 * np.sqrt(5 / 1500)
    assert abs(np.var(ratios) - 5.0) < 5 * np.sqrt(80 / 1500)


def told_from_prior(state, features, rng):
    """Rows, weights and eta of both sides from the prior, given the precisions of a state."""
    for side, matrix in enumerate(features):
        start, stop = COLUMNS.free[side]
        told = state.told[side] = DrawnWeights.start(matrix, stop - start)
        told.eta = rng.gamma(PRIOR.shape, told.features.size / PRIOR.rate, stop - start)
        told.weights = rng.normal(size=told.weights.shape) / np.sqrt(told.eta * state.precision[side])
        told.fitted = told.features.times(told.weights)
        state.rows[side][:, start:stop] += told.fitted


def answers(state):
    left, right = state.told
    more = [np.log(left.eta[0] * left.eta[1]), right.weights[0, 0], np.log(np.sum(left.weights**2)), left.fitted[0, -1]]
    return np.append(asked(state), more)


@pytest.mark.heavy
def test_states_keep_the_law_of_the_prior_with_features():
    """As the test of that name without features, for all it looks at, eta and weights."""
    rng = np.random.default_rng(6)
    chains, sweeps, bins = 120, 10, 6
    features = rng.normal(size=(N, P)) + 1, rng.normal(size=(M, P)) * 2

    def begin():
        state, cells = from_prior("gaussian", rng)
        told_from_prior(state, features, rng)
        return state, cells

    expected = np.array([answers(begin()[0]) for _ in range(2000)])
    found = []
    for chain in range(chains):
        state, cells = begin()
        for number in range(sweeps):
            redraw("gaussian", state, cells, rng)
            Sampler(cells, COLUMNS, law("gaussian", cells), PRIOR, chain).sweep(state, number)
        found.append(answers(state))
    for k in range(expected.shape[1]):
        edges = np.quantile(expected[:, k], np.linspace(0, 1, bins + 1)[1:-1])
        table = [np.bincount(np.searchsorted(edges, x[:, k]), minlength=bins) for x in (expected, np.array(found))]
        assert chi2_contingency(table).pvalue > 1e-7, (k, table)


def test_weights_are_scaled_with_the_rows():
    """The scale move changes rows about their means, precisions and weights together: eta lam w^2 stays."""
    rng = np.random.default_rng(9)
    state, cells = from_prior("gaussian", rng)
    told_from_prior(state, (rng.normal(size=(N, P)), rng.normal(size=(M, P))), rng)
    redraw("gaussian", state, cells, rng)
    sampler, moved = Sampler(cells, COLUMNS, law("gaussian", cells), PRIOR, 0), 0
    for number in range(20):
        side, told = number % 2, state.told[number % 2]
        place = COLUMNS.factors(side)[0] - COLUMNS.free[side][0]
        before = state.precision[side][place], told.weights[:, place].copy()
        sampler.move_scale(state, side, sampler.residual(state, side), rng)
        moved += state.precision[side][place] != before[0]
        assert_allclose(state.precision[side][place] * told.weights[:, place] ** 2, before[0] * before[1] ** 2)
        assert_allclose(told.fitted, told.features.times(told.weights))
    assert moved


@pytest.mark.heavy
def test_features_that_are_held_at_nothing_change_nothing():
    """eta = 10^9: means over draws of scores are those without features, within the noise of the means."""
    rng = np.random.default_rng(7)
    start, cells = from_prior("gaussian", rng)
    redraw("gaussian", start, cells, rng)
    means = []
    for known in (False, True):
        state, _ = from_prior("gaussian", np.random.default_rng(8))
        if known:
            for side, count in enumerate((N, M)):
                told = DrawnWeights.start(rng.normal(size=(count, P)), 2)
                told.eta, told.drawn = np.full(2, 1e9), False
                state.told[side] = told
        sampler, scores = Sampler(cells, COLUMNS, law("gaussian", cells), PRIOR, 3), []
        for number in range(1500):
            sampler.sweep(state, number)
            scores.append(state.rows[0] @ state.rows[1].T)
        blocks = np.array(scores[100:]).reshape(20, 70, N, -1).mean(axis=1)
        means.append((blocks.mean(axis=0), blocks.var(axis=0, ddof=1) / 20))
    (a, va), (b, vb) = means
    assert np.abs(a - b).max() < 0.5
    assert_allclose((a - b) / np.sqrt(va + vb), 0, atol=5)
