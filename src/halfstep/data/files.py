"""Models as one safetensors file that loads without running anything, every tensor checked before it is used.

Knows tensors, ids and JSON. Must not know what a model computes: an estimator hands over arrays and
parameters, and takes them back in `from_saved`. docs/format.md is the specification of the file.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfstep._version import __version__
from halfstep.data import container
from halfstep.data.atomic import atomic_write
from halfstep.data.codecs import from_json, register_codec, to_json
from halfstep.data.container import Backing, DamagedError, ModelFileError
from halfstep.data.ids import Index
from halfstep.data.tensors import FACTORS, KNOWN, Tensor, checked

__all__ = ["ModelFileError", "ModelState", "Saved", "atomic_write", "read", "register_codec", "save"]

SCHEMA = 2
_PARTS = {"kind": str, "version": str, "params": dict, "meta": dict, "indexes": dict, "tensors": dict}
_IDS = "ids."  # tensors of ids are called "ids.<index>.<part>"
_SEAL = "seal"  # the last 32 bytes of a file: SHA-256 of its document, which has the checksums of all else


class ModelState(NamedTuple):
    """What a file keeps of one model: parameters, tensors by name, and whatever else."""

    params: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    meta: dict[str, Any]


@dataclass(frozen=True)
class Saved:
    """A model file as read: `arrays` and `indexes` by name; `params` and `meta` are decoded on first use.

    backing : the mapped file, where arrays are views of it.
    """

    path: Path
    kind: str
    version: str
    arrays: dict[str, NDArray[Any]]
    indexes: dict[str, Index]
    _document: dict[str, Any] = field(repr=False)
    backing: Backing | None = None
    _asked: set[int] = field(default_factory=set, repr=False)

    @cached_property
    def params(self) -> dict[str, Any]:
        """The parameters. Decoded late, when the estimator's module has registered its codecs."""
        return self._decoded("params")

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Whatever else the estimator stored, such as its history."""
        return self._decoded("meta")

    def made(self, estimator: Any, **more: Any) -> Any:
        """An estimator with the parameters of the file, or with some in their place."""
        params = self.params | more
        known = sorted(inspect.signature(estimator).parameters)
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise ModelFileError(
                f"{self.path}: {estimator.__name__} has no parameter {unknown[0]!r}; it has {known}. The file is "
                "damaged, or a newer halfstep wrote it"
            )
        return estimator(**params)

    def tensors(self, declared: Mapping[str, Tensor], **sizes: int) -> dict[str, NDArray[Any]]:
        """The tensors of a table, held against it. sizes : those that are known; -1 never fits."""
        try:
            found = checked(declared, self.arrays, dict(sizes), self.backing is not None)
        except ValueError as error:
            raise ModelFileError(f"{self.path}: {error}") from error
        self._asked.update(map(id, found.values()))
        return found

    def learned(self, prefix: str, infinite: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
        """Tensors of any shape under `prefix`, which is taken off. infinite : which may be that."""
        shapes = {}
        for name in (name for name in self.arrays if name.startswith(prefix)):
            numbers = KNOWN if name.removeprefix(prefix) in infinite else FACTORS
            shapes[name] = Tensor(" ".join(map(str, self.arrays[name].shape)), numbers)
        return {name.removeprefix(prefix): array for name, array in self.tensors(shapes).items()}

    def index(self, name: str) -> Index:
        """The ids called `name`; raises if they are missing."""
        if name not in self.indexes:
            raise ModelFileError(f"{self.path}: the ids {name!r} are missing; it holds {sorted(self.indexes)}")
        return self.indexes[name]

    def part(self, prefix: str, kind: str, kept: Mapping[str, Any]) -> Saved:
        """One of several models of a file: tensors under `prefix`, those that all share, and its params and meta."""
        shared = {name: array for name, array in self.arrays.items() if "." not in name}
        arrays = shared | _under(prefix, self.arrays)
        return Saved(self.path, kind, self.version, arrays, self.indexes, dict(kept), self.backing, self._asked)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Whatever fails in the block, it is this file; so do tensors that nobody has asked for when it ends."""
        try:
            yield
        except (ModelFileError, ImportError, MemoryError):
            raise
        except Exception as error:
            raise ModelFileError(f"{self.path} holds no {self.kind} that can be used: {_said(error)}") from error
        extra = sorted(name for name, array in self.arrays.items() if id(array) not in self._asked)
        if extra:
            raise ModelFileError(f"{self.path}: a {self.kind} has no tensors {extra}")

    def _decoded(self, part: str) -> dict[str, Any]:
        try:
            return dict(from_json(self._document[part]))
        except Exception as error:  # decoders are foreign code; whatever fails, it is this file
            raise ModelFileError(f"{self.path}: its {part} cannot be read: {_said(error)}") from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


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
        if name.startswith(_IDS) or name in ("__metadata__", _SEAL):
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
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    tensors[_SEAL] = _seal(text)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        container.write(file, {"halfstep": text}, tensors, last=_SEAL)


