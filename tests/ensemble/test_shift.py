"""Shift is seen: distances are those of the covariance, p-values are uniform, batches and shares are told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

import halfstep as hs
from halfstep.ensemble.family.analysis import FactorAnalysis
from halfstep.ensemble.family.distance import cube_root, parts_of
from halfstep.ensemble.family.views import PredictedRows
from halfstep.ensemble.predictions import expit
from halfstep.ensemble.shift import batch
from halfstep.ensemble.shift.prevalence import Answered, shares
from halfstep.ensemble.shift.routing import FUSION, MEAN, Difficulty, Routes, spearman

from ..contract.refusal import unchanged

pytestmark = pytest.mark.filterwarnings("ignore::halfstep.ensemble.predictions.PredictionWarning")
CHEAP = hs.CFEnsembleCV(ranks=(1,), links=("logit",), folds=2)
N, M = 600, 12


def made(seed: int = 0, share: float = 0.4, n: int = N, missing: float = 0.2) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < share).astype(int)
    signal = np.where(truth == 1, 1.2, -1.2) + rng.normal(size=n)
    P = expit(np.outer(signal, np.linspace(1.0, 2.0, M)) + 0.7 * rng.normal(size=(n, M)))
    P[rng.random(P.shape) < missing] = np.nan
    return P, truth


P, TRUTH = made()
Y = np.where(np.arange(N) < 150, TRUTH, -1)
NEW, NEW_TRUTH = made(1)


@pytest.fixture(scope="module")
def shift() -> hs.Shift:
    return hs.Shift(CHEAP, route="auto", rank=2).fit(P, Y)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 7), st.integers(1, 3), st.integers(0, 10_000))
def test_the_distance_is_that_of_the_covariance_of_observed_cells(m: int, rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = FactorAnalysis(rng.normal(size=m), rng.normal(size=(m, rank)), rng.uniform(0.1, 2, m))
    cells = expit(rng.normal(size=(1, m)))
    cells[0, rng.random(m) < 0.4] = np.nan
    cells[0, 0] = 0.3
    rows = PredictedRows(cells, np.zeros(1, int), 0.01)
    seen = rows.observed[0]
    covariance = (model.loadings @ model.loadings.T + np.diag(model.noise))[np.ix_(seen, seen)]
    gap = (rows.scores("logit")[0] - model.means)[seen]
    squared = gap @ np.linalg.solve(covariance, gap)
    assert_allclose(parts_of(model, rows, 1)[0, 1], cube_root(np.array([squared]), np.array([float(seen.sum())]))[0])


def test_p_values_of_instances_like_the_fitted_ones_are_uniform(shift: hs.Shift) -> None:
    p = shift.novelty(NEW).p
    assert ((p > 0) & (p <= 1)).all()
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(p <= level) - level) < 4 * np.sqrt(level * (1 - level) / N)


@pytest.mark.parametrize("kind", ["noise", "permuted", "flipped"])
def test_instances_unlike_the_fitted_ones_are_seen(shift: hs.Shift, kind: str) -> None:
    """A relative residual did not: uniform noise had AUC .39 on one set."""
    rng = np.random.default_rng(2)
    strange = {
        "noise": np.where(np.isnan(NEW), np.nan, rng.random(NEW.shape)),
        "permuted": np.column_stack([rng.permutation(NEW[:, j]) for j in range(M)]),
        "flipped": np.where(np.arange(M) % 2, NEW, 1 - NEW),
    }[kind]
    who = np.repeat([0, 1], N)
    score = np.r_[shift.novelty(NEW).score, shift.novelty(strange).score]
    assert roc_auc_score(who, score) > 0.9
    single = hs.CFEnsemble(rank=2, max_iter=5).fit(P, Y)
    found = np.r_[single.novelty(NEW), single.novelty(strange)]
    assert roc_auc_score(who, found) > 0.85
    assert ((found >= 0) & (found <= 1)).all()
    assert shift.test(strange[:100]).p < 0.01


def test_batches_like_the_fitted_ones_are_let_through(shift: hs.Shift) -> None:
    p = [shift.test(made(seed, n=60)[0]).p for seed in range(10, 18)]
    assert np.mean(np.array(p) < 0.1) < 0.35
    assert min(p) > 0.001


def test_discrepancy_is_exchangeable() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    assert batch.compare(a, a.copy()).p > 0.9
    assert batch.compare(a, b + 3, permutations=99).p == 0.01
    big = batch.compare(np.zeros((5, 1)), np.zeros((4, 1)))
    assert big.p == 1
    assert (big.n_reference, big.n_batch) == (5, 4)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10_000))
def test_shares_follow_from_the_mean(k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixing = 0.5 * np.eye(k) + 0.5 * rng.dirichlet(np.ones(k), k).T
    now = rng.dirichlet(np.ones(k))
    assert_allclose(shares(mixing @ now, mixing), now, atol=1e-5)


def test_the_share_of_a_class_is_found_and_corrected(shift: hs.Shift) -> None:
    same = shift.prevalence(NEW)
    assert not same.shifted
    assert_array_equal(shift.corrected(NEW), shift.predict_proba(NEW))
    rare, truth = made(5, share=0.1)
    found = shift.prevalence(rare)
    assert found.shifted
    assert abs(found.now[1] - truth.mean()) < 0.06
    assert found.low[1] <= found.now[1] <= found.high[1]
    plain, better = shift.predict_proba(rare), shift.corrected(rare)
    assert -np.log(better[np.arange(N), truth]).mean() < -np.log(plain[np.arange(N), truth]).mean()
    with pytest.raises(ValueError, match="level=2"):
        shift.prevalence(rare, level=2)


def test_no_shift_leaves_the_mean_where_it_is() -> None:
    answers = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    known = Answered(answers, answers)
    assert_allclose(known.mixing() @ known.shares, answers.mean(axis=0))


def test_routes_need_evidence() -> None:
    rng = np.random.default_rng(0)
    novelty, fusion = rng.normal(size=400), rng.uniform(0.2, 0.6, 400)
    level = Routes.learn(novelty, {FUSION: fusion, MEAN: fusion + rng.normal(0, 0.5, 400)})
    assert set(level.names) == {FUSION}
    ahead = np.where(novelty > np.quantile(novelty, 0.8), fusion - 0.15, fusion + 0.1)
    found = Routes.learn(novelty, {FUSION: fusion, MEAN: ahead})
    assert found.names == (FUSION, FUSION, MEAN, MEAN)
    assert found.who(np.array([-9.0, 9.0])) == [FUSION, MEAN]
    few = Routes.learn(novelty[:30], {FUSION: fusion[:30], MEAN: fusion[:30] - 0.2})
    assert set(few.names) == {FUSION}


def test_who_answers_is_said_and_answers(shift: hs.Shift) -> None:
    who = shift.routed(NEW)
    assert set(who.tolist()) <= {"fusion", "stacker", "mean"}
    kept = who == "fusion"
    assert_array_equal(shift.predict_proba(NEW)[kept], shift.model_.predict_proba(NEW)[kept])
    plain = hs.Shift(CHEAP, rank=2).fit(P, Y)
    assert set(plain.routed(NEW).tolist()) == {"fusion"}
    assert plain.score(NEW, NEW_TRUTH) > 0.8


def test_difficulty_follows_error_more_than_the_spread_of_predictions(shift: hs.Shift) -> None:
    hard, answers = shift.difficulty(NEW), shift.model_.predict_proba(NEW)
    error = 1 - answers[np.arange(N), NEW_TRUTH]
    assert spearman(hard, error) > spearman(np.nanstd(NEW, axis=1), error)
    assert shift.difficulty_correlation_["difficulty"] > shift.difficulty_correlation_["spread"]
    assert abs(hard.mean() - np.mean(answers.argmax(axis=1) != NEW_TRUTH)) < 0.05


def test_nothing_is_needed_of_labels() -> None:
    model = hs.Shift(CHEAP).fit(P)
    assert model.difficulty_correlation_ is None
    assert isinstance(model.fitted_.difficulty, Difficulty)
    assert np.isfinite(model.difficulty(NEW)).all()
    assert np.isfinite(model.prevalence(NEW).now).all()


def test_many_classes_and_empty_instances() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=200)
    cube = rng.dirichlet(np.ones(3), (200, 6)) * 0.5
    cube[np.arange(200), :, truth] += 0.5
    cube[3] = np.nan
    model = hs.Shift(CHEAP, route="auto").fit(cube, np.where(np.arange(200) < 90, truth, -1))
    for found in (model.predict_proba(cube), model.prevalence(cube).now, model.novelty(cube).p, model.difficulty(cube)):
        assert np.isfinite(found).all()
    assert model.score(cube[100:], truth[100:]) > 0.8


def test_a_refused_fit_changes_nothing() -> None:
    model = hs.Shift(hs.baselines.Mean(), folds=2).fit(P, Y)
    bad = P.copy()
    bad[3, 2] = 7.0
    unchanged(model, lambda: model.fit(bad, Y), ValueError, lambda: model.predict_proba(NEW[:5]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"route": "best"}, "route='best'"), ({"rank": 0}, "rank=0"), ({"folds": -1}, "folds=-1")],
)
def test_bad_parameters_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hs.Shift(CHEAP, **parameters).fit(P, Y)


def test_positive_and_classes_of_the_model_count():
    """Shift(CFEnsembleCV(positive="sick")) asked for positive= again, and classes= were refused."""
    words = np.array([None if y < 0 else "well" if y else "sick" for y in Y], dtype=object)
    cheap = hs.CFEnsembleCV(ranks=(1,), links=("logit",), folds=2, positive="sick")
    shift = hs.Shift(cheap, folds=0).fit(1 - P, words)
    assert shift.classes_.tolist() == ["sick", "well"]
    assert_allclose(shift.predict_proba(1 - P), hs.Shift(CHEAP, folds=0).fit(P, Y).predict_proba(P), atol=1e-9)
    assert cheap.positive == "sick"
    soft = np.dstack([(1 - P) * 0.9, P * 0.9, np.where(np.isnan(P), np.nan, 0.1)])
    many = hs.CFEnsembleCV(ranks=(1,), folds=2, classes=["a", "b", "c"])
    letters = np.array([None if y < 0 else "ab"[y] for y in Y], dtype=object)
    found = hs.Shift(many, folds=0).fit(soft, letters)
    assert found.classes_.tolist() == ["a", "b", "c"]
    assert found.predict_proba(soft).shape == (N, 3)


def test_votes_go_through_shift_as_through_its_model():
    """Text in P ended in "could not convert string to float"."""
    votes = np.where(np.isnan(P), None, np.where(np.nan_to_num(P) > 0.5, "yes", "no"))
    words = np.array([None if y < 0 else "yes" if y else "no" for y in Y], dtype=object)
    shift = hs.Shift(CHEAP, folds=0).fit(votes, words)
    assert (shift.predict(votes) == np.where(TRUTH == 1, "yes", "no")).mean() > 0.8
    assert shift.novelty(votes).p.shape == (N,)
