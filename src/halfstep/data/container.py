"""The safetensors container: named tensors and one text in a file. Opened once, every offset checked before it is used.

docs/format.md is the specification. The `safetensors` package reads what is written here, and the other way round; it
opens a path by itself, so a reader that needs its header and a map would open two files where one is being replaced.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

DTYPES: dict[str, Any] = {
    **{"F16": np.float16, "F32": np.float32, "F64": np.float64, "BOOL": np.bool_},
    **{"I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64},
    **{"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64},
}
_CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}
LARGEST_HEADER = 100_000_000
"""Bytes, as the safetensors package has it."""


class ModelFileError(ValueError):
    """A file that is not a model, or not one that can be trusted; the text names the path."""


class DamagedError(ModelFileError):
    """Bytes that are no whole container."""


@dataclass(frozen=True)
class Backing:
    """The file behind mapped tensors. It is held open, so a file that takes its name changes nothing here."""

    path: Path
    mapped: mmap.mmap

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copies of a model have arrays of their own, and nothing behind them."""
        return type(None), ()

    def check(self) -> None:
        """Raise if the file has been cut since: reading what is gone would end the process."""
        if self.mapped.size() < len(self.mapped):
            raise DamagedError(
                f"{self.path} was cut to {self.mapped.size():,} bytes while a model was mapped from it; load it again, "
                "and replace model files as `save` does, by renaming a whole one"
            )


@dataclass(frozen=True)
class Container:
    """What a file holds: texts by key and tensors by name; `backing` where tensors are views of the mapped file."""

    texts: dict[str, str]
    tensors: dict[str, NDArray[Any]]
    backing: Backing | None


def write(file: BinaryIO, texts: Mapping[str, str], tensors: Mapping[str, NDArray[Any]], last: str) -> None:
    """Tensors C-contiguous and little-endian; wide numbers first, so that all are aligned, and `last` at the end."""
    order = sorted(tensors, key=lambda name: (name == last, -tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(texts)}
    end = 0
    for name in order:
        start, end = end, end + tensors[name].nbytes
        code = _CODES[tensors[name].dtype.newbyteorder("=")]
        header[name] = {"dtype": code, "shape": list(tensors[name].shape), "data_offsets": [start, end]}
    raw = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    raw += b" " * (-len(raw) % 8)
    file.write(struct.pack("<Q", len(raw)) + raw)
    for name in order:
        file.write(tensors[name].reshape(-1).view(np.uint8).data)


def read(path: Path, mapped: bool) -> Container:
    """The container at `path`; what is wrong with it raises `DamagedError`. Its tensors are copies unless mapped."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("it is not a file")
        header, start = _header(file, status.st_size)
        texts = header.pop("__metadata__", {})
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise DamagedError("its __metadata__ is not a table of texts")
        places = _places(header, status.st_size - start)
        if not mapped:
            return Container(texts, {name: _copied(file, start, *place) for name, place in places.items()}, None)
        backing = Backing(path, mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ))
    backing.check()
    return Container(texts, {name: _view(backing, start, *place) for name, place in places.items()}, backing)


def _header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The header, and where data start."""
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > min(size - 8, LARGEST_HEADER):
        raise DamagedError(f"its header of {length:,} bytes does not fit its {size:,} bytes")
    try:
        header = json.loads(file.read(length).decode("utf-8", "surrogatepass"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"its header cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise DamagedError("its header is not a table")
    return header, 8 + length


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a name that stands twice, readers would disagree which one holds."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


Place = tuple[np.dtype[Any], tuple[int, ...], int]


def _places(header: dict[str, Any], size: int) -> dict[str, Place]:
    """dtype, shape and offset of every tensor; together they tile the data, as the format has it."""
    found: dict[str, Place] = {}
    spans = []
    for name, entry in header.items():
        try:
            code, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        except (TypeError, KeyError, ValueError) as error:
            raise DamagedError(f"the entry of the tensor {name!r} is not whole") from error
        if not isinstance(code, str) or code not in DTYPES:
            raise DamagedError(f"the tensor {name!r} has the unknown dtype {code!r}")
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in [*shape, start, end]):
            raise DamagedError(f"the tensor {name!r} has no lengths and offsets that are whole numbers")
        dtype = np.dtype(DTYPES[code]).newbyteorder("<")
        if end - start != math.prod(shape) * dtype.itemsize or end > size or len(shape) > 32:
            raise DamagedError(f"the tensor {name!r} of shape {shape} does not fit its {end - start:,} bytes")
        found[name] = dtype, tuple(shape), start
        spans.append((start, end))
    reached = 0
    for start, end in sorted(spans):
        if start != reached:
            raise DamagedError("its tensors overlap or leave gaps")
        reached = end
    if reached != size:
        raise DamagedError(f"it has {size:,} bytes of data, its tensors {reached:,}")
    return found


def _copied(file: BinaryIO, start: int, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> NDArray[Any]:
    array = np.empty(shape, dtype)
    file.seek(start + offset)
    if array.nbytes and file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:  # type: ignore[attr-defined]
        raise DamagedError("it was cut while it was read")
    return array


def _view(backing: Backing, start: int, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> NDArray[Any]:
    flat = np.frombuffer(backing.mapped, dtype, math.prod(shape), start + offset)
    return flat.reshape(shape) if flat.flags.aligned else flat.reshape(shape).copy()
