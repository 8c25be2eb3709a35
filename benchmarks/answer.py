"""Time to the answer: processor seconds until a fit is good, against implicit, irspack and cmfrec, in one run.

    python benchmarks/answer.py objective [--size small|middle|large] [--rank 64 128]
    python benchmarks/answer.py ranking [ESCO] [MovieTweetings]
    python benchmarks/answer.py defaults [ESCO ...]
    python benchmarks/answer.py tune

objective : until the objective is within 0.1% of the converged one, which is the lowest that anybody reached, ours with
    SWEEPS sweeps among them. `large` is 100,000 x 20,000 with 10.4M cells, `middle` a third of it in every direction
    and `small` a tenth.
ranking : until NDCG@20 is 99% of the converged one, that of LONG sweeps of the exact solver, at the same penalty.
    Rankings depend on the start, so every repeat has another seed, for everybody, and its own converged one.
defaults : NDCG@10, objective and seconds of `WALS()` and of a random start, on the whole and half of every data set.
tune : processor seconds of a search of 30 trials over ESCO, test and all, in fits of the best WALS it found, and of
    `WALS()`; then the same of a search for parameters of WALS alone, without its test.

Whoever has used CAP times the seconds of ours is stopped. Everybody minimises the same number (weights are handed over
in the terms of each), and one function computes it from everybody's factors; that is not timed, nor is reading. Seconds
are of all threads, so that other work on the machine changes them little; medians of --repeats.
cmfrec says nothing between sweeps: it is run with 1, 2, 4, ... of them, and the first run that arrives counts.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import contextlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from _machine import describe, table
from _matrices import cut, sets
from sklearn.base import clone

import halfstep as hs
from halfstep import datasets
from halfstep.core.cells import Observations
from halfstep.core.initial import initial_factors
from halfstep.core.loop import alternate, measure
from halfstep.engine import LocalEngine, Problem, Side, Solver
from halfstep.models.recommend import top_k

SIZES = {
    "large": (100_000, 20_000, 10_400_000),
    "middle": (33_000, 6_600, 1_150_000),
    "small": (10_000, 2_000, 500_000),
}
SWEEPS, LONG, MOST, CAP = 150, 30, 512, 5.0
HOPELESS = {"implicit Cholesky", "cmfrec Cholesky"}
"""From rank 128 on, for objectives: one of their sweeps takes longer than the whole race of ours."""
HELD = {"ESCO": 0.3, "MovieTweetings": 5.0}
"""Penalties of every row, as implicit and cmfrec have them: about those of `WALS()` at the mean number of cells."""
Good = Callable[[Any, Any], bool]
Found = tuple[float, int] | None


class Race:
    """The same cells, rank, background and penalty for everybody. A run returns seconds and sweeps, None if it did not
    arrive in `most` sweeps or `limit` seconds."""

    limit, seed = np.inf, 0

    def __init__(self, matrix: Any, rank: int, background: float, reg: float, threads: int) -> None:
        self.matrix, self.rank, self.background, self.reg, self.threads = matrix, rank, background, reg, threads
        cells = Observations.from_weights(matrix)
        self.problem = Problem(cells, (Side(reg), Side(reg)), background=background)
        self.problem.observations.T  # noqa: B018 - built before anything is timed

    def objective(self, users: Any, items: Any) -> float:
        factors = [np.ascontiguousarray(side, np.float32) for side in (users, items)]
        session = LocalEngine(self.threads).open(self.problem, factors, Solver())
        return measure(session, session.evaluate())["objective"]

    def ours(self, solver: Solver, good: Good, most: int = MOST, led: bool = True) -> Found:
        clock = Clock(self.limit)
        factors, order = initial_factors(self.problem.observations, self.rank, "power", self.seed, np.float32)
        session = LocalEngine(self.threads).open(self.problem, factors, solver)
        alternate(
            session,
            order=order,
            max_iter=most,
            tol=0.0,
            callbacks=[lambda _: clock.stop(good, *session.factors)],
            first=partial(session.lead, order) if led else None,
        )
        return clock.found

    def irspack(self, kind: str, good: Good, most: int = MOST) -> Found:
        from irspack.recommenders.ials import IALSTrainer, LossType, SolverType

        beyond = sp.csr_matrix(self.matrix, dtype=np.float32)
        beyond.data = beyond.data - np.float32(
            self.background
        )  # what an observed cell weighs more than an unobserved one
        trainer = IALSTrainer(
            beyond, self.rank, self.background, self.reg, 0.0, 0.1, getattr(SolverType, kind), 3,
            64, LossType.ORIGINAL, self.seed, self.threads, 5, 7,
        )  # fmt: skip
        clock = Clock(self.limit)
        for _ in range(most):
            trainer.run_epoch()
            if clock.stop(good, trainer.core_trainer.user, trainer.core_trainer.item):
                break
        return clock.found

    def implicit(self, use_cg: bool, good: Good, most: int = MOST) -> Found:
        from implicit.cpu.als import AlternatingLeastSquares

        model = AlternatingLeastSquares(
            factors=self.rank, regularization=self.reg / self.background, alpha=1.0, use_cg=use_cg, iterations=most,
            num_threads=self.threads, random_state=self.seed, dtype=np.float32,
        )  # fmt: skip
        clock = Clock(self.limit)

        def after(*_: Any) -> None:
            if clock.stop(good, model.user_factors, model.item_factors):
                raise StopIteration

        weights = sp.csr_matrix(self.matrix / self.background, dtype=np.float32)
        with contextlib.suppress(StopIteration):
            model.fit(weights, show_progress=False, callback=after)
        return clock.found

    def cmfrec(self, use_cg: bool, good: Good, most: int = MOST) -> Found:
        from cmfrec import CMF_implicit

        cells, sweeps, spent = sp.coo_matrix(self.matrix / self.background, dtype=np.float32), 1, 0.0
        cells.data -= 1  # which it adds again
        while sweeps <= most and 2 * spent < self.limit:  # the next one takes twice as long
            model = CMF_implicit(
                k=self.rank, lambda_=self.reg / self.background, alpha=1.0, use_cg=use_cg, random_state=self.seed + 1,
                niter=sweeps, nthreads=self.threads, use_float=True, finalize_chol=False, verbose=False,
                precompute_for_predictions=False,
            )  # fmt: skip
            begun = time.process_time()
            model.fit(cells)
            spent = time.process_time() - begun
            if good(model.A_, model.B_):
                return spent, sweeps
            sweeps *= 2
        return None


class Clock:
    """Processor seconds of sweeps, not those of judging them; it stops after `limit` of them."""

    def __init__(self, limit: float) -> None:
        self.limit, self.spent, self.sweeps, self.begun = limit, 0.0, 0, time.process_time()
        self.found: Found = None

    def stop(self, good: Good, users: Any, items: Any) -> bool:
        self.spent += time.process_time() - self.begun
        self.sweeps += 1
        if good(users, items):
            self.found = self.spent, self.sweeps
        self.begun = time.process_time()
        return self.found is not None or self.spent > self.limit


OURS = "halfstep auto"


def compare(what: str, race: Race, goal_of: Callable[[], Good], left_out: set[str], chosen: Any) -> None:
    """Everybody's median, in turn, and how many times as long as the default of ours it took."""
    auto, most = Solver("auto", exact_below=1e-4), chosen.most
    runs: dict[str, Callable[[Good], Found]] = {
        OURS: lambda good: race.ours(auto, good, most),
        "halfstep auto, random start": lambda good: race.ours(auto, good, most, led=False),
        "halfstep exact": lambda good: race.ours(Solver(), good, most),
        "irspack CG": lambda good: race.irspack("CG", good, most),
        "irspack iALS++": lambda good: race.irspack("IALSPP", good, most),
        "irspack Cholesky": lambda good: race.irspack("CHOLESKY", good, most),
        "implicit CG": lambda good: race.implicit(True, good, most),
        "implicit Cholesky": lambda good: race.implicit(False, good, most),
        "cmfrec CG": lambda good: race.cmfrec(True, good, most),
        "cmfrec Cholesky": lambda good: race.cmfrec(False, good, most),
    }
    wanted = [name for name in runs if name not in left_out and (not chosen.only or name in (OURS, *chosen.only))]
    found: dict[str, list[Found]] = {name: [] for name in wanted}
    for race.seed in range(chosen.repeats):
        race.limit = np.inf
        good = goal_of()
        for name, times in found.items():
            times.append(runs[name](good))
            print(f"  {name}: {times[-1]}", flush=True)
            if name == OURS and times[-1] is not None:
                race.limit = chosen.cap * times[-1][0]
    first, rows = np.median([each[0] for each in found[OURS] if each]), []
    for name, times in found.items():
        arrived = [each for each in times if each is not None]
        if 2 * len(arrived) <= len(times):
            rows.append([name, "", "", f"over {chosen.cap:g}"])
            continue
        late = [(np.inf, np.inf)] * (len(times) - len(arrived))
        seconds, sweeps = np.median(np.array([*arrived, *late], float), axis=0)
        rows.append([name, f"{sweeps:g}", f"{seconds:.2f}", f"{seconds / first:.1f}"])
    rows += [[name, "", "", "left out"] for name in sorted(left_out)]
    print(f"\n{what}\n\n{table(['solver', 'sweeps', 'processor seconds', 'of ours'], rows)}\n", flush=True)


