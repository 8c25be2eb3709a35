"""CFEnsembleCV against everything else that fuses predictions, on real data.

    python benchmarks/ensemble --quick                     # under 3 minutes: 6 data sets, 2 label counts, 1 seed
    python benchmarks/ensemble --development               # half of the data sets, on which choices were made
    python benchmarks/ensemble --held-out                  # the other half
    python benchmarks/ensemble                             # all of it
    python benchmarks/ensemble --report-only               # tables of what is stored already
    python benchmarks/ensemble --speed                     # one fit of 10,000 x 60 with 200 labels, timed

The grid is every data set x {20, 50, 100, 500} labels x {0, 50%, 80%, structured} missing x 5 seeds. A case that was
measured is never measured again while the sources of its method are the same: results stand, one JSON line each, in
$HALFSTEP_CACHE/ensemble-results (default ~/.cache/halfstep), and a stopped run goes on where it was.

With --deslib PYTHON, an interpreter that has DESlib (it needs scikit-learn below 1.6), KNORA-E and META-DES answer the
cases without missing predictions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble.data import Case, Missing, cache_folder, cases, development, held_out
from ensemble.methods import METHODS
from ensemble.report import report
from ensemble.sources import DATASETS

LABELS = (20, 50, 100, 500)
MISSING: tuple[Missing, ...] = (0, 0.5, 0.8, "structured")
SEEDS = 5
QUICK = ("pima", "attrition", "breast-cancer", "digits-8", "flare-F", "winequality-red-4")
DESLIB = ("KNORA-E", "META-DES")
DESLIB_SCRIPT = Path(__file__).with_name("deslib_case.py")
FLOOR = 1e-4  # probabilities are held inside [FLOOR, 1 - FLOOR] in the log loss: a certain mistake costs 9.2

Row = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """Which cases are asked for."""

    datasets: tuple[str, ...]
    labels: tuple[int, ...]
    missing: tuple[Missing, ...]
    seeds: tuple[int, ...]

    def cases(self, dataset: str) -> Iterator[Case]:
        return cases([dataset], self.labels, self.missing, self.seeds)


def metrics(truth: NDArray[np.int64], positive: NDArray[np.float64]) -> Row:
    """PR-AUC, ROC-AUC, log loss and Brier score of probabilities of class 1."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    held = np.clip(positive, FLOOR, 1 - FLOOR)
    return {
        "pr_auc": float(average_precision_score(truth, positive)),
        "roc_auc": float(roc_auc_score(truth, positive)),
        "log_loss": float(-np.mean(np.where(truth == 1, np.log(held), np.log1p(-held)))),
        "brier": float(np.mean((truth - positive) ** 2)),
    }


def store(dataset: str) -> Path:
    return cache_folder().parent / "ensemble-results" / f"{dataset}.jsonl"


def key(row: Row) -> tuple[Any, ...]:
    return row["method"], row["labels"], str(row["missing"]), row["seed"]


