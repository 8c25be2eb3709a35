"""CFEnsembleCV on Spark: views from sums over partitions, members on the driver, answers where the rows are."""

import numpy as np
import pandas as pd
import pytest

import halfstep as hs
from halfstep.data.datasets.generated import make_predictions
from halfstep.engine.spark import SparkEngine
from halfstep.ensemble.predictions import PredictionWarning

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::FutureWarning")]
M = 6
NAMES = [f"p{j}" for j in range(M)]
SETTINGS = {"ranks": (1, 2), "positive": "yes"}


@pytest.fixture(scope="module")
def table():
    P, y, _ = make_predictions(400, M, missing=0.25, labels=0.2, random_state=0)
    named = pd.DataFrame(P, columns=NAMES)
    named["label"] = pd.Series(np.where(np.isnan(y), None, np.where(y == 1, "yes", "no")), dtype=object)
    named["id"] = [f"i{k:03d}" for k in range(len(P))]
    named["age"] = np.random.default_rng(1).normal(30.0, 9.0, len(P))
    return named


@pytest.fixture(scope="module")
def data(spark, table):
    schema = ", ".join(f"{name} double" for name in NAMES) + ", label string, id string, age double"
    return spark.createDataFrame(table.values.tolist(), schema).coalesce(2).persist()


@pytest.fixture(scope="module")
def model(spark, data):
    engine = SparkEngine(spark, blocks=3)
    groups = ["a", "a", "b", "b", "c", "c"]
    return hs.CFEnsembleCV(**SETTINGS, engine=engine).fit(data, y="label", features=["age"], groups=groups)


@pytest.fixture(scope="module")
def local(table):
    """The same fit on one machine: labelled rows in their order, so that folds are the same."""
    P, y = table[NAMES].to_numpy(float), table["label"].tolist()
    groups = ["a", "a", "b", "b", "c", "c"]
    return hs.CFEnsembleCV(**SETTINGS).fit(P, y, features=table[["age"]].to_numpy(float), groups=groups)


def test_views_are_those_of_one_machine_after_all_their_steps(model, local):
    mine, theirs = (each.fitted_.committee.views for each in (model, local))
    assert list(mine) == list(theirs)
    for name, view in mine.items():
        for part, array in view.state().items():
            np.testing.assert_allclose(
                array, theirs[name].state()[part], rtol=1e-7, atol=1e-9, err_msg=f"{name} {part}"
            )


def test_answers_are_those_of_one_machine(model, local, data, table):
    found = model.transform(data).toPandas().sort_values("id")
    P, X = table[NAMES].to_numpy(float), table[["age"]].to_numpy(float)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(np.stack(found["probability"].to_numpy()), local.predict_proba(), atol=1e-6)
    np.testing.assert_allclose(found["uncertainty"], local.uncertainty(), atol=1e-6)
    assert found["prediction"].tolist() == local.predict().tolist()
    np.testing.assert_allclose(model.predict_proba(P, features=X), local.predict_proba(), atol=1e-6)
    assert [member["name"] for member in model.members_] == [member["name"] for member in local.members_]
    assert model.uncertainty_.shape == (int(table["label"].notna().sum()),)  # the labelled ones
    assert found["novelty"].between(0, 1).all()


def test_answers_stand_beside_ids(model, data, tmp_path):
    few = data.select("id", *NAMES, "age").limit(3)
    assert model.transform(few).columns == ["id", *NAMES, "age", "probability", "prediction", "uncertainty", "novelty"]
    assert model.predict_proba(few).columns == ["id", "probability"]
    assert model.uncertainty(few).columns == ["id", "uncertainty"]
    model.save(tmp_path / "model.safetensors")
    loaded = hs.load(tmp_path / "model.safetensors")
    assert loaded.engine is None
    pd.testing.assert_frame_equal(*(each.transform(few).toPandas() for each in (loaded, model)), check_exact=True)


def test_what_the_driver_can_say_it_says(model):
    assert model.classifier_weights_.shape == (M,)
    assert model.diagnostics_.rmse_labelled > 0
    for ask in (model.predict_proba, model.query, lambda: model.partial_fit(y={0: "yes"})):
        with pytest.raises(ValueError, match="leaves on the cluster"):
            ask()


def test_what_cannot_be_is_said_before_any_work(spark, data):
    engine = SparkEngine(spark)
    named = [("m", hs.CFEnsemble())]
    for refused, parameters in (("estimators", {"estimators": named}), ("max_seconds", {"max_seconds": 5.0})):
        with pytest.raises(ValueError, match=f"{refused}=.*one machine"):
            hs.CFEnsembleCV(**SETTINGS | parameters, engine=engine).fit(data, y="label")
    with pytest.raises(ValueError, match=r"groups has shape"):
        hs.CFEnsembleCV(**SETTINGS, engine=engine).fit(data.drop("age"), y="label", groups=["a"])
    with pytest.raises(ValueError, match=r"outside \[0, 1\], such as .* in column 'age'"):
        hs.CFEnsembleCV(**SETTINGS, engine=engine).fit(data, y="label")
    with pytest.raises(TypeError, match="engine=SparkEngine"):
        hs.CFEnsembleCV(**SETTINGS).fit(data, y="label")


def test_rows_and_classifiers_without_predictions_are_named(spark, data):
    from pyspark.sql import functions as F

    silent = data.drop("age").withColumn("p5", F.lit(None).cast("double"))
    with pytest.warns(PredictionWarning, match="classifiers p5"):
        model = hs.CFEnsembleCV(**SETTINGS, engine=SparkEngine(spark, blocks=2)).fit(silent, y="label")
    assert model.transform(silent).toPandas()["uncertainty"].notna().all()
