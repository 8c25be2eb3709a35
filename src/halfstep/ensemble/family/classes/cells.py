"""Predictions over many classes as numbers that add up: centred log ratios, and the vote of each.

    ratio_ijk = log p_ijk - mean over k,     p held above clip * 2 / K

Knows probabilities; must not know labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from halfstep.core.arrays import Codes, Floats, Mask
from halfstep.ensemble.predictions import CLIP


def held_logs(p: Floats, clip: float, axis: int = -1) -> Floats:
    """Centred log ratios of probabilities along `axis`."""
    logs = np.log(np.maximum(p, clip * 2 / p.shape[axis]))
    centred: Floats = logs - logs.mean(axis=axis, keepdims=True)
    return centred


@dataclass(eq=False)
class ClassCells:
    """P (n, K, m), NaN where a prediction is missing, which then is missing for every class; observed (n, m).

    features (n, q) : of the instances, with mean 0 and deviation 1 over the fitted ones, or None.
    """

    P: Floats
    clip: float = CLIP
    features: Floats | None = None
    _ratios: list[Floats] = field(default_factory=list, repr=False)

    @property
    def n_classes(self) -> int:
        return int(self.P.shape[1])

    @property
    def observed(self) -> Mask:
        """(n, m)."""
        observed: Mask = ~np.isnan(self.P[:, 0])
        return observed

    def take(self, rows: Any) -> ClassCells:
        return ClassCells(self.P[rows], self.clip, None if self.features is None else self.features[rows])

    @property
    def probabilities(self) -> Floats:
        """(n, K, m), 0 where missing."""
        return np.nan_to_num(self.P)

    @property
    def ratios(self) -> Floats:
        """(n, K, m) centred log ratios, 0 where missing."""
        if not self._ratios:
            self._ratios.append(held_logs(np.nan_to_num(self.P, nan=1.0), self.clip, axis=1))
        return self._ratios[0]

    @property
    def votes(self) -> Codes:
        """(n, m) the class of each prediction, -1 where missing; the first of those that tie."""
        return np.where(self.observed, np.nan_to_num(self.P).argmax(axis=1), -1)
