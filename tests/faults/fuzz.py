"""Random damage at every door: model files (checksums repaired), CSV, npz, JSON bodies, calls of the core.

    python tests/faults/fuzz.py --seconds 600              all targets in turn; a find is kept and makes it fail
    python tests/faults/fuzz.py --only csv --seed 7 --once  one input again, in this process
    python tests/faults/fuzz.py --atheris csv --seconds 60  one target, guided by coverage, where atheris is installed

A target takes a source of random choices and raises on anything but a clear refusal. Inputs run in forked processes, so
that a crash is a find too. Finds are seeds: they are kept in .cache/fuzz/finds.txt and tried first the next time.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.trust.mutate import NUMBERS, try_one  # noqa: E402
from tests.trust.zoo import ZOO, fitted, parts_of  # noqa: E402

import halfstep as hs  # noqa: E402
from halfstep import _core, losses  # noqa: E402
from halfstep.data.files import ModelFileError  # noqa: E402

FINDS = ROOT / ".cache" / "fuzz" / "finds.txt"
BATCH = 25  # inputs of a forked process


class FromBytes(random.Random):
    """Random choices that follow from bytes, so that whoever changes the bytes changes the choices."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data, self._place = data, 0

    def getrandbits(self, k: int) -> int:
        n = (k + 7) // 8
        part = self._data[self._place : self._place + n].ljust(n, b"\0")
        self._place += n
        return int.from_bytes(part, "little") & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(32) / 2**32


@cache
def saved(name: str) -> tuple[bytes, Any]:
    """A model file, and its document and tensors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        fitted(name).save(path)
        return path.read_bytes(), parts_of(path)


def model_file(rng: random.Random, folder: Path) -> None:
    """Document and tensors changed, all checksums right."""
    name = rng.choice(list(ZOO))
    try_one(folder / "changed.safetensors", name, *saved(name)[1], rng, 0)


def raw_file(rng: random.Random, folder: Path) -> None:
    """Bytes changed, cut off or put in: refused, or a file that is as it was."""
    name = rng.choice(list(ZOO))
    path = folder / "raw.safetensors"
    path.write_bytes(damaged(saved(name)[0], rng))
    with warnings.catch_warnings(action="ignore"):
        try:
            hs.load(path)
        except ModelFileError:
            return
    assert path.read_bytes() == saved(name)[0], "damage was not noticed"


def damaged(data: bytes, rng: random.Random, words: tuple[bytes, ...] = (b"\0", b"\xff", b"{", b'"')) -> bytes:
    """A few bytes changed, taken out, or words put in."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place, kind = rng.randrange(len(found) + 1), rng.randrange(4)
        if kind == 0 and place < len(found):
            found[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            found[place:place] = rng.choice(words) * rng.choice([1, 1, 3])
        elif kind == 2:
            del found[place : place + rng.choice([1, 4, 1000])]
        else:
            found[place:] = b"" if rng.random() < 0.3 else found[place:]
    return bytes(found)


CSV = "user,item,weight,time\n" + "".join(f"u{i % 7},i{i % 5},{i % 3 + 1},{1_600_000_000 + i}\n" for i in range(40))
WORDS = (b'"', b",", b"\n", b"\r", b"\r\n", b";", b"\t", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"nan", b"-1", b"1e999")
WORDS += (b"99999999999999999999", b"'", b"\\", b"user", "ü".encode(), "ü".encode("latin1"), b" ", b"1_000", b"0x1f")


def csv(rng: random.Random, folder: Path) -> None:
    """Both readers give the same table, or refuse with a ValueError."""
    path = folder / "table.csv"
    path.write_bytes(damaged(CSV.encode(), rng, WORDS))
    found = []
    for engine in ("python", "arrow"):
        with warnings.catch_warnings(action="ignore"):
            try:
                data = hs.datasets.read_interactions(path, engine=engine)
                found.append(sp.csr_array(data.matrix).toarray().tolist())
                assert np.isfinite(data.matrix.data).all()
                assert (data.matrix.data >= 0).all()
            except ValueError as error:
                found.append(type(error).__name__)
    if found[0] != found[1]:
        raise AssertionError(f"the two readers do not agree: {[str(each)[:80] for each in found]}")


def npz(rng: random.Random, folder: Path) -> None:
    """A sparse matrix of which arrays are changed, or the bytes of the file."""
    matrix = sp.csr_matrix(np.random.default_rng(0).poisson(0.5, (6, 5)).astype(np.float64))
    parts = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data, "shape": np.array(matrix.shape)}
    stream = io.BytesIO()
    raw = rng.random() < 0.4
    if not raw:
        name = rng.choice(sorted(parts))
        array = parts[name].copy()
        with np.errstate(all="ignore"):
            value = rng.choice([*NUMBERS, float("nan"), float("inf")])
            array[rng.randrange(len(array))] = np.array(value, np.float64).astype(array.dtype)
            if rng.random() < 0.4:
                array = array.astype(rng.choice(["f4", "f8", "i4", "i8", "u4", "c16", "?"]))
            parts[name] = array
        if rng.random() < 0.2:
            del parts[rng.choice(sorted(parts))]
    np.savez(stream, format=np.array(rng.choice([b"csr", b"csr", b"csc", b"coo", b"x"])), **parts)
    path = folder / "matrix.npz"
    path.write_bytes(damaged(stream.getvalue(), rng) if raw else stream.getvalue())
    with warnings.catch_warnings(action="ignore"):
        try:
            data = hs.datasets.read_interactions(path)
        except ValueError:
            return
        try:
            hs.WALS(rank=2, max_iter=1, random_state=0, n_threads=1).fit(data)
        except (ValueError, hs.errors.RowError):
            return  # weights that are no weights


