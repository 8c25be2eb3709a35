"""CFEnsemble against the loops it replaces: label-aware ALS in NumPy, the combined loss in PyTorch, and memory.

    python benchmarks/cf_speed.py              all three tables
    python benchmarks/cf_speed.py als          one of: als, exact, memory
    python benchmarks/cf_speed.py --quick      smaller sizes, to see that it runs

Rivals that are not installed are skipped, and the table says so. Every line is measured in this run.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time

import numpy as np
from scipy.special import expit

from halfstep import CFEnsemble
from halfstep.core.logistic import FREE_PENALTY, SLOPE_PENALTY
from halfstep.ensemble.aggregators import DEFAULT_STRENGTH


def make_data(n: int, m: int, labelled: float = 0.1, seed: int = 0, dtype: type = np.float64):
    """Predictions (n, m) of classifiers of mixed skill with correlated errors, and labels with NaN where unknown."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.3).astype(np.float64)
    skill = rng.uniform(0.2, 2, m).astype(np.float32)
    common = rng.normal(size=(n, 6)).astype(np.float32) @ rng.normal(size=(6, m)).astype(np.float32) / 3
    scores = common + rng.normal(size=(n, m)).astype(np.float32) + (2 * truth[:, None] - 1).astype(np.float32) * skill
    y = np.where(rng.random(n) < labelled, truth, np.nan)
    return expit(scores).astype(dtype), y


# ---------------------------------------------------------------------- label-aware ALS


def numpy_update(Y, R, C, reg):
    """Factors (d, rows of R) given Y (d, columns of R): one linear system for each row, in a Python loop."""
    d = len(Y)
    X, ridge = np.zeros((d, len(R))), reg * np.eye(d)
    for u in range(len(R)):
        weighted = Y * C[u][None, :]
        X[:, u] = np.linalg.solve(weighted @ Y.T + ridge, weighted @ R[u])
    return X


def numpy_als(P, y, rank, reg, sweeps, alpha=1.0, seed=0):
    R, C = P.T, np.abs(P.T - 0.5)
    known = np.flatnonzero(~np.isnan(y))
    C[:, known] *= 1 + alpha * np.where(y[known] == 1, R[:, known], 1 - R[:, known])
    rng = np.random.default_rng(seed)
    Y = 0.01 * rng.normal(size=(rank, len(P)))
    for _ in range(sweeps):
        X = numpy_update(Y, R, C, reg)
        Y = numpy_update(X, R.T, C.T, reg)
    residual = np.vdot(C, (R - X.T @ Y) ** 2)
    return (residual + reg * ((X**2).sum() + (Y**2).sum())) / C.sum()


def als(quick: bool) -> None:
    n, m, rank, sweeps, reg = (4_000, 50, 20, 5, 0.01) if quick else (20_000, 50, 20, 20, 0.01)
    P, y = make_data(n, m)
    print(f"label-aware ALS: {m} classifiers x {n:,} instances, rank {rank}, {sweeps} sweeps")
    settings = {"link": "identity", "biases": False, "confidence": "certainty", "init": "random", "aggregator": "mean"}
    model = CFEnsemble(rank=rank, reg=reg, solver="als", max_iter=sweeps, tol=0, **settings)
    ours = min(timed(lambda: model.fit(P, y)) for _ in range(3))
    sweeping = model.history_[-1]["seconds"]
    theirs, cpu, loss = timed_cpu(lambda: numpy_als(P, y, rank, reg, sweeps))
    row("NumPy loop", theirs, f"{cpu:.2f} s of CPU, loss {loss:.6f}")
    row("CFEnsemble, whole fit", ours, f"{theirs / ours:.0f} times faster, loss {model.history_[-1]['total']:.6f}")
    row("  its sweeps alone", sweeping, f"{theirs / sweeping:.0f} times faster")


# ---------------------------------------------------------------------- the combined loss


