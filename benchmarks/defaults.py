"""Every default against what a user would compare it with first.

`python benchmarks/defaults.py [ratings | stars | few]`; `ratings large` goes on to a million ratings.

ratings : PLQMF() under several losses against the best constant and mean + damped biases, by the loss itself.
stars : PLQMF() under losses that suit whole stars, on MovieTweetings: RMSE, MAE, coverage of intervals; seeds 0 to 4.
few : a quantile of few ratings, on more splits.

The splits are those on which the rules of `models/rating_penalty.py` were chosen; other splits are used to report them
(docs/benchmarks.md). `benchmarks/wals_rules.py` is about the rules of WALS.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import halfstep as hs
from halfstep.core.losses.constant import best_constant
from halfstep.errors import UnknownIdWarning

DATA = Path(os.environ.get("HALFSTEP_DATA", Path(__file__).parents[2] / "shared" / "data"))
SEED = 10
CENTRAL = ("squared", "absolute", "huber")
LOSSES = (*CENTRAL, hs.losses.Quantile(0.1), hs.losses.Quantile(0.9), "epsilon_insensitive", "ordinal", "poisson")
OF_TWO = ("logistic", "hinge", "squared_hinge", "smoothed_hinge", "bernoulli")
SIZES = (
    *((600, 200, 3_000), (300, 200, 3_000), (100, 400, 20_000), (600, 400, 20_000)),
    *((2_000, 1_000, 30_000), (943, 1_682, 100_000), (6_040, 3_706, 1_000_000)),
)
SCALED = (3_000, 20_000)


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


def rating_sets(large: bool) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for n, m, cells in SIZES[: None if large else -1]:
        for outliers in (0.0, 0.05):
            pairs, y, _ = hs.datasets.make_ratings(n, m, cells, outliers=outliers, random_state=1)
            name = f"{n:,} x {m:,}, {cells:,}, {outliers:.0%} outliers"
            yield name, np.asarray(pairs), np.asarray(y, float)
            if cells in SCALED:
                yield f"{name}, 0/1", pairs, (y >= 4).astype(float)
                noise = np.random.default_rng(2).random(len(y))
                yield f"{name}, 0..100", pairs, np.clip(20 * (y - 1 + noise), 0, 100)
    if DATA.is_dir():
        table = tweetings()
        yield "MovieTweetings", table[:, :2], table[:, 2].astype(float)


def own_loss(loss: object, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> list[float]:
    """Of our answers and of the best constant, on the test pairs."""
    phi, fit = hs.losses.get(loss), hs.PLQMF(loss=loss, random_state=0).fit(*train)
    classes = getattr(fit.fitted_, "classes", None)
    (t, _), (there, _) = (phi.encode_targets(y, classes) for y in (train[1], test[1]))
    phi = phi.learned(np.zeros(len(t)), t, np.ones(len(t)))
    constant = best_constant(phi, np.zeros(len(t)), t, np.ones(len(t)))
    ours = fit.loss_ if fit.loss_.learns else phi
    z = fit.loss_.rounded(fit.decision_function(test[0]))
    return [float(np.mean(ours.value(z, there))), float(np.mean(phi.value(np.full(len(there), constant), there)))]


def ratings(*options: str) -> None:
    """Ours over the best constant, by the loss itself; for central losses also over mean and damped biases."""
    names = [loss if isinstance(loss, str) else f"{loss.name} {loss.q:g}" for loss in (*LOSSES, *OF_TWO)]
    print("| ratings | " + " | ".join(names) + " |")
    print("| --- |" + " --- |" * len(names))
    lost = []
    for name, pairs, y in rating_sets("large" in options):
        test = np.random.default_rng(SEED).random(len(y)) < 0.15
        simple, found = damped_biases(pairs[~test], y[~test], pairs[test]), []
        for loss, label in zip((*LOSSES, *OF_TWO), names, strict=True):
            two = len(np.unique(y)) == 2
            if (loss in OF_TWO and not two) or (loss == "ordinal" and len(np.unique(y)) > 100):
                found.append("")
                continue
            ours, best = own_loss(loss, (pairs[~test], y[~test]), (pairs[test], y[test]))
            # e^z - t z is a likelihood up to a constant: compared by what is above that of a perfect answer
            if loss == "poisson":
                perfect = float(np.mean(y[test] - y[test] * np.log(np.maximum(y[test], 1e-300))))
                ours, best = ours - perfect, best - perfect
            biases = float(np.mean(hs.losses.get(loss).value(simple, y[test]))) if loss in CENTRAL else 0.0
            found.append(f"{ours / best:.3f}" + (f", {ours / biases:.3f}" if biases else ""))
            if ours > best:
                lost.append(f"{label} on {name}: {ours / best:.3f} of its constant")
        print(f"| {name} | " + " | ".join(found) + " |", flush=True)
    print(f"\n{len(lost)} lose to their constant" + "".join(f"\n- {each}" for each in lost))


def stars() -> None:
    """MovieTweetings under losses that suit whole stars: errors, and coverage of intervals."""
    table = tweetings()
    pairs, y = table[:, :2], table[:, 2].astype(float)
    print("| loss | RMSE | MAE | 90% intervals cover | their width |")
    print("| --- | --- | --- | --- | --- |")
    simple = []
    for seed in range(5):
        test = np.random.default_rng(seed).random(len(y)) < 0.1
        error = damped_biases(pairs[~test], y[~test], pairs[test]) - y[test]
        simple.append([np.sqrt(np.mean(error**2)), np.mean(np.abs(error))])
    print("| mean + damped biases | " + " | ".join(f"{mean:.3f}" for mean in np.mean(simple, axis=0)) + " |  |  |")
    for loss in ("squared", "huber", "absolute", "ordinal", "quantiles"):
        found = []
        for seed in range(5):
            test = np.random.default_rng(seed).random(len(y)) < 0.1
            fit = hs.PLQMF(loss=loss, random_state=0).fit(pairs[~test], y[~test])
            error, row = fit.predict(pairs[test]) - y[test], [np.nan, np.nan]
            if hasattr(fit, "predict_interval"):
                low, high = fit.predict_interval(pairs[test]).T
                row = [np.mean((y[test] >= low) & (y[test] <= high)), np.mean(high - low)]
            found.append([np.sqrt(np.mean(error**2)), np.mean(np.abs(error)), *row])
        shown = [f"{mean:.3f}" if np.isfinite(mean) else "" for mean in np.mean(found, axis=0)]
        print(f"| {loss} | " + " | ".join(shown) + " |", flush=True)


def few() -> None:
    """Quantile(0.1) of 3,000 ratings, 5 a user, over its constant, on seven splits that no table shows."""
    for outliers in (0.0, 0.05):
        pairs, y, _ = hs.datasets.make_ratings(600, 200, 3_000, outliers=outliers, random_state=1)
        noise = np.random.default_rng(2).random(len(y))
        for scale, values in (("1..5", y), ("0..100", np.clip(20 * (y - 1 + noise), 0, 100))):
            found = []
            for seed in range(30, 37):
                test = np.random.default_rng(seed).random(len(y)) < 0.15
                sides = ((pairs[mask], values[mask]) for mask in (~test, test))
                ours, best = own_loss(hs.losses.Quantile(0.1), *sides)
                found.append(ours / best)
            print(f"{outliers:.0%} outliers, {scale}: {np.mean(found):.3f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UnknownIdWarning)
    asked = sys.argv[1:]
    if not asked or asked[0] == "ratings":
        ratings(*asked[1:])
    if not asked or asked[0] == "stars":
        stars()
    if not asked or asked[0] == "few":
        few()
