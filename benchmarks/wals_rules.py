"""Where the rules of `WALS()` come from, and what they are worth on other cells.

`python benchmarks/wals_rules.py [grid | ranks | report] [--keep FILE] [a name ...]`

grid : penalty, its scaling and background at one rank, over every data set and a half and a tenth of its users.
ranks : the rule's penalty and background at several ranks.
report : `WALS()` against ItemKNN, five seeds, with intervals of paired differences over users.

Weights are as given, over their mean. Up to five cells of a row, at most a third, are hidden and ranked (NDCG@10).
`grid` and `ranks`, from which the rules were read, hide cells of even rows; `report` hides cells of odd rows, and tunes
ItemKNN on even ones. So no reported cell has chosen anything. `--keep` goes on with what an earlier run has measured.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _matrices import cut, sets

import halfstep as hs
from halfstep.models.strength import Strength

CHOOSING, REPORTING = 301, (401, 402, 403, 404, 405)
PENALTIES: dict[Any, tuple[float, ...]] = {"count": (0.003, 0.01, 0.03, 0.1, 0.3), 1.0: (0.001, 0.003, 0.01, 0.03, 0.1)}
BACKGROUNDS = (0.003, 0.01, 0.03, 0.1)
RANKS = (32, 64, 128, 256, 512)
NEIGHBOURS = tuple(product((20, 100, 300), ("cosine", "bm25", "tfidf", "jaccard"), (0.0, 10.0)))


def each_ndcg(model: Any, seen: Any, hidden: Any) -> np.ndarray:
    rows = np.flatnonzero(np.diff(hidden.indptr))
    return hs.metrics.ndcg_at_k(model.fit(seen).rank_items(seen[rows], 10, rows), hidden[rows], 10)


def rule_of(cells: Any) -> Strength:
    return Strength.given(cells.shape, cells.nnz, cells.nnz, None, None, None, 1.0)


class Kept:
    """Values measured so far, by what was measured; lines of a file where one is given."""

    def __init__(self, path: str | None) -> None:
        self.path, self.values = path, dict[str, float]()
        if path and os.path.exists(path):
            lines = (json.loads(line) for line in Path(path).read_text().splitlines())
            self.values = {line["what"]: line["value"] for line in lines}

    def ndcg(self, what: tuple[Any, ...], measure: Callable[[], float]) -> float:
        key = json.dumps(what)
        if key not in self.values:
            self.values[key] = float(measure())
            if self.path:
                with open(self.path, "a") as file:
                    file.write(json.dumps({"what": key, "value": self.values[key]}) + "\n")
        return self.values[key]


def best_neighbours(name: str, seen: Any, hidden: Any, kept: Kept) -> tuple[float, Any]:
    def value(each: Any) -> float:
        model = hs.baselines.ItemKNN(*each)
        return kept.ndcg(("knn", name, *each), lambda: np.mean(each_ndcg(model, seen, hidden)))

    return max((value(each), each) for each in NEIGHBOURS)


def factors(what: tuple[Any, ...], model: hs.WALS, seen: Any, hidden: Any, kept: Kept) -> float:
    """After 15 sweeps, over up to 1,000 users."""
    model.set_params(max_iter=15, tol=0, random_state=0)
    options = {"validation": hidden, "metric": "ndcg@10", "patience": 15}
    return kept.ndcg(what, lambda: model.fit(seen, **options).history_[-1]["ndcg@10"])


def grid(wanted: list[str], kept: Kept) -> None:
    print("| data | users x items, cells | ItemKNN tuned | best count | best 1.0 | the rule |\n|" + " --- |" * 6)
    for name, cells in sets(wanted):
        seen, hidden = cut(cells, CHOOSING, 0)
        rank = min(128, min(cells.shape) // 2)

        def value(scaling: Any, reg: float, background: float) -> float:
            what = (name, rank, scaling, round(reg, 5), background)  # noqa: B023
            return factors(what, hs.WALS(rank, background, reg, scaling), seen, hidden, kept)  # noqa: B023

        found = []
        for scaling, penalties in PENALTIES.items():
            tried = [(value(scaling, *each), each) for each in product(penalties, BACKGROUNDS)]
            best, (reg, background) = max(tried, key=lambda one: one[0])
            found.append(f"{best:.3f} ({reg:g}, {background:g})")
        rule = rule_of(seen)
        mine = value(1.0, rule.reg, rule.background)
        neighbours, _ = best_neighbours(name, seen, hidden, kept)
        size = f"{cells.shape[0]:,} x {cells.shape[1]:,}, {cells.nnz:,}"
        found += [f"{mine:.3f} ({rule.reg:.2g}, {rule.background:g})"]
        print(f"| {name} | {size} | {neighbours:.3f} | " + " | ".join(found) + " |", flush=True)


def ranks(wanted: list[str], kept: Kept) -> None:
    print("| data | " + " | ".join(f"{rank}" for rank in RANKS) + " | the rule's |\n|" + " --- |" * (len(RANKS) + 2))
    for name, cells in sets(wanted):
        seen, hidden = cut(cells, CHOOSING, 0)
        rule, found = rule_of(seen), []
        for rank in RANKS:
            if rank > min(cells.shape):
                found.append("")
                continue
            what = (name, rank, 1.0, round(rule.reg, 5), rule.background)
            model = hs.WALS(rank, rule.background, rule.reg)
            found.append(f"{factors(what, model, seen, hidden, kept):.3f}")
        print(f"| {name} | " + " | ".join(found) + f" | {rule.rank} |", flush=True)


def report(wanted: list[str], kept: Kept) -> None:
    print("| data | ItemKNN tuned | `WALS()` | difference, 95% | seconds of `WALS()` |\n|" + " --- |" * 5)
    for name, cells in sets(wanted):
        _, chosen = best_neighbours(name, *cut(cells, CHOOSING, 0), kept)
        ours, theirs, seconds = [], [], 0.0
        for seed in REPORTING:
            seen, hidden = cut(cells, seed, 1)
            begun = time.process_time()
            ours.append(each_ndcg(hs.WALS(random_state=0), seen, hidden))
            seconds += time.process_time() - begun
            theirs.append(each_ndcg(hs.baselines.ItemKNN(*chosen), seen, hidden))
        difference = np.mean(np.subtract(ours, theirs), axis=0)  # of a user, over seeds
        draws = np.random.default_rng(0).integers(0, len(difference), (2000, len(difference)))
        low, high = np.quantile(difference[draws].mean(axis=1), [0.025, 0.975])
        means = f"{np.mean(theirs):.4f} | {np.mean(ours):.4f}"
        print(f"| {name} | {means} | {low:+.4f} to {high:+.4f} | {seconds / len(REPORTING):.1f} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["grid", "ranks", "report"])
    parser.add_argument("--keep")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    {"grid": grid, "ranks": ranks, "report": report}[given.what](given.names, Kept(given.keep))
