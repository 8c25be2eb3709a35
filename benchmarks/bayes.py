"""BayesMF on MovieTweetings 100K: error, coverage and time on random splits.

python benchmarks/bayes.py [seed ...]        # HALFSTEP_DATA names the folder of data sets
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from halfstep import BayesMF

FOLDER = Path(os.environ.get("HALFSTEP_DATA", "../shared/data")) / "movietweetings-100k"


def main(seeds: list[int]) -> None:
    with (FOLDER / "ratings.dat").open(encoding="utf-8") as lines:
        table = np.array([line.split("::")[:3] for line in lines], np.int64)
    pairs, y = table[:, :2], table[:, 2].astype(float)
    for seed in seeds:
        test = np.random.default_rng(seed).random(len(y)) < 0.1
        begun = time.perf_counter()
        model = BayesMF(random_state=seed).fit(pairs[~test], y[~test])
        seconds = time.perf_counter() - begun
        p, (low, high) = model.predict(pairs[test]), model.predict_interval(pairs[test]).T
        rmse, mae = np.sqrt(np.mean((p - y[test]) ** 2)), np.mean(np.abs(p - y[test]))
        covered = np.mean((low <= y[test]) & (y[test] <= high))
        said = model.diagnostics_
        print(
            f"seed {seed}: rmse {rmse:.4f}, mae {mae:.4f}, 90% intervals cover {covered:.3f}, {seconds:.1f} s, "
            f"R-hat {said['r_hat']:.2f}, effective size {said['effective_size']:.0f}"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main([int(seed) for seed in sys.argv[1:]] or [0])
