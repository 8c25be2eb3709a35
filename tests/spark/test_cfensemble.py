"""CFEnsemble on Spark gives what it gives on one machine: factors, history, answers; and says what it refuses."""

import warnings

import numpy as np
import pandas as pd
import pytest

import halfstep as hs
from halfstep.data.datasets.generated import make_predictions
from halfstep.engine.spark import SparkEngine, sums
from halfstep.engine.spark.checkpoint import CheckpointError
from halfstep.ensemble import framed
from halfstep.ensemble.predictions import PredictionWarning

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::FutureWarning")]
M = 6
NAMES = [f"p{j}" for j in range(M)]
SETTINGS = {"max_iter": 3, "tol": 0.0, "positive": "yes"}


@pytest.fixture(scope="module")
def table():
    """Instances in the order in which Spark reads them: ids, predictions with holes, string labels, two features."""
    P, y, _ = make_predictions(240, M, missing=0.25, labels=0.25, random_state=0)
    rng = np.random.default_rng(1)
    named = pd.DataFrame(P, columns=NAMES).astype(object).where(~np.isnan(P), None)  # null, not NaN
    named["p0"] = P[:, 0]  # here it is NaN
    named["label"] = pd.Series(np.where(np.isnan(y), None, np.where(y == 1, "yes", "no")), dtype=object)
    named["id"] = [f"i{k:03d}" for k in range(len(P))]
    named[["age", "size"]] = rng.normal(3.0, 2.0, (len(P), 2))
    return named


@pytest.fixture(scope="module")
def data(spark, table):
    schema = ", ".join(f"{name} double" for name in NAMES) + ", label string, id string, age double, size double"
    return spark.createDataFrame(table.values.tolist(), schema).coalesce(2).persist()


def local_fit(table, features=None, **parameters):
    P, y = table[NAMES].to_numpy(float), table["label"].tolist()
    side = None if features is None else table[features].to_numpy(float)
    return hs.CFEnsemble(**SETTINGS | parameters).fit(P, y, features=side)


def answers(model, data):
    """(n, 2) probabilities and (n,) novelty in the order of ids."""
    found = model.transform(data).toPandas().sort_values("id")
    return np.stack(found["probability"].to_numpy()), found["novelty"].to_numpy(), found["prediction"].to_numpy()


