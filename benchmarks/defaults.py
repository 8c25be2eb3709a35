"""Every default against what a user would compare it with first: `python benchmarks/defaults.py [ratings | wals]`.

ratings : PLQMF() under several losses against the best constant and mean + damped biases, by the loss itself.
wals : WALS() and settings around it against cosine item neighbours, NDCG@10, up to five cells of each row held out.

The splits are those on which the rules of `models/rating_penalty.py` and `models/strength.py` were chosen; other
splits are used to report them (docs/benchmarks.md).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import halfstep as hs
from halfstep.core.losses.constant import best_constant
from halfstep.errors import UnknownIdWarning

DATA = Path(os.environ.get("HALFSTEP_DATA", Path(__file__).parents[2] / "shared" / "data"))
SEED = 10
LOSSES = ("squared", "absolute", "huber", hs.losses.Quantile(0.1), hs.losses.Quantile(0.9))
SIZES = ((300, 200, 3_000), (600, 400, 20_000), (2_000, 1_000, 30_000), (943, 1_682, 100_000))
SETTINGS = (("count", 0.03, 0.01), ("count", 0.1, 0.03), (1.0, 0.003, 0.01), (1.0, 0.01, 0.02), (1.0, 0.03, 0.02))


def tweetings() -> np.ndarray:
    lines = (DATA / "movietweetings-100k" / "ratings.dat").read_text().splitlines()
    table = np.array([line.split("::")[:3] for line in lines], dtype=np.int64)
    return np.column_stack([*(np.unique(table[:, k], return_inverse=True)[1] for k in (0, 1)), table[:, 2]])


def damped_biases(train: np.ndarray, y: np.ndarray, test: np.ndarray, damping: float = 5.0) -> np.ndarray:
    n, m = (1 + max(train[:, k].max(), test[:, k].max()) for k in (0, 1))
    (u, i), a, b = train.T, np.zeros(n), np.zeros(m)
    for _ in range(15):
        b = np.bincount(i, y - y.mean() - a[u], m) / (np.bincount(i, minlength=m) + damping)
        a = np.bincount(u, y - y.mean() - b[i], n) / (np.bincount(u, minlength=n) + damping)
    return y.mean() + a[test[:, 0]] + b[test[:, 1]]


def rating_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for n, m, cells in SIZES:
        for outliers in (0.0, 0.05):
            pairs, y, _ = hs.datasets.make_ratings(n, m, cells, outliers=outliers, random_state=1)
            yield f"{n:,} x {m:,}, {cells:,}, {outliers:.0%} outliers", np.asarray(pairs), np.asarray(y, float)
    if DATA.is_dir():
        table = tweetings()
        yield "MovieTweetings", table[:, :2], table[:, 2].astype(float)


def ratings() -> None:
    names = [f"{loss.name} {loss.q:g}" if not isinstance(loss, str) else loss for loss in LOSSES]
    print("| ratings | " + " | ".join(f"{name}: ours / constant, / biases" for name in names) + " |")
    print("| --- |" + " --- |" * len(names))
    for name, pairs, y in rating_sets():
        test = np.random.default_rng(SEED).random(len(y)) < 0.15
        simple, found = damped_biases(pairs[~test], y[~test], pairs[test]), []
        for loss in LOSSES:
            phi = hs.losses.get(loss)
            constant = best_constant(phi, np.zeros((~test).sum()), y[~test], np.ones((~test).sum()))
            fit = hs.PLQMF(loss=loss, random_state=0).fit(pairs[~test], y[~test])
            ours, best, biases = (
                float(np.mean(phi.value(z, y[test])))
                for z in (fit.decision_function(pairs[test]), np.full(test.sum(), constant), simple)
            )
            central = isinstance(loss, str)
            found.append(f"{ours / best:.3f}" + (f", {ours / biases:.3f}" if central else ""))
        print(f"| {name} | " + " | ".join(found) + " |", flush=True)


def matrices() -> Iterator[tuple[str, sp.csr_array]]:
    yield "sample skills", hs.datasets.load_sample_skills().matrix
    if DATA.is_dir():
        yield "O*NET activities", hs.datasets.load_onet(DATA / "onet-29.2", "activities").matrix
        yield "O*NET technology", hs.datasets.load_onet(DATA / "onet-29.2", "technology").matrix
        table = tweetings()
        table = table[table[:, 2] >= 7]
        u, i = (np.unique(table[:, k], return_inverse=True)[1] for k in (0, 1))
        yield "MovieTweetings, 7 and above", sp.csr_array((np.ones(len(u), np.float32), (u, i)))
        esco = sp.csr_array(hs.datasets.load_esco(DATA / "esco-1.1.1").matrix)
        part = esco[np.sort(np.random.default_rng(0).permutation(esco.shape[0])[: esco.shape[0] // 10])]
        yield "ESCO, a tenth", part[:, np.asarray(part.sum(axis=0)).ravel() > 0]
        yield "ESCO", esco


def split(cells: sp.csr_array, seed: int) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """Cells to learn from, cells to find, and the rows that are asked about."""
    rng, hide = np.random.default_rng(seed), np.zeros(cells.nnz, bool)
    for start, stop in zip(cells.indptr[:-1], cells.indptr[1:], strict=True):
        hide[rng.choice(np.arange(start, stop), min(5, (stop - start) // 3), replace=False)] = True
    places = cells.tocoo()
    seen, hidden = (
        sp.csr_array((np.ones(mask.sum(), np.float32), (places.row[mask], places.col[mask])), shape=cells.shape)
        for mask in (~hide, hide)
    )
    rows = np.flatnonzero(np.diff(hidden.indptr))
    return seen, hidden, np.sort(rng.permutation(rows)[:700])


def wals() -> None:
    heads = [f"{scaling}, reg {reg:g}, background {background:g}" for scaling, reg, background in SETTINGS]
    print("| NDCG@10 | item neighbours | `WALS()` | " + " | ".join(heads) + " |")
    print("| --- |" + " --- |" * (len(heads) + 2))
    for name, cells in matrices():
        seen, hidden, rows = split(sp.csr_array(cells), 101)
        models = [hs.baselines.ItemKNN(), hs.WALS(random_state=0)]
        rank = min(128, min(seen.shape) // 2)
        models += [hs.WALS(rank, background, reg, scaling, random_state=0) for scaling, reg, background in SETTINGS]
        scores = [
            float(np.mean(hs.metrics.ndcg_at_k(model.fit(seen).rank_items(seen[rows], 10, rows), hidden[rows], 10)))
            for model in models
        ]
        size = f"{seen.shape[0]:,} x {seen.shape[1]:,}"
        print(f"| {name}, {size} | " + " | ".join(f"{s:.3f}" for s in scores) + " |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UnknownIdWarning)
    asked = sys.argv[1:] or ["ratings", "wals"]
    for name in asked:
        {"ratings": ratings, "wals": wals}[name]()
