"""Fits that are killed at random moments and resumed, until they end; what comes out has the bits of a fit left alone.

    python tests/faults/kills.py --kills 50        so many kills of each estimator; prints a line for each

A fit runs in a process of its own, forked so that nothing has to be imported again, and dies by SIGKILL.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import halfstep as hs
from halfstep.tune import tune

Bits = dict[str, np.ndarray]


def interactions() -> np.ndarray:
    return np.random.default_rng(0).poisson(0.3, (300, 120)).astype(np.float64)


def ratings(classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    pairs = np.unique(np.c_[rng.integers(0, 150, 4000), rng.integers(0, 80, 4000)], axis=0)
    return pairs, rng.integers(1, classes + 1, len(pairs)).astype(float)


def predictions() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 1500)
    skill = rng.uniform(0.2, 1.5, 12)
    P = 1 / (1 + np.exp(-(skill * (2 * truth[:, None] - 1) + rng.normal(size=(1500, 12)))))
    P[rng.random(P.shape) < 0.3] = np.nan
    return P, np.where(rng.random(1500) < 0.1, truth, -1)


def history(model: Any) -> np.ndarray:
    """Every number of every sweep but the time it took."""
    return np.array([[v for name, v in sorted(record.items()) if name != "seconds"] for record in model.history_])


def factor_bits(model: Any) -> Bits:
    return {"users": model.user_factors_, "items": model.item_factors_, "history": history(model)}


def wals(kept: dict[str, Any]) -> Bits:
    settings: dict[str, Any] = {"rank": 16, "max_iter": 25, "tol": 0.0, "n_init": 2, "random_state": 3, "n_threads": 1}
    return factor_bits(hs.WALS(**settings, **kept).fit(interactions()))


def wals_stopped(kept: dict[str, Any]) -> Bits:
    """Stopped by rankings of cells kept apart, conjugate gradients."""
    X = interactions()
    apart = np.random.default_rng(4).random(X.shape) < 0.1
    settings: dict[str, Any] = {"rank": 16, "max_iter": 40, "tol": 0.0, "solver": "cg", "random_state": 3}
    fit = hs.WALS(**settings, n_threads=1, **kept).fit(np.where(apart, 0, X), validation=np.where(apart, X, 0))
    return factor_bits(fit)


def wals_told(kept: dict[str, Any]) -> Bits:
    """Features of both sides, what holds them and what words in common count learned too."""
    X = interactions()
    crafts = ["tram driver", "tram mechanic", "train driver", "train cook", "ship cook"]
    told = {
        f"{side}_features": {k: {"title": f"{crafts[k % 5]} {k % 7} years", "age": k % 31} for k in range(n)}
        for side, n in zip(("user", "item"), X.shape, strict=True)
    }
    features = {name: hs.Features.of(rows, side=name[:4], text=["title"]) for name, rows in told.items()}
    settings: dict[str, Any] = {"rank": 16, "max_iter": 25, "tol": 0.0, "random_state": 3, "n_threads": 1}
    model = hs.WALS(**settings, **kept).fit(X, **features)
    weights = {f"weights {k}": known.weights for k, known in enumerate(model.fitted_.known)}
    return factor_bits(model) | weights | {"words": np.array(model.fitted_.chosen.common_words)}


def plqmf(kept: dict[str, Any]) -> Bits:
    """Rows that keep dual variables."""
    settings: dict[str, Any] = {"rank": 8, "max_iter": 20, "tol": 0.0, "random_state": 3, "n_threads": 1}
    return factor_bits(hs.PLQMF(loss="huber", **settings, **kept).fit(*ratings()))


def plqmf_levels(kept: dict[str, Any]) -> Bits:
    """A loss that learns in every sweep."""
    settings: dict[str, Any] = {"rank": 8, "max_iter": 15, "tol": 0.0, "random_state": 3, "n_threads": 1}
    model = hs.PLQMF(loss="ordinal", **settings, **kept).fit(*ratings())
    return factor_bits(model) | {"loss": np.array(model.loss_.to_dict()["thresholds"])}


def bayes(kept: dict[str, Any]) -> Bits:
    model = hs.BayesMF(rank=4, n_sweeps=60, keep=10, random_state=3, n_threads=1, **kept).fit(*ratings())
    return {"users": model.fitted_.users, "items": model.fitted_.items, "history": history(model)}


def ensemble(kept: dict[str, Any]) -> Bits:
    P, y = predictions()
    model = hs.CFEnsemble(rank=4, max_iter=25, tol=0.0, random_state=3, n_init=2, n_threads=1, **kept).fit(P, y)
    found = {"classifiers": model.classifier_factors_, "instances": model.instance_factors_}
    return found | {"probabilities": model.predict_proba(), "history": history(model)}


def averaged(kept: dict[str, Any]) -> Bits:
    P, y = predictions()
    model = hs.CFEnsembleCV(random_state=3, n_threads=1, **kept).fit(P, y)
    return {"probabilities": model.predict_proba(), "uncertainty": model.uncertainty_, "weights": model.weights_}


def tuned(kept: dict[str, Any]) -> Bits:
    """Which trials are made, and the winner."""
    space = {"rank": [4, 8, 16], "background": (0.01, 0.3), "weights": "none"}
    storage = kept["checkpoint"].with_suffix(".db") if kept else None
    found = tune(interactions(), n_trials=6, space=space, max_iter=4, storage=storage, n_threads=1)
    values = [[trial["value"], trial["rank"], trial["background"], trial["sweeps"]] for trial in found.trials]
    return {"trials": np.array(values)}


def searched(kept: dict[str, Any]) -> Bits:
    where = {name: kept[name] for name in ("checkpoint", "resume")} if kept else {}
    found = hs.tune(interactions(), seconds=1e6, n_trials=12, n_threads=1, **where)
    values = [[value] for value in found.validation.values()]
    return {"validation": np.array(values), "lists": found.model.recommend([0, 1, 2], n=5).scores}


FITS: dict[str, Callable[[dict[str, Any]], Bits]] = {
    "WALS": wals,
    "WALS, validation": wals_stopped,
    "WALS, features": wals_told,
    "PLQMF": plqmf,
    "PLQMF, ordinal": plqmf_levels,
    "BayesMF": bayes,
    "CFEnsemble": ensemble,
    "CFEnsembleCV": averaged,
    "tune": tuned,
    "hs.tune": searched,
}


def in_child(fit: Callable[[dict[str, Any]], Bits], kept: dict[str, Any], result: Path, after: float | None) -> bool:
    """Run a fit in a forked process and kill it after so many seconds; True where it ended by itself."""
    child = os.fork()
    if child == 0:
        try:
            with warnings.catch_warnings(action="ignore"), result.open("wb") as stream:
                np.savez(stream, **fit(kept))
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    until = None if after is None else time.monotonic() + after
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            if os.waitstatus_to_exitcode(status) != 0:
                raise RuntimeError(f"the fit failed with {os.waitstatus_to_exitcode(status)}")
            return True
        if until is not None and time.monotonic() >= until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.001)


def survive(name: str, kills: int, folder: Path, seed: int = 0) -> tuple[int, int]:
    """Fits of one kind under `kills` kills: how many there were, and how many fits had to be begun for them.

    Raises where the bits of a fit that was killed differ from those of one that was not.
    """
    fit, rng = FITS[name], np.random.default_rng(seed)
    result = folder / "result.npz"
    begun = time.monotonic()
    in_child(fit, {}, result, None)
    seconds, expected = time.monotonic() - begun, dict(np.load(result))
    killed = fits = 0
    while killed < kills:
        fits += 1
        kept = {"checkpoint": folder / f"fit{fits}.safetensors", "every": 1, "resume": True}
        here = 0
        while not in_child(fit, kept, result, float(rng.uniform(0, seconds)) if killed < kills and here < 10 else None):
            killed, here = killed + 1, here + 1
        found = dict(np.load(result))
        for part, bits in expected.items():
            if not np.array_equal(bits, found[part], equal_nan=True):
                raise AssertionError(f"{name}: {part} differs after {here} kills of fit {fits}")
    return killed, fits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="of each estimator")
    parser.add_argument("--only", choices=list(FITS))
    options = parser.parse_args()
    for name in [options.only] if options.only else FITS:
        with tempfile.TemporaryDirectory() as folder:
            killed, fits = survive(name, options.kills, Path(folder))
            print(f"{name}: {killed} kills in {fits} fits, every one resumed to the same bits", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
