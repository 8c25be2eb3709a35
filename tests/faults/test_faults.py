"""A little of what the scripts of this folder do at length: fuzzing, rows against other solvers, faults."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import halfstep as hs

from . import fuzz, inject


@pytest.mark.parametrize("name", ["csv", "npz", "core_door"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rng=st.randoms(use_true_random=False))
def test_damage_is_refused(name: str, tmp_path: Path, rng: random.Random) -> None:
    fuzz.TARGETS[name](rng, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_nothing_is_found_in_a_hundred_inputs(name: str) -> None:
    assert fuzz.batch(name, list(range(100))) == []


def test_choices_follow_from_bytes() -> None:
    one, again, other = (fuzz.FromBytes(data) for data in (b"abcdefgh", b"abcdefgh", b"zbcdefgh"))
    assert [one.randrange(1000), one.random()] == [again.randrange(1000), again.random()]
    assert other.randrange(1000) != fuzz.FromBytes(b"abcdefgh").randrange(1000)


def test_a_matrix_file_whose_places_lie_outside_is_refused(tmp_path: Path) -> None:
    """scipy follows them out of its memory: this crashed the process."""
    path, matrix = tmp_path / "m.npz", sp.csr_matrix(np.eye(4))
    for name, value in (("indices", 10**6), ("indptr", 10**6), ("indices", -1)):
        parts = {"indptr": matrix.indptr.copy(), "indices": matrix.indices.copy()}
        parts[name][2] = value
        np.savez(path, format=np.array(b"csr"), shape=np.array((4, 4)), data=matrix.data, **parts)
        with pytest.raises(ValueError, match=r"m\.npz holds no sparse matrix"):
            hs.datasets.read_interactions(path)
    for last in (0, -(2**31)):  # no cells, it says; and a difference that wraps around
        indptr = np.array([0, 2, 3, 4, last], np.int32)
        np.savez(path, format=np.array(b"csr"), shape=(4, 4), data=matrix.data, indices=matrix.indices, indptr=indptr)
        with pytest.raises(ValueError, match=r"m\.npz holds no sparse matrix"):
            hs.datasets.read_interactions(path)
    path.write_bytes(b"PK\x03\x04 no zip file at all")
    with pytest.raises(ValueError, match=r"m\.npz is no zip of arrays"):
        hs.datasets.read_interactions(path)


@pytest.mark.heavy
def test_rows_are_as_good_as_those_of_other_solvers() -> None:
    pytest.importorskip("clarabel")
    from .torture import torture

    counts, failed = torture(400, seed=5)
    assert failed == []
    assert counts["rows"] == 400


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")
@pytest.mark.parametrize("call", ["WALS.save"])
def test_faults_leave_model_and_files_as_they_were(call: str) -> None:
    done = inject.run(only=call)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert int(done.stdout.splitlines()[-1].split()[0]) > 0  # some were made
