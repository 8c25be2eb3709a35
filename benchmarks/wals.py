"""WALS against implicit, cmfrec and irspack, side by side in one run.

    python benchmarks/wals.py                  every section (about 15 minutes on two cores)
    python benchmarks/wals.py sweep --case small
    python benchmarks/wals.py race | esco | fresh | busy | memory | recommend | import

Same data, same threads, same objective computed by one function on everybody's factors. implicit's weights are relative
to a background of 1, so it gets w/w0 and reg/w0; cmfrec's confidence is 1 + alpha x. Seconds are of one sweep of both
sides. BLAS threads are held at one inside the peers, as their manuals ask.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parent))
from _machine import best_of, describe, in_turn, sgemm_rate, spread, table

from halfstep import WALS, datasets
from halfstep.core.cells import Observations
from halfstep.core.initial import initial_factors
from halfstep.core.loop import measure
from halfstep.engine import LocalEngine, Problem, Side, Solver

W0, REG = 0.05, 0.1
CASES = {
    "small": (3_000, 14_000, 119_000, 50),
    "dense64": (100_000, 20_000, 10_400_000, 64),
    "dense128": (100_000, 20_000, 10_400_000, 128),
    "wide": (400_000, 50_000, 3_900_000, 128),
}


def problem_of(matrix: Any) -> Problem:
    return Problem(Observations.from_weights(matrix), (Side(REG), Side(REG)), background=W0)


def objective(matrix: Any, users: Any, items: Any) -> float:
    """The WALS objective of anybody's factors."""
    factors = [np.ascontiguousarray(f, np.float32) for f in (users, items)]
    session = LocalEngine().open(problem_of(matrix), factors, Solver())
    return measure(session, session.evaluate())["objective"]


def ours(matrix: Any, rank: int, threads: int, method: str) -> Callable[[], None]:
    """One sweep of ours, ready to be timed again and again."""
    problem = problem_of(matrix)
    factors, order = initial_factors(problem.observations, rank, "scaled", 0, np.float32)
    session = LocalEngine(threads).open(problem, factors, Solver(method, tolerance=1e-2, max_steps=20))
    problem.observations.T  # noqa: B018 - built once, before the first sweep

    def sweep() -> None:
        for side in order:
            session.half_step(side)

    sweep()
    return sweep


def implicit_sweep(matrix: Any, rank: int, threads: int, use_cg: bool, sweeps: int) -> float:
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=rank, regularization=REG / W0, alpha=1.0, use_cg=use_cg, num_threads=threads, iterations=sweeps,
        random_state=0, dtype=np.float32,
    )  # fmt: skip
    seconds: list[float] = []
    weights = sp.csr_matrix(matrix / W0, dtype=np.float32)
    model.fit(weights, show_progress=False, callback=lambda i, elapsed, *rest: seconds.append(elapsed))
    return min(seconds)


def irspack_sweep(matrix: Any, rank: int, threads: int, kind: str, sweeps: int) -> float:
    from irspack.recommenders.ials import IALSTrainer, LossType, SolverType

    solver = getattr(SolverType, kind)
    trainer = IALSTrainer(
        sp.csr_matrix(matrix), rank, W0, REG, 0.0, 0.1, solver, 3, 64, LossType.IALSPP, 0, threads, 5, 7,
    )  # fmt: skip
    trainer.run_epoch()
    return best_of(sweeps, trainer.run_epoch)


def cmfrec_sweep(matrix: Any, rank: int, threads: int, use_cg: bool, sweeps: int) -> float:
    from cmfrec import CMF_implicit

    cells = sp.coo_matrix(matrix, dtype=np.float32)

    def run(n: int) -> float:
        model = CMF_implicit(
            k=rank, lambda_=REG / W0, alpha=1 / W0 - 1, use_cg=use_cg, niter=n, nthreads=threads, use_float=True,
            finalize_chol=False, verbose=False, precompute_for_predictions=False,
        )  # fmt: skip
        return best_of(1, lambda: model.fit(cells))

    return max(run(1 + sweeps) - run(1), 1e-9) / sweeps


