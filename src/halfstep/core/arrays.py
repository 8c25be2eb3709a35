"""Names of the array types that everybody passes around."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]
