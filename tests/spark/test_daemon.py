"""Workers of our daemon: what is imported is there from the start, and is not walked through between two tasks."""

import gc
import sys
import types
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="make test-spark installs it")

import pyspark

from halfstep.engine.spark.daemon import SetAside, without_archives

pytestmark = pytest.mark.spark


def test_workers_walk_through_little_between_two_tasks(spark):
    def look(_):
        archives = [name for name in (*sys.path, *sys.path_importer_cache, pyspark.__file__) if "pyspark.zip" in name]
        there = "halfstep.engine.spark.tasks" in sys.modules and not archives
        return [(gc.get_freeze_count(), len(gc.get_objects()), there)]

    context = spark.sparkContext
    for _ in range(2):  # a worker sets aside what its first task has imported
        found = context.parallelize(range(2), 2).mapPartitions(look).collect()
    for frozen, walked, there in found:
        assert there
        assert frozen > 20_000
        assert walked < frozen / 4


def test_workers_give_memory_back(spark):
    """Having freed a large array, the C library would keep all that follow."""

    def hold(_):
        def held():
            lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024

        before = held()
        bytearray(20 << 20)
        arrays = [bytearray(b"x") * (4 << 20) for _ in range(5)]
        during = held()
        del arrays
        return [(during - before, held() - before)]

    ((during, after),) = spark.sparkContext.parallelize([0], 1).mapPartitions(hold).collect()
    assert during > 19
    assert after < 2


def test_archives_of_sources_are_left_aside_where_the_same_are_installed(tmp_path):
    """Only where they are the same: a cluster may have another version than its nodes have installed."""
    home = Path(pyspark.__file__).parent
    version = (home / "version.py").read_text()
    for name, text in {"same": version, "other": version + "# patched", "none": None}.items():
        place = tmp_path / name / "pyspark.zip"
        place.parent.mkdir()
        path = [str(place), str(tmp_path / "py4j-0.1-src.zip"), str(tmp_path), str(home.parent)]
        if text is not None:
            with zipfile.ZipFile(place, "w") as archive:
                archive.writestr("pyspark/version.py", text)
        assert without_archives(path) == (path[2:] if name == "same" else path)
        for other in (path[:3], path[2:]):  # nothing is installed; no archive is named
            assert without_archives(other) == other


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
