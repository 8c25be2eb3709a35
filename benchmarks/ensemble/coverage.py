"""Does `uncertainty()` hold? How often an answer lies within its stated error of the answer given everything.

    python benchmarks/ensemble coverage [--sets pima phoneme ...] [--labels 100] [--seeds 2] [--missing 0 .5 .8]

The answer given everything is that of a fit to complete predictions and all labels of the same pool: what the error is
about is missing predictions and few labels, not the noise in labels. Printed are the shares of unlabelled instances
within 0.67, 1.64 and 1.96 standard deviations, which should be .50, .90 and .95, and the coverage of conformal sets at
.90. "simulated" has one signal, errors that half of the classifiers share, and noise.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from ensemble.data import half, pool
from halfstep import CFEnsembleCV

LEVELS = (0.5, 0.9, 0.95)
ROWS, CLASSIFIERS = 1200, 30


def simulated(seed: int, n: int = 800, m: int = 15) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.35).astype(int)
    signal, shared = np.where(truth == 1, 1.0, -1.0) + rng.normal(size=n), rng.normal(size=n)
    noise = rng.normal(size=(n, m)) + np.outer(shared, np.arange(m) % 2) + rng.normal(size=m) / 2
    return expit(np.outer(signal, np.linspace(0.2, 1.5, m)) + noise), truth


def covered(P: Any, truth: Any, missing: float, labels: int, seed: int) -> list[float]:
    """Shares of unlabelled instances within each level, and of those whose conformal set holds the truth."""
    rng = np.random.default_rng(seed + 100)
    everything = CFEnsembleCV().fit(P, truth).predict_proba()[:, 1]
    shown = rng.random(P.shape) >= missing
    shown[np.arange(len(P)), rng.integers(P.shape[1], size=len(P))] = True
    y = np.full(len(truth), -1)
    known = rng.permutation(len(truth))[:labels]
    y[known] = truth[known]
    model = CFEnsembleCV().fit(np.where(shown, P, np.nan), y)
    left = y < 0
    away = np.abs(everything - model.predict_proba()[:, 1])[left] / np.maximum(model.uncertainty()[left], 1e-12)
    held = model.predict_set(level=0.9)[np.arange(len(truth)), truth][left].mean()
    return [*(float(np.mean(away < norm.ppf((1 + level) / 2))) for level in LEVELS), float(held)]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Coverage of uncertainty() and predict_set().")
    parser.add_argument("--sets", nargs="*", default=["simulated", "pima", "contraceptive-2", "phoneme"])
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--missing", type=float, nargs="*", default=[0.0, 0.5, 0.8])
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print("| data set | half | missing | within .50 | within .90 | within .95 | sets of .90 |")
    print("| --- " * 7 + "|")
    for name in asked.sets:
        for missing in asked.missing:
            rows = []
            for seed in range(asked.seeds):
                made = None if name == "simulated" else pool(name)
                P, truth = simulated(seed) if made is None else (made.P[:ROWS, :CLASSIFIERS], made.y_true[:ROWS])
                rows.append(covered(P, truth, missing, asked.labels, seed))
            found = " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
            print(f"| {name} | {'' if name == 'simulated' else half(name)} | {missing:.0%} | {found} |", flush=True)
