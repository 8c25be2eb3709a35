"""Features of rows on Spark: the objective, the weights and the answers of one machine, in every form."""

import json

import numpy as np
import pandas as pd
import pytest

import halfstep as hs
from halfstep.core import regression
from halfstep.engine.spark import SparkEngine
from halfstep.engine.spark import regression as far
from halfstep.engine.spark.checkpoint import CheckpointError

pytestmark = pytest.mark.spark
SETTINGS = {"rank": 4, "max_iter": 3, "tol": 0.0, "random_state": 3, "dtype": "float64", "solver": "exact"}
SETTINGS |= {"feature_reg": 0.3}
ROUTED, BROADCAST = 0, 1 << 30


def difference(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.fixture(scope="module")
def users():
    """One row for each user but a few, one of nobody in the fit; a number with gaps, a flag and a category."""
    rng = np.random.default_rng(4)
    ids = [f"u{k}" for k in range(0, 150, 1) if k % 11] + ["nobody"]
    years = rng.normal(size=len(ids))
    years[::7] = np.nan
    return pd.DataFrame({
        "user": ids, "years": years, "new": rng.random(len(ids)) < 0.5, "job": rng.choice(["a", "b", "c"], len(ids)),
    })  # fmt: skip


@pytest.fixture(scope="module")
def items():
    """Lists by item, as a dict: many columns for few rows."""
    rng = np.random.default_rng(5)
    return {item * 10: {"tags": [f"t{k}" for k in rng.integers(0, 90, 4)]} for item in range(60)}


@pytest.fixture(scope="module")
def local(pairs, users, items):
    return hs.WALS(**SETTINGS).fit(pairs, user_features=users, item_features=items)


def assert_same(model, local, tolerance=1e-7):
    """Objectives, factors and weights."""
    for mine, theirs in zip(model.history_, local.history_, strict=True):
        for name in ("objective", "data", "penalty"):
            assert mine[name] == pytest.approx(theirs[name], rel=1e-8), name
    here = model.collect()
    for side in (0, 1):
        assert difference(here.fitted_.rows[side], local.fitted_.rows[side]) < tolerance
        mine, theirs = here.fitted_.known[side], local.fitted_.known[side]
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.features.names == theirs.features.names
            assert mine.eta == pytest.approx(theirs.eta, rel=1e-10)
            assert difference(mine.weights, theirs.weights) < tolerance
            assert abs(mine.features.matrix - theirs.features.matrix).max() < 1e-12
            assert mine.features.ids == theirs.features.ids
    return here


@pytest.fixture(scope="module")
def model(spark, frame, users, items):
    """Rows sent one by one, a long row of each side; users from a DataFrame, items from the driver."""
    engine = SparkEngine(spark, blocks=2, broadcast_limit=ROUTED, split=60)
    return hs.WALS(**SETTINGS, engine=engine).fit(
        frame, user_features=spark.createDataFrame(users), item_features=items
    )


def test_a_routed_fit_equals_the_local_one_and_is_asked_after_collect(model, local, spark, pairs):
    """Features of few columns are factored from sums; those of few rows on the driver."""
    assert len(model.fitted_.kept.given.cells.layouts[0].long) == 1
    for ask in (
        lambda: model.recommend_for(features={"job": "a"}),
        lambda: model.add_items({990: {"tags": ["t1"]}}),
        lambda: model.explain(item=70, features={"job": "a"}),
        lambda: model.partial_fit(pairs),
    ):
        with pytest.raises(RuntimeError, match=r"call collect\(\) for a local model"):
            ask()
    here = assert_same(model, local)
    answers = [m.recommend_for(features={"job": "a", "new": True}, n=5) for m in (here, local)]
    np.testing.assert_array_equal(answers[0].ids, answers[1].ids)
    reasons = [m.explain("u5", 70) for m in (here, local)]
    assert reasons[0].score == pytest.approx(reasons[1].score)
    assert here.add_items({990: {"tags": ["t1"]}}).item_ids_[-1] == 990


@pytest.mark.parametrize("limit", [ROUTED, BROADCAST])
def test_conjugate_gradients_over_executors_equal_those_of_one_machine(
    spark, frame, pairs, users, items, monkeypatch, limit
):
    """Both sides take two steps a sweep; sums too large for the driver are added up in ranges of columns."""
    monkeypatch.setattr(regression, "ALWAYS", 0)
    monkeypatch.setattr(regression, "WORTH", 0)
    monkeypatch.setattr(far, "DIRECT", 1000)
    local = hs.WALS(**SETTINGS).fit(pairs, user_features=users, item_features=items)
    engine = SparkEngine(spark, blocks=2, broadcast_limit=limit, split=60)
    model = hs.WALS(**SETTINGS, engine=engine).fit(frame, user_features=users, item_features=items)
    assert_same(model, local)


def test_single_precision_and_a_learned_strength(spark, frame, pairs, users):
    settings = SETTINGS | {"dtype": "float32", "feature_reg": None}
    local = hs.WALS(**settings).fit(pairs, user_features=users)
    fitted = hs.WALS(**settings, engine=SparkEngine(spark, blocks=2)).fit(
        frame, user_features=spark.createDataFrame(users)
    )
    assert fitted.fitted_.chosen.feature_reg == local.fitted_.chosen.feature_reg
    model = fitted.collect()
    ours, theirs = (m.user_factors_ @ m.item_factors_.T for m in (model, local))
    assert difference(ours, theirs) < 1e-4
    assert fitted.objective_ == pytest.approx(local.objective_, rel=1e-5)


def test_new_users_are_held_where_their_features_say(model, local, spark, frame, users):
    some = frame.where("user in ('u5', 'u9', 'u22')")
    known = model.transform(some, user_features=users).toPandas().set_index("user")["factors"]
    for user in ("u5", "u9", "u22"):  # the last has no features
        expected = local.user_factors_[local.fitted_.users.position(user)]
        np.testing.assert_allclose(known[user], expected, atol=1e-7)
    nothing = model.transform(some).toPandas().set_index("user")["factors"]
    np.testing.assert_allclose(nothing["u22"], known["u22"], atol=1e-12)
    assert np.abs(np.array(nothing["u5"]) - known["u5"]).max() > 1e-3
    odd = spark.createDataFrame([("u5", 3)], "user string, height int")
    with pytest.raises(ValueError, match="'height' is none of the columns"):
        model.transform(some, user_features=odd)


def test_weights_are_written(model, spark, tmp_path):
    model.write(str(tmp_path / "model"))
    written = spark.read.parquet(str(tmp_path / "model" / "user_feature_weights")).toPandas().set_index("feature")
    known = model.fitted_.known[0]
    np.testing.assert_allclose(written.weights.loc["job=b"], known.weights[known.called.index("job=b")])
    assert json.loads((tmp_path / "model" / "model.json").read_text())["chosen"]["feature_reg"] == [0.3, 0.3]


@pytest.mark.parametrize(("limit", "form"), [(ROUTED, "descended"), (BROADCAST, "factored")])
def test_a_resumed_fit_has_the_bits_of_an_uninterrupted_one(spark, frame, users, tmp_path, monkeypatch, limit, form):
    if form == "descended":
        monkeypatch.setattr(regression, "ALWAYS", 0)
        monkeypatch.setattr(regression, "WORTH", 0)

    def lose_the_driver(record):
        if record["iteration"] == 1:
            raise ConnectionError("lost")

    def fit(folder, resume=False, callbacks=(), **more):
        engine = SparkEngine(
            spark, blocks=2, broadcast_limit=limit, checkpoint=str(tmp_path / folder), every=1, resume=resume
        )
        told = {"user_features": users, "item_features": None} | more
        return hs.WALS(**SETTINGS | {"max_iter": 2}, engine=engine, callbacks=callbacks).fit(frame, **told)

    whole = fit("whole")
    with pytest.raises(ConnectionError):
        fit("lost", callbacks=[lose_the_driver])
    resumed = fit("lost", resume=True)
    for side in (0, 1):
        a, b = (m.fitted_.kept.solved[side].to_array() for m in (whole, resumed))
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(whole.fitted_.known[0].weights, resumed.fitted_.known[0].weights)
    if form == "factored":
        with pytest.raises(CheckpointError, match="is of another fit: parameters differ"):
            fit("lost", resume=True, user_features=users.iloc[:60])


@pytest.mark.parametrize(("loss", "limit"), [("squared", ROUTED), ("absolute", BROADCAST), ("huber", ROUTED)])
def test_ratings_with_features_equal_the_local_fit(spark, pairs, users, items, loss, limit):
    ratings = pairs.drop(columns="weight").drop_duplicates().iloc[:600].copy()
    ratings["stars"] = np.random.default_rng(1).integers(1, 6, len(ratings)).astype(float)
    settings = {"rank": 3, "max_iter": 3, "tol": 0.0, "row_tol": 1e-9, "random_state": 2, "dtype": "float64"}
    settings |= {"C": 1 / 60, "loss": loss}
    told = {"user_features": users, "item_features": items}
    local = hs.PLQMF(**settings).fit(ratings[["user", "item"]], ratings.stars, **told)
    engine = SparkEngine(spark, blocks=2, broadcast_limit=limit, split=60)
    there = spark.createDataFrame(ratings)
    fitted = hs.PLQMF(**settings, engine=engine).fit(there, "stars", **told)
    assert fitted.objective_ == pytest.approx(local.objective_, rel=1e-5)
    model = fitted.collect()
    asked = ratings[["user", "item"]].iloc[:40]
    tolerance = 1e-6 if loss == "squared" else 2e-2
    np.testing.assert_allclose(model.predict(asked), local.predict(asked), atol=tolerance)
    cold = {"new": {"job": "a"}}
    for m in (model, local):
        assert np.isfinite(m.predict([("new", 70)], user_features=cold)).all()
    few = spark.createDataFrame([("z", 70, 4.0), ("z", 10, 1.0)], "user string, item long, stars double")
    row = fitted.transform(few, "stars", user_features={"z": {"job": "a"}}).toPandas()
    _, factors, _ = local.transform(
        np.array([("z", 70), ("z", 10)], object), [4.0, 1.0], user_features={"z": {"job": "a"}}
    )
    np.testing.assert_allclose(row.factors[0], factors[0], atol=tolerance)


@pytest.mark.parametrize(
    ("schema", "rows", "error", "says"),
    [
        ("user string, born date", [], TypeError, "column 'born' holds date"),
        ("height int, colour string", [], ValueError, "no column of user_features looks like the id of the users"),
        ("user string, job string", [("u1", "a"), ("u1", "b")], ValueError, "has 2 rows of the id 'u1'"),
        ("user string, job string", [(None, "a")], ValueError, "rows of the id None"),
        ("user string, years double", [("u1", float("inf"))], ValueError, "'years' holds infinite values"),
    ],
)
def test_features_that_cannot_be_used_are_refused(spark, frame, schema, rows, error, says):
    model = hs.WALS(**SETTINGS, engine=SparkEngine(spark, blocks=2))
    with pytest.raises(error, match=says):
        model.fit(frame, user_features=spark.createDataFrame(rows, schema))


@pytest.mark.filterwarnings("ignore:after 8 sweeps")
def test_bayes_draws_weights_of_features(spark, pairs, users):
    ratings = pairs.drop(columns="weight").drop_duplicates().iloc[:500].copy()
    ratings["stars"] = np.random.default_rng(1).normal(size=len(ratings))
    settings = {"rank": 2, "n_sweeps": 8, "keep": 4, "random_state": 1}
    local = hs.BayesMF(**settings).fit(ratings[["user", "item"]], ratings.stars, user_features=users)
    model = hs.BayesMF(**settings, engine=SparkEngine(spark, blocks=2)).fit(
        spark.createDataFrame(ratings), "stars", user_features=spark.createDataFrame(users)
    )
    asked = ratings[["user", "item"]].iloc[:30]
    np.testing.assert_allclose(model.predict(asked), local.predict(asked), atol=1e-3)
