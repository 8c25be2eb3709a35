"""Random rows under every loss, solved by the core from cold and warm starts, against solvers that know nothing of it.

    python tests/faults/torture.py --rows 20000

Piecewise losses are posed as quadratic programmes from their formulas and solved by Clarabel, smooth ones by SciPy's
trust regions, both in float64. A row fails where the core, at a tolerance of 1e-6, ends more than 0.1% above the better
of both answers, and does not say so; float64 roundings of the value at zero are as near as the answers themselves are
known, also for rows in float32. `make torture` runs it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

sys.path.insert(0, str(__import__("pathlib").Path(__file__).parents[1]))

from core.test_plq_rows import random_row, rounded, solve

from halfstep import losses
from halfstep.core.oracle import RowProblem, row_objective

ABOVE = 1e-3
ROUNDING = 8 * float(np.finfo(np.float64).eps)  # of the value at zero: as near as the answers are known


class Pieces(NamedTuple):
    """phi(z) = min over y of sum quadratic y^2 + linear y  subject to  own y + slope z <= bound, for one cell."""

    quadratic: list[float]
    linear: list[float]
    own: list[list[float]]
    slope: list[float]
    bound: list[float]


FORMULAS: dict[str, Callable[[Any, float], Pieces]] = {
    "absolute": lambda loss, t: Pieces([0], [1], [[-1], [-1]], [1, -1], [t, -t]),
    "quantile": lambda loss, t: Pieces([0], [1], [[-1], [-1]], [1 - loss.q, -loss.q], [(1 - loss.q) * t, -loss.q * t]),
    "epsilon_insensitive": lambda loss, t: Pieces(
        [0], [1], [[-1], [-1], [-1]], [1, -1, 0], [t + loss.eps, loss.eps - t, 0]
    ),
    "squared_epsilon_insensitive": lambda loss, t: Pieces(
        [1], [0], [[-1], [-1], [-1]], [1, -1, 0], [t + loss.eps, loss.eps - t, 0]
    ),
    "hinge": lambda loss, t: Pieces([0], [1], [[-1], [-1]], [-t, 0], [-1, 0]),
    "squared_hinge": lambda loss, t: Pieces([1], [0], [[-1], [-1]], [-t, 0], [-1, 0]),
    "smoothed_hinge": lambda loss, t: Pieces(
        [1 / (2 * loss.width), 0], [0, 1], [[-1, -1], [-1, 0], [0, -1]], [-t, 0, 0], [-1, 0, 0]
    ),
    # r = y0 + y1 with y0^2 + 2 delta |y1|, and y2 >= |y1|
    "huber": lambda loss, t: Pieces(
        [1, 0, 0],
        [0, 0, 2 * loss.delta],
        [[-1, -1, 0], [1, 1, 0], [0, 1, -1], [0, -1, -1]],
        [1, -1, 0, 0],
        [t, -t, 0, 0],
    ),
    "squared": lambda loss, t: Pieces([1], [0], [[-1], [1]], [1, -1], [t, -t]),
}


def by_clarabel(problem: RowProblem) -> np.ndarray | None:
    """The row's free columns; None where the solver gives up."""
    import clarabel

    Q, q, x, half = problem.parts()
    at_zero = problem.scores(np.zeros(len(q)))
    cells = [FORMULAS[problem.loss.name](problem.loss, t) for t in problem.targets.tolist()]
    k, c = len(cells[0].quadratic), len(cells[0].slope)
    quadratic = np.concatenate([2 * h * np.array(cell.quadratic) for h, cell in zip(half, cells, strict=True)])
    linear = np.concatenate([h * np.array(cell.linear) for h, cell in zip(half, cells, strict=True)])
    P = sp.block_diag([sp.csc_matrix(Q), sp.diags(quadratic)], format="csc")
    slopes = np.array([cell.slope for cell in cells])
    left = (slopes[:, :, None] * x[:, None, :]).reshape(len(cells) * c, -1)
    right = sp.block_diag([np.array(cell.own) for cell in cells])
    A = sp.hstack([sp.csc_matrix(left), right], format="csc")
    bound = np.concatenate(
        [np.array(cell.bound) - np.array(cell.slope) * z for cell, z in zip(cells, at_zero, strict=True)]
    )
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(len(bound))]
    assert k * len(cells) + len(q) == P.shape[0]
    found = clarabel.DefaultSolver(sp.triu(P, format="csc"), np.append(-q, linear), A, bound, cones, settings).solve()
    row = np.array(found.x)[: len(q)]
    return row if np.isfinite(row).all() else None