@cache
def client(name: str) -> Any:
    from fastapi.testclient import TestClient

    from halfstep.apps.serve import create_app

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        fitted(name).save(path)
        app = create_app(path, access_log=False, watch_seconds=0)
    return TestClient(app, raise_server_exceptions=False)


SERVED = ("WALS", "PLQMF", "BayesMF", "CFEnsembleCV")
IDS: list[Any] = [
    "u1",
    "i1",
    "i2",
    0,
    1,
    2,
    -1,
    10**30,
    "",
    "x" * 600,
    None,
    True,
    1.5,
    [1],
    {"a": 1},
    [["i1"]],
    "\ud800",
]
BODIES: dict[str, dict[str, list[Any]]] = {
    "/recommend": {
        "users": [["u1"], ["u1", "u2"], [0]],
        "n": [1, 3, 10**9],
        "candidates": [["i1"]],
        "exclude": [["i1"]],
    },
    "/recommend_for": {"items": [["i1", "i2"], [0, 1]], "n": [3], "weights": [[1, 2], [1e38, 1]], "ratings": [[1, 2]]},
    "/similar": {"of": ["items", "users"], "item": ["i1", 0], "user": ["u1"], "items": [["i1"]], "n": [3]},
    "/explain": {"item": ["i1", 0], "user": ["u1"], "items": [["i1"]], "n": [3]},
    "/map": {"items": [["i1"]], "show": [["i2"]], "users": [["u1"]]},
    "/predict": {"pairs": [[["u1", "i1"]], [[0, 1]]], "unknown": ["error", "average"], "level": [0.5], "parts": [True]},
    "/fuse": {"predictions": [[[0.1] * 5], [[0.1, None, 0.3, 0.4, 0.5]]], "features": [[[1.0]]]},
    "/labels": {"labels": [[{"number": 1, "label": 1}]]},
}


def json_body(rng: random.Random, folder: Path) -> None:
    """Never a 500, and nothing that is no JSON."""
    asked = client(rng.choice(SERVED))
    path = rng.choice(sorted(BODIES))
    body: dict[str, Any] = {}
    for field, values in BODIES[path].items():
        if rng.random() < 0.7:
            body[field] = rng.choice([rng.choice(values), rng.choice(values), rng.choice(IDS), rng.choice(NUMBERS)])
            if isinstance(body[field], list) and rng.random() < 0.3:
                body[field] = [*body[field], rng.choice(IDS)]
    if rng.random() < 0.1:
        body[rng.choice(["more", "N", ""])] = rng.choice(IDS)
    text = json.dumps(body).encode()
    if rng.random() < 0.2:
        text = damaged(text, rng, (b"{", b"}", b"[", b'"', b"1e999", b"NaN", b"\xff", b"[" * 5000))
    answer = asked.post(path, content=text, headers={"content-type": "application/json"})
    assert answer.status_code < 500, (answer.status_code, path, text[:300])
    json.loads(answer.text, parse_constant=lambda constant: (_ for _ in ()).throw(ValueError(constant)))


