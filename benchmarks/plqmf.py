"""PLQMF against rehline, the price of an absolute loss, and what robustness buys, side by side in one run.

    python benchmarks/plqmf.py                      every section (about 10 minutes on two cores)
    python benchmarks/plqmf.py race --sweeps 5      seconds until rehline's objective is reached, large and small
    python benchmarks/plqmf.py sweep                a sweep of each loss, relative to one of the squared loss
    python benchmarks/plqmf.py outliers             test error under outliers; writes docs/plqmf_outliers.svg

race: both start from the same factors, without an intercept, under the same penalty. rehline makes `--sweeps` sweeps at
its default tolerance, and we stop after the first sweep whose objective is no higher than 1.0001 times its own; set-up
is included. Its own `obj` says of our factors what we say. CPU seconds for one thread, wall seconds for all cores; ours
are the median of `--repeats` fits.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import sys
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _machine import describe, table

from halfstep import PLQMF, datasets, losses

PEER_NAMES = {"squared": "mse", "absolute": "mae", "hinge": "hinge", "squared_hinge": "squared hinge"}
FIGURE = Path(__file__).parents[1] / "docs" / "plqmf_outliers.svg"


def rating_problem(n_users: int, n_items: int, n_ratings: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs with dense numbering and ratings 1 to 5, heavy-tailed counts."""
    data = datasets.make_ratings(n_users, n_items, n_ratings, random_state=0)
    pairs, y = np.asarray(data[0]), np.clip(np.rint(np.asarray(data[1])), 1, 5)
    return np.column_stack([np.unique(column, return_inverse=True)[1] for column in pairs.T]), y


def targets(loss: str, y: np.ndarray) -> np.ndarray:
    return np.where(y >= 4, 1.0, -1.0) if losses.get(loss).form == "margin" else y


def race(sweeps: int, repeats: int) -> None:
    rows: list[list[str]] = []
    for size, ranks in (((943, 1682, 100_000), (6, 20)), ((500, 400, 15_000), (6,))):
        pairs, y = rating_problem(*size)
        for rank, (loss, peer_name) in product(ranks, PEER_NAMES.items()):
            rows.append(raced(pairs, y, rank, loss, peer_name, sweeps, repeats))
            print(rows[-1], flush=True)
    print(f"\nC = 10 / ratings, rho = 0.5, {sweeps} sweeps of rehline, median of {repeats} fits of ours\n")
    header = ["ratings", "rank", "loss", "rehline's objective", "ours", "rehline, s", "ours, one thread, s"]
    print(table([*header, "ours, all cores, s", "faster, one thread", "faster, all cores"], rows))


