"""A start that has been led to where the cells are, before any row is solved: one step of power iteration.

Rows at random know nothing of the cells, and the first exact sweeps are spent on finding the large directions and on
shrinking them until the small ones show. One step of conjugate gradients from there finds them; then the columns of
the side that is fixed first, turned until they are orthogonal, are made more alike: a length l becomes l^EVENED.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halfstep.core.problem import COARSE_TOLERANCE, Solver

Floats = NDArray[np.float64]

STEP = Solver("cg", tolerance=COARSE_TOLERANCE, max_steps=1)
EVENED = 0.25
"""1 keeps the large directions as large as they are, 0 lets noise grow as long: chosen on hidden cells of even rows."""
FAINT = 1e-10
"""Of the largest square of a length: what is below is rounding."""


def levelled(squares: Floats, basis: Floats, size: float) -> Floats | None:
    """(d, d) by which rows are multiplied so that their columns are orthogonal, more alike, and a row has length 1 on
    the mean: targets are about 1. None where there is nothing to go by.

    squares, basis : eigenvalues and eigenvectors of their Gram matrix. size : number of rows, or their weight in it.
    """
    largest = float(squares.max())
    if not 0 < largest < np.inf or not np.isfinite(basis).all():
        return None
    squares = np.maximum(squares / largest, FAINT)
    lengths = squares ** (EVENED / 2)
    lengths *= np.sqrt(size / np.sum(lengths**2))
    matrix: Floats = basis * (lengths / np.sqrt(squares * largest))
    return matrix
