"""Skills for occupations, measured on the real ESCO 1.1.1 and O*NET 29.2 files.

    python benchmarks/skills.py                      every section (about 20 minutes on two cores)
    python benchmarks/skills.py speed                from files to recommendations; the fit against implicit and cmfrec
    python benchmarks/skills.py quality --data esco  tuned WALS against popularity, item-KNN and tuned implicit
    python benchmarks/skills.py memory               what estimate_memory says against what a fit takes

The files are looked for under $HALFSTEP_DATA. BLAS threads are held at one, as the peers' manuals ask.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

sys.path.insert(0, str(Path(__file__).parent))
from _machine import best_of, describe, table

from halfstep import WALS, weighting
from halfstep.baselines import ItemKNN, Popularity
from halfstep.data.datasets import DataWarning, Interactions, load_esco, load_onet
from halfstep.judge import Split, evaluate, leave_k_out
from halfstep.metrics import ndcg_at_k

DATA = Path(os.environ.get("HALFSTEP_DATA", Path(__file__).parents[2] / "shared" / "data"))
SOURCES: dict[str, Callable[[], Interactions]] = {
    "esco": lambda: load_esco(DATA / "esco-1.1.1"),
    "onet": lambda: load_onet(DATA / "onet-29.2", "technology"),
}
BACKGROUND, REG = 0.05, 0.1  # of the timed fits; the penalty is the same for every row, as the peers have it
SWEEPS = 15


# ---------------------------------------------------------------------- speed

END_TO_END = """
import sys, time, warnings
warnings.simplefilter("ignore")
from halfstep import WALS
from halfstep.data.datasets import load_esco

clock = [time.perf_counter()]
data = load_esco(sys.argv[1])
clock.append(time.perf_counter())
model = WALS(rank=50, max_iter=15, tol=0.0, random_state=0, n_threads=int(sys.argv[2])).fit(data)
clock.append(time.perf_counter())
ids, scores = model.recommend(model.user_ids_, 10)
clock.append(time.perf_counter())
assert ids.shape == (data.shape[0], 10)
print(*clock)
"""


def speed_section(threads: int) -> None:
    """One fresh process after its imports; then the fit alone beside the peers' exact solvers."""
    command = [sys.executable, "-c", END_TO_END, str(DATA / "esco-1.1.1"), str(threads)]
    runs = [
        np.diff([float(t) for t in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()])
        for _ in range(3)
    ]
    rows = [[f"{part:.2f}" for part in (*run, run.sum())] for run in runs]
    print("\nESCO, rank 50, 15 sweeps, 10 skills for each of all occupations; seconds after import, three processes\n")
    print(table(["load", "fit", "recommend", "together"], rows))

    weights = SOURCES["esco"]().matrix
    fits = {
        "halfstep exact": lambda: fit_halfstep(weights, threads),
        "implicit Cholesky": lambda: fit_implicit(weights, threads),
        "cmfrec Cholesky": lambda: fit_cmfrec(weights, threads),
    }
    seconds = {name: np.inf for name in fits}
    for _ in range(3):  # in turn, so that a busy moment of the machine hits everybody
        for name, fit in fits.items():
            seconds[name] = min(seconds[name], best_of(1, fit))
    own = seconds["halfstep exact"]
    rows = [[name, f"{value:.2f}", f"{value / own:.1f}"] for name, value in seconds.items()]
    print(f"\nThe fit alone, rank 50, {SWEEPS} sweeps, {threads} threads, best of 3\n")
    print(table(["solver", "seconds", "times ours"], rows))


def fit_halfstep(weights: Any, threads: int) -> None:
    WALS(
        rank=50, background=BACKGROUND, reg=REG, reg_scaling="constant", max_iter=SWEEPS, tol=0.0, random_state=0,
        n_threads=threads,
    ).fit(weights)  # fmt: skip


def fit_implicit(weights: Any, threads: int) -> None:
    from implicit.cpu.als import AlternatingLeastSquares

    AlternatingLeastSquares(
        factors=50, regularization=REG / BACKGROUND, use_cg=False, num_threads=threads, iterations=SWEEPS,
        random_state=0, dtype=np.float32,
    ).fit(sp.csr_matrix(weights / BACKGROUND, dtype=np.float32), show_progress=False)  # fmt: skip


def fit_cmfrec(weights: Any, threads: int) -> None:
    from cmfrec import CMF_implicit

    CMF_implicit(
        k=50, lambda_=REG / BACKGROUND, alpha=1 / BACKGROUND - 1, use_cg=False, niter=SWEEPS, nthreads=threads,
        use_float=True, verbose=False, precompute_for_predictions=False,
    ).fit(sp.coo_matrix(weights, dtype=np.float32))  # fmt: skip


