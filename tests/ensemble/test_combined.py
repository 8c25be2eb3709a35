"""The combined loss: every half-step lowers it, and each is the exact minimum over what it moves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, logit

from halfstep.core.cells import DenseCells, Observations
from halfstep.core.logistic import FREE_PENALTY, SLOPE_PENALTY
from halfstep.core.problem import Problem, Side, Solver
from halfstep.engine.local import LabelCell, solve_rows
from halfstep.ensemble.aggregators import WeightedAggregator
from halfstep.ensemble.columns import LatentColumns
from halfstep.ensemble.combined import CombinedSession
from halfstep.ensemble.confidence import Uniform
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.label_term import LabelTerm
from halfstep.ensemble.scale import make_scale
from halfstep.ensemble.start import start_classifiers
from halfstep.ensemble.table import PredictionTable


def make_session(seed=0, n=40, m=6, rank=2, *, loss="squared", channels=1, features=0, groups=False, dtype=np.float64):
    rng = np.random.default_rng(seed)
    P = rng.uniform(0.02, 0.98, (n, m))
    P[rng.random(P.shape) < 0.3] = np.nan
    P[:, 0] = rng.uniform(0.02, 0.98, n)
    scale = make_scale("logit", loss, temperature=2.0 if loss == "bernoulli" else 1.0)
    weights = np.where(np.isnan(P), 0, rng.uniform(0.2, 2, P.shape)).astype(dtype)
    table = PredictionTable(scale.target(P).astype(dtype), weights)
    columns = LatentColumns(channels, features, rank, biases=True)
    channel = np.arange(n) % channels
    side = rng.normal(size=(n, features)) if features else None
    V = start_classifiers(table, columns, channel, "svd", 0, dtype)
    V[:, columns.shared] += 0.1 * rng.normal(size=(m, rank))
    U = columns.rows(channel, side, dtype)
    names = np.arange(m) % 2 if groups else None
    factors = EnsembleFactors(columns, scale, 0.7, V, U, table, channel, Uniform(), np.ones(m))
    session = CombinedSession(factors, names)
    session.solve_row_side()
    rows = np.flatnonzero(rng.random(n) < 0.5)
    aggregator = WeightedAggregator(2.0)
    size = channels + 1 + m
    aggregator.strength, aggregator.coefficients = 2.0, np.zeros(size)
    aggregator.coefficients[channels] = 1.0
    truth = (rng.random(len(rows)) < 0.5).astype(float)
    session.labels = LabelTerm(rows, truth, rng.uniform(0.5, 2, len(rows)), 3.0, aggregator)
    session.labels.update(factors)
    return session


def dense_objective(session):
    """The docstring's formula times S / rho, cell by cell."""
    U, V, labels = session.factors.row_factors, session.factors.classifier_factors, session.labels
    free_u, free_v = slice(*session.factors.columns.row_free), slice(*session.factors.columns.classifier_free)
    z, t = U @ V.T, session.factors.table.targets
    phi = session.factors.scale.loss.value(z, t)
    total = np.nansum(session.factors.table.weights * phi) + session.factors.reg * (U[:, free_u] ** 2).sum()
    means = 0 if session.groups is None else session.group_means[session.groups]
    total += session.factors.reg * ((V[:, free_v] - means) ** 2).sum()
    if session.groups is not None:
        total += session.factors.reg * (session.group_means**2).sum()
    b, k = labels.aggregator.coefficients, session.factors.columns.n_channels
    scores = (session.factors.scale.slope * z + session.factors.scale.shift)[labels.rows]
    mean = scores.mean(axis=1)
    s = b[session.factors.channel[labels.rows]] + b[k] * mean + (scores - mean[:, None]) @ b[k + 1 :]
    total += labels.strength * (labels.weights * (np.logaddexp(0, s) - labels.targets * s)).sum()
    prior = np.zeros(len(b))
    prior[k] = 1
    strengths = np.r_[np.full(k, FREE_PENALTY), SLOPE_PENALTY, np.full(len(b) - k - 1, labels.aggregator.strength)]
    return total + labels.strength * 0.5 * (strengths * (b - prior) ** 2).sum()