def difference(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize(
    ("parameters", "features", "tolerance"),
    [
        ({}, None, 1e-5),
        ({"solver": "als", "confidence": "certainty", "route": "auto", "novelty_level": 0.9}, None, 1e-5),
        ({"rho": 1.0, "confidence": "calibration", "link": "identity", "on": "latent"}, None, 1e-5),
        ({"loss": "bernoulli", "temperature": 2.0, "dtype": "float64"}, None, 1e-4),
        ({"loss": "bernoulli", "rho": 1.0, "dtype": "float64"}, ["age", "size"], 1e-4),
    ],
)
def test_equals_the_local_fit(spark, data, table, parameters, features, tolerance):
    engine = SparkEngine(spark, blocks=3)
    frame = data if features else data.drop("age", "size")
    model = hs.CFEnsemble(**SETTINGS | parameters, engine=engine).fit(frame, y="label", features=features)
    local = local_fit(table, features, **parameters)
    assert model.classes_.tolist() == ["no", "yes"]
    assert difference(model.classifier_factors_, local.classifier_factors_) < tolerance
    assert len(model.history_) == len(local.history_)
    for mine, theirs in zip(model.history_, local.history_, strict=True):
        assert mine.keys() == theirs.keys()
        for name in ("objective", "total", "reconstruction", "supervised", "penalty", "rmse", "change"):
            assert mine[name] == pytest.approx(theirs[name], rel=tolerance, abs=1e-12), name
    probability, novelty, prediction = answers(model, frame)
    if parameters.get("route") is None:  # the stacker fills holes from the instances it has, the labelled ones
        np.testing.assert_allclose(probability, local.predict_proba(), atol=1e-4)
        assert prediction.tolist() == local.predict().tolist()
    np.testing.assert_allclose(novelty, local.novelty_, atol=1e-4)
    assert model.fitted_.fusion.noise == pytest.approx(local.fitted_.fusion.noise, rel=1e-4)
    assert model.fitted_.routing.threshold == pytest.approx(local.fitted_.routing.threshold, rel=1e-4)
    np.testing.assert_allclose(model.fitted_.factors.mean_weights, local.fitted_.factors.mean_weights, rtol=1e-5)


@pytest.fixture(scope="module")
def model(spark, data):
    groups = np.arange(M) % 2
    return hs.CFEnsemble(**SETTINGS, engine=SparkEngine(spark, blocks=2)).fit(
        data.drop("age", "size"), y="label", groups=groups
    )


def test_the_model_is_on_the_driver_too(model, data, table, tmp_path):
    expected = local_fit(table)
    P = table[NAMES].to_numpy(float)
    groups = hs.CFEnsemble(**SETTINGS).fit(P, table["label"].tolist(), groups=np.arange(M) % 2)
    np.testing.assert_allclose(model.predict_proba(P), groups.predict_proba(), atol=1e-4)
    assert difference(model.classifier_factors_, expected.classifier_factors_) > 1e-4  # groups have an effect
    assert model.instance_factors_.shape[0] == table["label"].notna().sum()  # the labelled ones
    assert model.diagnostics_.rmse_labelled > 0
    model.save(tmp_path / "model.safetensors")
    loaded = hs.load(tmp_path / "model.safetensors")
    assert loaded.engine is None
    np.testing.assert_array_equal(loaded.predict_proba(P), model.predict_proba(P))
    few = data.limit(5)
    assert loaded.transform(few).toPandas()["probability"].map(list).tolist() == (
        model.transform(few).toPandas()["probability"].map(list).tolist()
    )


def test_answers_stand_beside_ids(model, data):
    few = data.select("id", *NAMES).limit(3)
    assert model.transform(few).columns == ["id", *NAMES, "probability", "prediction", "novelty"]
    assert model.transform(few).schema["prediction"].dataType.simpleString() == "string"
    assert model.predict_proba(few).columns == ["id", "probability"]
    assert model.predict(few).columns == ["id", "prediction"]
    assert model.novelty(few).columns == ["id", "novelty"]


def test_questions_about_instances_that_are_not_here(model, data):
    for method in ("predict_proba", "predict", "novelty"):
        with pytest.raises(ValueError, match="leaves on the cluster; pass the DataFrame"):
            getattr(model, method)()
    for method, arguments in (("query", (1,)), ("add_classifiers", ([[0.5]],)), ("partial_fit", (None, [1]))):
        with pytest.raises(ValueError, match=f"{method} needs all fitted instances on this machine"):
            getattr(model, method)(*arguments)
    with pytest.raises(ValueError, match=r"P has no column 'p2' \(1 of 6 are missing\)"):
        model.transform(data.drop("p2"))
    with pytest.raises(ValueError, match="P already has a column 'novelty'"):
        model.transform(data.withColumnRenamed("age", "novelty"))
    with pytest.raises(TypeError, match="column 'p2' holds string, not numbers"):
        model.transform(data.withColumn("p2", data.p2.cast("string")))
    with pytest.raises(TypeError, match="P must be a Spark DataFrame"):
        model.transform(np.full((2, M), 0.5))


def test_local_models_know_no_columns(table, data):
    local = local_fit(table)
    assert not hasattr(local, "transform")
    with pytest.raises(ValueError, match="was fitted on arrays and knows no column names"):
        local.predict_proba(data)
    with pytest.raises(TypeError, match="pass engine=SparkEngine"):
        hs.CFEnsemble().fit(data, "label")


def test_lost_rows_are_made_again_with_the_same_bits(spark, data, model):
    """Everything that Spark keeps is thrown away after a sweep, as if its machines were gone."""
    kept = spark.sparkContext._jsc.getPersistentRDDs
    lost = []

    def lose(record):
        if record["iteration"] == 2:
            lost.extend(rdd.unpersist(True).id() for rdd in dict(kept()).values())

    again = hs.CFEnsemble(**SETTINGS, engine=SparkEngine(spark, blocks=2), callbacks=[lose]).fit(
        data.drop("age", "size"), y="label", groups=np.arange(M) % 2
    )
    assert len(lost) >= 2  # blocks and solved rows
    np.testing.assert_array_equal(again.classifier_factors_, model.classifier_factors_)
    assert again.fitted_.routing.threshold == model.fitted_.routing.threshold


def test_resumed_fit_has_the_bits_of_an_uninterrupted_one(spark, data, tmp_path):
    frame = data.drop("age", "size")

    def lose_the_driver(record):
        if record["iteration"] == 2:
            raise ConnectionError("lost")

    def fit(folder, resume=False, frame=frame, **more):
        engine = SparkEngine(spark, blocks=2, checkpoint=str(tmp_path / folder), every=1, resume=resume)
        return hs.CFEnsemble(**SETTINGS | more, engine=engine).fit(frame, y="label")

    whole = fit("whole")
    with pytest.raises(ConnectionError):
        fit("lost", callbacks=[lose_the_driver])
    assert [p.name for p in (tmp_path / "lost").iterdir()] == ["sweep-000002"]
    resumed = fit("lost", resume=True)
    np.testing.assert_array_equal(resumed.classifier_factors_, whole.classifier_factors_)
    for name in ("objective", "reconstruction", "supervised", "rmse"):
        assert [r[name] for r in resumed.history_] == [r[name] for r in whole.history_], name
    with pytest.raises(CheckpointError, match="already holds sweep 3 of this fit; pass resume=True"):
        fit("lost")
    with pytest.raises(CheckpointError, match="is of another fit: parameters differ"):
        fit("lost", resume=True, reg=1.0)
    with pytest.raises(CheckpointError, match="is of another fit: data differ"):
        fit("lost", resume=True, frame=frame.withColumn("p0", frame.p0 / 2))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda d: d.toPandas(), TypeError, "P must be a Spark DataFrame .* got DataFrame"),
        (lambda d: d.drop("label"), ValueError, "y='label' must name the column with the labels"),
        (lambda d: d.select("id", "label"), ValueError, "P has no numeric column beside y='label'"),
        (lambda d: d.selectExpr("*", "array(p0, p1) as both"), ValueError, "column 'both' holds a list of numbers"),
        (
            lambda d: d.selectExpr(
                *NAMES, "cast(substring(id, 2) as int) as number", "cast(label = 'yes' as int) as label"
            ),
            ValueError,
            r"values are outside \[0, 1\], such as .* in column 'number'.*Drop what is none, such as an id",
        ),
        (lambda d: d.selectExpr("p0", "p1", "null as label"), ValueError, "column 'label' has no label at all"),
        (lambda d: d.selectExpr("p0", "id as label"), ValueError, "column 'label' has more than two classes, such as"),
        (lambda d: d.where("label is null or label = 'yes'"), ValueError, "y has only the class"),
        (lambda d: d.selectExpr("p0", "if(label is null, null, 1) as label"), ValueError, "{0: 0, 1: "),
        (lambda d: d.limit(0), ValueError, "P has no rows"),
        (lambda d: d, ValueError, "the labels are 'no' and 'yes'; .* pass positive='yes'"),
    ],
)
def test_frames_that_are_refused(spark, data, change, error, message):
    with pytest.raises(error, match=message):
        hs.CFEnsemble(engine=SparkEngine(spark, blocks=2)).fit(change(data.drop("age", "size")), y="label")


