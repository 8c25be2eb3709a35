"""Where a sequence of sweeps is going, from the last few of them. Knows vectors, not what they mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfstep.core.blas import one_blas_thread

Floats = NDArray[np.float64]

MEMORY = 5
RIDGE = 1e-10
"""Of the trace, added to the normal equations: steps that point the same way leave them singular."""


@dataclass
class Momentum:
    """Nesterov's steps, counted from the last restart: after sweep k the next one begins at

        g + (k - 1) / (k + 2) (g - g_before)

    where g and g_before are what this sweep and the one before it found. One copy of g is all that is kept, so it suits
    rows by the million. Nothing says that this is better than g: whoever asks compares, and restarts where it is not.
    """

    sweep: int = 0

    def share(self) -> float:
        """Of g - g_before, to go on after one more sweep; 0 at first."""
        self.sweep += 1
        return (self.sweep - 1) / (self.sweep + 2)

    def restart(self) -> None:
        """The last sweep stands alone."""
        self.sweep = 1


class Extrapolation:
    """Anderson's mixing of an iteration x -> g(x), here one sweep.

    With residuals f = g - x of the last `memory` + 1 sweeps, the proposal is

        g - sum_k c_k (g_k+1 - g_k),     c the minimiser of |f - sum_k c_k (f_k+1 - f_k)|^2

    Nothing says that it is better than g: whoever asks compares, and calls `forget` where it is not.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self.memory = memory
        self.before: list[Floats] = []
        self.after: list[Floats] = []

    @one_blas_thread
    def propose(self, before: Floats, after: Floats) -> Floats:
        """(D,) from one more sweep, which led from `before` to `after`."""
        self.before = [*self.before[-self.memory :], before]
        self.after = [*self.after[-self.memory :], after]
        if len(self.after) < 2:
            return after
        ends = np.array(self.after)
        residuals = ends - np.array(self.before)
        bends = np.diff(residuals, axis=0)
        matrix = bends @ bends.T
        matrix[np.diag_indices_from(matrix)] += max(RIDGE * np.trace(matrix), np.finfo(float).tiny)
        proposed: Floats = after - np.linalg.solve(matrix, bends @ residuals[-1]) @ np.diff(ends, axis=0)
        return proposed

    def forget(self) -> None:
        """Keep the last sweep alone."""
        self.before, self.after = self.before[-1:], self.after[-1:]