def sweep_section(names: list[str], threads: int, slow: bool, rounds: int) -> None:
    """Ours is timed right before and right after every peer, so that a ratio compares neighbours in time.

    Large cases have one round, small ones several.
    """
    rows = []
    header = ["case", "exact, s", "cg"]
    for name in names:
        users, items, cells, rank = CASES[name]
        matrix = datasets.make_implicit(users, items, cells, random_state=0)
        big = cells > 1e6
        once = 1 if big else 5
        exact, cg = (ours(matrix, rank, threads, method) for method in ("exact", "cg"))

        def mine(sweep: Callable[[], None] = exact, runs: int = 2 if big else 10) -> float:
            return best_of(runs, sweep)

        peers: dict[str, Callable[[], float]] = {
            "implicit Cholesky": lambda m=matrix, r=rank, n=once: implicit_sweep(m, r, threads, False, n),
            "irspack Cholesky": lambda m=matrix, r=rank, n=once: irspack_sweep(m, r, threads, "CHOLESKY", n),
            "implicit CG": lambda m=matrix, r=rank, n=once: implicit_sweep(m, r, threads, True, n + 1),
            "irspack CG": lambda m=matrix, r=rank, n=once: irspack_sweep(m, r, threads, "CG", n + 1),
            "irspack iALS++": lambda m=matrix, r=rank, n=once: irspack_sweep(m, r, threads, "IALSPP", n),
            "cmfrec CG": lambda m=matrix, r=rank, n=once: cmfrec_sweep(m, r, threads, True, n),
        }
        if slow or not big:  # minutes for a sweep of the large cases
            peers["cmfrec Cholesky"] = lambda m=matrix, r=rank, n=once: cmfrec_sweep(m, r, threads, False, n)
        seconds = [mine()]
        ratios: dict[str, list[float]] = {"our cg": [best_of(2, cg) / seconds[0]]} | {peer: [] for peer in peers}
        for _ in range(1 if big else rounds):
            for peer, run in peers.items():
                theirs = run()
                seconds.append(mine())
                ratios[peer].append(theirs / np.mean(seconds[-2:]))
                print(f"  {name}: {peer} {theirs:.3f} s, exact {seconds[-2]:.3f} and {seconds[-1]:.3f} s", flush=True)
        work = (2 * matrix.nnz * rank**2 + (users + items) * rank**3 / 3) / 1e9
        rate, sgemm = work / min(seconds), sgemm_rate(threads)
        case = f"{users:,} x {items:,}, {matrix.nnz:,} cells, rank {rank}"
        speed = f"{rate:.0f} GFLOP/s, {rate / sgemm:.0%} of sgemm"
        header = ["case", "exact, s", *peers, "our cg", "counted work"] if len(peers) > len(header) - 4 else header
        line = {"case": case, "exact, s": spread(seconds, 3), "counted work": speed}
        rows.append(line | {peer: spread(found) for peer, found in ratios.items()})
        print(table(header, [[rows[-1].get(column, "") for column in header]]), flush=True)
    print("\nOne sweep, medians; every other column is a multiple of the exact solver's seconds\n")
    print(table(header, [[row.get(column, "") for column in header] for row in rows]))


def race_section(threads: int) -> None:
    """Seconds until the objective of the exact solver's fifth sweep is reached."""
    from implicit.cpu.als import AlternatingLeastSquares

    users, items, cells, rank = CASES["dense64"]
    matrix = datasets.make_implicit(users, items, cells, random_state=0)
    problem = problem_of(matrix)
    problem.observations.T  # noqa: B018
    goal, rows = None, []
    for method in ("exact", "cg", "subspace"):
        factors, order = initial_factors(problem.observations, rank, "scaled", 0, np.float32)
        session = LocalEngine(threads).open(problem, factors, Solver(method, tolerance=1e-2, max_steps=20, block=32))
        spent, sweeps, value = 0.0, 0, np.inf
        while sweeps < 5 if goal is None else (value > goal and sweeps < 40):
            begun = time.perf_counter()
            for side in order:
                session.half_step(side)
            spent += time.perf_counter() - begun
            sweeps += 1
            value = measure(session, session.evaluate())["objective"]
        goal = value if goal is None else goal
        rows.append([f"halfstep {method}", str(sweeps), f"{spent:.2f}", f"{value:,.0f}"])
        print(rows[-1], flush=True)
    model = AlternatingLeastSquares(
        factors=rank, regularization=REG / W0, use_cg=True, num_threads=threads, iterations=1, random_state=0,
    )  # fmt: skip
    weights = sp.csr_matrix(matrix / W0, dtype=np.float32)
    spent, sweeps, value = 0.0, 0, np.inf
    seconds: list[float] = []
    while value > goal and sweeps < 40:
        model.fit(weights, show_progress=False, callback=lambda i, elapsed, *rest: seconds.append(elapsed))
        spent, sweeps = sum(seconds), sweeps + 1
        value = objective(matrix, model.user_factors, model.item_factors)
    rows.append(
        ["implicit CG", str(sweeps), f"{spent:.2f}" + ("" if value <= goal else " (not reached)"), f"{value:,.0f}"]
    )
    print(f"\nSeconds to the objective of the exact solver's sweep 5 ({goal:,.0f}), {cells:,} cells, rank {rank}\n")
    print(table(["solver", "sweeps", "seconds", "objective"], rows))