def raced(
    pairs: np.ndarray, y: np.ndarray, rank: int, loss: str, peer_name: str, sweeps: int, repeats: int
) -> list[str]:
    from rehline import plqMF_Ridge

    t, sides = targets(loss, y), [int(n) for n in pairs.max(axis=0) + 1]
    given: dict[str, Any] = {"rank": rank, "C": 10 / len(y), "rho": 0.5, "random_state": 0}
    peer = plqMF_Ridge(*sides, {"name": peer_name}, max_iter_CD=sweeps, tol_CD=1e-15, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wall, cpu = time.perf_counter(), time.process_time()
        peer.fit(pairs, t)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    goal = peer.objective_ * 1.0001
    random = np.random.default_rng(0)  # rehline's stream, users first
    starts = [random.normal(size=(n, rank)) for n in sides]

    def start(seed: int, side: int, first: int, last: int, d: int, dtype: Any) -> np.ndarray:
        return starts[side][first:last].astype(dtype)

    ours: dict[int | None, float] = {}
    with mock.patch("halfstep.models.ratings.random_rows", start):
        for threads, clock in ((1, time.process_time), (None, time.perf_counter)):
            stop = [lambda record: record["objective"] <= goal]
            model = PLQMF(loss=loss, intercept=False, max_iter=100, tol=0, n_threads=threads, callbacks=stop, **given)
            seconds = []
            for _ in range(repeats):
                begun = clock()
                model.fit(pairs, t)
                seconds.append(clock() - begun)
            ours[threads] = float(np.median(seconds))
    assert model.objective_ <= goal
    peer.P, peer.Q = model.user_factors_.astype(float), model.item_factors_.astype(float)
    peer.bu, peer.bi = model.user_bias_.astype(float), model.item_bias_.astype(float)
    assert abs(peer.obj(pairs, t)[1] / model.objective_ - 1) < 1e-4, "not the same objective"
    row = [f"{len(y):,}", str(rank), loss, f"{peer.objective_:.4f}", f"{model.objective_:.4f}", f"{cpu:.2f}"]
    return [*row, f"{ours[1]:.4f}", f"{ours[None]:.4f}", f"{cpu / ours[1]:.0f}", f"{wall / ours[None]:.0f}"]


def sweep(rank: int = 20, sweeps: int = 6) -> None:
    pairs, y = rating_problem(6040, 3706, 1_000_000)
    print(f"\n{len(y)} ratings, {' x '.join(map(str, pairs.max(axis=0) + 1))}, rank {rank}, one thread, CPU seconds\n")
    rows, base = [], 1.0
    for C, loss in product((1e-5, 1e-4), ("squared", "absolute", "hinge", "huber", "squared_hinge", "logistic")):
        clock: list[float] = []
        model = PLQMF(rank, loss, C, 0.5, max_iter=sweeps, tol=0, row_tol=1e-4, n_threads=1, random_state=0)
        model.set_params(callbacks=[lambda record, clock=clock: clock.append(time.process_time())])
        model.fit(pairs, targets(loss, y))
        seconds = float(np.median(np.diff(clock)))
        base = seconds if loss == "squared" else base
        gap = max(record["gap"] for record in model.history_)
        rows.append([f"{C:.0e}", loss, f"{seconds:.3f}", f"{seconds / base:.1f}", f"{gap:.1e}"])
        print(rows[-1], flush=True)
    print("\n" + table(["C", "loss", "a sweep, s", "relative to squared", "largest gap of a row"], rows))


def outliers() -> None:
    """Mean absolute error on clean test ratings, when a share of the training ratings is replaced by gross outliers."""
    shares, names = (0.0, 0.02, 0.05, 0.1), ("squared", "huber", "absolute")
    pairs, y = rating_problem(943, 1682, 100_000)
    rng = np.random.default_rng(0)
    test = rng.random(len(y)) < 0.2
    train, y_test = np.flatnonzero(~test), y[test]
    found: dict[str, list[float]] = {name: [] for name in names}
    for share in shares:
        dirty = y[train].copy()
        hit = rng.random(len(train)) < share
        dirty[hit] *= 10  # a slipped decimal point
        for name in names:
            model = PLQMF(6, name, max_iter=15, random_state=0).fit(pairs[train], dirty)
            found[name].append(float(np.mean(np.abs(model.predict(pairs[test]) - y_test))))
    rows = [[f"{share:.0%}", *(f"{found[name][k]:.3f}" for name in names)] for k, share in enumerate(shares)]
    print("\n" + table(["outliers", *names], rows))
    FIGURE.write_text(drawing([100 * share for share in shares], found))


def drawing(x: list[float], series: dict[str, list[float]]) -> str:
    """A line chart as SVG; grey text reads on light and dark pages."""
    width, height, left, bottom = 460, 240, 46, 200
    top = 1.05 * max(max(values) for values in series.values())

    def place(a: float, b: float) -> str:
        return f"{left + a / x[-1] * 300:.1f},{bottom - b / top * 180:.1f}"

    head = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {head}>']
    parts.append(
        "<title>Mean absolute error on clean test ratings, by share of outliers among training ratings</title>"
    )
    for tick in np.linspace(0, np.floor(top * 2) / 2, 4):
        y = place(0, tick).split(",")[1]
        parts.append(f'<path d="M{left} {y}h300" stroke="#8886"/><text x="8" y="{y}" fill="#888">{tick:.2f}</text>')
    for value in x:
        parts.append(
            f'<text x="{place(value, 0).split(",")[0]}" y="216" fill="#888" text-anchor="middle">{value:g}%</text>'
        )
    parts.append('<text x="196" y="234" fill="#888" text-anchor="middle">outliers among training ratings</text>')
    for (name, values), colour in zip(series.items(), ("#d55e00", "#009e73", "#0072b2"), strict=True):
        points = " ".join(place(a, b) for a, b in zip(x, values, strict=True))
        end_x, end_y = points.rsplit(" ", 1)[1].split(",")
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lower = {"squared": 4, "huber": -6, "absolute": 8}[name]  # the robust losses end close together
        where = f'x="{float(end_x) + 8}" y="{float(end_y) + lower}"'
        parts.append(f'<text {where} fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="?", choices=["race", "sweep", "outliers"])
    parser.add_argument("--sweeps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    chosen = [arguments.section] if arguments.section else ["outliers", "sweep", "race"]
    print(describe("scikit-learn", *(["rehline"] if "race" in chosen else [])))
    for section in chosen:
        {"race": lambda: race(arguments.sweeps, arguments.repeats), "sweep": sweep, "outliers": outliers}[section]()


if __name__ == "__main__":
    main()