def torch_loss(model, P, y, torch):
    """The combined loss of `model`, written out anew in PyTorch, and its parameters at a random start."""
    logits = np.log(np.clip(P, 0.01, 0.99) / (1 - np.clip(P, 0.01, 0.99)))
    n, m = P.shape
    rank = model.rank

    def tensor(x):
        return torch.tensor(np.asarray(x, np.float64))

    targets, observed = tensor(np.nan_to_num(logits)), tensor(~np.isnan(P))
    known = np.flatnonzero(~np.isnan(y))
    share = y[known].mean()
    rows, truth, s = (
        torch.tensor(known),
        tensor(y[known]),
        tensor(np.where(y[known] == 1, 0.5 / share, 0.5 / (1 - share))),
    )
    S, W, rho, strength = float(observed.sum()), float(s.sum()), model.rho, DEFAULT_STRENGTH
    rng = np.random.default_rng(0)
    start = [0.1 * rng.normal(size=(n, rank + 1)), 0.1 * rng.normal(size=(m, rank + 1))]
    start += [np.r_[0.0, 1.0], np.zeros(m)]
    parameters = [tensor(x).requires_grad_() for x in start]

    def loss():
        U, V, free, w = parameters
        z = U[:, :-1] @ V[:, :-1].T + U[:, -1:] + V[:, -1:].T
        reconstruction = (observed * (targets - z) ** 2).sum() + model.reg * ((U**2).sum() + (V**2).sum())
        seen = z[rows]
        mean = seen.mean(dim=1)
        score = free[0] + free[1] * mean + (seen - mean[:, None]) @ w
        entropy = (s * (torch.nn.functional.softplus(score) - truth * score)).sum()
        pull = FREE_PENALTY * free[0] ** 2 + SLOPE_PENALTY * (free[1] - 1) ** 2
        penalty = 0.5 * (pull + strength * (w**2).sum())
        return rho * reconstruction / S + (1 - rho) * (entropy + penalty) / W

    return loss, parameters


def exact(quick: bool) -> None:
    n, m, rank = (1_000, 20, 4) if quick else (5_000, 40, 6)
    P, y = make_data(n, m, labelled=0.1)
    P[np.random.default_rng(1).random(P.shape) < 0.3] = np.nan
    print(f"combined loss: {m} classifiers x {n:,} instances, 30% missing, rank {rank}, rho 0.5")
    model = CFEnsemble(rank=rank, max_iter=60, tol=1e-6)
    ours = min(timed(lambda: model.fit(P, y)) for _ in range(2))
    reached = model.history_[-1]["total"]
    sweeping = model.history_[-1]["seconds"]
    row("CFEnsemble, whole fit", ours, f"loss {reached:.6f} after {model.n_iter_} sweeps")
    row("  its sweeps alone", sweeping, "what the rivals do: minimise the loss")
    try:
        import torch
    except ImportError:
        print("  PyTorch is not installed; `pip install torch==2.13.0` adds it to this table")
        return
    for name in ("Adam", "L-BFGS"):
        loss, parameters = torch_loss(model, P, y, torch)
        found, seconds = minimise(torch, name, loss, parameters, reached, limit=40 * ours)
        verdict = "not reached" if found > reached else "reached"
        times = f"{seconds / ours:.0f} times our fit, {seconds / sweeping:.0f} times our sweeps"
        row(f"PyTorch {name}", seconds, f"loss {found:.6f}, ours {verdict}; {times}")


def minimise(torch, name, loss, parameters, goal, limit):
    """Run until the goal is reached or `limit` seconds are over; the lowest loss and the seconds used."""
    begun, best = time.perf_counter(), np.inf
    if name == "Adam":
        optimiser = torch.optim.Adam(parameters, lr=0.02)
    else:
        optimiser = torch.optim.LBFGS(parameters, lr=1.0, max_iter=20, history_size=20, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    while best > goal and time.perf_counter() - begun < limit:
        best = min(best, optimiser.step(closure).item())
    return best, time.perf_counter() - begun


# ---------------------------------------------------------------------- memory


def memory(quick: bool) -> None:
    n, m, rank, sweeps = (10_000, 200, 32, 2) if quick else (100_000, 1_000, 32, 2)
    P, y = make_data(n, m, labelled=0.02)
    print(f"memory: {m:,} classifiers x {n:,} instances, rank {rank}, {sweeps} sweeps, input {P.nbytes / 1e9:.2f} GB")
    for solver, settings in (("als", {"confidence": "certainty"}), ("exact", {})):
        before = resident()
        model = CFEnsemble(rank=rank, solver=solver, max_iter=sweeps, tol=0, shrinkage=100.0, **settings)
        with Peak() as peak:
            begun = time.perf_counter()
            model.fit(P, y)
            seconds = time.perf_counter() - begun
        row(f"solver {solver}", seconds, f"{(peak.highest - before) / 1e9:.2f} GB beyond the input")
        del model


class Peak:
    """The highest resident size while the block runs, sampled every 5 milliseconds."""

    def __enter__(self):
        self.highest, self._stop = resident(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.wait(0.005):
            self.highest = max(self.highest, resident())

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# ---------------------------------------------------------------------- table


def timed(call) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def timed_cpu(call):
    begun, cpu = time.perf_counter(), time.process_time()
    result = call()
    return time.perf_counter() - begun, time.process_time() - cpu, result


def row(name: str, seconds: float, note: str) -> None:
    print(f"  {name:28s} {seconds:9.3f} s   {note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = {"als": als, "exact": exact, "memory": memory}
    parser.add_argument("table", nargs="?", choices=tables)
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    arguments = parser.parse_args()
    for name, run in tables.items():
        if arguments.table in (None, name):
            run(arguments.quick)


if __name__ == "__main__":
    main()
