"""What SparkEngine refuses, before it starts to work, and how it says so."""

import copy
import sys
from pathlib import Path

import pytest

import halfstep as hs
from halfstep.engine.spark import SparkEngine

pytestmark = pytest.mark.spark


@pytest.fixture
def fit(spark):
    def run(rows, schema, **settings):
        frame = spark.createDataFrame(rows, schema) if schema else rows
        columns = {name: settings.pop(name) for name in ("user", "item", "weight") if name in settings}
        return hs.WALS(rank=2, **settings, engine=SparkEngine(spark, blocks=2)).fit(frame, **columns)

    return run


@pytest.mark.parametrize(
    ("rows", "schema", "error", "message"),
    [
        ([(None, 1), ("a", 1)], "user string, item int", ValueError, "1 of 2 user ids in column 'user' are null"),
        ([("a", None), ("b", 1)], "user string, item int", ValueError, "1 of 2 item ids in column 'item' are null"),
        ([(float("nan"), 1)], "user double, item int", TypeError, "'user' holds double; user ids must be integers or"),
        (
            [("a", 1, float("nan")), ("b", 1, None), ("b", 2, -1.0), ("b", 3, 1.0)],
            "user string, item int, weight double",
            ValueError,
            "3 of 4 weights in column 'weight' are null, NaN, infinite or negative",
        ),
        (
            [("a", 1, "x")],
            "user string, item int, weight string",
            TypeError,
            "'weight' was taken as the weight but holds",
        ),
        (
            [("a", 1, 0.0)],
            "user string, item int, weight double",
            ValueError,
            "every weight in column 'weight' is zero",
        ),
        ([], "user string, item int", ValueError, "X has no rows"),
        ([("a", 1)], "who string, item int", ValueError, "no column looks like the user"),
    ],
)
def test_frames(fit, rows, schema, error, message):
    with pytest.raises(error, match=message):
        fit(rows, schema)


def test_weightings_are_for_one_machine(fit):
    rows, schema = [("a", 1, 2.0), ("b", 2, 1.0)], "user string, item int, weight double"
    for weighting in ("bm25", "log", abs):
        with pytest.raises(ValueError, match=r"weighting=.* is not for SparkEngine.*Weigh the column"):
            fit(rows, schema, weighting=weighting)
    assert fit(rows, schema, weighting="none").n_iter_ > 0


def test_other_kinds_of_data(fit, pairs):
    with pytest.raises(TypeError, match=r"X must be a Spark DataFrame .* got DataFrame. spark.createDataFrame"):
        fit(pairs, None)


def test_parameters_that_need_one_machine(fit, frame):
    with pytest.raises(ValueError, match="init='svd' needs the whole matrix on one machine"):
        fit(frame, None, init="svd")
    with pytest.raises(ValueError, match="warm_start=True is not for SparkEngine"):
        fit(frame, None, warm_start=True)


def test_one_folder_is_for_one_start(spark, frame, tmp_path):
    engine = SparkEngine(spark, blocks=2, checkpoint=str(tmp_path))
    with pytest.raises(
        ValueError, match=r"n_init=2 does not go with checkpoints: .* Use n_init=1, or an engine without"
    ):
        hs.WALS(rank=2, n_init=2, engine=engine).fit(frame)
    assert not list(tmp_path.iterdir())


def test_engine_parameters(spark):
    with pytest.raises(ValueError, match="blocks=0 must be a whole number of at least 1"):
        SparkEngine(spark, blocks=0)
    with pytest.raises(ValueError, match="resume=True needs `checkpoint`"):
        SparkEngine(spark, resume=True)
    with pytest.raises(TypeError, match="must be a SparkSession with a SparkContext"):
        SparkEngine(object())


def test_engine_is_not_copied_with_parameters(spark):
    engine = SparkEngine(spark)
    assert copy.deepcopy(engine) is engine


def test_executor_without_the_package(spark, monkeypatch):
    bare = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not bare.exists():
        pytest.skip(f"needs an interpreter without halfstep at {bare}")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(RuntimeError, match=r"the executors cannot import halfstep.*PYSPARK_PYTHON"):
        SparkEngine(spark).check_executors()
