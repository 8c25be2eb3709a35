"""WALS on Spark gives what WALS gives on one machine: factors, history, lists, fold-in, files."""

import json

import numpy as np
import pandas as pd
import pytest

import halfstep as hs
from halfstep.engine.spark import SparkEngine
from halfstep.engine.spark.checkpoint import CheckpointError

pytestmark = pytest.mark.spark
SETTINGS = {"rank": 6, "max_iter": 3, "tol": 0.0, "random_state": 3, "dtype": "float64", "solver": "exact"}


def difference(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def assert_same_history(a, b):
    assert len(a) == len(b)
    for mine, theirs in zip(a, b, strict=True):
        assert mine.keys() == theirs.keys()
        for name in ("objective", "data", "background", "penalty", "rmse", "rmse_all", "change"):
            assert mine[name] == pytest.approx(theirs[name], rel=1e-4, abs=1e-6), name


@pytest.fixture(scope="module")
def local(pairs):
    return hs.WALS(**SETTINGS).fit(pairs)


@pytest.fixture(scope="module")
def model(spark, frame):
    """Fitted with every mechanism at once: rows sent one by one, a long row of each side split."""
    engine = SparkEngine(spark, blocks=2, broadcast_limit=0, split=60)
    return hs.WALS(**SETTINGS, engine=engine).fit(frame)


@pytest.fixture(scope="module")
def collected(model):
    return model.collect()


def test_split_and_routed_fit_equals_the_local_one(model, collected, local):
    users, items = model.fitted_.kept.given.cells.layouts
    assert (len(users.long), len(items.long)) == (1, 1)
    assert users.partitions == items.partitions == 4
    assert collected.user_ids_.tolist() == local.user_ids_.tolist()
    assert collected.item_ids_.tolist() == local.item_ids_.tolist()
    assert difference(collected.user_factors_, local.user_factors_) < 1e-9
    assert difference(collected.item_factors_, local.item_factors_) < 1e-9
    assert_same_history(model.history_, local.history_)


def test_broadcast_fit_in_single_precision_equals_the_local_one(spark, frame, pairs):
    settings = SETTINGS | {"dtype": "float32"}
    local = hs.WALS(**settings).fit(pairs)
    fitted = hs.WALS(**settings, engine=SparkEngine(spark, blocks=2)).fit(frame)
    model = fitted.collect()
    folded = [fitted.transform(frame.where("user = 'u5'")).collect()[0].factors for _ in range(2)]
    np.testing.assert_array_equal(*folded)
    np.testing.assert_allclose(folded[0], model.user_factors_[model.fitted_.users.position("u5")], atol=1e-4)
    assert fitted.item_factors_.count() == len(model.item_ids_)  # what a fold-in frees is its own
    # single precision leaves the axes of near-equal eigenvalues open, so it is the scores that are compared
    ours, theirs = (m.user_factors_ @ m.item_factors_.T for m in (model, local))
    assert difference(ours, theirs) < 1e-4
    assert_same_history(model.history_, local.history_)


@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("limit", [0, 2**20])
def test_five_sweeps_of_single_precision_equal_the_local_ones(spark, solver, limit):
    """Factors within 1e-4 of the local ones, of the same seed; on data whose axes single precision tells apart."""
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(200, 6)) * [6, 4, 3, 2, 1.5, 1] @ rng.normal(size=(6, 80))
    users, items = np.nonzero(scores > 4)
    pairs = pd.DataFrame({"user": users, "item": items})
    settings = {"rank": 6, "max_iter": 5, "tol": 0.0, "random_state": 0, "solver": solver}
    local = hs.WALS(**settings).fit(pairs)
    engine = SparkEngine(spark, blocks=2, broadcast_limit=limit)
    cluster = hs.WALS(**settings, engine=engine).fit(spark.createDataFrame(pairs)).fitted_.kept
    for got, expected in zip(cluster.solved, (local.user_factors_, local.item_factors_), strict=True):
        assert np.linalg.norm(got.to_array() - expected) < 1e-4 * np.linalg.norm(expected)


def test_chains_of_half_steps_are_cut(spark, frame, pairs):
    """Without checkpoints the rows that travel are kept twice every few half-steps, and what led to them is freed."""
    local = hs.WALS(**SETTINGS | {"max_iter": 5}).fit(pairs)
    depths = []
    engine = SparkEngine(spark, blocks=2, broadcast_limit=0)
    before = len(spark.sparkContext._jsc.getPersistentRDDs())

    def look(record):
        depths.append([factors.depth for factors in sessions[-1].factors])

    sessions = []
    opened = engine.open
    object.__setattr__(engine, "open", lambda *given: sessions.append(opened(*given)) or sessions[-1])
    model = hs.WALS(**SETTINGS | {"max_iter": 5}, engine=engine, callbacks=[look]).fit(frame)
    assert max(max(pair) for pair in depths) <= 6
    assert min(min(pair) for pair in depths[2:]) <= 2  # it was cut
    for got, expected in zip(model.fitted_.kept.solved, (local.user_factors_, local.item_factors_), strict=True):
        assert difference(got.to_array(), expected) < 1e-8
    # cells, routes and ids of both sides; both factors, and at most two cut ones that they are made from
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) - before <= 6 + 4


