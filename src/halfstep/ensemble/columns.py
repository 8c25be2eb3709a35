"""Which columns of the factors are data and which are free. Arithmetic on column numbers; knows no cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Codes, Floats

FactorArray = NDArray[Any]


@dataclass(frozen=True)
class LatentColumns:
    """Which columns of rows and classifiers mean what, in the engine's layout.

    rows         [ class | features by class | shared rank | row bias ]
    classifiers  [ bias by class | coefficients of features | shared rank | 1 ]

    The first two groups are data on the side of the rows. Without biases they and the last column stay out of the fit.
    """

    n_channels: int
    n_features: int
    rank: int
    biases: bool

    @property
    def pinned(self) -> int:
        return self.n_channels * (1 + self.n_features)

    @property
    def width(self) -> int:
        return self.pinned + self.rank + 1

    @property
    def shared(self) -> slice:
        return slice(self.pinned, self.pinned + self.rank)

    @property
    def row_free(self) -> tuple[int, int]:
        return self.pinned, self.pinned + self.rank + int(self.biases)

    @property
    def classifier_free(self) -> tuple[int, int]:
        return (0 if self.biases else self.n_channels), self.pinned + self.rank

    def rows(self, channel: Codes, features: Floats | None, dtype: Any) -> FactorArray:
        """New rows with their pinned columns filled and the rest 0; features (N, q) are those of each row."""
        factors = np.zeros((len(channel), self.width), dtype)
        factors[np.arange(len(channel)), channel] = 1
        if features is not None and self.n_features:
            first = self.n_channels + channel * self.n_features
            factors[np.arange(len(channel))[:, None], first[:, None] + np.arange(self.n_features)] = features
        return factors

    def classifiers(self, n: int, dtype: Any) -> FactorArray:
        factors = np.zeros((n, self.width), dtype)
        factors[:, -1] = 1
        return factors
