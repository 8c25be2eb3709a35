"""Rows that are elsewhere, known by their sums, lead to the same factorisation as rows at hand."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep.core.loop import alternate
from halfstep.ensemble.aggregators import WeightedAggregator
from halfstep.ensemble.columns import LatentColumns
from halfstep.ensemble.combined import CombinedSession
from halfstep.ensemble.confidence import Uniform
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.label_term import LabelTerm
from halfstep.ensemble.parts import PartSums
from halfstep.ensemble.scale import make_scale
from halfstep.ensemble.start import start_classifiers
from halfstep.ensemble.sums import SiteSums
from halfstep.ensemble.table import PredictionTable

CASES = {
    "squared": {},
    "squared, labels": {"labels": True},
    "identity link, groups": {"link": "identity", "groups": True},
    "bernoulli": {"loss": "bernoulli", "groups": True},
    "bernoulli, labels": {"loss": "bernoulli", "labels": True},
}


class OtherRows:
    """Rows of this process, of which nothing but sums is asked."""

    def __init__(self, factors):
        self.factors, self.n_cells = factors, factors.table.n_observed

    def under(self, V):
        return replace(self.factors, classifier_factors=V)

    def solve(self, V):
        return self.under(V).solve_rows(evaluate=True)

    def sums(self, V):
        return self.under(V).sums()


def history(case, cut, sweeps=4):
    """Factors and records of a fit whose rows from `cut` on are elsewhere; None: all are at hand."""
    case = dict(CASES[case])
    labelled, grouped = case.pop("labels", False), case.pop("groups", False)
    rng = np.random.default_rng(0)
    P = rng.uniform(0.02, 0.98, (60, 7))
    P[:, 1:] = np.where(rng.random((60, 6)) < 0.3, np.nan, P[:, 1:])
    scale = make_scale(**{"link": "logit", "loss": "squared"} | case)
    columns, channel = LatentColumns(1, 0, 2, biases=True), np.zeros(60, np.int64)
    table = PredictionTable(scale.target(P), np.where(np.isnan(P), 0, rng.uniform(0.3, 2, P.shape)))
    V = start_classifiers(table, columns, channel, "svd", 0, np.float64)
    U = columns.rows(channel, None, np.float64)
    whole = EnsembleFactors(columns, scale, 0.7, V, U, table, channel, Uniform(), np.ones(7))
    here, there = np.split(np.arange(60), [60 if cut is None else cut])
    elsewhere = [] if cut is None else [OtherRows(whole.take(there))]
    session = CombinedSession(whole.take(here), np.arange(7) % 2 if grouped else None, elsewhere, share=0.5 / 100)
    session.solve_row_side()
    if labelled:
        aggregator = WeightedAggregator(2.0)
        aggregator.start(7, 1)
        session.labels = LabelTerm(np.arange(10), np.arange(10) % 2.0, np.ones(10), 3.0, aggregator)
    return alternate(session, order=(1, 0), max_iter=sweeps, tol=0.0, measured=session.measure).history, V


@pytest.mark.parametrize("case", CASES)
def test_a_part_elsewhere_changes_nothing(case):
    whole, V = history(case, None)
    cut, V_cut = history(case, 25)
    tolerance = 1e-5 if "bernoulli" in case else 1e-9  # Newton's method stops at a tolerance
    assert_allclose(V_cut, V, rtol=tolerance, atol=tolerance)
    for name in ("total", "reconstruction", "penalty", "supervised", "rmse", "change"):
        assert_allclose([r[name] for r in cut], [r[name] for r in whole], rtol=tolerance, err_msg=name)


def test_sums_add_by_name_and_stage():
    one = PartSums(np.ones((2, 1, 1)), np.ones((2, 1)), 1.0, 2.0)
    two = SiteSums("sweep", {"rows": one, "left": 1.0}) + SiteSums("sweep", {"rows": one, "left": 2.0})
    assert_allclose(two.sums["rows"].matrices, 2)
    assert (two.sums["rows"].data, two.sums["rows"].penalty, two.sums["left"]) == (2.0, 4.0, 3.0)
    with pytest.raises(ValueError, match="'sweep' and 'start' cannot be added; merge every round"):
        two + SiteSums("start", {})