def test_factors_are_frames_by_id(model, collected):
    rows = model.user_factors_.toPandas().set_index("user")["factors"]
    assert len(rows) == len(collected.user_ids_)
    got = np.stack(rows.loc[collected.user_ids_].to_numpy())
    np.testing.assert_array_equal(got, collected.user_factors_)
    assert model.item_factors_.columns == ["item", "factors"]


def test_recommendations_are_those_of_the_local_model(model, collected):
    table = model.recommend_for_all(4).toPandas()
    assert list(table.columns) == ["user", "rank", "item", "score"]
    everything, few = "u3", table[table.user == "u5"].sort_values("rank")
    assert everything not in set(table.user)  # this user has every item already
    expected = collected.recommend("u5", 4)
    assert few.item.tolist() == expected.ids.tolist()
    np.testing.assert_allclose(few.score, expected.scores, rtol=1e-9)
    seen = set(zip(*model.fitted_.kept.collect().cells.to_csr().nonzero(), strict=True))
    users, items = (collected.fitted_.users.positions(table.user), collected.fitted_.items.positions(table.item))
    assert not seen & set(zip(users, items, strict=True))


def test_fold_in_of_a_known_user_returns_the_fitted_row(model, collected, frame):
    found = model.transform(frame.where("user in ('u5', 'u9')")).toPandas().set_index("user")["factors"]
    for user in ("u5", "u9"):
        expected = collected.user_factors_[collected.fitted_.users.position(user)]
        np.testing.assert_allclose(found[user], expected, atol=1e-9)


def test_fold_in_refuses_unknown_items(model, spark):
    unknown = spark.createDataFrame([("new", 10, 1.0), ("new", 11, 1.0)], "user string, item long, weight double")
    with pytest.raises(hs.errors.UnknownIdError, match="1 items of X are unknown to this model, such as 11"):
        model.transform(unknown)


def test_write_gives_parquet_and_json(model, spark, collected, tmp_path):
    model.write(str(tmp_path / "model"))
    written = spark.read.parquet(str(tmp_path / "model" / "item_factors")).toPandas().set_index("item")["factors"]
    np.testing.assert_array_equal(written[70], collected.item_factors_[collected.fitted_.items.position(70)])
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    assert about["params"]["rank"] == 6
    assert about["history"][-1]["objective"] == model.objective_
    with pytest.raises(FileExistsError, match="is not empty"):
        model.write(str(tmp_path / "model"))


def test_local_methods_say_what_to_do(model, local):
    with pytest.raises(RuntimeError, match=r"call collect\(\) for a local model"):
        model.recommend("u5")
    with pytest.raises(RuntimeError, match="recommend_for_all is for models fitted by SparkEngine"):
        local.recommend_for_all(3)


def test_resumed_fit_has_the_bits_of_an_uninterrupted_one(spark, frame, tmp_path):
    settings = SETTINGS | {"max_iter": 2}

    def lose_the_driver(record):
        if record["iteration"] == 1:
            raise ConnectionError("lost")

    def engine(folder, **more):
        return SparkEngine(spark, blocks=2, split=60, checkpoint=str(tmp_path / folder), every=1, **more)

    whole = hs.WALS(**settings, engine=engine("whole")).fit(frame)
    with pytest.raises(ConnectionError):
        hs.WALS(**settings, engine=engine("lost"), callbacks=[lose_the_driver]).fit(frame)
    assert [p.name for p in (tmp_path / "lost").iterdir()] == ["sweep-000001"]
    resumed = hs.WALS(**settings, engine=engine("lost", resume=True)).fit(frame)
    assert resumed.n_iter_ == 2
    assert [p.name for p in (tmp_path / "lost").iterdir()] == ["sweep-000002"]  # older ones are removed
    for side in (0, 1):
        a, b = (m.fitted_.kept.solved[side].to_array() for m in (whole, resumed))
        np.testing.assert_array_equal(a, b)
    assert [r["objective"] for r in resumed.history_] == [r["objective"] for r in whole.history_]
    with pytest.raises(CheckpointError, match="already holds sweep 2 of this fit; pass resume=True"):
        hs.WALS(**settings, engine=engine("lost")).fit(frame)
    with pytest.raises(CheckpointError, match="is of another fit: parameters differ"):
        hs.WALS(**settings | {"reg": 1.0}, engine=engine("lost", resume=True)).fit(frame)
    with pytest.raises(CheckpointError, match="is of another fit: data"):
        hs.WALS(**settings, engine=engine("lost", resume=True)).fit(frame.limit(50))


@pytest.mark.parametrize("loss", ["huber", "bernoulli"])
def test_other_losses_equal_the_local_fit(spark, frame, pairs, loss):
    settings = SETTINGS | {"loss": loss, "max_iter": 2}
    local = hs.WALS(**settings).fit(pairs)
    model = hs.WALS(**settings, engine=SparkEngine(spark, blocks=2, broadcast_limit=0)).fit(frame).collect()
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-3)
    assert difference(model.user_factors_, local.user_factors_) < 1e-2  # iterative finishes stop at a tolerance


def test_more_blocks_than_rows_and_empty_partitions(spark):
    few = spark.createDataFrame([(1, 1), (2, 1), (2, 3)], "user int, item int").repartition(8)
    model = hs.WALS(rank=2, max_iter=2, random_state=0, engine=SparkEngine(spark, blocks=5)).fit(few).collect()
    local = hs.WALS(rank=2, max_iter=2, random_state=0, solver="exact").fit(few.toPandas())
    assert difference(model.user_factors_, local.user_factors_) < 1e-4
