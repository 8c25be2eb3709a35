"""The best constant from sums over partitions is the best constant of all cells; no cluster is needed to say so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfstep import losses
from halfstep.core.losses.constant import best_constant
from halfstep.engine.spark import constant
from halfstep.engine.spark.constant import ScoredCells, best_lift

EVERY = ["squared", "absolute", "huber", "quantile:0.9", "epsilon_insensitive", "hinge", "squared_hinge", "logistic"]


class Partitions(list):
    """What `best_lift` asks of an RDD of pairs."""

    def mapValues(self, of):
        return Partitions((key, of(value)) for key, value in self)

    def values(self):
        return Partitions(value for _, value in self)

    def collect(self):
        return list(self)


@given(seed=st.integers(0, 10**6), few=st.integers(0, 60), stars=st.booleans())
@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("name", [*EVERY, "poisson"])
def test_sums_over_partitions_give_the_same_constant(name, seed, few, stars):
    rng = np.random.default_rng(seed)
    loss = losses.get(name)
    z, w = rng.normal(size=300), rng.random(300) + 0.1
    t = rng.integers(1, 6, 300).astype(float)
    if stars:
        z = np.rint(z)
    if loss.form == "margin":
        t = np.where(t > 3, 1.0, -1.0)
    cuts = [slice(0, 90), slice(90, 91), slice(91, 91), slice(91, 300)]
    parts = Partitions((k, ScoredCells(z[cut], t[cut], w[cut])) for k, cut in enumerate(cuts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constant, "HERE", few)
        assert best_lift(loss, parts, 300) == pytest.approx(best_constant(loss, z, t, w), abs=1e-8)
