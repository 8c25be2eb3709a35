"""Ratings at their defaults beside their peers: error, coverage and time on the same splits.

    python benchmarks/ratings.py tweets [seed ...]      MovieTweetings 100K, random 90/10; HALFSTEP_DATA is the folder
    python benchmarks/ratings.py generated small|large  943 x 1,682 with 100,000 cells, 6,040 x 3,706 with 1,000,000
    python benchmarks/ratings.py worlds [kind ...]      100,000 ratings of a more lifelike kind (rating_worlds.py)
    python benchmarks/ratings.py sweep                  a drawn sweep against a solved one, rank 32, same threads

Seconds are those on the wall, then of the processors, which other work on the machine disturbs less. MyFM and Surprise
(extra `bench`) are left out where they are not installed. MyFM makes as many sweeps as BayesMF, at its rank, and keeps
all draws after the same burn-in; `--sweeps` sets both. Its one thread stands against two of BayesMF.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _machine import describe, table
from rating_worlds import KINDS, world

from halfstep import PLQMF, BayesMF, baselines, datasets

FOLDER = Path(os.environ.get("HALFSTEP_DATA", "../shared/data")) / "movietweetings-100k"
SIZES = {"small": (943, 1682, 100_000), "large": (6040, 3706, 1_000_000)}


class Split(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    test: np.ndarray
    seen: np.ndarray


class Answer(NamedTuple):
    """Predictions, bounds of 90% intervals where there are any, and seconds of the fit: wall, processors."""

    mean: np.ndarray
    bounds: np.ndarray | None
    seconds: tuple[float, float]


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.begun = time.perf_counter(), time.process_time()

    def seconds(self) -> tuple[float, float]:
        return time.perf_counter() - self.begun[0], time.process_time() - self.begun[1]


def split(X: np.ndarray, y: np.ndarray, seed: int) -> Split:
    test = np.random.default_rng(seed).random(len(y)) < 0.1
    return Split(X[~test], y[~test], X[test], y[test])


def tweets() -> tuple[np.ndarray, np.ndarray]:
    with (FOLDER / "ratings.dat").open(encoding="utf-8") as lines:
        rows = np.array([line.split("::")[:3] for line in lines], np.int64)
    return rows[:, :2], rows[:, 2].astype(float)


def generated(size: str) -> tuple[np.ndarray, np.ndarray]:
    data = datasets.make_ratings(*SIZES[size], random_state=0)
    return np.asarray(data[0]), np.clip(np.rint(np.asarray(data[1])), 1, 5)


def ours(model: Any) -> Callable[[Split], Answer]:
    def run(data: Split) -> Answer:
        clock = Clock()
        model.fit(data.X, data.y)
        seconds = clock.seconds()
        interval = getattr(model, "predict_interval", None) if isinstance(model, BayesMF) else None
        return Answer(model.predict(data.test), interval(data.test) if interval else None, seconds)

    return run


def myfm(rank: int, sweeps: int, keep: int, seed: int) -> Callable[[Split], Answer]:
    def run(data: Split) -> Answer:
        from myfm import MyFMRegressor
        from scipy.sparse import csr_matrix

        known = [np.unique(data.X[:, side]) for side in (0, 1)]

        def features(X: np.ndarray) -> Any:
            rows, columns, start = [], [], 0
            for side, ids in enumerate(known):
                place = np.minimum(np.searchsorted(ids, X[:, side]), len(ids) - 1)
                here = np.flatnonzero(ids[place] == X[:, side])
                rows.append(here)
                columns.append(start + place[here])
                start += len(ids)
            at = np.concatenate(rows), np.concatenate(columns)
            return csr_matrix((np.ones(len(at[0])), at), shape=(len(X), start))

        clock = Clock()
        model = MyFMRegressor(rank=rank, random_seed=seed)
        model.fit(
            features(data.X), data.y, n_iter=sweeps, n_kept_samples=keep, group_shapes=[len(ids) for ids in known]
        )
        seconds = clock.seconds()
        mean = np.clip(model.predict(features(data.test)), data.y.min(), data.y.max())
        return Answer(np.asarray(mean), None, seconds)

    return run


def surprise(name: str, seed: int) -> Callable[[Split], Answer]:
    def run(data: Split) -> Answer:
        import pandas as pd
        import surprise as peer

        frame = pd.DataFrame({"user": data.X[:, 0], "item": data.X[:, 1], "y": data.y})
        scale = peer.Reader(rating_scale=(data.y.min(), data.y.max()))
        train = peer.Dataset.load_from_df(frame, scale).build_full_trainset()
        clock = Clock()
        model = getattr(peer, name)(random_state=seed).fit(train)
        seconds = clock.seconds()
        return Answer(np.array([model.predict(u, i).est for u, i in data.test.tolist()]), None, seconds)

    return run


def rivals(data: Split, seed: int, sweeps: int | None) -> dict[str, Callable[[Split], Answer]]:
    given: dict[str, Any] = {"random_state": seed} | ({} if sweeps is None else {"n_sweeps": sweeps})
    drawn = BayesMF(n_threads=2, **given)
    n, m = (len(np.unique(data.X[:, side])) for side in (0, 1))
    rank = drawn.default_rank(n, m, len(data.y))
    models = {
        "Constant": ours(baselines.Constant()),
        "Biases": ours(baselines.Biases()),
        "PLQMF": ours(PLQMF(random_state=seed)),
        "PLQMF absolute": ours(PLQMF(loss="absolute", random_state=seed)),
        "PLQMF huber": ours(PLQMF(loss="huber", random_state=seed)),
        "BayesMF": ours(drawn),
        "BayesMF student": ours(BayesMF(likelihood="student", n_threads=2, **given)),
        "BayesMF ordinal": ours(BayesMF(likelihood="ordinal", n_threads=2, **given)),
    }
    if importlib.util.find_spec("myfm"):
        kept = drawn.n_sweeps - int(drawn.burn_in * drawn.n_sweeps)
        models["MyFM"] = myfm(rank, drawn.n_sweeps, kept, seed)
    if importlib.util.find_spec("surprise"):
        models |= {"Surprise SVD": surprise("SVD", seed), "Surprise SVD++": surprise("SVDpp", seed)}
    return models


def compare(X: np.ndarray, y: np.ndarray, seeds: list[int], sweeps: int | None, only: list[str]) -> None:
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in seeds:
        data = split(X, y, seed)
        for name, run in rivals(data, seed, sweeps).items():
            if only and name not in only:
                continue
            mean, bounds, seconds = run(data)
            covers = np.nan if bounds is None else np.mean((bounds[:, 0] <= data.seen) & (data.seen <= bounds[:, 1]))
            gap = mean - data.seen
            figures = float(np.sqrt(np.mean(gap**2))), float(np.mean(np.abs(gap))), float(covers), *seconds
            found.setdefault(name, []).append(figures)
            print(seed, name, *(f"{x:.4f}" for x in figures), file=sys.stderr, flush=True)
    peer = np.mean([f[3] for f in found["MyFM"]]) if "MyFM" in found else np.nan
    rows = []
    for name, figures in found.items():
        errors, absolute, covers, seconds, processor = np.mean(figures, axis=0)
        ratio = f"{peer / seconds:.1f}" if name.startswith("BayesMF") and "MyFM" in found else ""
        shown = " ".join(f"{f[0]:.3f}" for f in figures)
        cover = "" if np.isnan(covers) else f"{covers:.1%}"
        rows.append(
            [name, shown, f"{errors:.4f}", f"{absolute:.4f}", cover, f"{seconds:.1f}", f"{processor:.1f}", ratio]
        )
    header = [
        "model",
        "RMSE by split",
        "RMSE",
        "MAE",
        "90% intervals cover",
        "fit, s",
        "processor, s",
        "times as fast as MyFM",
    ]
    print(table(header, rows))


def sweep(rank: int = 32, sweeps: int = 8) -> None:
    X, y = generated("large")
    clocks: dict[str, list[float]] = {}
    for name in ("solved", "drawn"):
        if name == "solved":
            clock: list[float] = []
            model: Any = PLQMF(rank, reg_user=1.0, reg_item=1.0, max_iter=sweeps, tol=0, n_threads=2, random_state=0)
            model.set_params(callbacks=[lambda record, clock=clock: clock.append(record["seconds"])])
            model.fit(X, y)
        else:
            clock = [
                r["seconds"] for r in BayesMF(rank, n_sweeps=sweeps, n_threads=2, random_state=0).fit(X, y).history_
            ]
        clocks[name] = clock
    seconds = {name: float(np.median(np.diff(clock))) for name, clock in clocks.items()}
    ratio = seconds["drawn"] / seconds["solved"]
    print(
        table(
            ["solved, s", "drawn, s", "ratio"],
            [[f"{seconds['solved']:.3f}", f"{seconds['drawn']:.3f}", f"{ratio:.2f}"]],
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=["tweets", "generated", "worlds", "sweep"])
    parser.add_argument("which", nargs="*")
    parser.add_argument("--sweeps", type=int)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    peers = [name for name in ("myfm", "scikit-surprise") if importlib.util.find_spec(name.removeprefix("scikit-"))]
    print(describe(*peers) + "\n")
    if arguments.section == "sweep":
        return sweep()
    if arguments.section == "tweets":
        seeds = [int(seed) for seed in arguments.which] or [0, 1, 2, 3, 4]
        return compare(*tweets(), seeds, arguments.sweeps, arguments.only)
    if arguments.section == "worlds":
        for kind in arguments.which or KINDS:
            print(f"\n{kind}\n")
            compare(*world(kind, *SIZES["small"], 0), [0], arguments.sweeps, arguments.only)
        return None
    for size in arguments.which or ["small", "large"]:
        print(f"\n{size}: {SIZES[size]}\n")
        compare(*generated(size), [0], arguments.sweeps, arguments.only)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
