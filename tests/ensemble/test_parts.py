"""Rows that are elsewhere, known by their sums, lead to the same factorisation as rows at hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep.ensemble.aggregators import WeightedAggregator
from halfstep.ensemble.columns import Columns
from halfstep.ensemble.combined import Factorisation, Labels
from halfstep.ensemble.parts import LocalPart, PartSums, SiteSums
from halfstep.ensemble.start import start_classifiers
from halfstep.ensemble.table import Scale, Table

CASES = {
    "squared": {},
    "squared, labels": {"labels": True},
    "identity link, groups": {"link": "identity", "groups": True},
    "bernoulli": {"bernoulli": True, "groups": True},
    "bernoulli, labels": {"bernoulli": True, "labels": True},
}


def history(case, cut, sweeps=4):
    """Factors and records of a fit whose rows from `cut` on are elsewhere; None: all are at hand."""
    case = dict(CASES[case])
    labelled, grouped = case.pop("labels", False), case.pop("groups", False)
    rng = np.random.default_rng(0)
    P = rng.uniform(0.02, 0.98, (60, 7))
    P[:, 1:] = np.where(rng.random((60, 6)) < 0.3, np.nan, P[:, 1:])
    scale, columns, channel = Scale(**case), Columns(1, 0, 2, biases=True), np.zeros(60, np.int64)
    table = Table(scale.target(P), np.where(np.isnan(P), 0, rng.uniform(0.3, 2, P.shape)))
    V = start_classifiers(table, columns, channel, "svd", 0, np.float64)
    here = slice(0, cut)
    rest = None
    if cut is not None:
        there = np.arange(cut, 60)
        rest = LocalPart(table.take(there), columns, scale, 0.7, columns.rows(channel[there], None, np.float64))
    session = Factorisation(
        table.take(np.arange(60)[here]),
        columns,
        scale,
        0.7,
        channel[here],
        columns.rows(channel[here], None, np.float64),
        V,
        groups=np.arange(7) % 2 if grouped else None,
        rest=rest,
    )
    session.solve_row_side()
    if labelled:
        aggregator = WeightedAggregator(2.0)
        aggregator.start(7, 1)
        session.labels = Labels(np.arange(10), np.arange(10) % 2.0, np.ones(10), 3.0, aggregator)
    return session.run(rho=0.5, total_weight=100.0, max_iter=sweeps, tol=0.0).history, V


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
