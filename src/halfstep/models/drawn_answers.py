"""What kept draws answer: expected values, intervals, probabilities, lists. Knows draws and places of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.cells import Observations
from halfstep.core.initial import seed_from
from halfstep.errors import check_number, one_of
from halfstep.models.answers import Ranking
from halfstep.models.drawn import DrawnFit, Pairs, quantile

STRATEGIES = ("mean", "thompson", "upper")


def expected(fit: DrawnFit, pairs: Pairs, n_threads: int) -> tuple[Floats, Floats]:
    """Means and standard deviations over draws, (N,) each: of scores, or of the expected value of "ordinal"."""
    mean, std = np.empty(len(pairs.users)), np.empty(len(pairs.users))
    for block, scores in fit.in_blocks(pairs, n_threads):
        if fit.likelihood == "ordinal":
            value = np.diff(fit.below(scores), axis=2) @ np.asarray(fit.classes, np.float64)
            mean[block], std[block] = value.mean(axis=0), value.std(axis=0)
        else:
            mean[block], std[block] = scores.z.mean(axis=0), scores.std
    return mean, std


def intervals(fit: DrawnFit, pairs: Pairs, level: float, n_threads: int) -> Floats:
    """(N, 2): bounds in the units of y, or values of y where it has classes."""
    bounds, nus = np.empty((len(pairs.users), 2)), fit.nus if fit.likelihood == "student" else None
    for block, scores in fit.in_blocks(pairs, n_threads):
        for side, share in enumerate(((1 - level) / 2, (1 + level) / 2)):
            if fit.classes is None:
                bounds[block, side] = quantile(scores, share, nus)
            else:
                below = fit.below(scores).mean(axis=0)[:, 1:]
                place = (below < share - 1e-12).sum(axis=1)
                bounds[block, side] = fit.classes[np.minimum(place, len(fit.classes) - 1)]
    return fit.numbers(bounds)


def probabilities(fit: DrawnFit, pairs: Pairs, n_threads: int) -> Floats:
    """(N, C): of every class, means over draws."""
    shares = np.empty((len(pairs.users), fit.cuts.shape[1] - 1))
    for block, scores in fit.in_blocks(pairs, n_threads):
        shares[block] = np.diff(fit.below(scores).mean(axis=0), axis=1)
    return shares


def best_items(
    fit: DrawnFit,
    left: NDArray[Any],
    shift: Floats,
    seen: Observations | None,
    n: int,
    strategy: str,
    random_state: Any,
) -> Ranking:
    """The best items for draws (K, users, d) of rows, whose biases gain `shift` (users,). seen : what is left out."""
    check_number("n", n, at_least=1, whole=True)
    one_of("strategy", strategy, STRATEGIES)
    rng, m = np.random.default_rng(seed_from(random_state)), len(fit.ids[1])
    n = min(int(n), m)
    places, values = np.full((left.shape[1], n), -1), np.full((left.shape[1], n), np.nan)
    for u in range(left.shape[1]):
        z = np.einsum("kid,kd->ki", fit.items, left[:, u], dtype=np.float64) + fit.shift[1] + shift[u]
        value = z[rng.integers(len(z))] if strategy == "thompson" else z.mean(axis=0)
        value = value + z.std(axis=0) if strategy == "upper" else value
        allowed = np.ones(m, bool)
        if seen is not None:
            allowed[seen.indices[seen.indptr[u] : seen.indptr[u + 1]]] = False
        choice = np.flatnonzero(allowed)
        choice = choice[np.argsort(-value[choice], kind="stable")[:n]]
        places[u, : len(choice)] = choice
        values[u, : len(choice)] = fit.unit[0] + fit.unit[1] * value[choice]
    return Ranking(fit.ids[1].take(places), values)
