"""Aggregators: which of them are linear, and one of a user's own."""

from __future__ import annotations

from typing import Self

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import halfstep as hs
from halfstep.core.arrays import Codes, Floats
from halfstep.ensemble.aggregators import Aggregator, Design, make_aggregator
from halfstep.ensemble.predictions import logit


class Shifted(Aggregator):
    """The mean of the scores and one number."""

    learned = ("shift",)

    def fit(self, design: Design, truth: Floats, weights: Floats, folds: Codes | None) -> Self:
        self.shift = float(logit(truth.mean()) - design.mean.mean())
        return self

    def log_odds(self, design: Design) -> Floats:
        return design.mean + self.shift

    def linear(self, m: int, n_channels: int, form: str = "reconstructed") -> tuple[Floats, Floats]:
        return np.full(m, 1 / m), np.full(n_channels, self.shift)


def data() -> tuple[Floats, Floats]:
    P, y, _ = hs.datasets.make_predictions(random_state=0)
    return P[:200, :8], y[:200]


def problem() -> tuple[Design, Floats]:
    """60 rows of 5 classifiers with 2 latent factors, and their truth."""
    random = np.random.default_rng(0)
    latent, keys = random.normal(size=(60, 2)), random.normal(size=(5, 2))
    scores = latent @ keys.T + random.normal(size=(60, 5))
    apart = scores - scores.mean(axis=1, keepdims=True)
    return Design(scores, apart, np.zeros(60, int), 1, latent, keys), (scores[:, 0] > 0).astype(float)


@pytest.mark.parametrize("name", ["mean", "weighted"])
@pytest.mark.parametrize("form", ["reconstructed", "filled"])
def test_a_linear_aggregator_says_how(name: str, form: str) -> None:
    design, truth = problem()
    found = make_aggregator(name, 3.0, False).fit(design, truth, np.ones(60), None)
    linear = found.linear(5, 1, form)
    assert linear is not None
    np.testing.assert_allclose(found.log_odds(design), design.scores @ linear[0] + linear[1][0], atol=1e-12)


def test_others_say_that_they_are_not() -> None:
    assert make_aggregator("attention", "auto", False).linear(5, 1) is None
    assert make_aggregator(LogisticRegression(), "auto", False).linear(5, 1) is None
    assert make_aggregator("weighted", 3.0, False).linear(5, 1, "latent") is None


def test_an_aggregator_of_ones_own_is_treated_as_a_built_in_one() -> None:
    P, y = data()
    mine = Shifted()
    model = hs.CFEnsemble(rank=2, max_iter=5, aggregator=mine, calibrate=False).fit(P, y)
    assert not hasattr(mine, "shift")  # a parameter stays as it was given
    np.testing.assert_array_equal(model.classifier_weights_, np.full(8, 1 / 8))
    np.testing.assert_allclose(model.predict_proba(P[:5]), model.predict_proba()[:5], atol=1e-5)


def test_what_is_learned_comes_back_under_its_names() -> None:
    design, truth = problem()
    for one in (Shifted(), make_aggregator("weighted", 3.0, False), make_aggregator("attention", 3.0, False)):
        one.fit(design, truth, np.ones(60), None)
        again = Shifted() if isinstance(one, Shifted) else type(one)(3.0)
        again.restore(one.state())
        np.testing.assert_array_equal(again.log_odds(design), one.log_odds(design))
