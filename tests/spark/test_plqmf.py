"""PLQMF on Spark gives what PLQMF gives on one machine: several losses, biases, classes, weights."""

import numpy as np
import pytest

import halfstep as hs
from halfstep.engine.spark import SparkEngine, constant

pytestmark = pytest.mark.spark
SETTINGS = {"rank": 3, "max_iter": 2, "tol": 0.0, "row_tol": 1e-8, "random_state": 2, "dtype": "float64"}
SAME = SETTINGS | {"C": 1 / 60}  # what is learned on a cluster comes from cells in another order


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
    ("loss", "target", "weight", "intercept"),
    [
        ("huber", "stars", "counts", True),
        ("logistic", "liked", None, True),
        ("squared", "stars", None, True),
        ("absolute", "stars", "counts", False),
    ],
)
def test_equals_the_local_fit(spark, ratings, loss, target, weight, intercept, monkeypatch):
    """The intercept too: it is solved in every sweep, from sums where cells are too many to come to the driver."""
    monkeypatch.setattr(constant, "HERE", 300)
    options = SAME | {"loss": loss, "intercept": intercept}
    local = hs.PLQMF(**options).fit(
        ratings[["user", "item"]], ratings[target], None if weight is None else ratings[weight]
    )
    engine = SparkEngine(spark, blocks=2, broadcast_limit=0, split=50)
    frame = spark.createDataFrame(ratings)
    model = hs.PLQMF(**options, engine=engine).fit(frame, target, weight)
    assert model.history_[-1]["mean_loss"] == pytest.approx(local.history_[-1]["mean_loss"], rel=1e-5)
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-6)
    assert model.user_factors_.columns == ["user", "factors", "bias"]
    here = model.collect()
    assert here.intercept_ == pytest.approx(local.intercept_, rel=1e-6, abs=1e-8)
    some = ratings[["user", "item"]].iloc[:50]
    np.testing.assert_allclose(here.decision_function(some), local.decision_function(some), atol=1e-3)
    if loss == "logistic":
        assert here.predict(some).tolist() == local.predict(some).tolist()
    assert_same_answers(spark, model, here, ratings, target, weight)


def test_defaults_learn_the_penalty_and_solve_the_intercept(spark, ratings):
    local = hs.PLQMF(random_state=0).fit(ratings[["user", "item"]], ratings.stars)
    model = hs.PLQMF(random_state=0, engine=SparkEngine(spark, blocks=2)).fit(spark.createDataFrame(ratings), "stars")
    here = model.collect()
    assert here.intercept_ == pytest.approx(local.intercept_, rel=1e-2)
    assert here.intercept_ != pytest.approx(ratings.stars.mean(), rel=1e-6)
    more = np.array([["u3", 70], ["new", 71]], dtype=object)
    assert here.partial_fit(more, [5.0, 1.0]).user_ids_[-1] == "new"  # the values of pairs came along
    assert model.penalty_.user_bias == pytest.approx(local.penalty_.user_bias, rel=1e-6)
    assert model.penalty_.user == pytest.approx(local.penalty_.user, rel=0.15)  # other random signs
    assert model.objective_ == pytest.approx(local.objective_, rel=0.1)
    with pytest.raises(ValueError, match="unknown='error' would need a pass over X"):
        model.predict(spark.createDataFrame(ratings[["user", "item"]]), unknown="error")


def assert_same_answers(spark, model, here, ratings, target, weight):
    """Scores, predictions and fold-in on the cluster are those of the collected model, for unseen ids too."""
    asked = ratings[["user", "item"]].iloc[:40].copy()
    asked.loc[len(ratings)] = ["nobody", 70]
    asked.loc[len(ratings) + 1] = ["u5", -1]
    asked["place"] = range(len(asked))
    frame = spark.createDataFrame(asked)
    scored = model.decision_function(frame).toPandas().sort_values("place")
    assert list(scored.columns) == ["user", "item", "place", "score"]
    np.testing.assert_allclose(scored.score, here.decision_function(asked[["user", "item"]]), rtol=1e-9, atol=1e-12)
    predicted = model.predict(frame).toPandas().sort_values("place")
    expected = here.predict(asked[["user", "item"]])
    if target == "liked":
        assert predicted.prediction.tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(predicted.prediction, expected, rtol=1e-9, atol=1e-12)
    new = ratings[ratings.user.isin(["u3", "u5", "u9"])]
    rows = model.transform(spark.createDataFrame(new), target, weight).toPandas().sort_values("user")
    folded = here.transform(new[["user", "item"]], new[target], None if weight is None else new[weight])
    assert rows.user.tolist() == folded.ids.tolist()
    np.testing.assert_allclose(np.stack(rows.factors), folded.factors, atol=1e-3)
    np.testing.assert_allclose(rows.bias, folded.bias, atol=1e-3)


def test_predictions_need_the_columns_of_the_fit(spark, ratings):
    model = hs.PLQMF(**SETTINGS | {"max_iter": 1}, engine=SparkEngine(spark, blocks=2)).fit(
        spark.createDataFrame(ratings), "stars"
    )
    with pytest.raises(ValueError, match=r"X must have the columns \['user', 'item'\], as the fit had; it has \['who'"):
        model.predict(spark.createDataFrame([("a", 1)], "who string, item int"))
    with pytest.raises(ValueError, match="X already has a column 'prediction'"):
        model.predict(spark.createDataFrame([("a", 1, 2.0)], "user string, item long, prediction double"))
    with pytest.raises(TypeError, match="X must be a Spark DataFrame"):
        model.predict(ratings[["user", "item"]])
    with pytest.raises(hs.errors.UnknownIdError, match="1 items of X are unknown to this model, such as -5"):
        model.transform(spark.createDataFrame([("a", -5, 2.0)], "user string, item long, stars double"), "stars")


def test_targets_are_checked(spark, ratings):
    frame = spark.createDataFrame(ratings)
    engine = SparkEngine(spark, blocks=2)
    with pytest.raises(ValueError, match="y=None must name a column of X"):
        hs.PLQMF(engine=engine).fit(frame, None)
    for loss, why in (("ordinal", "has parameters that are solved"), ("quantiles", "is several fits in one")):
        with pytest.raises(ValueError, match=f"{why}.*not for SparkEngine; fit it on one machine"):
            hs.PLQMF(loss=loss, engine=engine).fit(frame, "stars")
    with pytest.raises(ValueError, match=r"Hinge\(\) needs exactly two classes"):
        hs.PLQMF(loss="hinge", engine=engine).fit(frame, "stars")
    missing = frame.selectExpr("user", "item", "nullif(stars, 1.0) as stars")
    with pytest.raises(ValueError, match="targets in column 'stars' are null, NaN or infinite"):
        hs.PLQMF(engine=engine).fit(missing, "stars")
