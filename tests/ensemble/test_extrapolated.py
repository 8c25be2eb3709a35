"""Sweeps of the combined loss are extrapolated: fewer of them, a loss as low, and never a rise."""

from __future__ import annotations

import numpy as np
import pytest

from halfstep import CFEnsemble
from halfstep.core.extrapolate import Extrapolation
from halfstep.data.datasets import make_predictions


@pytest.fixture
def data():
    P, y, _ = make_predictions(600, 12, missing=0.3, labels=0.15, random_state=3)
    return P, y


@pytest.mark.parametrize("settings", [{}, {"loss": "bernoulli"}, {"aggregator": "mean"}, {"dtype": "float64"}])
def test_extrapolated_sweeps_end_as_low_after_fewer_and_never_rise(data, settings, monkeypatch):
    def fit():
        return CFEnsemble(rank=3, max_iter=80, tol=1e-6, **settings).fit(*data)

    ours = fit()
    monkeypatch.setattr(Extrapolation, "propose", lambda self, before, after: after)
    plain = fit()
    totals = np.array([record["total"] for record in ours.history_])
    assert np.diff(totals).max() <= 1e-6 * totals[0]
    assert totals[-1] <= plain.history_[-1]["total"] * (1 + 1e-5)
    assert ours.n_iter_ < plain.n_iter_


def test_a_proposal_that_raises_the_loss_is_refused(data, monkeypatch):
    asked = []

    def worse(self, before, after):
        asked.append(after)
        return after if len(asked) == 1 else -3 * after

    monkeypatch.setattr(Extrapolation, "propose", worse)
    refused = CFEnsemble(rank=3, max_iter=10, tol=0).fit(*data)
    monkeypatch.setattr(Extrapolation, "propose", lambda self, before, after: after)
    plain = CFEnsemble(rank=3, max_iter=10, tol=0).fit(*data)
    totals = [[record["total"] for record in model.history_] for model in (refused, plain)]
    assert len(asked) == 10
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)
