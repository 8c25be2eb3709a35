"""Arrays in memory-mapped files: room for rows of a fit, and the cells of a sparse matrix on disk.

The system writes out what it needs the memory of, and reads it again. Must not know what the numbers stand for.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

AT_ONCE = 2**14  # rows that are copied


def in_file(rows: NDArray[Any], folder: str | os.PathLike[str]) -> NDArray[Any]:
    """The same rows in a file of that folder, which has no name and goes when the array does."""
    if not Path(folder).is_dir():
        raise NotADirectoryError(f"rows_in={str(folder)!r} is no folder; give one on a disk with room for the factors.")
    if not rows.nbytes:
        return rows
    with tempfile.TemporaryFile(dir=folder, prefix="halfstep-rows-") as file:
        try:
            _reserve(file.fileno(), rows.nbytes)
        except OSError as error:
            raise OSError(
                f"{Path(folder)} has no room for rows of {rows.nbytes:,} bytes: {error}; give rows_in= another folder."
            ) from error
        moved = np.frombuffer(mmap.mmap(file.fileno(), rows.nbytes), rows.dtype).reshape(rows.shape)
    for first in range(0, len(rows), AT_ONCE):
        moved[first : first + AT_ONCE] = rows[first : first + AT_ONCE]
    return moved


def _reserve(file: int, size: int) -> None:
    """Take the space now: writing to a mapped page that has none would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        for first in range(0, size, 2**20):
            os.write(file, bytes(min(2**20, size - first)))


def is_matrix_file(path: Any) -> bool:
    """Whether this is the path of a sparse matrix in a file."""
    return isinstance(path, (str, os.PathLike)) and Path(path).suffix.lower() == ".npz"


def read_matrix(path: str | os.PathLike[str]) -> Any:
    """The matrix that `scipy.sparse.save_npz` wrote, as CSR. What was written with compressed=False is mapped.

    Whatever is wrong with the file raises a ValueError; what it says is checked before anything follows its places.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"X={str(path)!r} does not exist; give a file that scipy.sparse.save_npz wrote.")
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            kind = _array(path, archive, parts["format"]).item().decode()
            if kind != "csr":
                matrix = sp.load_npz(path)
                matrix.check_format(full_check=True) if hasattr(matrix, "check_format") else None
                return sp.csr_array(matrix)
            data, indices, indptr = (_array(path, archive, parts[name]) for name in ("data", "indices", "indptr"))
            shape = tuple(_array(path, archive, parts["shape"]).tolist())
        matrix = sp.csr_array((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
        if (np.diff(matrix.indptr) < 0).any():
            raise ValueError("indptr falls")
        return matrix
    except MemoryError:
        raise
    except Exception as error:  # of zipfile, NumPy or scipy, whatever is wrong with it
        raise ValueError(
            f"X={str(path)!r} holds no sparse matrix that can be read: {error}; write one with "
            "scipy.sparse.save_npz(path, matrix, compressed=False)."
        ) from error


def _array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """An array of the archive: a view of the file where it is stored as it is, and lies as numbers must lie."""
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(member)
        header = member.tell()
        if dtype.hasobject or fortran:
            raise ValueError(f"{info.filename} is no array of numbers")
        if math.prod(shape) * dtype.itemsize != info.file_size - header:
            raise ValueError(f"{info.filename} is not as long as it says")
        if info.compress_type != zipfile.ZIP_STORED:
            array = np.empty(shape, dtype)
            room = memoryview(array.reshape(-1).view(np.uint8).data)
            for first in range(0, array.nbytes, 2**20):
                some = member.read(2**20)
                room[first : first + len(some)] = some
            return array
    with path.open("rb") as file:  # the local header has a length of its own
        file.seek(info.header_offset + 26)
        start = info.header_offset + 30 + sum(np.frombuffer(file.read(4), "<u2").tolist()) + header
    if start + math.prod(shape) * dtype.itemsize > path.stat().st_size:
        raise ValueError(f"{info.filename} is cut off")
    found = np.memmap(path, dtype, "r", start, shape) if math.prod(shape) else np.empty(shape, dtype)
    return np.require(np.asarray(found), requirements=["A"])
