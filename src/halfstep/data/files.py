"""Files: written whole or not at all, and models as one safetensors file that loads without running anything.

Knows tensors, ids and JSON. Must not know what a model computes: an estimator hands over arrays and
parameters, and takes them back in `from_saved`.

The file is plain safetensors. Its one metadata entry, "halfstep", is a JSON document with the schema, the
kind of estimator, the library version, the parameters, and for every tensor its dtype, shape and CRC-32.
"""

from __future__ import annotations

import json
import math
import mmap as memory
import os
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from halfstep._version import __version__
from halfstep.data.codecs import from_json, register_codec, to_json
from halfstep.data.ids import Index

__all__ = ["ModelFileError", "ModelState", "Saved", "atomic_write", "read", "register_codec", "save"]

SCHEMA = 1
_DTYPES = {
    **{"F16": np.float16, "F32": np.float32, "F64": np.float64, "BOOL": np.bool_},
    **{"I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64},
    **{"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64},
}
_PARTS = {"kind": str, "version": str, "params": dict, "meta": dict, "indexes": dict, "tensors": dict}
_IDS = "ids."  # tensors of ids are called "ids.<index>.<part>"


class ModelFileError(ValueError):
    """A file that is not a model, or not one that can be trusted; the text names the path."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` when the block ends, and vanishes on error.

    The data reach the disk before the name does, so a reader sees the old file or the whole new one.
    """
    target = Path(os.path.realpath(path))  # through a link, as open() would
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; name a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {target.parent} does not exist; create it first")
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(6)}.tmp{target.suffix}")
    try:
        temporary.touch(exist_ok=False)  # unlike tempfile, with the permissions of an ordinary new file
    except PermissionError as error:
        raise PermissionError(f"cannot write {path}: the folder {target.parent} is not writable") from error
    try:
        yield temporary
        _to_disk(temporary, os.O_RDWR)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        _to_disk(target.parent, os.O_RDONLY)


def _to_disk(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ModelState(NamedTuple):
    """What a file keeps of one model: parameters, tensors by name, and whatever else."""

    params: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    meta: dict[str, Any]


@dataclass(frozen=True)
class Saved:
    """A model file as read: `arrays` and `indexes` by name; `params` and `meta` are decoded on first use."""

    path: Path
    kind: str
    version: str
    arrays: dict[str, NDArray[Any]]
    indexes: dict[str, Index]
    _document: dict[str, Any] = field(repr=False)

    @cached_property
    def params(self) -> dict[str, Any]:
        """The parameters. Decoded late, when the estimator's module has registered its codecs."""
        return self._decoded("params")

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Whatever else the estimator stored, such as its history."""
        return self._decoded("meta")

    def array(self, name: str, shape: tuple[int | None, ...] | None = None) -> NDArray[Any]:
        """The tensor `name`; raises if it is missing, or not of `shape`, where None stands for any length."""
        if name not in self.arrays:
            raise ModelFileError(f"{self.path}: the tensor {name!r} is missing; it holds {sorted(self.arrays)}")
        array = self.arrays[name]
        if shape is not None and (
            len(shape) != array.ndim
            or any(want not in (None, got) for want, got in zip(shape, array.shape, strict=True))
        ):
            raise ModelFileError(f"{self.path}: the tensor {name!r} has shape {array.shape}, not {shape}")
        return array

    def index(self, name: str) -> Index:
        """The ids called `name`; raises if they are missing."""
        if name not in self.indexes:
            raise ModelFileError(f"{self.path}: the ids {name!r} are missing; it holds {sorted(self.indexes)}")
        return self.indexes[name]

    def part(self, prefix: str, kind: str, kept: Mapping[str, Any]) -> Saved:
        """One of several models of a file: tensors under `prefix`, those that all share, and its params and meta."""
        shared = {name: array for name, array in self.arrays.items() if "." not in name}
        return Saved(self.path, kind, self.version, shared | _under(prefix, self.arrays), self.indexes, dict(kept))

    def _decoded(self, part: str) -> dict[str, Any]:
        try:
            return dict(from_json(self._document[part]))
        except Exception as error:  # decoders are foreign code; whatever fails, it is this file
            raise ModelFileError(f"{self.path}: its {part} cannot be read: {error}") from error


def save(
    path: str | os.PathLike[str],
    kind: str,
    params: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    meta: Mapping[str, Any] | None = None,
    indexes: Mapping[str, Index] | None = None,
) -> None:
    """Write a model as one safetensors file, atomically. Equal models give equal bytes.

    kind : name of the estimator, a key of `kinds.ESTIMATORS` for `load` to find it
    params, meta : JSON-able, or of types with a codec
    arrays : tensors of any shape; float, int, uint or bool
    indexes : ids by the name of their side
    """
    tensors: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        if name.startswith(_IDS) or name == "__metadata__":
            raise ValueError(f"a tensor cannot be called {name!r}; that name is kept for the file itself")
        tensors[name] = np.asarray(array)
    states = {}
    for side, index in (indexes or {}).items():
        states[side], parts = index.to_state()
        tensors |= {f"{_IDS}{side}.{part}": tensor for part, tensor in parts.items()}
    tensors = {name: _storable(name, tensor) for name, tensor in tensors.items()}
    document = {
        "schema": SCHEMA,
        "kind": kind,
        "version": __version__,
        "params": to_json(dict(params), "params"),
        "meta": to_json(dict(meta or {}), "meta"),
        "indexes": states,
        "tensors": {name: [t.dtype.str, list(t.shape), zlib.crc32(t.data)] for name, t in tensors.items()},
    }
    with atomic_write(path) as temporary:
        save_file(tensors, temporary, metadata={"halfstep": _text({**document, "crc": _crc(document)})})


def _storable(name: str, tensor: NDArray[Any]) -> NDArray[Any]:
    if tensor.dtype.newbyteorder("=") not in _DTYPES.values():
        raise ValueError(f"the array {name!r} has dtype {tensor.dtype}; files keep float, int, uint and bool")
    return np.asarray(tensor, dtype=tensor.dtype.newbyteorder("<"), order="C")


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _crc(document: dict[str, Any]) -> int:
    return zlib.crc32(_text(document).encode())


def read(path: str | os.PathLike[str], kind: str | None = None, mmap: bool = False) -> Saved:
    """Read a model file and check all of it. Executes nothing that the file names.

    `mmap=True` gives read-only arrays backed by the file, so that processes share its pages; their checksums
    are then not verified, since that would read every page. `kind` is the estimator that is expected, if any.
    A file that is damaged, foreign or too new raises `ModelFileError`.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file")
    document = _document(path)
    if kind is not None and document["kind"] != kind:
        raise ModelFileError(f"{path} holds a {document['kind']}, not a {kind}; halfstep.load opens any kind")
    try:
        tensors = _map_tensors(path)
        for name, (dtype, shape, crc) in document["tensors"].items():
            tensor = tensors.get(name)
            if tensor is None:
                raise ValueError(f"the tensor {name!r} is missing")
            if tensor.dtype != np.dtype(dtype) or list(tensor.shape) != shape:
                raise ValueError(f"the tensor {name!r} is {tensor.dtype} {tensor.shape}, not {dtype} {shape}")
            if not mmap:
                tensors[name] = tensor = tensor.copy()
                if zlib.crc32(tensor.data) != crc:
                    raise ValueError(f"the tensor {name!r} is damaged, its checksum differs")
        if tensors.keys() != document["tensors"].keys():
            raise ValueError(f"unexpected tensors {sorted(tensors.keys() - document['tensors'].keys())}")
        indexes = {
            side: Index.from_state(state, _under(f"{_IDS}{side}.", tensors))
            for side, state in document["indexes"].items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path}: {error}; save the model again") from error
    arrays = {name: tensor for name, tensor in tensors.items() if not name.startswith(_IDS)}
    return Saved(path, document["kind"], document["version"], arrays, indexes, document)


def _under(prefix: str, tensors: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _document(path: Path) -> dict[str, Any]:
    """The JSON document of a file, whole and of this schema."""
    try:
        with safe_open(path, framework="numpy") as file:  # checks that the tensors tile the file
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path} is not a safetensors file, or is cut off: {error}") from error
    if "halfstep" not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not a model saved by halfstep")
    try:
        document = json.loads(metadata["halfstep"])
        schema, crc = document.get("schema"), document.pop("crc", None)
        intact = crc == _crc(document)
    except (ValueError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{path}: its metadata cannot be read: {error}") from error
    if isinstance(schema, int) and schema > SCHEMA:
        raise ModelFileError(
            f"{path} has schema {schema}, newer than this version's {SCHEMA}; upgrade halfstep to read it"
        )
    if schema != SCHEMA:
        raise ModelFileError(f"{path} has the unknown schema {schema!r}; this version reads {SCHEMA}")
    if not intact:
        raise ModelFileError(f"{path}: its metadata is damaged, the checksum differs; save the model again")
    if any(not isinstance(document.get(part), type) for part, type in _PARTS.items()):
        raise ModelFileError(f"{path}: its metadata must hold {list(_PARTS)}")
    return dict(document)


def _map_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a file with a valid header, as read-only views of the mapped file."""
    with path.open("rb") as file:
        mapped = memory.mmap(file.fileno(), 0, access=memory.ACCESS_READ)
    start = 8 + int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"the tensor {name!r} has the unknown dtype {entry['dtype']}")
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"]
        flat = np.frombuffer(mapped, dtype, math.prod(shape), start + entry["data_offsets"][0])
        tensors[name] = flat.reshape(shape) if flat.flags.aligned else flat.reshape(shape).copy()
    return tensors