ESCO = Path(os.environ.get("HALFSTEP_DATA", Path(__file__).parents[2] / "shared" / "data")) / "esco-1.1.1"


def esco_section(threads: int) -> None:
    if not ESCO.is_dir():
        print("ESCO: skipped, set HALFSTEP_DATA to the folder that holds esco-1.1.1")
        return
    data = datasets.load_esco(ESCO)
    model = WALS(rank=50, max_iter=15, tol=0.0, random_state=0, n_threads=threads)
    model.fit(data)
    print(f"\nESCO, rank 50, 15 sweeps: fit {best_of(5, lambda: model.fit(data)):.2f} s")


FRESH = """
import sys, time, warnings
warnings.simplefilter("ignore")
begun = time.perf_counter()
def part(name):
    global begun
    print(f"{name} {time.perf_counter() - begun:.2f}", end=", ")
    begun = time.perf_counter()
import halfstep as hs
model = hs.WALS(**eval(sys.argv[3]), random_state=0)
part("import")
data = hs.datasets.load_esco(sys.argv[1])
part("read")
model.fit(data)
part("fit")
model.save(sys.argv[2])
part("save")
model.recommend(model.user_ids_, 10)
part("recommend")
"""


def fresh_section(threads: int) -> None:
    """ESCO from its CSV files to a saved model and ten recommendations for all, in processes of their own."""
    if not ESCO.is_dir():
        print("ESCO: skipped, set HALFSTEP_DATA to the folder that holds esco-1.1.1")
        return
    here = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        for settings in (dict(rank=50, max_iter=15, tol=0.0), {}):
            walls, processors = [], []
            for _ in range(5):  # the first one may compile to bytecode, as the first start after an install does
                given = repr(settings | {"n_threads": threads})
                before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                command = [sys.executable, "-c", FRESH, str(ESCO), folder + "/model.safetensors", given]
                parts = subprocess.run(command, check=True, capture_output=True, text=True, env=here).stdout
                walls.append(time.perf_counter() - begun)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                processors.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            print(
                f"\nESCO in a fresh process, WALS({settings or ''}): median {np.median(walls):.2f} s "
                f"({min(walls):.2f} to {max(walls):.2f}), {np.median(processors):.2f} s of processor time\n"
                f"the last one: {parts}rest start and end of Python"
            )


def busy_section(threads: int) -> None:
    """A fit while every core has other work, `load` processes on each, against the same fit without it."""
    matrix = datasets.make_implicit(20_000, 5_000, 500_000, random_state=0)
    model = WALS(rank=64, max_iter=4, tol=0.0, random_state=0, n_threads=threads)
    cores = len(os.sched_getaffinity(0))

    def timed() -> tuple[float, float]:
        wall, processor = time.perf_counter(), time.process_time()
        model.fit(matrix)
        return time.perf_counter() - wall, time.process_time() - processor

    rows, loads = [], (0, 1, 2, 4)
    found: dict[int, list[tuple[float, float]]] = {load: [] for load in loads}
    timed()
    for _ in range(3):  # in turn, so that whatever else runs here meets all of them
        for load in loads:
            others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load * cores)]
            try:
                found[load].append(timed())
            finally:
                for other in others:
                    other.kill()
                    other.wait()
    quiet, work = np.median(found[0], axis=0)
    for load, (wall, processor) in ((load, np.median(found[load], axis=0)) for load in loads):
        rows.append([f"{load}", f"{wall:.2f} s", f"{wall / quiet:.2f}", f"{load + 1}", f"{processor / work:.2f}"])
    print("\nA fit while every core has other work; medians of three in turn\n")
    print(table(["load of each core", "seconds", "times the quiet fit", "fair share", "processor time, times"], rows))