def test_wrong_values_of_unlabelled_instances_are_counted(spark, data):
    wrong = data.selectExpr("if(label is null, 3.5, p0) as p0", "p1", "label")
    n = data.where("label is null").count()
    with pytest.raises(ValueError, match=rf"{n} values are outside \[0, 1\], such as 3.5 in column 'p0'"):
        hs.CFEnsemble(positive="yes", engine=SparkEngine(spark, blocks=2)).fit(wrong, y="label")


@pytest.mark.parametrize(
    ("parameters", "fit", "message"),
    [
        ({"confidence": "reliability"}, {}, "confidence='reliability' looks at many instances at once.*'calibration'"),
        ({"confidence": np.ones((240, M))}, {}, "confidence=an array looks at many instances"),
        ({}, {"tasks": ["a"]}, "tasks are for fits on one machine"),
        ({}, {"features": ["weight"]}, "features names 'weight', which is not a column of P"),
        ({}, {"features": ["id"]}, "the feature 'id' holds string, not numbers"),
        ({}, {"groups": [1, 2]}, "it must name the group of each of the 8 classifiers"),
        ({"rank": 50}, {}, "rank=50 is above the number of classifiers"),
    ],
)
def test_what_a_cluster_does_not_do(spark, data, parameters, fit, message):
    with pytest.raises((ValueError, TypeError), match=message):
        hs.CFEnsemble(**parameters, positive="yes", engine=SparkEngine(spark, blocks=2)).fit(data, y="label", **fit)


