"""`make bench-counts`: what is counted, what is compared, and that a slower kernel is noticed."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from halfstep import _core

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "counts.py"
spec = importlib.util.spec_from_file_location("counts", SCRIPT)
counts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(counts)

BITS = ("-0x1.18761955e46a0p-3", "-0x1.e4ee8b9dffdb0p-1", "0x1.e22ee2a1c9320p-1", "-0x1.9319da56b95e4p-1")

WRITTEN = """version: 1
events: Ir
ob=/somewhere/_core.cpython-311.so
fn=solve
12 100
+3 20
cob=/lib/libc.so.6
cfn=memcpy
calls=7 0
12 5000
13 1
ob=/lib/libc.so.6
fn=memcpy
4 5000
"""


def test_instructions_of_the_core_alone_are_counted():
    assert counts.spent(WRITTEN) == 121


def test_three_percent_more_fails_and_less_does_not():
    kept = {"a": 1000, "b": 1000, "c": 1000}
    lines, slower = counts.verdict(kept, {"a": 1030, "b": 1031, "c": 500})
    assert slower == ["b"]
    assert "SLOWER" in lines[1]
    assert counts.verdict({}, {"new": 5})[1] == ["new"]


def test_input_is_the_same_everywhere():
    x = counts.numbers(4)
    np.testing.assert_array_equal(x, [float.fromhex(each) for each in BITS])
    assert (np.abs(counts.numbers(1000)) <= 1).all()


def test_every_case_is_kept_with_what_it_holds_for():
    told = json.loads(counts.KEPT.read_text())
    assert told["counts"].keys() == counts.cases().keys()
    assert len(told["counts"]) == 12
    assert told["holds_for"].keys() == counts.holds_for("avx2").keys()


def test_another_compiler_is_said_and_not_compared(tmp_path, monkeypatch, capsys):
    other = {"holds_for": counts.holds_for("baseline") | {"compiler": "another"}, "counts": {}}
    (tmp_path / "counts.json").write_text(json.dumps(other))
    monkeypatch.setattr(counts, "KEPT", tmp_path / "counts.json")
    monkeypatch.setattr(counts, "count", lambda *_: pytest.fail("it was counted"))
    monkeypatch.setattr(sys, "argv", ["counts.py", "--path", "baseline"])
    counts.main()
    assert "NOT COMPARED: counts are kept for" in capsys.readouterr().out


def test_what_became_slower_ends_with_its_name(tmp_path, monkeypatch):
    kept = {"holds_for": counts.holds_for("baseline"), "counts": {"a": 100}}
    (tmp_path / "counts.json").write_text(json.dumps(kept))
    monkeypatch.setattr(counts, "KEPT", tmp_path / "counts.json")
    monkeypatch.setattr(counts, "count", lambda *_: {"a": 104})
    monkeypatch.setattr(sys, "argv", ["counts.py", "--path", "baseline"])
    with pytest.raises(SystemExit, match="slower by more than 3%: a"):
        counts.main()


@pytest.mark.heavy
@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
@pytest.mark.skipif("avx2" not in _core.instruction_sets(), reason="one path through the core only")
def test_a_slower_kernel_is_noticed_and_the_same_one_is_not():
    one, again, slow = (counts.count(path, "best 10 of") for path in ("avx2", "avx2", "baseline"))
    assert not counts.verdict(one, again, most=0.001)[1]
    assert counts.verdict(one, slow)[1] == ["best 10 of 3,000 items"]