def _storable(name: str, tensor: NDArray[Any]) -> NDArray[Any]:
    if tensor.dtype.newbyteorder("=") not in container.DTYPES.values():
        raise ValueError(f"the array {name!r} has dtype {tensor.dtype}; files keep float, int, uint and bool")
    return np.asarray(tensor, dtype=tensor.dtype.newbyteorder("<"), order="C")


def _seal(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)


def read(path: str | os.PathLike[str], kind: str | None = None, mmap: bool = False) -> Saved:
    """Read a model file and check all of it. Executes nothing that the file names.

    `mmap=True` gives read-only arrays backed by the file, so that processes share its pages. Ids and integers are
    checked then as well; checksums of floating-point tensors are not, since that would read every page.
    `kind` is the estimator that is expected, if any. What is damaged, foreign or too new raises `ModelFileError`.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file")
    try:
        found = container.read(path, mmap)
    except DamagedError as error:
        raise ModelFileError(f"{path} is not a safetensors file, or is cut off: {error}") from error
    if "halfstep" not in found.texts:
        raise ModelFileError(f"{path} is a safetensors file, but not a model saved by halfstep")
    document = _document(path, found.texts["halfstep"], found.tensors.pop(_SEAL, None))
    if kind is not None and document["kind"] != kind:
        raise ModelFileError(f"{path} holds a {document['kind']}, not a {kind}; halfstep.load opens any kind")
    tensors = found.tensors
    try:
        _compare(document["tensors"], tensors, mmap)
        indexes = {
            side: Index.from_state(state, _under(f"{_IDS}{side}.", tensors))
            for side, state in document["indexes"].items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path}: {error}; save the model again") from error
    arrays = {name: tensor for name, tensor in tensors.items() if not name.startswith(_IDS)}
    return Saved(path, document["kind"], document["version"], arrays, indexes, document, found.backing)


def _compare(announced: dict[str, Any], tensors: dict[str, NDArray[Any]], mapped: bool) -> None:
    """Raise unless the tensors are those of the document."""
    for name, (dtype, shape, crc) in announced.items():
        tensor = tensors.get(name)
        if tensor is None:
            raise ValueError(f"the tensor {name!r} is missing")
        if tensor.dtype.str != dtype or list(tensor.shape) != shape:
            raise ValueError(f"the tensor {name!r} is {tensor.dtype} {tensor.shape}, not {dtype} {shape}")
        if not (mapped and tensor.dtype.kind == "f") and zlib.crc32(tensor.data) != crc:
            raise ValueError(f"the tensor {name!r} is damaged, its checksum differs")
    if tensors.keys() != announced.keys():
        raise ValueError(f"unexpected tensors {sorted(tensors.keys() - announced.keys())}")


def _under(prefix: str, tensors: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _document(path: Path, text: str, seal: NDArray[Any] | None) -> dict[str, Any]:
    """The JSON document of a file, whole and of a schema that is known."""
    try:
        document = json.loads(text, parse_constant=_refuse)
        schema, crc = document.get("schema"), document.pop("crc", None)
        if schema == 1:  # the document held its own checksum then
            intact = crc == zlib.crc32(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
        else:
            intact = seal is not None and np.array_equal(seal, _seal(text))
    except (ValueError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{path}: its metadata cannot be read: {error}") from error
    if type(schema) is int and schema > SCHEMA:
        raise ModelFileError(
            f"{path} has schema {schema}, newer than this version's {SCHEMA}; upgrade halfstep to read it"
        )
    if type(schema) is not int or schema < 1:
        raise ModelFileError(f"{path} has the unknown schema {schema!r}; this version reads 1 to {SCHEMA}")
    if not intact:
        raise ModelFileError(f"{path}: its metadata is damaged, the checksum differs; save the model again")
    if any(not isinstance(document.get(part), type) for part, type in _PARTS.items()):
        raise ModelFileError(f"{path}: its metadata must hold {list(_PARTS)}")
    return dict(document)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