def core_door(rng: random.Random, folder: Path) -> None:
    """Arrays of any shape and content: an error, or an end. Values that are solved stay finite."""
    dtype = rng.choice([np.float32, np.float64])
    some = np.random.default_rng(rng.getrandbits(32))
    n, m, d = (rng.choice([0, 1, 2, 5]) for _ in range(3))

    def array(*shape: int, kind: Any = dtype) -> Any:
        shape = tuple(max(0, size + rng.choice([0] * 12 + [-1, 1])) for size in shape)
        found = some.normal(size=shape).astype(kind)
        if found.size and rng.random() < 0.1:
            with np.errstate(all="ignore"):
                value = np.array(rng.choice([*NUMBERS, float("nan"), float("inf")]), np.float64)
                found.reshape(-1)[rng.randrange(found.size)] = value.astype(kind)
        return found

    counts = some.integers(0, 4, n)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = some.integers(0, max(m, 1), int(indptr[-1])).astype(np.int32)
    if rng.random() < 0.3 and len(indptr):
        indptr[rng.randrange(len(indptr))] = rng.choice([-1, 0, 5, 2**31, 2**62, -(2**63)])
    if rng.random() < 0.3 and len(indices):
        indices[rng.randrange(len(indices))] = rng.choice([-1, m, 2**31 - 1, -(2**31)])
    cells = len(indices)
    loss = rng.choice([losses.Squared(), losses.Absolute(), losses.Huber(0.5), losses.Logistic(), losses.Poisson()])
    try:
        own = array(n, d)
        rows = _core.half_step(own, array(m, d))
        rows.cells(indptr, indices, array(cells) if rng.random() < 0.7 else 1.0, abs(array(cells)))
        loss.bind(rows)
        if rng.random() < 0.5:
            rows.columns(*sorted([rng.choice([-1, 0, 1, d, d + 1]), rng.choice([0, 1, d, d + 1, 2**31 - 1])]))
        rows.penalty(abs(array(n)) + dtype(0.1) if rng.random() < 0.5 else rng.choice([0.0, 1.0, -1.0, float("nan")]))
        if rng.random() < 0.3:
            rows.prior(array(rng.choice([1, n]), d))
        if rng.random() < 0.3:
            rows.background(rng.choice([0.0, 0.1, -1.0]), array(d, d))
        if loss.keeps_duals and rng.random() < 0.8:
            rows.duals(array(cells))
        method = rng.choice([_core.Method.exact, _core.Method.cholesky, _core.Method.dual, _core.Method.cg])
        rows.method(
            method, rng.choice([1e-6, 0.0, -1.0, float("nan")]), rng.choice([0, 1, 100]), rng.choice([0, 1, 64])
        )
        rows.solve(True, rng.choice([1, 2]))
    except (ValueError, TypeError, IndexError, OverflowError, RuntimeError, MemoryError):
        return


TARGETS: dict[str, Callable[[random.Random, Path], None]] = {
    "model_file": model_file,
    "raw_file": raw_file,
    "csv": csv,
    "npz": npz,
    "json_body": json_body,
    "core_door": core_door,
}


def batch(name: str, seeds: list[int]) -> list[str]:
    """What inputs of these seeds have found, tried in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as out, tempfile.TemporaryDirectory() as folder:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            for seed in seeds:
                out.write(f"{seed}\n")
                out.flush()
                try:
                    TARGETS[name](random.Random(seed), Path(folder))
                except BaseException as error:
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    told = f"{type(error).__name__}: {error}"[:200].replace("\n", " ")
                    out.write(f"FOUND {name} {seed} {told} ({Path(last.filename).name}:{last.lineno})\n")
                    out.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        lines = told.read().splitlines()
    _, status = os.waitpid(child, 0)
    found = [line.removeprefix("FOUND ") for line in lines if line.startswith("FOUND ")]
    if os.waitstatus_to_exitcode(status) != 0:
        found.append(f"{name} {lines[-1] if lines else seeds[0]} the process died: {os.waitstatus_to_exitcode(status)}")
    return found


def run(seconds: float, only: str | None, seed: int, most: float = float("inf")) -> int:
    """Batches of all targets in turn; returns the number of finds."""
    for name in ZOO:  # what all inputs need is made once, before forks
        saved(name)
    for name in SERVED:
        client(name)
    known = [line.split()[:2] for line in FINDS.read_text().splitlines()] if FINDS.exists() else []
    finds = [line for name, old in known if name in TARGETS for line in batch(name, [int(old)])]
    counts, begun, number = dict.fromkeys(TARGETS, 0), time.monotonic(), seed * 10**9
    while time.monotonic() - begun < seconds and sum(counts.values()) < most:
        for name in [only] if only else TARGETS:
            finds += batch(name, list(range(number, number + BATCH)))
            counts[name] += BATCH
        number += BATCH
    print(f"{sum(counts.values())} inputs in {time.monotonic() - begun:.0f} s: {counts}; {len(finds)} finds")
    for line in finds:
        print("  ", line)
    if finds:
        FINDS.parent.mkdir(parents=True, exist_ok=True)
        old = FINDS.read_text().splitlines() if FINDS.exists() else []
        FINDS.write_text("\n".join(dict.fromkeys([*old, *finds])) + "\n")
    return len(finds)


def guided(name: str, seconds: float) -> None:
    """Coverage says which inputs are worth changing further; they are kept in .cache/fuzz."""
    import atheris

    corpus = FINDS.parent / name
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:

        @atheris.instrument_func
        def one(data: bytes) -> None:
            TARGETS[name](FromBytes(data), Path(folder))

        atheris.instrument_all()
        options = [f"-max_total_time={int(seconds)}", "-rss_limit_mb=4096", "-max_len=512", str(corpus)]
        atheris.Setup([sys.argv[0], *options], one)
        atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--only", choices=list(TARGETS))
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    parser.add_argument("--most", type=float, default=float("inf"), help="at most so many inputs")
    parser.add_argument("--once", action="store_true", help="the input of --seed alone, in this process")
    parser.add_argument("--atheris", choices=list(TARGETS))
    options = parser.parse_args()
    if options.atheris:
        guided(options.atheris, options.seconds)
        return 0
    if options.once:
        with tempfile.TemporaryDirectory() as folder:
            TARGETS[options.only](random.Random(options.seed), Path(folder))
        return 0
    return 1 if run(options.seconds, options.only, options.seed, options.most) else 0


if __name__ == "__main__":
    sys.exit(main())
