"""Recommenders against each other: `python benchmarks/recommend.py [models | tuned | graphs | speed | index] [name]`.

models : every kind with the best of at most eight settings, `WALS()` untouched, a blend, and implicit's ALS.
tuned : `hs.tune(data, seconds=...)` against the best single model that the same seconds find of each kind.
speed : ItemGraph and `WALS()` on 30,000 users x 41,000 items x 810,000 generated pairs: processor seconds, peak memory.
graphs : exponents of ItemGraph, over every matrix and parts of it, on the cells that choose.
index : how many of the best ten items `WALS.item_index` finds on ESCO, rank 64, and among random vectors of that size.

`models` hides cells of even rows to choose settings, and of odd rows to report, five seeds; intervals over users are of
paired differences to `WALS()`. `tuned` has test cells that no search sees. LensKit is left out; nothing here was
measured against it.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from _matrices import cut, sets
from defaults import DATA

import halfstep as hs
from halfstep.apps.tune.recommenders import GRAPHS, NEIGHBOURS, strengths
from halfstep.models.item_index import ItemIndex

CHOOSING, REPORTING, DEPTH = 301, (401, 402, 403, 404, 405), 20
MOST_EASE = 6_000


class Implicit:
    """implicit's ALS as it comes: 100 factors, regularisation 0.01, 15 sweeps."""

    def fit(self, cells: Any) -> Implicit:
        from implicit.als import AlternatingLeastSquares

        self.model = AlternatingLeastSquares(random_state=0, num_threads=2)
        self.model.fit(sp.csr_matrix(cells, dtype=np.float32), show_progress=False)
        return self

    def rank_items(self, seen: Any, n: int, rows: Any) -> Any:
        return self.model.recommend(rows, sp.csr_matrix(seen, dtype=np.float32), N=n)[0]


def kinds(cells: Any) -> dict[str, list[Any]]:
    """At most eight settings of each."""
    found: dict[str, list[Any]] = {
        "Popularity": [hs.baselines.Popularity()],
        "implicit ALS, default": [Implicit()],
        "ItemKNN": [hs.baselines.ItemKNN(n, kind, shrink) for kind, shrink, n in NEIGHBOURS],
        "ItemGraph": [hs.ItemGraph(*each) for each in GRAPHS],
        "EASE": [hs.EASE(reg) for reg in (3.0, 10.0, 30.0, 100.0, 300.0)] if cells.shape[1] <= MOST_EASE else [],
        "WALS(), untouched": [hs.WALS(random_state=0)],
        "WALS": [hs.WALS(random_state=0, **each) for each in strengths(cells)],
    }
    return {name: models for name, models in found.items() if models}


def values(model: Any, seen: Any, hidden: Any) -> np.ndarray:
    """(2, users) NDCG and recall."""
    rows = np.flatnonzero(np.diff(hidden.indptr))
    ranked = model.fit(seen).rank_items(seen[rows], DEPTH, rows)
    return np.array([f(ranked, hidden[rows], DEPTH) for f in (hs.metrics.ndcg_at_k, hs.metrics.recall_at_k)])


def interval(difference: np.ndarray) -> str:
    draws = np.random.default_rng(0).integers(0, len(difference), (2000, len(difference)))
    return "{:+.4f} to {:+.4f}".format(*np.quantile(difference[draws].mean(axis=1), [0.025, 0.975]))


def chosen_models(cells: Any) -> Iterator[tuple[str, Any]]:
    """The best of each kind on cells of even rows, and the blend of the two that matter."""
    seen, hidden = cut(cells, CHOOSING, 0)
    best = {}
    for name, models in kinds(seen).items():
        worth = [values(model, seen, hidden)[0].mean() if len(models) > 1 else 0.0 for model in models]
        best[name] = models[int(np.argmax(worth))]
        yield name, best[name]
    yield "Blend of WALS and ItemGraph", hs.Blend([best["WALS"], best["ItemGraph"]])


