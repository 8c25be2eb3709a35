"""What the tensors of a model file must be, declared in tables: sizes by name, and which numbers they may hold.

    CELLS = {
        "indptr": Tensor("users+1", OFFSETS, of="cells"),
        "indices": Tensor("cells", PLACES, of="items"),
        "weights": Tensor("cells|1", WEIGHTS),
    }

`checked` holds arrays against such a table before anybody computes with them. A file may say anything, so whatever is
not declared is refused. Knows arrays; must not know files or what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 22
"""Values looked at in one go, so that looking needs little memory."""

Wrong = Callable[[NDArray[Any], int | None], bool]
"""Whether numbers are not what they must be; the second argument is the size that the table names with `of`."""


class Allowed(NamedTuple):
    """Allowed that a tensor may hold. `guards` : memory depends on them, so they are looked at in mapped files too."""

    dtypes: tuple[str, ...]
    wrong: Wrong
    text: str
    guards: bool = False


def _any(test: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> Wrong:
    """Whether some number is wrong, block by block."""

    def wrong(array: NDArray[Any], of: int | None) -> bool:
        flat = array.reshape(-1)
        return any(bool(test(flat[k : k + BLOCK]).any()) for k in range(0, len(flat), BLOCK))

    return wrong


def _no_offsets(array: NDArray[Any], of: int | None) -> bool:
    return not len(array) or array[0] != 0 or array[-1] != of or bool((array[1:] < array[:-1]).any())


def _large(x: NDArray[Any]) -> NDArray[np.bool_]:
    """Too large for sums of 256 products."""
    return np.asarray(~(np.abs(x) <= np.sqrt(np.finfo(x.dtype).max) / 16))


def _outside(lowest: int) -> Wrong:
    def wrong(array: NDArray[Any], of: int | None) -> bool:
        return bool(array.size and (array.min() < lowest or (of is not None and array.max() >= of)))

    return wrong


_FLOATS, _WHOLE = ("f4", "f8"), ("i4", "i8")
REAL = Allowed(_FLOATS, _any(lambda x: ~np.isfinite(x)), "finite numbers")
KNOWN = Allowed(_FLOATS, _any(np.isnan), "numbers, none of them NaN")
FACTORS = Allowed(_FLOATS, _any(_large), "numbers whose products are finite")
SINGLE = Allowed(("f4",), FACTORS.wrong, FACTORS.text)
HOLES = Allowed(_FLOATS, _any(np.isinf), "finite numbers, or NaN for none")
WEIGHTS = Allowed(_FLOATS, _any(lambda x: ~(np.isfinite(x) & (x >= 0))), "finite numbers >= 0")
POSITIVE = Allowed(_FLOATS, _any(lambda x: ~(np.isfinite(x) & (x > 0))), "finite numbers > 0")
SHARES = Allowed(_FLOATS, _any(lambda x: ~((x >= 0) & (x <= 1))), "numbers from 0 to 1")
OFFSETS = Allowed(("i8",), _no_offsets, "offsets that start at 0, never fall and end at", True)
PLACES = Allowed(_WHOLE, _outside(0), "places below", True)
CODES = Allowed(_WHOLE, _outside(-1), "codes from -1 and below", True)
BYTES = Allowed(("u1",), lambda x, of: False, "bytes", True)
FLAGS = Allowed(("b1",), _any(lambda x: x.view(np.uint8) > 1), "flags", True)


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file.

    sizes : its lengths, by name, as numbers, "name+1" or "name|1" (that long, or 1); an unknown name takes the length
    that is found first. of : which size offsets end at, and places lie below. like : the tensor whose dtype it shares.
    """

    sizes: str
    numbers: Allowed = REAL
    of: str = ""
    like: str = ""
    optional: bool = False


def checked(
    declared: Mapping[str, Tensor], arrays: Mapping[str, NDArray[Any]], sizes: dict[str, int], mapped: bool = False
) -> dict[str, NDArray[Any]]:
    """The declared arrays; what does not fit raises a ValueError that names it. `sizes` learns lengths that are found.

    mapped : arrays are views of a file whose pages should stay unread, so only numbers that guard memory are looked at.
    """
    found = {}
    for name, tensor in declared.items():
        if name not in arrays:
            if tensor.optional:
                continue
            raise ValueError(f"the tensor {name!r} is missing; it holds {sorted(arrays)}")
        array = arrays[name]
        if array.dtype.str[1:] not in tensor.numbers.dtypes:
            allowed = " or ".join(str(np.dtype(code)) for code in tensor.numbers.dtypes)
            raise ValueError(f"the tensor {name!r} is {array.dtype}, not {allowed}")
        if tensor.like and array.dtype != arrays[tensor.like].dtype:
            raise ValueError(f"the tensors {name!r} and {tensor.like!r} are {array.dtype} and not of one dtype")
        _check_shape(name, array.shape, tensor.sizes.split(), sizes)
        found[name] = array
    for name, array in found.items():
        numbers, of = declared[name].numbers, declared[name].of
        if (numbers.guards or not mapped) and numbers.wrong(array, sizes[of] if of else None):
            where = f" the number of {of}, {sizes[of]}" if of else ""
            raise ValueError(f"the tensor {name!r} must hold {numbers.text}{where}")
    return found


def kept_classes(stored: Any) -> NDArray[Any]:
    """Labels as a file keeps them: distinct, sorted, none of them missing."""
    classes = np.asarray(stored)
    told = classes.ndim == 1 and classes.dtype.kind in "biufU" and len(classes) > 0
    if not told or (classes[1:] <= classes[:-1]).any() or (classes != classes).any():
        raise ValueError(f"classes={stored!r} are not distinct labels in their order")
    return classes


def _check_shape(name: str, shape: tuple[int, ...], wanted: list[str], sizes: dict[str, int]) -> None:
    lengths: list[Any] = []
    for length, word in zip(shape, wanted, strict=False):
        key, _, option = word.partition("|")
        key, _, more = key.partition("+")
        extra = int(more or 0)
        known = int(key) if key.isdecimal() else sizes.setdefault(key, length - extra)
        lengths.append(length if option and length == int(option) else known + extra)
    if len(shape) != len(wanted) or tuple(lengths) != shape or min(sizes.values(), default=0) < 0:
        raise ValueError(f"the tensor {name!r} has shape {shape}, not ({', '.join(wanted)}) with {sizes}")
