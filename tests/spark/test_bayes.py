"""BayesMF on Spark draws what BayesMF draws on one machine: the noise of a row goes by its number."""

import warnings

import numpy as np
import pytest

import halfstep as hs
from halfstep.data.sweeps import SweepFile
from halfstep.engine.spark import SparkEngine

pytestmark = pytest.mark.spark
SETTINGS = {"rank": 3, "n_sweeps": 6, "keep": 4, "random_state": 5}


@pytest.fixture(scope="module")
def ratings(pairs):
    rng = np.random.default_rng(1)
    table = pairs.drop(columns="weight").iloc[:600].copy()
    table["stars"] = rng.integers(1, 6, len(table)).astype(float)
    table["counts"] = rng.integers(1, 4, len(table)).astype(float)
    return table


def fitted(model, *data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # six sweeps are few
        return model.fit(*data, **more)


@pytest.mark.parametrize("weight", [None, "counts"])
def test_draws_are_those_of_one_machine(spark, ratings, weight, tmp_path):
    X, weights = ratings[["user", "item"]], None if weight is None else ratings[weight]
    local = fitted(hs.BayesMF(**SETTINGS), X, ratings.stars, weights)
    engine = SparkEngine(spark, blocks=3)
    far = fitted(hs.BayesMF(**SETTINGS, engine=engine), spark.createDataFrame(ratings), "stars", weight)
    assert far.user_ids_.tolist() == local.user_ids_.tolist()
    for name in ("users", "items", "alphas", "noise", "hyper"):
        np.testing.assert_allclose(getattr(far.fitted_, name), getattr(local.fitted_, name), rtol=2e-3, atol=2e-4)
    assert far.history_[-1]["loss"] == pytest.approx(local.history_[-1]["loss"], rel=1e-4)
    np.testing.assert_allclose(far.predict(X), local.predict(X), atol=1e-3)
    np.testing.assert_allclose(far.predict_interval(X), local.predict_interval(X), atol=1e-2)
    assert far.recommend("u3", 5).ids.tolist() == local.recommend("u3", 5).ids.tolist()
    assert np.isfinite([far.diagnostics_["r_hat"], far.diagnostics_["effective_size"]]).all()
    far.save(tmp_path / "drawn.safetensors")
    np.testing.assert_array_equal(hs.load(tmp_path / "drawn.safetensors").predict(X), far.predict(X))


def test_a_fit_goes_on_after_it_was_lost_and_sees_what_is_held_out(spark, ratings, tmp_path):
    frame, held = spark.createDataFrame(ratings), (ratings[["user", "item"]].iloc[:50], ratings.stars.iloc[:50])
    engine = SparkEngine(spark, blocks=2)
    settings = SETTINGS | {"checkpoint": tmp_path / "sweeps", "every": 3, "engine": engine}

    class Lost(Exception):
        pass

    whole = fitted(hs.BayesMF(**SETTINGS, engine=engine), frame, "stars", validation=held)
    assert 0 < whole.history_[-1]["validation_rmse"] < 3
    save = SweepFile.save

    def once(self, number, *rest):
        save(self, number, *rest)
        raise Lost

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SweepFile, "save", once)
        with pytest.raises(Lost):
            fitted(hs.BayesMF(**settings), frame, "stars", validation=held)
    again = fitted(hs.BayesMF(**settings, resume=True), frame, "stars", validation=held)
    np.testing.assert_array_equal(again.fitted_.users, whole.fitted_.users)
    np.testing.assert_array_equal(again.fitted_.noise, whole.fitted_.noise)


def test_what_is_not_there_is_refused_with_advice(spark, ratings):
    frame, engine = spark.createDataFrame(ratings), SparkEngine(spark, blocks=2)
    with pytest.raises(ValueError, match="likelihood='gaussian' there"):
        hs.BayesMF(likelihood="student", engine=engine, **SETTINGS).fit(frame, "stars")
    far = SparkEngine(spark, blocks=2, checkpoint="somewhere")
    with pytest.raises(ValueError, match="checkpoint= to the model"):
        hs.BayesMF(engine=far, **SETTINGS).fit(frame, "stars")
    with pytest.raises(TypeError, match="must be a Spark DataFrame"):
        hs.BayesMF(engine=engine, **SETTINGS).fit(ratings[["user", "item"]], ratings.stars)
