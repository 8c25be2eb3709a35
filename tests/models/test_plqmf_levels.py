"""PLQMF of ordered levels: thresholds, probabilities, files; absolute and quantile losses of whole stars."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import halfstep as hs
from halfstep import PLQMF, losses

from .test_plqmf import X, Y, model, objective


@pytest.mark.parametrize("intercept", [True, False])
def test_the_objective_is_the_documented_one_and_never_rises(intercept: bool) -> None:
    fit = model("ordinal", intercept=intercept, max_iter=8, tol=0, row_tol=1e-4, dtype="float64").fit(X, Y)
    values = [record["objective"] for record in fit.history_]
    assert (np.diff(values) <= 1e-12 * np.abs(values[1:])).all()
    again = model(fit.loss_)
    again.fitted_ = fit.fitted_
    assert fit.objective_ == pytest.approx(objective(again, X, Y), rel=1e-9)
    assert fit.intercept_ == 0
    assert fit.classes_.tolist() == [1, 2, 3, 4, 5]
    assert isinstance(fit.loss_, losses.Ordinal)
    assert len(fit.loss_.thresholds) == 4


def test_probabilities_and_expected_levels() -> None:
    fit = model("ordinal").fit(X, Y)
    p = fit.predict_proba(X)
    assert p.shape == (len(Y), 5)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(fit.predict(X), p @ fit.classes_, rtol=1e-6)
    assert np.mean(fit.classes_[p.argmax(axis=1)] == Y) > 1.5 * np.mean(Y == 3)
    assert fit.score(X, Y) == pytest.approx(np.mean(np.log(p[np.arange(len(Y)), Y.astype(int) - 1])), rel=1e-6)


def test_levels_are_any_numbers_in_their_order() -> None:
    plain, other = (PLQMF(loss="ordinal", random_state=0).fit(X, y) for y in (Y, 10 ** (Y / 2)))
    np.testing.assert_array_equal(plain.decision_function(X), other.decision_function(X))
    np.testing.assert_array_equal(other.classes_, 10 ** (np.arange(1, 6) / 2))


def test_thresholds_travel_with_the_model(tmp_path: Path) -> None:
    fit = model("ordinal").fit(X, Y)
    fit.save(tmp_path / "model.safetensors")
    back = hs.load(tmp_path / "model.safetensors")
    assert isinstance(back, PLQMF)
    assert back.loss_ == fit.loss_
    np.testing.assert_array_equal(back.predict_proba(X), fit.predict_proba(X))
    np.testing.assert_allclose(fit.transform(X[:30], Y[:30]).bias[0], fit.user_bias_[0], atol=1e-2)
    back.partial_fit(X[:3], [5, 5, 5])
    assert back.loss_ == fit.loss_
    with pytest.raises(ValueError, match="the levels of the fit are 1, 2, 3, 4, 5"):
        back.partial_fit(X[:3], [5, 5, 6])


def test_a_default_ordinal_fit_beats_the_shares_of_the_levels() -> None:
    pairs, y, _ = hs.datasets.make_ratings(400, 300, 12_000, random_state=7)
    test = np.arange(len(y)) % 5 == 0
    fit = PLQMF(loss="ordinal", random_state=0).fit(pairs[~test], y[~test])
    constant = losses.Ordinal().learned(np.zeros((~test).sum()), y[~test] - 1, np.ones((~test).sum()))
    assert fit.score(pairs[test], y[test]) > -0.95 * constant.value(np.zeros(test.sum()), y[test] - 1).mean()
    squared = PLQMF(random_state=0).fit(pairs[~test], y[~test])
    errors = [np.mean((each.predict(pairs[test]) - y[test]) ** 2) for each in (fit, squared)]
    assert errors[0] < 1.01 * errors[1]


# ---------------------------------------------------------------------- whole stars


def test_absolute_loss_of_whole_stars_answers_in_stars() -> None:
    """Fitted to |z - t| as it stands, most scores stuck to a star, and MAE lost to mean and damped biases."""
    fit = PLQMF(loss="absolute", random_state=0).fit(X, Y)
    assert fit.loss_ == losses.Coarse(1, 1, 1, 1, 5)
    assert set(fit.predict(X)) <= {1, 2, 3, 4, 5}
    assert np.mean(np.abs(fit.decision_function(X) - np.rint(fit.decision_function(X))) < 1e-3) < 0.1
    assert fit.score(X, Y) == pytest.approx(-np.abs(fit.predict(X) - Y).mean())
    for plain in (model("absolute"), PLQMF(loss="absolute", coarse=False)):
        assert plain.fit(X, Y).loss_ == losses.Absolute()
    assert model("absolute", coarse=True).fit(X, Y).loss_ == fit.loss_
    rng = np.random.default_rng(0)
    assert PLQMF(loss="absolute", random_state=0).fit(X, Y + rng.normal(size=len(Y))).loss_ == losses.Absolute()


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_two_levels_under_a_quantile_loss_do_not_lose_to_a_constant(q: float) -> None:
    y = (Y > 3).astype(float)
    fit, phi = PLQMF(loss=losses.Quantile(q), random_state=0).fit(X, y), losses.Quantile(q)
    constants = [phi.value(np.full(len(y), c), y).mean() for c in (0.0, 1.0)]
    assert phi.value(fit.predict(X), y).mean() <= min(constants)