def stored(dataset: str, fingerprints: dict[str, str]) -> dict[tuple[Any, ...], Row]:
    """Results of a data set that still hold, by key; the last line of a key counts, a torn line is skipped."""
    path, found = store(dataset), {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if fingerprints.get(row["method"]) == row["fingerprint"]:
            found[key(row)] = row
    return found


def add(dataset: str, row: Row) -> None:
    """One line, in one write, so that a stopped run leaves at most one torn line."""
    path = store(dataset)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def answer(case: Case, name: str, positive: NDArray[np.float64], seconds: float, fingerprint: str) -> Row:
    place = {"dataset": case.dataset, "labels": case.labels, "missing": case.missing, "seed": case.seed}
    scores = metrics(case.y_true[case.test], positive[case.test])
    return {"method": name, **place, **scores, "seconds": round(seconds, 3), "fingerprint": fingerprint}


def measure(dataset: str, grid: Grid, fingerprints: dict[str, str]) -> int:
    """Everything of one data set that is not stored yet, by method; returns how many cases were measured."""
    known, count = stored(dataset, fingerprints), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # separable labels, iteration limits: part of the task
        for case in grid.cases(dataset):
            for name in fingerprints:
                row = {"method": name, "labels": case.labels, "missing": case.missing, "seed": case.seed}
                if key(row) in known or (METHODS[name].complete and case.missing != 0):
                    continue
                begun = time.perf_counter()
                positive = METHODS[name].make().fit(case.P, case.y).predict_proba()[:, 1]
                add(dataset, answer(case, name, positive, time.perf_counter() - begun, fingerprints[name]))
                count += 1
    return count


def _measure(task: tuple[str, Grid, dict[str, str]]) -> tuple[str, int, float]:
    begun = time.perf_counter()
    return task[0], measure(*task), time.perf_counter() - begun


def run(grid: Grid, fingerprints: dict[str, str], jobs: int) -> None:
    """Data sets side by side, each on one thread; a line when one is done."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    tasks = [(name, grid, fingerprints) for name in grid.datasets]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as workers:
        for done, (name, count, seconds) in enumerate(workers.map(_measure, tasks), 1):
            print(f"{done:3d}/{len(tasks)}  {name:26s} {count:5d} measured  {seconds:7.1f} s", flush=True)


def deslib_version(python: str) -> str:
    found = subprocess.run([python, str(DESLIB_SCRIPT), "--version"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def run_deslib(grid: Grid, python: str, fingerprint: str) -> None:
    """KNORA-E and META-DES on the complete cases, in their own interpreter, one data set at a time."""
    for dataset in grid.datasets:
        known = stored(dataset, dict.fromkeys(DESLIB, fingerprint))
        for case in Grid((dataset,), grid.labels, (0,), grid.seeds).cases(dataset):
            place = {"labels": case.labels, "missing": case.missing, "seed": case.seed}
            wanted = [name for name in DESLIB if key({"method": name, **place}) not in known]
            if not wanted:
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "case.npz"
                np.savez(path, P=case.P, y=case.y)
                subprocess.run([python, str(DESLIB_SCRIPT), str(path), *wanted], check=True)
                with np.load(path.with_suffix(".out.npz")) as out:
                    for name in wanted:
                        add(dataset, answer(case, name, out[name], float(out[name + " seconds"]), fingerprint))


def collect(grid: Grid, fingerprints: dict[str, str]) -> list[Row]:
    """Stored rows of the grid, of cases that every method has answered that can: a run may still be under way."""
    wanted = set(map(str, grid.missing))
    needed = {name for name in fingerprints if name in METHODS and not METHODS[name].complete}
    cases: dict[tuple[Any, ...], list[Row]] = {}
    for dataset in grid.datasets:
        for row in stored(dataset, fingerprints).values():
            if row["labels"] in grid.labels and str(row["missing"]) in wanted and row["seed"] in grid.seeds:
                cases.setdefault((dataset, *key(row)[1:]), []).append(row)
    return [row for rows in cases.values() if needed <= {row["method"] for row in rows} for row in rows]


def speed(n: int = 10_000, m: int = 60, labels: int = 200) -> str:
    """Seconds of a fit of CFEnsembleCV on made-up predictions, wall clock and processor, all threads."""
    from halfstep import CFEnsembleCV
    from halfstep.data.datasets.generated import make_predictions

    lines = []
    for share in (0.0, 0.5, 0.8):
        P, y, _ = make_predictions(n, m, missing=share, labels=labels / n, random_state=0)
        wall, processor = time.perf_counter(), time.process_time()
        model = CFEnsembleCV().fit(P, y)
        spent = f"{time.perf_counter() - wall:.1f} s, {time.process_time() - processor:.1f} s of processor time"
        lines.append(f"{n} x {m}, {labels} labels, {share:.0%} missing: {spent}, {len(model.members_)} members")
    return "\n".join(lines)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fusion of predictions: CFEnsembleCV against its rivals.")
    half = parser.add_mutually_exclusive_group()
    half.add_argument("--quick", action="store_true", help="6 small data sets, 20 and 100 labels, one seed")
    half.add_argument("--development", action="store_true", help="only data sets on which methods may be tuned")
    half.add_argument("--held-out", action="store_true", help="only the others")
    parser.add_argument("--datasets", nargs="*", help="names; they replace the choice of a half")
    parser.add_argument("--labels", type=int, nargs="*")
    parser.add_argument("--missing", nargs="*", help="shares, or 'structured'")
    parser.add_argument("--seeds", type=int, help="how many")
    parser.add_argument("--methods", nargs="*", choices=list(METHODS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--deslib", metavar="PYTHON", help="an interpreter that has DESlib")
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--speed", action="store_true", help="time one large fit and nothing else")
    parser.add_argument("--diagrams", metavar="FOLDER", help="write critical-difference diagrams as SVG there")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    asked = parse(arguments)
    if asked.speed:
        print(speed())
        return
    names: Iterable[str] = DATASETS
    if asked.datasets or asked.quick:
        names = asked.datasets or QUICK
    elif asked.development or asked.held_out:
        names = development() if asked.development else held_out()
    missing = [m if m == "structured" else float(m) for m in asked.missing or MISSING]
    grid = Grid(
        tuple(names),
        tuple(asked.labels or ((20, 100) if asked.quick else LABELS)),
        tuple(int(m) if m == 0 else m for m in missing),
        tuple(range(asked.seeds or (1 if asked.quick else SEEDS))),
    )
    begun = time.perf_counter()
    # Taken once: an edit while the run goes on must not mark its results as those of the new sources.
    fingerprints = {name: METHODS[name].fingerprint for name in asked.methods or METHODS}
    if not asked.report_only:
        run(grid, fingerprints, asked.jobs)
    if asked.deslib:
        version = deslib_version(asked.deslib)
        if not asked.report_only:
            run_deslib(grid, asked.deslib, version)
        fingerprints |= dict.fromkeys(DESLIB, version)
    rows = collect(grid, fingerprints)
    if not rows:
        sys.exit("nothing is stored for these cases; run without --report-only first")
    print(report(rows, asked.diagrams))
    print(f"\n{len(rows)} results, {time.perf_counter() - begun:.0f} s")