# ---------------------------------------------------------------------- quality


class ImplicitALS(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """implicit's ALS as a ranker of training rows: a cell of weight w has confidence alpha w, an unobserved one 1."""

    def __init__(self, factors: int = 64, regularization: float = 0.01, alpha: float = 1.0, threads: int = 2) -> None:
        self.factors = factors
        self.regularization = regularization
        self.alpha = alpha
        self.threads = threads

    def fit(self, matrix: Any, y: None = None) -> ImplicitALS:
        from implicit.cpu.als import AlternatingLeastSquares

        self.model_ = AlternatingLeastSquares(
            factors=self.factors, regularization=self.regularization, alpha=self.alpha, iterations=SWEEPS,
            num_threads=self.threads, random_state=0,
        )  # fmt: skip
        self.model_.fit(sp.csr_matrix(matrix, dtype=np.float32), show_progress=False)
        return self

    def rank_items(self, seen: Any, n: int, rows: Any = None) -> Any:
        seen = sp.csr_matrix(seen, dtype=np.float32)
        users = np.arange(seen.shape[0]) if rows is None else rows
        return self.model_.recommend(users, seen, N=n, filter_already_liked_items=True, recalculate_user=rows is None)[
            0
        ]


def suggest_wals(trial: Any, threads: int) -> Any:
    return WALS(
        rank=trial.suggest_int("rank", 32, 256, log=True),
        background=trial.suggest_float("background", 1e-3, 1.0, log=True),
        reg=trial.suggest_float("reg", 1e-3, 0.1, log=True),
        reg_scaling=1.0, max_iter=SWEEPS, tol=0.0, random_state=0, n_threads=threads,
    )  # fmt: skip


def suggest_implicit(trial: Any, threads: int) -> Any:
    return ImplicitALS(
        factors=trial.suggest_int("factors", 32, 256, log=True),
        regularization=trial.suggest_float("regularization", 1e-2, 1e3, log=True),
        alpha=trial.suggest_float("alpha", 1.0, 1e3, log=True),
        threads=threads,
    )  # fmt: skip


def suggest_knn(similarity: str) -> Callable[[Any, int], Any]:
    def suggest(trial: Any, threads: int) -> Any:
        neighbours = trial.suggest_int("neighbours", 5, 1000, log=True)
        return ItemKNN(neighbours, similarity, shrink=trial.suggest_float("shrink", 0.01, 100.0, log=True))

    return suggest


CONTENDERS: dict[str, Callable[[Any, int], Any]] = {
    "ItemKNN cosine": suggest_knn("cosine"),
    "ItemKNN BM25": suggest_knn("bm25"),
    "implicit ALS": suggest_implicit,
    "WALS": suggest_wals,
}


class Reweighted(BaseEstimator):
    """Any ranker on weighed cells, so that the peers may choose a weighting too."""

    def __init__(self, model: Any, weights: str) -> None:
        self.model = model
        self.weights = weights

    def fit(self, matrix: Any) -> Any:
        self.model.fit(self._weighed(matrix))
        return self

    def rank_items(self, seen: Any, n: int, rows: Any = None) -> Any:
        return self.model.rank_items(self._weighed(seen), n, rows)

    def _weighed(self, matrix: Any) -> Any:
        cells = sp.csr_array(matrix)
        values = weighting.get(self.weights).weights(cells.indptr, cells.indices, cells.data, cells.shape[1])
        return sp.csr_array((values, cells.indices, cells.indptr), cells.shape)


def tuned(suggest: Callable[[Any, int], Any], split: Split, trials: int, threads: int) -> tuple[Any, dict[str, Any]]:
    """The best of `trials` settings by NDCG@10 on the validation cells of `split`; the same sampler for everybody."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    differ = split.train.data.min() < split.train.data.max()

    def model(trial: Any) -> Any:
        inner = suggest(trial, threads)
        return Reweighted(inner, trial.suggest_categorical("weights", ["given", "sqrt", "binary"])) if differ else inner

    def value(trial: Any) -> float:
        ranked = model(trial).fit(split.train).rank_items(split.seen, 10, split.rows)
        return float(np.mean(ndcg_at_k(ranked, split.relevant, 10)))

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(value, n_trials=trials)
    return model(optuna.trial.FixedTrial(study.best_params)), study.best_params | {"validation": study.best_value}


def quality_section(threads: int, names: list[str], trials: int) -> None:
    """Five cells of every occupation are put aside for the table, five more choose the settings."""
    for name in names:
        data = SOURCES[name]()
        outer = leave_k_out(data.matrix, 5, random_state=0)
        inner = leave_k_out(outer.train, 5, random_state=1)
        models: dict[str, Any] = {
            "Popularity": Popularity(),
            "WALS as it comes": WALS(random_state=0, n_threads=threads),
        }
        notes = []
        for contender, suggest in CONTENDERS.items():
            begun = time.perf_counter()
            models[contender], found = tuned(suggest, inner, trials, threads)
            settings = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in found.items())
            notes.append([contender, settings, f"{time.perf_counter() - begun:.0f}"])
            print(f"  {name}: {contender}: {settings}", flush=True)
        result = evaluate(models, outer, metrics=["ndcg@10", "recall@10", "coverage@10"], baselines=False)
        rows = []
        for model in models:
            lead = "" if model == "WALS" else str(result.compare("WALS", model)["ndcg@10"])
            cells = [str(result.table[model][metric]) for metric in result.metrics]
            rows.append([model, *cells, lead, f"{result.models[model].fit_seconds:.2f}"])
        rows.sort(key=lambda row: row[1])
        print(f"\n{data.name}: {result.n_users} occupations, 5 cells of each hidden; 95% intervals over occupations\n")
        print(table(["model", *result.metrics, "WALS minus it, NDCG@10", "fit s"], rows))
        print(f"\nSettings: the best of {trials} trials each on five other cells of each occupation\n")
        print(table(["model", "setting", "search s"], notes), flush=True)


# ---------------------------------------------------------------------- memory

PEAK = """
import sys
import numpy as np, scipy.sparse as sp
from halfstep import WALS

def status(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) * 1024

folder, rank, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
indptr, indices, weights = (np.load(f"{folder}/{name}.npy") for name in ("indptr", "indices", "weights"))
X = sp.csr_array((weights, indices, indptr), shape=(100_000, 20_000))
X.has_sorted_indices = X.has_canonical_format = True
WALS(rank=rank, max_iter=1, n_threads=threads).fit(X[:100])
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
before = status("VmRSS")
WALS(rank=rank, max_iter=2, tol=0.0, random_state=0, n_threads=threads).fit(X)
print(status("VmHWM") - before)
"""


def memory_section(threads: int) -> None:
    """10M cells in a fresh process: the peak of resident memory during the fit less what was there before."""
    import tempfile

    from halfstep.data.datasets import make_implicit

    rows = []
    matrix = make_implicit(100_000, 20_000, 10_000_000, random_state=0)
    differing = np.random.default_rng(0).random(matrix.nnz, dtype=np.float32) + 0.5
    for rank, weighted in ((64, True), (64, False), (16, True), (256, True)):
        with tempfile.TemporaryDirectory() as folder:
            arrays = {
                "indptr": matrix.indptr.astype(np.int32),
                "indices": matrix.indices.astype(np.int32),
                "weights": differing if weighted else np.ones_like(differing),
            }
            for name, values in arrays.items():
                np.save(f"{folder}/{name}.npy", values)
            command = [sys.executable, "-c", PEAK, folder, str(rank), str(threads)]
            measured = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        users, items = matrix.shape
        estimate = WALS.estimate_memory(users, items, matrix.nnz, rank, weighted=weighted, n_threads=threads)
        both = 2 * matrix.nnz * (8 if weighted else 4) + (users + items) * (8 + 4 * rank)
        kind = "differ" if weighted else "all 1"
        rows.append(
            [str(rank), kind, f"{measured / 1e6:.0f}", f"{estimate.peak / 1e6:.0f}",
             f"{estimate.peak / measured - 1:+.0%}", f"{measured / both:.2f}"]
        )  # fmt: skip
    print(f"\nA fit of {matrix.nnz:,} cells, 100,000 users x 20,000 items: MB at the peak beyond the input\n")
    print(table(["rank", "weights", "measured", "estimated", "error", "of both orientations and factors"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="?", choices=["all", "speed", "quality", "memory"], default="all")
    parser.add_argument("--data", choices=SOURCES, action="append", help="quality: only these data")
    parser.add_argument("--trials", type=int, default=24, help="quality: settings tried for each model")
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.section != "memory" and not (DATA / "esco-1.1.1").is_dir():
        sys.exit(f"no real data at {DATA}; set HALFSTEP_DATA to the folder that holds esco-1.1.1 and onet-29.2")
    warnings.simplefilter("ignore", DataWarning)
    print(describe("implicit", "cmfrec", "optuna"), f"{chosen.threads} threads", sep="; ", flush=True)
    if chosen.section in ("all", "speed"):
        speed_section(chosen.threads)
    if chosen.section in ("all", "quality"):
        quality_section(chosen.threads, chosen.data or list(SOURCES), chosen.trials)
    if chosen.section in ("all", "memory"):
        memory_section(chosen.threads)


if __name__ == "__main__":
    main()
