"""Files of every released minor version load, and answer as they did then.

`python -m tests.trust.test_released` writes those of this version that are not there yet; it never writes over a file.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import halfstep as hs

from .zoo import ZOO, answers, fitted

FOLDER = Path(__file__).parent / "released"
MINOR = ".".join(hs.__version__.split(".")[:2])
FILES = sorted(FOLDER.glob("*/*.safetensors"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.parametrize("mmap", [False, True])
def test_a_released_file_loads_and_answers_as_it_did(path, mmap):
    was = json.loads((path.parent / "answers.json").read_text())[path.stem]
    now = answers(path.stem, hs.load(path, mmap=mmap))
    for then, said in zip(was, now, strict=True):
        np.testing.assert_allclose(said.ravel(), np.array(then, float), rtol=1e-4, atol=1e-5)


def test_this_minor_version_has_its_files_and_they_are_small():
    here = [path for path in FILES if path.parent.name == MINOR]
    assert {path.stem for path in here} == set(ZOO)
    assert all(path.stat().st_size < 30_000 for path in here)


def write() -> None:
    folder = FOLDER / MINOR
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "answers.json"
    said = json.loads(kept.read_text()) if kept.exists() else {}
    for name in [name for name in ZOO if name not in said]:
        fitted(name).save(folder / f"{name}.safetensors")
        said[name] = [np.round(a.astype(float), 8).ravel().tolist() for a in answers(name, fitted(name))]
    text = json.dumps(said, indent=0).replace("NaN", "null")
    kept.write_text(text + "\n")


if __name__ == "__main__":
    write()
