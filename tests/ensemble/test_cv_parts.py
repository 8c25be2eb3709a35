"""The parts of CFEnsembleCV: factor analysis against its definition, batched regressions, skill."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from halfstep.ensemble.family import analysis
from halfstep.ensemble.family.analysis import CellSums, FactorAnalysis
from halfstep.ensemble.family.members import SKILL_FLOOR, SkillSums
from halfstep.ensemble.family.roster import make_members, make_views
from halfstep.ensemble.family.views import FactorView, PredictedRows


def draw(seed: int, n: int = 80, m: int = 7, r: int = 2, missing: float = 0.4) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0.1, 1.5, m)
    scores = rng.normal(size=m) + rng.normal(size=(n, r)) @ rng.normal(size=(r, m)) + rng.normal(size=(n, m)) * noise
    return scores, rng.random((n, m)) >= missing


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), rank=st.integers(1, 3), missing=st.sampled_from([0.0, 0.3, 0.8]))
def test_the_log_posterior_never_falls(seed: int, rank: int, missing: float) -> None:
    scores, observed = draw(seed, missing=missing)
    history = np.array(FactorAnalysis.fit(scores, observed, rank, max_iter=20, tol=0).history)
    assert (np.diff(history) >= -1e-8 * np.abs(history[1:])).all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), missing=st.sampled_from([0.0, 0.5]))
def test_the_likelihood_is_that_of_the_observed_cells(seed: int, missing: float) -> None:
    scores, observed = draw(seed, n=12, missing=missing)
    model = FactorAnalysis.fit(scores, observed, 2, max_iter=3)
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    expected = sum(
        multivariate_normal(model.means[seen], covariance[np.ix_(seen, seen)]).logpdf(z[seen])
        for z, seen in zip(scores, observed, strict=True)
        if seen.any()
    )
    cells = CellSums.of(scores, observed)
    found = model.log_posterior(cells, model.expect(scores, observed)) - cells.log_prior(model)
    assert found == pytest.approx(expected)


def test_the_posterior_is_the_conditional_of_the_joint_normal() -> None:
    scores, observed = draw(3, n=10)
    model = FactorAnalysis.fit(scores, observed, 2)
    factors, covariance = model.posterior(scores, observed)
    for i, seen in enumerate(observed):
        L = model.loadings[seen]
        gain = L.T @ np.linalg.inv(L @ L.T + np.diag(model.noise[seen]))
        assert_allclose(factors[i], gain @ (scores[i] - model.means)[seen], atol=1e-9)
        assert_allclose(covariance[i], np.eye(2) - gain @ L, atol=1e-9)


def test_what_stands_on_missing_cells_does_not_matter() -> None:
    scores, observed = draw(5)
    other = np.where(observed, scores, 99.0)
    one, two = (FactorAnalysis.fit(z, observed, 2) for z in (scores, other))
    assert_allclose(one.loadings, two.loadings)
    assert_allclose(one.noise, two.noise)


def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, observed = draw(6)
    whole = FactorAnalysis.fit(scores, observed, 2)
    monkeypatch.setattr(analysis, "BLOCK_ROWS", 7)
    parts = FactorAnalysis.fit(scores, observed, 2)
    assert_allclose(parts.loadings, whole.loadings, rtol=1e-6)
    assert_allclose(parts.history, whole.history)


def test_noise_is_found_by_classifier() -> None:
    rng = np.random.default_rng(0)
    noise = np.array([0.2, 0.2, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0])
    scores = rng.normal(size=(3000, 1)) * 1.5 + rng.normal(size=(3000, 8)) * noise
    found = FactorAnalysis.fit(scores, rng.random(scores.shape) < 0.6, 1, max_iter=100, tol=1e-7)
    assert_allclose(np.sqrt(found.noise), noise, atol=0.1)  # the prior adds a little to the smallest
    assert_allclose(found.loadings[:, 0], 1.5, rtol=0.1)


def test_a_classifier_without_cells_and_a_row_without_cells_stay_at_the_average() -> None:
    scores, observed = draw(7)
    observed[:, 2] = False
    observed[4] = False
    model = FactorAnalysis.fit(scores, observed, 2)
    factors, _ = model.posterior(scores, observed)
    assert_allclose(model.loadings[2], 0, atol=1e-12)
    assert model.means[2] == pytest.approx(scores[observed].mean())
    assert_allclose(factors[4], 0, atol=1e-12)
    assert_allclose(model.reconstruct(factors)[4], model.means)


def skill_weights(P, truth, power):  # type: ignore[no-untyped-def]
    return SkillSums.of(P, truth, np.ones((1, len(P)))).weights(power)[0]


def test_skill_is_that_of_the_brier_score() -> None:
    truth = np.array([1.0, 0, 0, 0, 1, 0, 0, 0])
    P = np.column_stack([truth * 0.98 + 0.01, np.full(8, 0.25), 1 - truth])
    weights = skill_weights(P, truth, 1.0)
    assert weights.sum() == pytest.approx(1)
    brier, constant = 0.01**2, 0.25 * 0.75
    best = 1 - (8 * brier + 5 * constant) / 13 / constant
    assert_allclose(weights, np.array([best, SKILL_FLOOR, SKILL_FLOOR]) / (best + 2 * SKILL_FLOOR))
    assert_allclose(skill_weights(P[:0], truth[:0], 2.0), 1 / 3)
    assert np.isfinite(skill_weights(P[:1], truth[:1], 4.0)).all()


def test_latent_columns_have_the_size_of_what_they_explain() -> None:
    rng = np.random.default_rng(1)
    P = rng.random((200, 9))
    P[rng.random(P.shape) < 0.3] = np.nan
    cells = PredictedRows(P, np.zeros(200, np.int64))
    view = FactorView(2).fit(cells)
    sight = view.look(cells)
    reconstructed = view.model.reconstruct(view.model.posterior(cells.scores("logit"), cells.observed)[0])
    shared = view.model.means - view.model.means.mean()
    apart = reconstructed - reconstructed.mean(axis=1, keepdims=True) - shared
    assert_allclose((sight.latent**2).sum(axis=1), (apart**2).mean(axis=1), atol=1e-9)
    assert_allclose(sight.centre, reconstructed.mean(axis=1))
    assert_allclose(sight.filled[cells.observed], cells.scores("logit")[cells.observed])


def test_the_family_has_unique_names_and_cheap_views_first() -> None:
    views = make_views((7, 1, 4, 2), ("logit", "identity"), 60)
    names = [view.name for view in views]
    assert names[:3] == ["mean", "bias-adjusted mean", "factors 1"]
    assert names[-1] == "factors 7"
    members = [member.name for member in make_members(views, 100)]
    assert len(set(members)) == len(members)
    assert [name for name in members if "stacked" in name] == [f"factors 7, stacked {s}" for s in (10, 30, 100, 300)]
    only = make_members(make_views((2,), ("identity",), 60), 0)
    assert [member.name for member in only if "stacked" in member.name] == ["factors 3 of probabilities, stacked 300"]


@pytest.mark.parametrize(("labels", "weakest"), [(0, 300), (2, 300), (20, 30), (50, 10), (499, 3), (500, 1)])
def test_weak_penalties_wait_for_labels(labels: int, weakest: int) -> None:
    stacked = [member for member in make_members(make_views((1,), ("logit",), 9), labels) if "stacked" in member.name]
    assert min(member.strength for member in stacked) == weakest