CASES = {
    "plain": {},
    "channels": {"channels": 3},
    "features": {"features": 2},
    "groups": {"groups": True},
    "bernoulli": {"loss": "bernoulli"},
    "bernoulli groups": {"loss": "bernoulli", "groups": True, "channels": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_printed_loss_is_the_formula_and_no_half_step_raises_it(case):
    session = make_session(1, **CASES[case])
    value = session.objective()
    assert_allclose(value, dense_objective(session), rtol=1e-10)
    for _ in range(6):
        for step in (
            lambda: session._joint_classifiers(session.labels),
            session._update_groups,
            lambda: session.labels.update(session.factors),
            session.solve_row_side,
        ):
            step()
            after = session.objective()
            assert after <= value * (1 + 1e-12)
            value = after
    assert_allclose(value, dense_objective(session), rtol=1e-10)


@pytest.mark.parametrize("case", ["plain", "channels", "features", "groups"])
def test_joint_classifier_step_is_the_minimum_over_all_classifiers(case):
    session = make_session(2, **CASES[case])
    session._joint_classifiers(session.labels)
    best = session.objective()
    start, stop = session.factors.columns.classifier_free
    V = session.factors.classifier_factors
    flat = V[:, start:stop].copy()

    def value(x):
        V[:, start:stop] = x.reshape(flat.shape)
        return session.objective()

    found = minimize(
        value, flat.ravel() + 0.05, method="L-BFGS-B", options={"maxiter": 400, "maxfun": 10**6, "ftol": 1e-15}
    )
    assert best <= found.fun * (1 + 1e-9)
    assert_allclose(found.fun, best, rtol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "bernoulli"])
def test_row_step_is_the_minimum_over_every_row(loss):
    session = make_session(3, n=12, loss=loss)
    session.solve_row_side()
    best = session.objective()
    start, stop = session.factors.columns.row_free
    U = session.factors.row_factors
    solved = U[:, start:stop].copy()
    rng = np.random.default_rng(0)
    for scale in (1e-4, 1e-2, 1):
        for _ in range(20):
            U[:, start:stop] = solved + scale * rng.normal(size=solved.shape)
            assert session.objective() > best

    def value(x):
        U[:, start:stop] = x.reshape(solved.shape)
        return session.objective()

    found = minimize(
        value, solved.ravel() * 0.5, method="L-BFGS-B", options={"maxiter": 500, "maxfun": 10**6, "ftol": 1e-15}
    )
    assert_allclose(found.fun, best, rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), strength=st.floats(-3, 6), spread=st.floats(-2, 1.5))
def test_label_cell_is_stationary_at_any_strength(seed, strength, spread):
    """The row's own gradient vanishes: lam b - sum w (t - z) x + strength/2 (sigmoid(s) - y) v = 0."""
    session = make_session(seed % 50, n=15)
    session.factors.classifier_factors[:, session.factors.columns.shared] *= 10**spread
    session.labels.strength = 10**strength
    session.solve_row_side()
    U, V, labels = session.factors.row_factors, session.factors.classifier_factors, session.labels
    start, stop = session.factors.columns.row_free
    residual = np.nan_to_num(session.factors.table.weights * (session.factors.table.targets - U @ V.T))
    gradient = session.factors.reg * U[:, start:stop] - residual @ V[:, start:stop]
    vector = session.labels.vector(session.factors)
    pull = 0.5 * labels.strength * labels.weights * (expit(U[labels.rows] @ vector) - labels.targets)
    gradient[labels.rows] += pull[:, None] * vector[start:stop]
    size = np.abs(residual) @ np.abs(V[:, start:stop]) + session.factors.reg * np.abs(U[:, start:stop]) + 1
    assert np.abs(gradient / size).max() < 1e-7


@pytest.mark.parametrize(
    ("start", "reach"), [(-2.6758911641392586, 434.275718719786), (30.0, 1e4), (-5.0, 1e6), (0.0, 3.0)]
)
@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_label_scores_where_plain_newton_goes_to_and_fro(start, reach, truth):
    """One free column: lam = 1, so that v'A^-1 v = v^2 and the score without label is v mu."""
    v = 2.0
    side = Side(1.0, prior=np.array([[start / v]]))
    cells = Observations((1, 1), np.array([0, 0], np.int64), np.zeros(0, np.int32))
    own, label = np.zeros((1, 1)), LabelCell(np.array([v]), np.array([truth]), np.array([2 * reach / v**2]))
    solve_rows(Problem(cells, (side, side)), 0, own, np.ones((1, 1)), Solver(), gram=None, label=label)
    z = v * own[0, 0]
    assert z - start + reach * (expit(z) - truth) == pytest.approx(0, abs=1e-9 * reach)


def test_float32_rows_agree_with_float64():
    for step in (CombinedSession.solve_row_side, lambda session: session._joint_classifiers(session.labels)):
        pair = [make_session(4, dtype=dtype) for dtype in (np.float32, np.float64)]
        for session in pair:
            step(session)
        assert_allclose(pair[0].objective(), pair[1].objective(), rtol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "bernoulli"])
def test_tables_and_blocks_of_cells_give_the_same_answer(monkeypatch, loss):
    whole = make_session(5, n=60, loss=loss)
    assert isinstance(next(whole.factors._cells(0))[1], DenseCells) is (loss == "squared")
    whole.half_step(1)
    whole.half_step(0)
    monkeypatch.setattr("halfstep.ensemble.table.BLOCK_CELLS", 50)
    monkeypatch.setattr("halfstep.ensemble.factors.DENSE_COLUMNS", 0)
    parts = make_session(5, n=60, loss=loss)
    parts.half_step(1)
    parts.half_step(0)
    assert len(list(parts.factors._cells(0))) > 5
    assert_allclose(parts.factors.row_factors, whole.factors.row_factors, rtol=1e-8, atol=1e-10)


def test_scale_turns_targets_into_log_odds_and_back():
    p = np.array([0.05, 0.5, 0.9])
    assert_allclose(make_scale("logit", "squared").target(p), logit(p))
    identity = make_scale("identity", "squared")
    assert_allclose(identity.log_odds(np.array([0.5, 0.75])), [0, 1])
    assert_allclose(identity.probability(identity.log_odds(p)), p)
    for link in ("logit", "identity"):
        warm = make_scale(link, "bernoulli", temperature=3.0)
        assert_allclose(warm.target(p), expit(logit(p) / 3))
        assert_allclose(warm.log_odds(warm.target(p)), logit(p))
        assert_allclose(warm.prediction(warm.target(p)), p)
