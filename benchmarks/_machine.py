"""What every published table says about where it was measured."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata

import numpy as np

import halfstep
from halfstep import _core


def describe(*packages: str) -> str:
    """One line: CPU, cores, path of the core, versions."""
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), cpu)
    there = {found.metadata["Name"].lower() for found in metadata.distributions()}
    named = [name for name in ("numpy", "scipy", *packages) if name.lower() in there]
    versions = [f"{name} {metadata.version(name)}" for name in named]
    return (
        f"{cpu}, {len(os.sched_getaffinity(0))} cores, {_core.instruction_set()}, "
        f"Python {platform.python_version()}, halfstep {halfstep.__version__}, {', '.join(versions)}"
    )


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest of several runs."""
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def in_turn(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds on the wall and of processors, of every round of each: a busy moment of the machine hits everybody."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            wall, processor = time.perf_counter(), time.process_time()
            work()
            found[name].append((time.perf_counter() - wall, time.process_time() - processor))
    return found


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The median, and from where to where the others go."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{np.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def sgemm_rate(threads: int, size: int = 3000) -> float:
    """GFLOP/s of numpy's float32 matrix product on so many threads."""
    from threadpoolctl import threadpool_limits

    a = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    with threadpool_limits(threads, user_api="blas"):
        return 2 * size**3 / best_of(4, lambda: a @ a) / 1e9


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