def objective_section(chosen: Any) -> None:
    for rank in chosen.rank:
        users, items, cells = SIZES[chosen.size]
        matrix = datasets.make_implicit(users, items, cells, random_state=0)
        race, lowest = Race(matrix, rank, 0.05, 0.1, chosen.threads), [np.inf]

        def end(u: Any, v: Any, race: Race = race, lowest: list[float] = lowest) -> bool:
            lowest.append(race.objective(u, v))
            return False

        race.ours(Solver("auto", exact_below=0.0), end, SWEEPS)
        goal = min(lowest) * 1.001

        def good(u: Any, v: Any, race: Race = race, goal: float = goal) -> bool:
            return race.objective(u, v) <= goal

        compare(
            f"Within 0.1% of the converged objective ({min(lowest):,.1f}), {users:,} x {items:,}, {cells:,} cells, "
            f"rank {rank}",
            race, lambda good=good: good, HOPELESS if rank >= 128 else set(), chosen,
        )  # fmt: skip


def ranking_section(chosen: Any) -> None:
    for name, cells in sets(chosen.names or list(HELD), parts=(1,)):
        seen, hidden = cut(cells, 301, 0)
        seen, rows = sp.csr_array(seen.astype(np.float32)), np.flatnonzero(np.diff(hidden.indptr))
        for rank in chosen.rank:
            race, goals = Race(seen, rank, 0.03, HELD[name], chosen.threads), list[float]()

            def ndcg(u: Any, v: Any, seen: Any = seen, hidden: Any = hidden, rows: Any = rows) -> float:
                left, right = (np.ascontiguousarray(side, np.float32) for side in (u[rows], v))
                return float(np.mean(hs.metrics.ndcg_at_k(top_k(left, right, 20, seen[rows], 2)[0], hidden[rows], 20)))

            def goal_of(race: Race = race, goals: list[float] = goals, ndcg: Any = ndcg) -> Good:
                values: list[float] = []
                race.ours(Solver(), lambda u, v: bool(values.append(ndcg(u, v))), LONG, led=False)
                goals.append(0.99 * values[-1])
                return lambda u, v: ndcg(u, v) >= goals[-1]

            compare(f"99% of the converged NDCG@20, {name}, rank {rank}", race, goal_of, set(), chosen)
            print(f"goals {' '.join(f'{goal:.4f}' for goal in goals)}", flush=True)


