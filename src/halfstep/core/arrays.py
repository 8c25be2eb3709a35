"""Names of the array types that everybody passes around, and of the half-step of the core that takes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep import _core

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


def reals(name: str, values: ArrayLike) -> Floats:
    """Values as float64. Complex ones are refused: NumPy would cut them to their real parts."""
    given = np.asarray(values)
    if given.dtype.kind == "c":
        raise TypeError(f"{name} holds complex numbers; it must hold real ones. Pass their real or absolute values.")
    return np.asarray(given, np.float64)


HalfStep = _core.HalfStep32 | _core.HalfStep64
"""`_core.half_step(own, other)` makes one, in the precision of its sides."""
