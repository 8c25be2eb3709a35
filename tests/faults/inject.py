"""Every n-th allocation, thread, write, fsync and rename of public calls fails once; the model and its files stay.

    python tests/faults/inject.py [--every] [--only CALL]

A small library that is loaded before everything else (`shim.cpp`) makes them fail. A call must succeed, or raise
MemoryError, OSError or RuntimeError with the model answering as before and no file changed or left behind. Without
--every, allocations after the first twenty are tried in growing steps.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import hashlib
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
KINDS = ("allocation", "thread", "write", "fsync", "rename")
ALLOWED = (MemoryError, OSError, RuntimeError)


def compile_shim(folder: Path) -> Path:
    found = folder / "shim.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", str(found), str(HERE / "shim.cpp"), "-ldl"], check=True)
    return found


class Faults:
    """The switch."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._arm, self._calls = library.halfstep_arm, library.halfstep_calls
        self._arm.argtypes, self._calls.restype = [ctypes.c_int, ctypes.c_long], ctypes.c_long

    def run(self, kind: int, n: int, call: Callable[[], Any]) -> tuple[BaseException | None, bool]:
        """What the call raised, and whether its n-th such step was reached."""
        error: BaseException | None = None
        self._arm(kind, n)
        try:
            call()
        except BaseException as raised:
            error = raised
        calls = self._calls(kind)
        self._arm(kind, -1)
        return error, calls > n


def seen(folder: Path) -> str:
    """The files of a folder and what is in them."""
    parts = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(folder.iterdir())]
    return "\n".join(parts)


def calls(folder: Path) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """By name: the call, and what must be the same after it failed."""
    import halfstep as hs

    X = np.random.default_rng(0).poisson(0.5, (60, 40)).astype(np.float64)
    pairs, y, _ = hs.datasets.make_ratings(40, 30, 500, random_state=0)
    P, truth, _ = hs.datasets.make_predictions(120, 6, random_state=0)
    labels = np.where(np.arange(120) < 60, truth, -1)
    common: dict[str, Any] = {"random_state": 0, "n_threads": 2}
    wals = hs.WALS(rank=4, max_iter=2, **common).fit(X)
    plq = hs.PLQMF(rank=3, loss="huber", max_iter=2, **common).fit(pairs, y)
    fused = hs.CFEnsembleCV(ranks=(1,), links=("logit",)).fit(P, labels)
    path = folder / "model.safetensors"
    wals.save(path)
    files = partial_of(seen, folder)
    known = {
        f"{side}_features": hs.Features.of(
            {k: {"title": f"a{k % 3} b{k % 5}"} for k in range(n)}, side=side, text=["title"]
        )
        for side, n in (("user", 60), ("item", 40))
    }
    told = hs.WALS(rank=4, max_iter=2, feature_reg=1.0, common_words=0.5, **common).fit(X, **known)

    def lists(model: Any) -> Callable[[], Any]:
        return lambda: model.recommend(model.user_ids_[:3].tolist(), 5).scores.tolist()

    def predicted() -> Any:
        return plq.predict(pairs[:20]).tolist()

    def fused_said() -> Any:
        return fused.predict_proba(P[:10]).tolist()

    def kept() -> None:
        where = folder / "kept.safetensors"
        try:
            hs.WALS(rank=4, max_iter=2, **common, checkpoint=where).fit(X)
        finally:
            where.unlink(missing_ok=True)

    return {
        "WALS.fit": (lambda: wals.fit(X), lists(wals)),
        "WALS.partial_fit": (lambda: wals.partial_fit(X), lists(wals)),
        "WALS.recommend": (lambda: wals.recommend([0, 1, 2], 5), lists(wals)),
        "WALS.recommend_for": (lambda: wals.recommend_for([0, 1], 5), lists(wals)),
        "WALS.save": (lambda: wals.save(path), files),
        "WALS with a checkpoint": (kept, files),
        "WALS.fit, features": (lambda: told.fit(X, **known), lists(told)),
        "load": (lambda: hs.load(path), files),
        "PLQMF.fit": (lambda: plq.fit(pairs, y), predicted),
        "PLQMF.predict": (lambda: plq.predict(pairs), predicted),
        "BayesMF.fit": (lambda: hs.BayesMF(rank=2, n_sweeps=4, **common).fit(pairs, y), files),
        "CFEnsemble.fit": (lambda: hs.CFEnsemble(rank=2, max_iter=2, n_threads=2).fit(P, labels), files),
        "CFEnsembleCV.fit": (lambda: fused.fit(P, labels), fused_said),
        "CFEnsembleCV.predict_proba": (lambda: fused.predict_proba(P), fused_said),
    }


def where(error: BaseException | None) -> str:
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-3:]))


def partial_of(function: Callable[..., Any], *given: Any) -> Callable[[], Any]:
    return lambda: function(*given)


def steps(kind: str, every: bool) -> Any:
    """Which of the steps fail, one at a time."""
    n = 0
    while True:
        yield n
        n += 1 if every or kind != "allocation" or n < 20 else max(1, n // 3)


def child(every: bool, only: str | None) -> int:
    """Runs under the shim."""
    faults, wrong, tried = Faults(), 0, 0
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(action="ignore"):
        for title, (call, state) in calls(Path(name)).items():
            if only is not None and title != only:
                continue
            call()  # whatever is imported when first needed is there now
            for kind, what in enumerate(KINDS):
                for n in steps(what, every):
                    before = state()
                    gc.collect()
                    error, reached = faults.run(kind, n, call)
                    if not reached:
                        break
                    tried += 1
                    told = "" if error is None or isinstance(error, ALLOWED) else f"{type(error).__name__}: {error}"
                    if error is not None and state() != before:
                        told += " it is not as before"
                    if told:
                        wrong += 1
                        print(f"{title}, {what} {n}: {told} {where(error)}", flush=True)
    print(f"{tried} faults, {wrong} of them not borne", flush=True)
    return 1 if wrong else 0


def run(every: bool = False, only: str | None = None) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        shim = compile_shim(Path(folder))
        environment = os.environ | {"LD_PRELOAD": str(shim), "OPENBLAS_NUM_THREADS": "1", "HALFSTEP_FAULTS": "1"}
        environment["PYTHONFAULTHANDLER"] = "1"
        command = [sys.executable, __file__, *(["--every"] if every else []), *(["--only", only] if only else [])]
        return subprocess.run(command, env=environment, capture_output=True, text=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--only")
    options = parser.parse_args()
    if "HALFSTEP_FAULTS" in os.environ:
        return child(options.every, options.only)
    done = run(options.every, options.only)
    print(done.stdout + done.stderr[-30000:])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
