"""What a confidence is: weights of observed cells, and what those who use them may ask about them.

The confidences that have names are in `confidence`. Knows predictions, which of them are observed, and labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from halfstep.core.arrays import Codes, Floats, Mask


def probe() -> tuple[Floats, Mask, Codes]:
    """P, observed and y of a few rows: some labelled, some with a missing cell."""
    P = np.random.default_rng(0).random((6, 4))
    observed = np.ones_like(P, dtype=bool)
    observed[[1, 4], [2, 0]] = False
    return P, observed, np.array([0, 1, -1, 1, 0, -1])


PROBE = probe()


class CellWeights(ABC):
    """Weights c_ij >= 0 for instances i and classifiers j; 0 on missing cells, never NaN.

    A subclass writes `_weights`. What else callers need to know is asked of that formula, on rows of no importance
    (`PROBE`); a subclass that knows better, or whose formula those rows do not suit, says so: `row_local = True`.
    """

    @property
    def unlabelled(self) -> CellWeights | None:
        """Another confidence that this one changes by nothing but the instance's own label; None: there is none."""
        return None

    @property
    def row_local(self) -> bool:
        """Whether the weights of a row depend on that row alone, so that new rows get theirs in the same way.

        Otherwise a new cell takes the mean weight of its classifier.
        """
        if self.unlabelled is not None:
            return self.unlabelled.row_local
        P, observed, y = PROBE
        try:
            together = self.compute(P, observed, y)
            alone = [self.compute(P[i : i + 1], observed[i : i + 1], y[i : i + 1])[0] for i in range(len(y))]
        except Exception:  # whatever a formula cannot do with one row, it needs others
            return False
        return np.allclose(together, alone, rtol=1e-9, atol=0)

    @property
    def constant(self) -> float | None:
        """The weight of every observed cell, where it is one number: then no matrix of weights is made."""
        return None

    @property
    def by_classifier(self) -> bool:
        """Whether unlabelled rows have one weight for each classifier, found from labelled rows alone."""
        return False

    @property
    def learned(self) -> bool:
        """Whether weights of an unlabelled row follow from that row and the labelled ones: new rows get theirs so."""
        return False

    def without_labels(self) -> CellWeights:
        """The weights an instance would have if it had no label.

        Those of `unlabelled`, where that is known. Otherwise weights that look at other rows stay as they are: there
        the labels of others count too.
        """
        if self.unlabelled is not None:
            return self.unlabelled.without_labels()
        return LabelFree(self) if self.row_local and self._sees_labels() else self

    def _sees_labels(self) -> bool:
        P, observed, y = PROBE
        try:
            return not np.array_equal(self.compute(P, observed, y), self.compute(P, observed, np.full_like(y, -1)))
        except Exception:  # a formula for other rows than these
            return True

    def compute(self, P: ArrayLike, observed: Mask, y: Codes) -> Floats:
        """(n, m) float64 weights.

        P (n, m) probabilities, anything where missing; observed (n, m) bool; y (n,) codes 0 or 1, -1
        unlabelled.
        """
        cells = np.where(observed, np.asarray(P, dtype=np.float64), 0.0)
        if cells.shape != observed.shape or len(y) != len(cells):
            raise ValueError(
                f"P {np.shape(P)}, observed {observed.shape} and y {np.shape(y)} do not fit together; they "
                "must be (n, m), (n, m) and (n,)"
            )
        weights = np.where(observed, self._weights(cells, observed, np.asarray(y)), 0.0)
        if not (np.isfinite(weights).all() and weights.min(initial=0.0) >= 0):
            raise ValueError(f"{self!r} gave a weight that is negative or not finite")
        return weights

    @abstractmethod
    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        """Weights that broadcast to (n, m); what stands on missing cells does not matter. P is 0 there."""


@dataclass(frozen=True)
class LabelFree(CellWeights):
    """What `base` gives to rows without labels."""

    base: CellWeights
    row_local = True

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        return self.base.compute(P, observed, np.full_like(y, -1))

    def without_labels(self) -> CellWeights:
        return self