def memory_section(threads: int) -> None:
    """Peak beyond the input against (both orientations + factors), and the cost of twice the cells.

    Cost is processor time, best of sweeps taken in turn: other work on the machine hardly changes it.
    """
    code = (
        "import sys, numpy as np, scipy.sparse as sp\n"
        "from halfstep import WALS\n"
        "z = np.load(sys.argv[1]); m = sp.csr_array((z['data'], z['indices'], z['indptr']), shape=tuple(z['shape']))\n"
        "WALS(rank=64, max_iter=1, random_state=0).fit(m[:100])\n"
        "status = lambda key: next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith(key))\n"
        "open('/proc/self/clear_refs', 'w').write('5'); before = status('VmRSS')\n"
        f"model = WALS(rank=64, max_iter=4, tol=0.0, random_state=0, n_threads={threads}).fit(m)\n"
        "print((status('VmHWM') - before) * 1024)\n"
    )
    rows, sweeps = [], []
    for cells in (5_000_000, 10_000_000):
        matrix = datasets.make_implicit(100_000, 20_000, cells, random_state=0)
        matrix.data[:] = np.random.default_rng(0).random(matrix.nnz, dtype=np.float32) + 0.5
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"halfstep-bench-{os.getpid()}.npz"
        np.savez(path, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr, shape=matrix.shape)
        out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
        path.unlink()
        peak = float(out)
        both = 2 * cells * 8 + (120_002) * 8
        factors = 120_000 * 64 * 4
        rows.append([f"{cells:,}", f"{peak / 1e6:.0f} MB", f"{peak / (both + factors):.2f}"])
        sweeps.append(ours(matrix, 64, threads, "exact"))
    costs = np.empty((5, 2))
    for turn in costs:
        for size, sweep in enumerate(sweeps):
            begun = time.process_time()
            sweep()
            turn[size] = time.process_time() - begun
    small, large = costs.min(axis=0)
    for row, cost in zip(rows, (small, large), strict=True):
        row.append(f"{cost:.2f} s")
    print("\nMemory beyond the input, as a multiple of (both orientations + factors); a sweep at rank 64\n")
    print(table(["cells", "peak", "multiple", "processor time of a sweep"], rows))
    print(f"\nTwice the cells cost {large / small:.2f} times as much")


def recommend_section(threads: int, users: int = 100_000, rounds: int = 3) -> None:
    """The best ten of 20,000 items for everybody, on one thread and on all, each side in turn."""
    from implicit.cpu.als import AlternatingLeastSquares

    matrix = datasets.make_implicit(users, 20_000, 20 * users, random_state=0)
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((n, 64), dtype=np.float32) for n in matrix.shape]
    model = WALS(rank=64, max_iter=1, random_state=0).fit(matrix)
    fit = model.fitted_
    model.fitted_ = fit.here(fit.table, (factors[0], factors[1]), fit.outcome, chosen=fit.chosen)
    everyone, weights, rows = np.arange(users), sp.csr_matrix(matrix), []
    for used in sorted({1, threads}):
        model.set_params(n_threads=used)
        peer = AlternatingLeastSquares(factors=64, num_threads=used)
        peer.user_factors, peer.item_factors = factors
        sides = {
            "halfstep": lambda: model.recommend(everyone, 10),
            "implicit": lambda peer=peer: peer.recommend(everyone, weights, N=10, filter_already_liked_items=True),
        }
        found = {name: np.array(seconds).T for name, seconds in in_turn(sides, rounds).items()}
        for number, clock in enumerate(("wall", "processor")):
            ours, theirs = found["halfstep"][number], found["implicit"][number]
            rows.append([str(used), clock, spread(ours, 2), spread(theirs, 2), spread(theirs / ours)])
    print(f"\nrecommend, {users:,} users x 20,000 items, rank 64, n = 10; medians of {rounds}\n")
    print(table(["threads", "seconds", "halfstep", "implicit", "times"], rows))


def import_section(_: int) -> None:
    seconds = best_of(5, lambda: subprocess.run([sys.executable, "-c", "import halfstep"], check=True))
    bare = best_of(5, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    used = best_of(5, lambda: subprocess.run([sys.executable, "-c", "from halfstep import WALS"], check=True))
    print(f"\nimport halfstep: {seconds - bare:.3f} s; with WALS in use {used - bare:.3f} s")


SECTIONS = {
    "race": race_section,
    "esco": esco_section,
    "fresh": fresh_section,
    "busy": busy_section,
    "memory": memory_section,
    "recommend": recommend_section,
    "import": import_section,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="?", choices=["all", "sweep", *SECTIONS], default="all")
    parser.add_argument("--case", choices=CASES, action="append", help="sweep: only this case (may be repeated)")
    parser.add_argument("--slow", action="store_true", help="sweep: cmfrec's Cholesky on the large cases as well")
    parser.add_argument("--users", type=int, default=100_000, help="recommend: for how many")
    parser.add_argument("--rounds", type=int, default=3, help="sweep of a small case, recommend: how often, in turn")
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    print(describe("implicit", "cmfrec", "irspack"), f"{chosen.threads} threads", sep="; ", flush=True)
    print(f"sgemm {sgemm_rate(chosen.threads):.0f} GFLOP/s", flush=True)
    if chosen.section in ("all", "sweep"):
        sweep_section(chosen.case or list(CASES), chosen.threads, chosen.slow, chosen.rounds)
    for name, section in SECTIONS.items():
        if chosen.section in ("all", name):
            more = {"users": chosen.users, "rounds": chosen.rounds} if name == "recommend" else {}
            section(chosen.threads, **more)
    print(f"\npeak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
