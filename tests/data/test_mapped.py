"""Rows and matrices in memory-mapped files."""

import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from halfstep import WALS, load
from halfstep.core.cells import Observations
from halfstep.data import mapped
from halfstep.data.mapped import in_file, read_matrix
from halfstep.engine import LocalEngine


@pytest.fixture
def matrix():
    return sp.csr_array(sp.random_array((80, 40), density=0.2, rng=np.random.default_rng(0), dtype=np.float32))


def test_rows_in_a_file_are_the_same_and_the_file_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "AT_ONCE", 7)
    rows = np.random.default_rng(0).random((50, 3), np.float32)
    moved = in_file(rows, tmp_path)
    assert_array_equal(moved, rows)
    moved[3] = 8
    assert moved[3, 0] == 8
    assert rows[3, 0] != 8
    assert not os.listdir(tmp_path)
    assert len(in_file(np.zeros((0, 3)), tmp_path)) == 0


def test_a_disk_that_is_full_is_an_error_and_not_a_dead_process(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mapped, "_reserve", full)
    with pytest.raises(OSError, match=r"has no room for rows of 8 bytes.*give rows_in= another folder"):
        in_file(np.zeros((1, 1)), tmp_path)


def test_a_folder_that_is_none_is_named(tmp_path, matrix):
    with pytest.raises(NotADirectoryError, match=r"rows_in='.*nowhere' is no folder"):
        WALS(rank=2, engine=LocalEngine(rows_in=tmp_path / "nowhere")).fit(matrix)


@pytest.mark.parametrize("solver", ["exact", "cg"])
def test_a_fit_with_its_rows_in_files_has_the_same_bits(tmp_path, matrix, solver):
    told = {"rank": 5, "max_iter": 3, "random_state": 0, "solver": solver}
    here, there = WALS(**told).fit(matrix), WALS(**told, engine=LocalEngine(rows_in=tmp_path)).fit(matrix)
    for one, other in zip(here.fitted_.rows, there.fitted_.rows, strict=True):
        assert_array_equal(one, other)
    assert here.objective_ == there.objective_
    assert_array_equal(pickle.loads(pickle.dumps(there)).user_factors_, here.user_factors_)
    there.save(tmp_path / "m.safetensors")
    assert_array_equal(load(tmp_path / "m.safetensors", mmap=True).user_factors_, here.user_factors_)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_matrix_in_a_file_is_the_matrix(tmp_path, matrix, packed, form):
    path = tmp_path / "m.npz"
    sp.save_npz(path, matrix.asformat(form), compressed=packed)
    assert (read_matrix(path) != matrix).nnz == 0
    one, other = (WALS(rank=3, max_iter=2, random_state=0).fit(X) for X in (str(path), matrix))
    assert_array_equal(one.user_factors_, other.user_factors_)


def test_arrays_that_are_mapped_are_not_copied(tmp_path, matrix):
    arrays = {}
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(matrix, name))
        arrays[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    told = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=matrix.shape)
    cells = Observations.from_weights(told)
    assert np.shares_memory(cells.indices, arrays["indices"])
    assert np.shares_memory(cells.weights, arrays["data"])
    assert_array_equal(WALS(rank=3, random_state=0).fit(told).user_factors_,
                       WALS(rank=3, random_state=0).fit(matrix).user_factors_)  # fmt: skip


def damaged(path, matrix, **changed):
    parts = {"format": b"csr", "shape": matrix.shape, "data": matrix.data, "indices": matrix.indices}
    np.savez(path, **(parts | {"indptr": matrix.indptr} | changed))
    return path


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": np.full(640, 99, np.int32)},
        {"indptr": np.r_[np.arange(80)[::-1], 640].astype(np.int32)},
        {"shape": (3, 3)},
        {"data": np.zeros(2, np.float32)},
        {"data": np.array([object()] * 640, object)},
    ],
)
def test_a_damaged_matrix_is_refused(tmp_path, matrix, changed):
    assert matrix.nnz == 640
    with pytest.raises(ValueError, match="holds no sparse matrix that can be read"):
        read_matrix(damaged(tmp_path / "m.npz", matrix, **changed))


def test_what_is_no_matrix_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_matrix(tmp_path / "none.npz")
    (tmp_path / "a.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="holds no sparse matrix"):
        read_matrix(tmp_path / "a.npz")
