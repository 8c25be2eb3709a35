"""Instructions that the core spends on twelve small fits and answers, held against `benchmarks/counts.json`.

    make bench-counts                            fails where a case takes 3% more than it says
    python benchmarks/counts.py --write          keeps what is found, after a change that is meant
    python benchmarks/counts.py --path baseline  through another path of the core

Every case runs under valgrind's callgrind on one thread. Only instructions inside the compiled core are counted, so
that neither Python nor NumPy, BLAS, the C library, other work nor the clock can change them. They do depend on the
compiler and on the path through the core; those are kept beside the counts, and where they differ nothing is compared
and the output says so. valgrind knows no AVX-512, so the path is AVX2.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from halfstep import _core

KEPT = Path(__file__).with_name("counts.json")
MOST = 0.03
# Counting makes everything fifty times slower, so it is on for the cases alone; a case is one part of what is written.
MARKS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(const char* name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""

Case = Callable[[], object]


def numbers(*shape: int, seed: int = 1) -> np.ndarray:
    """Numbers between -1 and 1 that are the same with every NumPy."""
    x = np.arange(1 + seed, 1 + seed + int(np.prod(shape)), dtype=np.uint64)
    for by, turn in ((0x9E3779B97F4A7C15, 30), (0xBF58476D1CE4E5B9, 27), (0x94D049BB133111EB, 31)):
        x = x * np.uint64(by)
        x ^= x >> np.uint64(turn)
    return ((x >> np.uint64(11)).astype(np.float64) / 2**52 - 1).reshape(shape)


def cells(users: int, items: int, share: float) -> sp.csr_matrix:
    """Weights between 0.5 and 1.5, some items far more often than others."""
    popular = np.linspace(2, 0, items) ** 2 * share
    there = numbers(users, items) < 2 * popular - 1
    return sp.csr_matrix(np.where(there, 1 + numbers(users, items, seed=2) / 2, 0))


def ratings(users: int, items: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.argwhere(numbers(users, items) < 2 * share - 1)
    y = (numbers(users, 3) @ numbers(items, 3, seed=3).T)[tuple(pairs.T)]
    return pairs, 3 + y + 0.3 * numbers(len(pairs), seed=4)


def cases() -> dict[str, Case]:
    """Each prepared, to be run once."""
    import halfstep as hs

    one: dict[str, Any] = {"n_threads": 1, "random_state": 0}
    R, wide = cells(300, 200, 0.1), cells(150, 400, 0.02)
    pairs, y = ratings(100, 70, 0.3)
    graph = hs.ItemGraph(n_threads=1)
    linked = 2 * numbers(400, 12) + np.sign(numbers(400, 1, seed=5))
    P = np.where(numbers(400, 12, seed=6) < 0.5, 1 / (1 + np.exp(-linked)), np.nan)
    labels = np.where(np.arange(400) < 200, numbers(400, seed=5) > 0, np.nan)
    left, right = (numbers(n, 32, seed=n).astype(np.float32) for n in (300, 3000))

    def implicit(rank: int, R: Any = R, **settings: Any) -> Case:
        return lambda: hs.WALS(rank, **one, **{"max_iter": 2, "tol": 0, "init": "scaled"} | settings).fit(R)

    def rating(loss: Any, rank: int, **settings: Any) -> Case:
        given: dict[str, Any] = {"max_iter": 3, "tol": 0} | settings
        return lambda: hs.PLQMF(rank, loss, **one, **given).fit(pairs, y > 3 if loss == "logistic" else y)

    return {
        "exact rows, rank 48": implicit(48, solver="cholesky"),
        "exact rows in float64, rank 24": implicit(24, solver="cholesky", dtype="float64"),
        "short rows by their dual, rank 64": implicit(64, wide, solver="dual"),
        "conjugate gradients, rank 48": implicit(48, solver="cg"),
        "blocks of columns, rank 64": implicit(64, solver="subspace"),
        "ratings, squared, rank 8": rating("squared", 8),
        "ratings, absolute, rank 6": rating("absolute", 6, max_iter=2),
        "ratings, logistic, rank 6": rating("logistic", 6, max_iter=2),
        "draws, rank 6": lambda: hs.BayesMF(6, n_sweeps=4, **one).fit(pairs, y),
        "fused predictions, rank 3": lambda: hs.CFEnsemble(3, max_iter=5, **one).fit(P, labels),
        "best 10 of 3,000 items": lambda: _core.top_k(left, right, 10, n_threads=1),
        "item graph and its lists": lambda: graph.fit(R).recommend(np.arange(300), 10),
    }


def run(path: str, marks: str, only: str) -> None:
    """Inside callgrind: each case between two marks. Prints their names."""
    _core.use_instruction_set(path)
    mark = ctypes.CDLL(marks)
    for name, case in cases().items():
        if only not in name:
            continue
        mark.begin()
        case()
        mark.end(name.encode())
        print(name)


def spent(written: str) -> int:
    """Instructions of the core alone in what callgrind wrote; what it called outside is not among them."""
    total, here, called = 0, False, False
    for line in written.splitlines():
        if line.startswith("ob="):
            here = "/_core." in line
        elif line.startswith("calls="):
            called = True  # the next line has what was spent inside the call
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            if here and not called:
                total += int(line.split()[1])
            called = False
    return total


def count(path: str, only: str = "") -> dict[str, int]:
    """Instructions of each case, or of those with `only` in their name."""
    with tempfile.TemporaryDirectory() as folder:
        out, marks = Path(folder) / "counts", Path(folder) / "marks.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", marks], input=MARKS, text=True, check=True)
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--compress-strings=no"]
        command += [f"--callgrind-out-file={out}", sys.executable, __file__, "--path", path, "--only", only]
        command += ["--run", str(marks)]
        single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        told = subprocess.run(
            command, env=os.environ | single | {"PYTHONHASHSEED": "0"}, capture_output=True, text=True
        )
        if told.returncode:
            sys.exit(f"valgrind did not come to its end:\n{told.stderr[-3000:]}")
        names = told.stdout.splitlines()
        written = [out.with_name(f"counts.{number}") for number in range(1, len(names) + 1)]
        return {name: spent(part.read_text(errors="replace")) for name, part in zip(names, written, strict=True)}


def holds_for(path: str) -> dict[str, str]:
    """What counts depend on."""
    compiler = re.search(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", Path(_core.__file__).read_bytes())
    name = compiler.group().decode() if compiler else "unknown"
    return {"machine": platform.machine(), "compiler": name, "path": path}


def verdict(kept: dict[str, int], found: dict[str, int], most: float = MOST) -> tuple[list[str], list[str]]:
    """Lines of a table, and the names of cases that became slower, or that nobody has kept."""
    lines, slower = [], []
    for name, now in found.items():
        before = kept.get(name, 0)
        is_slower = now - before > most * before
        slower += [name] * is_slower
        change = f"{now / before - 1:+.1%}" if before else "new"
        lines.append(f"{name:<36}{before:>14,}{now:>14,}{change:>9}" + "  SLOWER" * is_slower)
    return lines, slower


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--path", default="avx2", help="a path through the core, of show_config()")
    parser.add_argument("--only", default="", help="a part of the names of the cases wanted")
    parser.add_argument("--run", metavar="MARKS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        return run(given.path, given.run, given.only)
    if given.path not in _core.instruction_sets():
        print(f"NOT COMPARED: this machine has no path {given.path!r}, only {_core.instruction_sets()}.")
        return
    kept, here = json.loads(KEPT.read_text()), holds_for(given.path)
    if kept["holds_for"] != here and not given.write and given.path == kept["holds_for"]["path"]:
        print(f"NOT COMPARED: counts are kept for {kept['holds_for']}, this is {here}; --write keeps those of here.")
        return
    found = count(given.path, given.only)
    lines, slower = verdict(kept["counts"], found)
    print("\n".join([f"{'instructions in the core':<36}{'kept':>14}{'now':>14}{'change':>9}", *lines]))
    if given.write:
        KEPT.write_text(json.dumps({"holds_for": here, "counts": kept["counts"] | found}, indent=1) + "\n")
    elif slower:
        sys.exit(f"slower by more than {MOST:.0%}: {', '.join(slower)}. If that is meant: benchmarks/counts.py --write")


if __name__ == "__main__":
    main()