def test_features_must_be_finite_and_labels_few_enough(spark, data, monkeypatch):
    holes = data.selectExpr("p0", "p1", "label", "if(id < 'i003', null, age) as age")
    with pytest.raises(ValueError, match="3 values of the feature 'age' are null, NaN or infinite"):
        hs.CFEnsemble(positive="yes", engine=SparkEngine(spark, blocks=2)).fit(holes, y="label", features=["age"])
    monkeypatch.setattr(framed, "LABELLED_CELLS", 100)
    with pytest.raises(
        ValueError, match=r"62 labelled instances x 6 classifiers are more than the 100 cells .* set the others to null"
    ):
        hs.CFEnsemble(positive="yes", engine=SparkEngine(spark, blocks=2)).fit(data.drop("age", "size"), y="label")


def test_numeric_labels_empty_rows_and_more_blocks_than_rows(spark, monkeypatch):
    """NaN and -1 are unlabelled; a weight for each classifier; an instance and a classifier without predictions."""
    monkeypatch.setattr(sums, "_FAN", 2)  # so that sums of three blocks need a tree
    P = np.array([[0.9, 0.2, 0.7], [0.1, 0.3, 0.2], [0.8, 0.6, 0.9], [0.2, 0.1, 0.3], [0.6, 0.5, 0.4], [np.nan] * 3])
    P = np.column_stack([P, np.full(6, np.nan)])
    y = [1.0, 0.0, 1.0, 0.0, float("nan"), -1.0]
    rows = [[*map(float, p), label] for p, label in zip(P, y, strict=True)]
    few = spark.createDataFrame(rows, "a double, b double, c double, d double, y double").repartition(3)
    parameters = {"rank": 1, "confidence": np.array([1.0, 2.0, 0.5, 1.0]), "max_iter": 2, "shrinkage": 5.0}
    with pytest.warns(PredictionWarning, match="no prediction at all for 1 of 6 instances and classifiers d"):
        model = hs.CFEnsemble(**parameters, engine=SparkEngine(spark, blocks=3)).fit(few, y="y")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PredictionWarning)
        local = hs.CFEnsemble(**parameters).fit(P, y)
        expected = hs.CFEnsemble(**parameters).fit(P[:4], y[:4])
        np.testing.assert_allclose(model.predict_proba(P), local.predict_proba(P), atol=1e-4)
    assert model.classes_.tolist() == [0, 1]
    labelled = few.where("y >= 0 and not isnan(y)")
    with pytest.warns(PredictionWarning, match="no prediction at all for classifiers d"):
        alone = hs.CFEnsemble(**parameters, engine=SparkEngine(spark, blocks=2)).fit(labelled, y="y")
    np.testing.assert_allclose(alone.classifier_factors_, expected.classifier_factors_, atol=1e-4)
