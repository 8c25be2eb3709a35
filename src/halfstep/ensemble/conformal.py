"""Sets of classes that hold the truth with a stated probability, from scores of labels that had no part in them.

Knows probabilities and labels. Must not know who made them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Codes, Floats


def conformal_threshold(scores: Floats, level: float) -> float:
    """The ceil((n + 1) level)-th smallest of n scores; infinity where n is too small.

    Where a further score is exchangeable with these, it is at most the threshold with a probability of at least
    `level`, whatever the scores are: exactly ceil((n + 1) level) / (n + 1) where there are no ties.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level!r} must lie strictly between 0 and 1; 0.9 holds the truth nine times of ten")
    # Decimal levels are no binary numbers: 0.9 * 10 may come out above 9.
    place = math.ceil((len(scores) + 1) * level - 1e-9)
    return math.inf if place > len(scores) else float(np.sort(scores)[place - 1])


def label_scores(probabilities: Floats, labels: Codes) -> Floats:
    """(n,) 1 - the probability that was given to the label: how strange it is."""
    return np.asarray(1 - probabilities[np.arange(len(labels)), labels])


def label_sets(probabilities: Floats, threshold: float) -> NDArray[np.bool_]:
    """(n, classes) which classes are no stranger than the threshold; the likeliest one always is in its set."""
    sets: NDArray[np.bool_] = 1 - probabilities <= threshold
    sets[np.arange(len(sets)), probabilities.argmax(axis=1)] = True
    return sets
