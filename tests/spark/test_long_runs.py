"""Fits of more than twenty sweeps: longer than any chain of half-steps that is kept. Equal to those of one machine."""

import numpy as np
import pytest

import halfstep as hs
from halfstep.engine.spark import SparkEngine

pytestmark = pytest.mark.spark
SWEEPS = 22
BROADCAST, MIXED = 1 << 30, 4_000  # bytes: both sides broadcast; the larger one sent row by row


@pytest.fixture(scope="module")
def ratings(pairs):
    table = pairs.drop(columns="weight").drop_duplicates().iloc[:600].copy()
    table["stars"] = np.random.default_rng(1).integers(1, 6, len(table)).astype(float)
    return table


@pytest.mark.parametrize(("loss", "limit"), [("absolute", BROADCAST), ("huber", MIXED)])
def test_ratings(spark, ratings, loss, limit):
    """With every side broadcast and no checkpoint, sweep 8 used to ask for a broadcast that had been destroyed."""
    settings = {"rank": 3, "max_iter": SWEEPS, "tol": 0.0, "random_state": 2, "dtype": "float64", "C": 1 / 60}
    local = hs.PLQMF(loss=loss, row_tol=1e-9, **settings).fit(ratings[["user", "item"]], ratings.stars)
    engine = SparkEngine(spark, blocks=2, broadcast_limit=limit)
    model = hs.PLQMF(loss=loss, row_tol=1e-9, **settings, engine=engine).fit(spark.createDataFrame(ratings), "stars")
    assert len(model.history_) == SWEEPS
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-4)


def test_interactions(spark, pairs, frame):
    settings = {"rank": 6, "max_iter": SWEEPS, "tol": 0.0, "random_state": 3, "dtype": "float64", "solver": "cg"}
    local = hs.WALS(**settings).fit(pairs)
    model = hs.WALS(**settings, engine=SparkEngine(spark, blocks=2, broadcast_limit=MIXED)).fit(frame)
    assert len(model.history_) == SWEEPS
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-6)
