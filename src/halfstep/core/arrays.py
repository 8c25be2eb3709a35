"""Names of the array types that everybody passes around, and of the half-step of the core that takes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep import _core
from halfstep.errors import expect_plain

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


def reals(name: str, values: ArrayLike) -> Floats:
    """Values as float64. What NumPy would make numbers of in silence is refused: see `expect_plain`."""
    expect_plain(name, values)  # which may have a mask
    given = np.asarray(values)
    expect_plain(name, given)
    return np.asarray(given, np.float64)


HalfStep = _core.HalfStep32 | _core.HalfStep64
"""`_core.half_step(own, other)` makes one, in the precision of its sides."""
