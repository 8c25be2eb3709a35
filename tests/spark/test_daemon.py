"""Workers of our daemon: what is imported is there from the start, and is not walked through between two tasks."""

import gc
import sys
import types

import pytest

pytest.importorskip("pyspark", reason="make test-spark installs it")

from halfstep.engine.spark.daemon import SetAside

pytestmark = pytest.mark.spark


def test_workers_walk_through_little_between_two_tasks(spark):
    def look(_):
        return [(gc.get_freeze_count(), len(gc.get_objects()), "halfstep.engine.spark.tasks" in sys.modules)]

    context = spark.sparkContext
    for _ in range(2):  # a worker sets aside what its first task has imported
        found = context.parallelize(range(2), 2).mapPartitions(look).collect()
    for frozen, walked, there in found:
        assert there
        assert frozen > 20_000
        assert walked < frozen / 4


def test_what_is_there_is_set_aside_only_when_modules_have_come(monkeypatch):
    times = []
    monkeypatch.setattr(gc, "freeze", lambda: times.append(len(sys.modules)))
    callback = SetAside()
    callback("start", {"generation": 2})
    callback("stop", {"generation": 1})
    assert not times
    for _ in range(3):
        callback("stop", {"generation": 2})
    assert len(times) == 1
    monkeypatch.setitem(sys.modules, "halfstep_made_for_this_test", types.ModuleType("made"))
    for _ in range(3):
        callback("stop", {"generation": 2})
    assert len(times) == 2
