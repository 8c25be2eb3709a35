"""How often each class occurs among new instances, told from probabilities alone, and probabilities corrected for it.

Label shift: the shares of the classes change, how instances of a class look does not. Knows probabilities only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from halfstep.core.arrays import Floats
from halfstep.figures.tables import html_table, text_table

DRAWS = 200
FLOOR = 1e-6


@dataclass(frozen=True, eq=False)
class Prevalence:
    """Shares (k,) of `classes`: `before`, among labels (answers, without labels); `now`, between `low` and `high`.

    The interval is of resampled instances, known and new. shifted: whether that of the change leaves 0 out.
    """

    classes: NDArray[Any]
    before: Floats
    now: Floats
    low: Floats
    high: Floats
    shifted: bool

    def _rows(self) -> list[dict[str, Any]]:
        columns = (np.asarray(each).tolist() for each in (self.classes, self.before, self.now, self.low, self.high))
        return [
            dict(zip(("class", "before", "now", "low", "high"), row, strict=True)) for row in zip(*columns, strict=True)
        ]

    @property
    def caption(self) -> str:
        """The verdict."""
        return "shares have shifted" if self.shifted else "no shift of shares is seen"

    def __repr__(self) -> str:
        return f"{self.caption}\n{text_table(self._rows())}"

    def _repr_html_(self) -> str:
        return html_table(self._rows(), self.caption)


@dataclass(frozen=True, eq=False)
class Answered:
    """Answers (r, k) of known instances, and membership (r, k) in the classes: their labels, or the answers again."""

    answers: Floats
    membership: Floats

    @property
    def shares(self) -> Floats:
        found: Floats = self.membership.mean(axis=0)
        return found

    def mixing(self) -> Floats:
        """(k, k) the mean answer for class a among instances of class b; times `shares` it is the mean answer."""
        found: Floats = self.answers.T @ self.membership / np.maximum(self.membership.sum(axis=0), FLOOR)
        return found

    def again(self, rng: np.random.Generator) -> Answered:
        """Resampled."""
        rows = rng.integers(len(self.answers), size=len(self.answers))
        return Answered(self.answers[rows], self.membership[rows])

    def corrected(self, P: Floats, now: Floats) -> Floats:
        """(n, k) answers for a batch with the shares `now`: each times the new share over the mean answer known."""
        scaled = P * (now / np.maximum(self.answers.mean(axis=0), FLOOR))
        found: Floats = scaled / scaled.sum(axis=1, keepdims=True)
        return found


def shares(mean: Floats, mixing: Floats) -> Floats:
    """(k,) shares, none negative, of sum 1, for which mixing @ shares is nearest to the mean probabilities (k,).

    The mean moves in proportion to the shares, whatever the answers' calibration, as long as instances of a class look
    as before (Lipton and others, 2018, with probabilities in place of votes).
    """
    heavy = 1e3 * np.abs(mixing).max()  # holds the sum to 1
    found = nnls(np.vstack([mixing, np.full(len(mean), heavy)]), np.append(mean, heavy))[0]
    return np.asarray(found / found.sum())


def estimate(classes: NDArray[Any], P: Floats, known: Answered, level: float, seed: int) -> Prevalence:
    """From probabilities P (n, k) of new instances and those of known ones."""
    rng = np.random.default_rng(seed)
    found, change = [], []
    for _ in range(DRAWS):
        again = known.again(rng)
        found.append(shares(P[rng.integers(len(P), size=len(P))].mean(axis=0), again.mixing()))
        change.append(found[-1] - again.shares)
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(found, ends, axis=0)
    least, most = np.quantile(change, ends, axis=0)
    now = shares(P.mean(axis=0), known.mixing())
    return Prevalence(classes, known.shares, now, low, high, bool(((least > 0) | (most < 0)).any()))
