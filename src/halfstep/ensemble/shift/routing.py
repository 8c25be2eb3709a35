"""Who answers best for instances of a kind, by out-of-fold evidence, and how hard an instance is.

Knows losses of candidates and novelty; must not know how candidates answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from halfstep.core.arrays import Codes, Floats
from halfstep.core.logistic import fit_logistic
from halfstep.ensemble.predictions import expit, logit

FUSION, STACKER, MEAN = "fusion", "stacker", "mean"
LEAST = 20  # labelled instances of a kind, below which nothing is said of it
ERRORS = 2.5  # standard errors by which another must be ahead of the fusion
WORTH = 0.02  # of log loss, below which it is not worth while to ask another
EDGES = (0.5, 0.8, 0.95)  # quantiles of novelty that part instances into kinds
FLOOR = 1e-4
DIFFICULTY_PENALTY = 3.0


@dataclass(frozen=True, eq=False)
class Routes:
    """Kind b of instances has novelty above edges[b - 1] and up to edges[b]; names[b] answers for it.

    gain (b,) : mean out-of-fold log loss of the fusion minus that of who answers; 0 where the fusion does.
    """

    edges: Floats
    names: tuple[str, ...]
    gain: Floats
    count: Codes

    @classmethod
    def learn(cls, novelty: Floats, losses: dict[str, Floats]) -> Routes:
        """novelty (l,) of labelled instances, losses (l,) of each candidate, out of fold.

        Another answers for a kind only where it is ahead of the fusion by WORTH and by ERRORS standard errors of the
        difference, on at least LEAST instances.
        """
        edges = np.quantile(novelty, EDGES) if len(novelty) else np.zeros(len(EDGES))
        kind = np.searchsorted(edges, novelty)
        names, gains = [], []
        for b in range(len(edges) + 1):
            here = kind == b
            best, gain = FUSION, 0.0
            for name, loss in losses.items():
                ahead = losses[FUSION][here] - loss[here]
                if name == FUSION or len(ahead) < LEAST:
                    continue
                if ahead.mean() > max(gain, WORTH, ERRORS * ahead.std(ddof=1) / np.sqrt(len(ahead))):
                    best, gain = name, float(ahead.mean())
            names.append(best)
            gains.append(gain)
        return cls(edges, tuple(names), np.array(gains), np.bincount(kind, minlength=len(edges) + 1))

    def who(self, novelty: Floats) -> list[str]:
        """Who answers for each instance."""
        return [self.names[b] for b in np.searchsorted(self.edges, novelty)]


@dataclass(frozen=True, eq=False)
class Difficulty:
    """The probability that the answer is wrong: log odds  base + coefficients.(1, spread, novelty),  standardised.

    base is the fusion's own doubt, log odds of 1 - max p. correlation: Spearman's, of difficulty and of the standard
    deviation of predictions alone, with out-of-fold error 1 - p(truth); None without labels.
    """

    coefficients: Floats
    middle: Floats
    scale: Floats
    correlation: dict[str, float] | None

    @classmethod
    def learn(cls, P: Floats, y: Codes, spread: Floats, novelty: Floats, folds: Codes) -> Difficulty:
        """P (l, k) out-of-fold answers, y (l,) codes."""
        base, X = _doubt(P), np.column_stack([spread, novelty])
        middle, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        design = np.column_stack([np.ones(len(X)), (X - middle) / scale])
        wrong = (P.argmax(axis=1) != y).astype(np.float64)
        penalty, ones = np.full(3, DIFFICULTY_PENALTY), np.ones(len(wrong))
        found = np.zeros(len(wrong))
        for fold in np.unique(folds):
            held = folds == fold
            b = fit_logistic(design[~held], wrong[~held], ones[~held], penalty, offset=base[~held])
            found[held] = base[held] + design[held] @ b
        error = 1 - P[np.arange(len(y)), y]
        correlation = {"difficulty": spearman(found, error), "spread": spearman(spread, error)}
        return cls(fit_logistic(design, wrong, ones, penalty, offset=base), middle, scale, correlation)

    def of(self, P: Floats, spread: Floats, novelty: Floats) -> Floats:
        """(n,) probabilities of a wrong answer."""
        X = (np.column_stack([spread, novelty]) - self.middle) / self.scale
        return np.asarray(expit(_doubt(P) + self.coefficients[0] + X @ self.coefficients[1:]))


def _doubt(P: Floats) -> Floats:
    return logit(1 - P.max(axis=1), FLOOR)


def spearman(a: Floats, b: Floats) -> float:
    """Correlation of ranks; 0 where either is constant."""
    x, y = rankdata(a), rankdata(b)
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else 0.0


def losses_of(P: Floats, y: Codes) -> Floats:
    """(l,) log losses."""
    return np.asarray(-np.log(np.clip(P[np.arange(len(y)), y], FLOOR, 1)))
