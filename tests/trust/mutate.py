"""Model files changed at random, their checksums made right again. Used by tests, and alone: see `main`."""

from __future__ import annotations

import argparse
import copy
import random
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np

import halfstep as hs
from halfstep.data.files import ModelFileError

from .zoo import ZOO, fitted, parts_of, put_together, questions

NUMBERS = [0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 1e-46, 3e38, 1e308, 0.5, -0.0]
VALUES = [*NUMBERS, None, True, False, "", "x", "float32", [], {}, [[]], [1, 2], {"a": 1}, "\ud800"]
VALUES += [{"$codec": "float", "value": "nan"}, {"$codec": "float", "value": "inf"}, {"$codec": "no", "value": 1}]
VALUES += [{"$codec": "array", "value": ["<f8", [2], [1, 2]]}, {"$codec": "loss", "value": {"name": "huber"}}]


def places(value, path=()):
    """Every place of a JSON document."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def change_document(document, rng: random.Random) -> None:
    part = rng.choice(["params", "meta", "indexes", "params", "meta", "kind"])
    found = [path for path in places(document[part]) if path]
    if part == "kind" or not found:
        document["kind"] = rng.choice([*{name.partition("-")[0] for name in ZOO}, "checkpoint", "os:system", ""])
        return
    *parents, last = rng.choice(found)
    holder = document[part]
    for key in parents:
        holder = holder[key]
    choice = rng.random()
    if choice < 0.15:
        del holder[last]
    elif choice < 0.25 and isinstance(holder, dict):
        holder[f"{last}_more"] = holder[last]
    elif choice < 0.4 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[last]))
    else:
        holder[last] = copy.deepcopy(rng.choice(VALUES))


def change_tensors(tensors, rng: random.Random) -> None:
    if not tensors:
        return
    name = rng.choice(sorted(tensors))
    tensor = tensors[name].copy()
    choice = rng.random()
    with np.errstate(all="ignore"):
        if choice < 0.5 and tensor.size:
            flat = tensor.reshape(-1)
            for _ in range(rng.choice([1, 1, 3])):
                value = rng.choice([*NUMBERS, float("nan"), float("inf"), -float("inf")])
                flat[rng.randrange(len(flat))] = np.array(value, np.float64).astype(flat.dtype)
            tensors[name] = tensor
        elif choice < 0.65:
            tensors[name] = tensor.astype(rng.choice(["f2", "f4", "f8", "i4", "i8", "u1", "u4", "u8", "?"]))
        elif choice < 0.75 and tensor.ndim:
            tensors[name] = tensor[: rng.randrange(len(tensor) + 1)]
        elif choice < 0.85 and tensor.ndim:
            tensors[name] = np.concatenate([tensor, tensor[: rng.randrange(len(tensor) + 1)]])
        elif choice < 0.9:
            tensors[name] = tensor.T if tensor.ndim > 1 else tensor[None]
        elif choice < 0.95:
            del tensors[name]
        else:
            tensors[rng.choice(["extra", "ids.user.ids", "0.indptr", rng.choice(sorted(tensors))])] = tensor


def hammer(folder: Path, name: str, trials: int, seed: int) -> int:
    """So many changed files of one kind are loaded and asked; returns how many were refused.

    Raises on another error than ModelFileError, on answers that are NaN where the model had numbers, on a crash anyway.
    """
    whole, path, rng = folder / "whole.safetensors", folder / "changed.safetensors", random.Random(seed)
    fitted(name).save(whole)
    document, tensors = parts_of(whole)
    refused, found = 0, {}
    for trial in range(trials):
        try:
            refused += try_one(path, name, document, tensors, rng, trial)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            found.setdefault((type(error).__name__, frame.filename, frame.lineno), (trial, str(error)[:200]))
    assert not found, found
    return refused


def try_one(path: Path, name: str, document, tensors, rng: random.Random, trial: int) -> bool:
    """One changed file is loaded and asked; whether it was refused."""
    changed, arrays = copy.deepcopy(document), dict(tensors)
    for _ in range(rng.choice([1, 1, 2])):
        change_document(changed, rng) if rng.random() < 0.5 else change_tensors(arrays, rng)
    try:
        put_together(path, changed, arrays)
    except (ValueError, TypeError, KeyError, OverflowError):
        return False  # what cannot be written is no file
    refused = False
    for mmap in (False, True):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = hs.load(path, mmap=mmap)
                if not mmap:  # values of mapped floats are taken as they are
                    ask(name, model, trial)
        except ModelFileError:
            refused = refused or not mmap
    return refused


def ask(name: str, model, trial: int) -> None:
    for question in questions(name):
        try:
            answer = np.asarray(question(model))
        except (hs.errors.UnknownIdError, hs.errors.RowError):
            continue  # ids are other ids now; a penalty may be too small: both say so
        except ValueError as error:
            if "broadcast" in str(error) or "mismatch" in str(error):  # NumPy speaks where we should have
                raise AssertionError((name, trial)) from error
            continue
        if answer.dtype.kind == "f" and answer.ndim == 1:
            assert not np.isnan(answer).any(), (name, trial)


def main() -> None:
    """`python -m tests.trust.mutate --trials 1200`: so many changed files of every kind."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name in ZOO:
        with tempfile.TemporaryDirectory() as folder:
            try:
                refused = hammer(Path(folder), name, given.trials, given.seed)
            except AssertionError as error:
                print(name, *error.args[0].items(), sep="\n    ", flush=True)
                continue
        print(f"{name:<22} {given.trials} changed files, {refused} refused, the others answer", flush=True)


if __name__ == "__main__":
    main()
