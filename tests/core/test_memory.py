"""Where memory ends, the core raises MemoryError: on the calling thread and on others, never a crash or a wrong row."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.heavy
SCARCE = """
import resource
import numpy as np
from halfstep import _core

def ones(*shape):
    return np.ones(shape, np.float32)

def half_step(d):
    rows = _core.half_step(ones(40, d), ones(40, d))
    rows.penalty(1.0)
    return rows

{prepare}
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (24 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    {call}
except MemoryError:
    print("MemoryError")
"""

CALLS = {
    "gram, result": ("x = ones(4, 4000)", "_core.gram(x, {threads})"),
    "gram, worker": ("x = ones(40000, 1500)", "_core.gram(x, {threads})"),
    "rotate": ("x, basis = ones(9000, 3000), ones(3000, 3000)", "_core.rotate(x, basis, 0, {threads})"),
    "top_k, result": ("x = ones(500, 4)", "_core.top_k(x, x, 1 << 30, n_threads={threads})"),
    "top_k, worker": ("x = ones(600, 16000)", "_core.top_k(x, x, 3, n_threads={threads})"),
    "group_cells": ("k = np.zeros(3, np.int32)", "_core.group_cells(k, k, 1 << 40, [])"),
    "solve": (
        "r = half_step(3000); r.cells(np.arange(41), np.zeros(40, np.int32), 1.0, 1.0)",
        "r.method(_core.Method.cholesky, 1e-4, 9, 64); r.solve(True, {threads})",
    ),
    "solve a table": ("r = half_step(500); r.table(ones(40, 40), 1.0)", "r.solve(True, {threads})"),
    "quadratics": (
        "r = half_step(1500); r.cells(np.arange(41), np.zeros(40, np.int32), 1.0, 1.0)",
        "r.quadratics({threads})",
    ),
    "finish": ("r = half_step(3000); q = np.ones((40, 3001, 3000))", "r.finish(q, {threads})"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory the way Linux counts it")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_no_memory_raises_memory_error(name, threads):
    prepare, call = CALLS[name]
    script = SCARCE.format(prepare=prepare, call=call.format(threads=threads))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "MemoryError\n"), done.stderr[-500:]


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory the way Linux counts it")
def test_threads_that_the_system_does_not_grant_change_nothing():
    """Room for one stack at most: those threads that start do all the work."""
    script = SCARCE.format(prepare="x = ones(300000, 4)", call="print(_core.gram(x, 64)[0, 0])")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "300000.0\n"), done.stderr[-500:]