def defaults_section(chosen: Any) -> None:
    settings = [("scaled", 6), ("power", 3), ("power", 4)]
    rows = []
    for name, cells in sets(chosen.names, parts=(1, 2)):
        seen, hidden = cut(cells, 302, 1)
        seen, who, line = sp.csr_array(seen.astype(np.float32)), np.flatnonzero(np.diff(hidden.indptr)), [name]
        for init, sweeps in settings:
            found = []
            for seed in range(chosen.repeats):
                model, begun = hs.WALS(init=init, max_iter=sweeps, random_state=seed), time.process_time()
                model.fit(seen)
                spent = time.process_time() - begun
                lists = top_k(model.user_factors_[who], model.item_factors_, 10, seen[who], 2)[0]
                found.append([np.mean(hs.metrics.ndcg_at_k(lists, hidden[who], 10)), model.objective_, spent])
            ndcg, objective, spent = np.mean(found, axis=0)
            line.append(f"{ndcg:.4f}, {objective:.0f}, {spent:.2f} s")
        rows.append(line)
    print(table(["data", *(f"{init}, {sweeps}" for init, sweeps in settings)], rows))


def seconds_of(fit: Callable[[], Any], repeats: int) -> float:
    """Processor seconds, the median."""
    spent = []
    for _ in range(repeats):
        begun = time.process_time()
        fit()
        spent.append(time.process_time() - begun)
    return float(np.median(spent))


def tune_section(chosen: Any) -> None:
    ((_, cells),) = sets(["ESCO"], parts=(1,))
    cells = sp.csr_array(cells.astype(np.float32))
    begun = time.process_time()
    found = hs.tune(cells, seconds=1e6, n_trials=30, random_state=0)
    spent = time.process_time() - begun
    winner = clone(found.models.get("WALS", found.model))
    one = seconds_of(lambda: winner.fit(cells), chosen.repeats)
    plain = seconds_of(lambda: hs.WALS(random_state=0).fit(cells), chosen.repeats)
    print(
        f"{len(found.trials)} trials {spent:.1f} s: {spent / plain:.1f} fits of WALS() ({plain:.2f} s), "
        f"{spent / one:.1f} of the best WALS ({one:.2f} s, {winner})\n{found}"
    )
    begun = time.process_time()
    search = hs.tune.tune(cells, n_trials=30, random_state=0)
    spent = time.process_time() - begun
    print(f"tune.tune: {len(search.trials)} trials {spent:.1f} s: {spent / plain:.1f} fits of WALS()")
    print(search.test)


SECTIONS = {
    "objective": objective_section,
    "ranking": ranking_section,
    "defaults": defaults_section,
    "tune": tune_section,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("names", nargs="*", help="ranking: which data sets")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--rank", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--only", nargs="+", default=[], help="which solvers beside 'halfstep auto'")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cap", type=float, default=CAP, help="stop a peer after so many times the seconds of ours")
    parser.add_argument("--most", type=int, default=MOST, help="give up after so many sweeps")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    print(describe("implicit", "irspack", "cmfrec"), flush=True)
    SECTIONS[given.section](given)
