"""Parameters as JSON and back, with small codecs for what JSON lacks. Must not know files, nor what is saved.

A value that needs a codec is written as {"$codec": name, "value": ...}. Files name the codec, never a type,
so that decoding runs only functions registered here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class _Codec(NamedTuple):
    type: type
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_codecs: dict[str, _Codec] = {}


def register_codec(type: type, name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """Let parameters of a `type` be saved: `encode` gives something JSON-able, `decode` takes it back.

    The latest codec that fits a value wins; a `name` registered again is replaced. `decode` should raise
    ValueError on what `encode` cannot have written: a file may hold anything.
    """
    _codecs.pop(name, None)
    _codecs[name] = _Codec(type, encode, decode)


def to_json(value: Any, where: str) -> Any:
    """`value` in terms of JSON; `where` names it in the error if that cannot be."""
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is list:
        return [to_json(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if type(value) is dict and all(type(key) is str and key != "$codec" for key in value):
        return {key: to_json(item, f"{where}[{key!r}]") for key, item in value.items()}
    for name, codec in reversed(_codecs.items()):
        if isinstance(value, codec.type):
            return {"$codec": name, "value": to_json(codec.encode(value), where)}
    raise ValueError(
        f"{where} of type {type(value).__name__} cannot be saved; files keep numbers, text, lists, dicts "
        "with text keys, and types made known by halfstep.data.files.register_codec"
    )


def from_json(value: Any) -> Any:
    """What `to_json` was given."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$codec" not in value:
        return {key: from_json(item) for key, item in value.items()}
    name = value["$codec"]
    if name not in _codecs:
        raise ValueError(f"a value was stored by the codec {name!r}, which is not registered")
    return _codecs[name].decode(from_json(value.get("value")))


def _array_to_json(array: NDArray[Any]) -> list[Any]:
    if array.dtype.kind not in "biufU":
        raise ValueError(f"an array of dtype {array.dtype} cannot be saved among the parameters")
    return [array.dtype.str, list(array.shape), array.ravel().tolist()]


def _array_from_json(stored: Any) -> NDArray[Any]:
    dtype, shape, values = stored
    if np.dtype(dtype).kind not in "biufU":
        raise ValueError(f"an array of dtype {dtype} is not expected among the parameters")
    return np.array(values, dtype=dtype).reshape(shape)


register_codec(float, "float", str, float)  # NaN and infinities, which JSON lacks
register_codec(tuple, "tuple", list, tuple)
register_codec(np.ndarray, "array", _array_to_json, _array_from_json)
register_codec(
    np.generic, "scalar", lambda x: _array_to_json(np.asarray(x)), lambda stored: _array_from_json(stored)[()]
)