def by_scipy(problem: RowProblem) -> np.ndarray | None:
    Q, q, x, half = problem.parts()
    t, loss = problem.targets, problem.loss

    def value(b: np.ndarray) -> float:
        with np.errstate(over="ignore"):
            return float(min(row_objective(b, problem), 1e300))

    def slope(b: np.ndarray) -> np.ndarray:
        return Q @ b - q + x.T @ (half * loss.gradient(problem.scores(b), t))

    def curvature(b: np.ndarray) -> np.ndarray:
        return Q + (x.T * (half * loss.curvature(problem.scores(b), t))) @ x

    found = minimize(value, np.zeros(len(q)), jac=slope, hess=curvature, method="trust-exact", options={"gtol": 1e-10})
    return found.x if np.isfinite(found.x).all() else None


def any_loss(rng: np.random.Generator) -> losses.Loss:
    made: list[Callable[[], losses.Loss]] = [
        losses.Squared,
        losses.Absolute,
        lambda: losses.Quantile(float(rng.uniform(0.02, 0.98))),
        lambda: losses.EpsilonInsensitive(float(10 ** rng.uniform(-2, 0.5))),
        lambda: losses.SquaredEpsilonInsensitive(float(10 ** rng.uniform(-2, 0.5))),
        lambda: losses.Huber(float(10 ** rng.uniform(-2, 1))),
        losses.Hinge,
        losses.SquaredHinge,
        lambda: losses.SmoothedHinge(float(10 ** rng.uniform(-2, 0.5))),
        losses.Logistic,
        losses.Bernoulli,
        losses.Poisson,
    ]
    return made[int(rng.integers(len(made)))]()


def torture(rows: int, seed: int = 0, tell: Callable[[str], Any] = print) -> tuple[Counter[str], list[str]]:
    """Counts by what happened, and a line for each row that failed."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    failed: list[str] = []
    begun = time.monotonic()
    for number in range(rows):
        loss = any_loss(rng)
        problem, other, cells = random_row(loss, int(rng.integers(2**31)))
        if number % 3 == 2:  # the other third at the edges of what is sensible
            problem = replace(problem, lam=float(10 ** rng.uniform(-8, 8)))
        if number % 5 == 4:
            spread = 10 ** rng.uniform(-3, 3, len(cells))
            problem = replace(problem, weights=np.maximum(problem.weights, 0.1) * spread)
        dtype = (np.float32, np.float64)[number % 2]
        problem, other = rounded(problem, other, cells, dtype)
        other_row = by_clarabel(problem) if loss.name in FORMULAS else by_scipy(problem)
        duals = np.zeros(len(cells), dtype) if loss.keeps_duals else None
        start = 0.0
        if number % 4 >= 2:  # warm: some row, and what some sweep may have left behind
            start = float(rng.choice([0.1, 1.0, 100.0]))
            if duals is not None:
                duals[:] = rng.choice([-1.0, 0.0, 0.3, 1.0], len(cells))
        row, sums = solve(problem, other, cells, dtype, tolerance=1e-6, start=start, duals=duals)
        got = row_objective(np.asarray(row, np.float64), problem)
        known = [got] if other_row is None else [got, row_objective(other_row, problem)]
        least = min(known)
        at_zero = row_objective(np.zeros_like(row, np.float64), problem)
        room = ABOVE * abs(least) + ROUNDING * at_zero + 1e-30
        counts["rows"] += 1
        counts[f"{'warm' if number % 4 >= 2 else 'cold'} {np.dtype(dtype)}"] += 1
        counts["the other solver gave up"] += other_row is None
        counts["the other solver ended above"] += len(known) > 1 and known[1] > got + room
        if not np.isfinite(got) or got > least + room:
            told = sums["stalled"] >= 0 or sums["failed"] >= 0
            counts["above and told" if told else "above and not told"] += 1
            if not told:
                failed.append(f"row {number}: {loss!r} {np.dtype(dtype)} start {start:g}: {got:.9g}, best {least:.9g}")
        if number % 2000 == 1999:
            tell(f"{number + 1} rows in {time.monotonic() - begun:.0f} s: {dict(counts)}")
    return counts, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts, failed = torture(options.rows, options.seed)
    for line in failed:
        print(line)
    print(dict(counts), f"{len(failed)} of {options.rows} rows above {ABOVE:.1%} without a word", sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