def models(wanted: list[str]) -> None:
    print("| data | model | NDCG@20 | recall@20 | NDCG@20 minus that of `WALS()`, 95% |\n|" + " --- |" * 5)
    for name, cells in sets(wanted, parts=(1,)):
        splits = [cut(cells, seed, 1) for seed in REPORTING]
        found = {kind: np.mean([values(m, *each) for each in splits], axis=0) for kind, m in chosen_models(cells)}
        for kind, both in found.items():
            ndcg, recall = both.mean(axis=1)
            against = "" if "untouched" in kind else interval(both[0] - found["WALS(), untouched"][0])
            print(f"| {name} | {kind} | {ndcg:.4f} | {recall:.4f} | {against} |", flush=True)


def tuned(wanted: list[str]) -> None:
    seconds = float(wanted.pop(0)) if wanted and wanted[0].isdecimal() else 120.0
    print("| data | kind | test NDCG@20 | validation | trials |\n| --- | --- | --- | --- | --- |")
    for name, cells in sets(wanted, parts=(1,)):
        tuning = hs.tune(cells, seconds=seconds)
        for row in tuning.kinds():
            mark = " (chosen)" if row["model"] == tuning.winner else ""
            print(f"| {name} | {row['model']}{mark} | {row['test']:.4f} | {row['validation']:.4f} | {row['trials']} |")


def speed(_: list[str]) -> None:
    rng, (n, m, pairs) = np.random.default_rng(0), (30_000, 41_000, 810_000)
    each = np.clip(rng.lognormal(2.85, 0.85, n), 8, 800)
    users = np.repeat(np.arange(n), (each * pairs * 1.02 / each.sum()).astype(int))
    share = 1 / (np.arange(m) + 30.0) ** 0.75
    items = rng.choice(m, len(users), p=share / share.sum())
    cells = sp.csr_array((np.ones(len(users), np.float32), (users, items)), shape=(n, m))
    cells.sum_duplicates()
    cells.data[:] = 1
    every = {f"ItemGraph(neighbours={k})": hs.ItemGraph(neighbours=k) for k in (200, None)}
    for name, model in (every | {"WALS()": hs.WALS(random_state=0)}).items():
        begun = time.process_time()
        model.fit(cells)
        fitted = time.process_time()
        model.rank_items(cells, 20, np.arange(n))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{cells.nnz:,} pairs, {name}: fit {fitted - begun:.1f} s, lists of 20 for everybody "
            f"{time.process_time() - fitted:.1f} s of processor time; peak {peak:.1f} GB so far",
            flush=True,
        )


def index(_: list[str]) -> None:
    model = hs.WALS(64, max_iter=5, random_state=0).fit(hs.datasets.load_esco(DATA / "esco-1.1.1"))
    normal = np.random.default_rng(0).standard_normal
    users, items = (normal(each.shape, np.float32) for each in (model.user_factors_, model.item_factors_))
    cases = {
        "ESCO": (model.user_factors_, model.item_index),
        "random normal": (users, lambda effort: ItemIndex.of(items, 16, effort, None)),
    }
    for (name, (asking, made_with)), effort in product(cases.items(), (64, 128, 256)):
        begun = time.process_time()
        graph = made_with(effort=effort)
        made = time.process_time() - begun
        print(
            f"{name}, effort {effort}: {made:.1f} s of processor time, recall@10 {graph.recall(asking):.3f}", flush=True
        )


def graphs(wanted: list[str]) -> None:
    """Exponents of ItemGraph on cells of even rows, as shares of the best on each matrix."""
    every = list(product((0.5, 0.7, 0.9), (0.0, 0.25, 0.5), (0.1, 0.3, 0.5)))
    found = {}
    for name, cells in sets(wanted):
        seen, hidden = cut(cells, CHOOSING, 0)
        worth = np.array([values(hs.ItemGraph(*each), seen, hidden)[0].mean() for each in every])
        found[name] = worth / worth.max()
        print(f"{name}: best {worth.max():.3f} at {every[int(worth.argmax())]}", flush=True)
    share = np.array(list(found.values()))
    print("\n| a, b, c | mean share of the best | lowest |\n| --- | --- | --- |")
    for k in np.argsort(-share.mean(axis=0), kind="stable")[:8]:
        print(f"| {every[k]} | {share[:, k].mean():.3f} | {share[:, k].min():.3f} |")
    print(f"| default | {share[:, every.index((0.7, 0.25, 0.3))].mean():.3f} | |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, *names = sys.argv[1:] or ["models"]
    every = {"models": models, "tuned": tuned, "speed": speed, "index": index, "graphs": graphs}
    every[what](names)
