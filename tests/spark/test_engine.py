"""The engine on Spark keeps the contract of all engines."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from halfstep import losses
from halfstep.engine import Problem
from halfstep.engine.spark import SparkEngine
from halfstep.engine.spark.moves import Shared
from halfstep.engine.spark.reading import read_cells

from ..contract.engine import KeptContract, SessionContract, coordinates, interactions

pytestmark = pytest.mark.spark
READ = {}  # cells of a session, which no half-step changes, by what they were made of
FITTED, COLLECTED = {}, {}  # fits by their background, and what is collected of one


@pytest.mark.parametrize("values", [np.arange(3000.0).reshape(100, 30)[:, ::2], np.ones((4, 3), np.float32)])
def test_workers_map_an_array_that_all_of_them_get(spark, values):
    shared = Shared(spark.sparkContext, values)

    def look(_):
        found = shared.value
        return type(found).__name__, np.array(found)

    ((kind, found),) = spark.sparkContext.parallelize([0], 1).map(look).collect()
    assert kind == "memmap"
    np.testing.assert_array_equal(found, values)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(shared.value, values)  # on the driver
    shared.destroy()


class OnSpark:
    limit = 0

    @pytest.fixture(autouse=True)
    def _session(self, spark):
        self.spark = spark

    def engine(self):
        return SparkEngine(self.spark, blocks=2, broadcast_limit=self.limit, split=12)


class TestSparkSession(OnSpark, SessionContract):
    """Half-steps of problems whose cells are cut into blocks; a long row of each side is split."""

    losses: ClassVar = [losses.Squared(), losses.Huber(0.5)]
    dtypes = ("float64",)
    threads = (1,)
    whole_from = 1

    def settings(self, loss):
        return [{"background": 0.1}, {"background": 0.0, "pinned": 1}] if loss.is_quadratic else [{"background": 0.0}]

    def methods(self, loss):
        return ["exact"]

    test_any_number_of_threads_gives_the_same_bits = None  # a task has one

    def open(self, problem, factors, solver, n_threads=1):
        given = self.given(problem.observations, 12 if problem.loss.is_quadratic else 0)
        there = Problem(given.cells, problem.sides, problem.loss, problem.background)
        return self.engine().open(there, factors, solver)

    def given(self, observations, split):
        """Cells on the cluster, read once for all tests that have them."""
        rows, columns, targets, weights = coordinates(observations)
        key = (observations.shape, split, *(values.tobytes() for values in (rows, columns, targets, weights)))
        if key not in READ:
            cells = pd.DataFrame({"user": rows, "item": columns, "weight": weights, "target": targets})
            n, m = observations.shape  # ids without a cell are known by one of weight zero
            absent = [(row, 0) for row in range(n)] + [(0, column) for column in range(m)]
            nothing = pd.DataFrame(absent, columns=["user", "item"]).assign(weight=0.0, target=1.0)
            READ[key] = read_cells(
                self.spark.createDataFrame(pd.concat([cells, nothing])),
                {"user": "user", "item": "item", "weight": "weight"},
                target="target",
                duplicates="keep",
                blocks=2,
                split=split,
                dtype=np.float64,
            )
        return READ[key]

    def factors(self, session):
        return [factors.to_array() for factors in session.factors]


class TestBroadcastSession(TestSparkSession):
    """The same where rows go whole to every executor."""

    limit = 2**20
    losses: ClassVar = [losses.Squared()]

    def settings(self, loss):
        return [{"background": 0.1}]


class TestSparkEngine(OnSpark, KeptContract):
    def frame(self, table):
        return self.spark.createDataFrame(pd.DataFrame({"place": range(len(table["user"]))} | table))

    def values(self, table, target, weight):
        return self.frame(table), target, weight

    def more(self, table, known):
        return self.frame(table)

    def fitted(self, table, background=0.1):
        """One fit for all tests, whose answers do not change it; all give it the same table."""
        if background not in FITTED:
            FITTED[background] = super().fitted(table, background)
        return FITTED[background]

    def here(self, kept):
        if kept not in COLLECTED:
            COLLECTED[kept] = kept.collect()
        return COLLECTED[kept]

    def by_id(self, answer, index):
        found = answer.toPandas().sort_values(answer.columns[0])
        return dict(zip(found.iloc[:, 0], found.factors.map(np.asarray), strict=True))

    def apart(self, answer):
        found = answer.toPandas()
        columns = found.iloc[:, 0], found.factors.map(np.asarray), found.bias
        return {id: (row, bias) for id, row, bias in zip(*columns, strict=True)}

    def listed(self, answer, column):
        return answer.toPandas().sort_values("place")[column].tolist()

    def test_the_best_of_everybody_are_ranked_where_the_rows_are(self):
        kept = self.fitted(interactions())
        here = self.here(kept)
        found = kept.rank_all(2, keep_seen=False).toPandas().sort_values(["user", "rank"])
        scores = np.where(here.cells.to_csr().toarray() > 0, -np.inf, here.rows[0] @ here.rows[1].T)
        for place, user in enumerate(here.ids[0].ids):
            left = [j for j in np.argsort(-scores[place])[:2] if np.isfinite(scores[place, j])]
            assert found[found.user == user].item.tolist() == here.ids[1].ids[left].tolist()

    def test_rows_are_not_looked_at_one_by_one(self):
        kept = self.fitted(interactions())
        for name in ("rows", "cells", "ids", "labels", "gram"):
            with pytest.raises(RuntimeError, match=r"its factors are on the cluster; call collect\(\)"):
                getattr(kept, name)
