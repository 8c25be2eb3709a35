"""Recommenders against each other: `python benchmarks/recommend.py [defaults | tuned | speed] [part of a name ...]`.

defaults : every model untouched, NDCG@20 and recall@20 of up to five cells of each row held out.
tuned : `hs.tune(data, seconds=120)`: the best of each kind and of their blend, on cells that chose nothing.
speed : ItemGraph on 30,000 users x 41,000 items x 810,000 generated pairs: processor seconds, peak memory.

Splits of `defaults` are other ones than those of `benchmarks/defaults.py`, on which exponents and rules were chosen.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from defaults import matrices, split

import halfstep as hs
from halfstep.models.ease import EASE

SEEDS = (201, 202, 203)
MOST_EASE = 6_000


def models(n_items: int) -> dict[str, object]:
    every = {
        "Popularity": hs.baselines.Popularity(),
        "ItemKNN": hs.baselines.ItemKNN(),
        "ItemGraph": hs.ItemGraph(),
        "EASE": EASE(),
        "WALS": hs.WALS(random_state=0),
        "Blend of WALS and ItemGraph": hs.Blend([hs.WALS(random_state=0), hs.ItemGraph()]),
    }
    return {name: model for name, model in every.items() if name != "EASE" or n_items <= MOST_EASE}


def defaults(wanted: list[str]) -> None:
    print("| data | model | NDCG@20 | standard error | recall@20 |\n| --- | --- | --- | --- | --- |")
    for name, cells in matrices():
        if wanted and not any(part in name for part in wanted):
            continue
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in SEEDS:
            seen, hidden, rows = split(sp.csr_array(cells), seed)
            for kind, model in models(seen.shape[1]).items():
                ranked = model.fit(seen).rank_items(seen[rows], 20, rows)  # type: ignore[attr-defined]
                ndcg, recall = (f(ranked, hidden[rows], 20) for f in (hs.metrics.ndcg_at_k, hs.metrics.recall_at_k))
                found.setdefault(kind, []).append((float(ndcg.mean()), float(recall.mean())))
        for kind, values in found.items():
            mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
            print(f"| {name} | {kind} | {mean[0]:.4f} | {error[0]:.4f} | {mean[1]:.4f} |", flush=True)


def tuned(wanted: list[str]) -> None:
    print("| data | kind | test NDCG@20 | validation | trials |\n| --- | --- | --- | --- | --- |")
    for name, cells in matrices():
        if wanted and not any(part in name for part in wanted):
            continue
        tuning = hs.tune(sp.csr_array(cells), seconds=120)
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
    for neighbours in (200, None):
        begun = time.process_time()
        model = hs.ItemGraph(neighbours=neighbours).fit(cells)
        fitted = time.process_time()
        model.rank_items(cells, 20, np.arange(n))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{cells.nnz:,} pairs, neighbours={neighbours}: fit {fitted - begun:.1f} s, lists of 20 for everybody "
            f"{time.process_time() - fitted:.1f} s of processor time; peak {peak:.1f} GB so far",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, *names = sys.argv[1:] or ["defaults"]
    {"defaults": defaults, "tuned": tuned, "speed": speed}[what](names)
