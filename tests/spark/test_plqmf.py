"""PLQMF on Spark gives what PLQMF gives on one machine: several losses, biases, classes, weights."""

import numpy as np
import pytest

import halfstep as hs
from halfstep.engine.spark import SparkEngine

pytestmark = pytest.mark.spark
SETTINGS = {"rank": 3, "max_iter": 2, "tol": 0.0, "row_tol": 1e-8, "random_state": 2, "dtype": "float64"}


@pytest.fixture(scope="module")
def ratings(pairs):
    """The pairs with a rating, two classes and how much each counts; repeated pairs count each time."""
    rng = np.random.default_rng(1)
    table = pairs.drop(columns="weight").iloc[:600].copy()
    table["stars"] = rng.integers(1, 6, len(table)).astype(float)
    table["liked"] = np.where(table.stars + rng.normal(size=len(table)) > 3, "yes", "no")
    table["counts"] = rng.random(len(table)) + 0.5
    return table


@pytest.mark.parametrize(
    ("loss", "target", "weight"),
    [("absolute", "stars", "counts"), ("logistic", "liked", None), ("squared", "stars", None)],
)
def test_equals_the_local_fit(spark, ratings, loss, target, weight):
    local = hs.PLQMF(**SETTINGS, loss=loss).fit(
        ratings[["user", "item"]], ratings[target], None if weight is None else ratings[weight]
    )
    engine = SparkEngine(spark, blocks=2, broadcast_limit=0, split=50)
    frame = spark.createDataFrame(ratings)
    model = hs.PLQMF(**SETTINGS, loss=loss, engine=engine).fit(frame, target, weight)
    assert model.history_[-1]["mean_loss"] == pytest.approx(local.history_[-1]["mean_loss"], rel=1e-5)
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-6)
    assert model.user_factors_.columns == ["user", "factors", "bias"]
    here = model.collect()
    some = ratings[["user", "item"]].iloc[:50]
    np.testing.assert_allclose(here.decision_function(some), local.decision_function(some), atol=1e-3)
    if loss == "logistic":
        assert here.predict(some).tolist() == local.predict(some).tolist()


def test_targets_are_checked(spark, ratings):
    frame = spark.createDataFrame(ratings)
    engine = SparkEngine(spark, blocks=2)
    with pytest.raises(ValueError, match="y=None must name a column of X"):
        hs.PLQMF(engine=engine).fit(frame, None)
    with pytest.raises(ValueError, match=r"Hinge\(\) needs exactly two classes"):
        hs.PLQMF(loss="hinge", engine=engine).fit(frame, "stars")
    missing = frame.selectExpr("user", "item", "nullif(stars, 1.0) as stars")
    with pytest.raises(ValueError, match="targets in column 'stars' are null, NaN or infinite"):
        hs.PLQMF(engine=engine).fit(missing, "stars")
