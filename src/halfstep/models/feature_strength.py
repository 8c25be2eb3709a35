"""How strongly weights of features are held, learned from the data: what ranks rows best that are known by features
alone. Looks at a few sweeps of the model without features; fits no model.

No rule from sizes does it: words of a title may say nearly all of a row or nearly nothing. eta relative to the penalty
of rows is a ratio of noise to signal, which some of the rows tell as well as all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.loop import alternate
from halfstep.core.problem import Problem, Side, Solver
from halfstep.data.features import Features
from halfstep.engine.features import with_constant
from halfstep.engine.local import thread_count
from halfstep.engine.protocol import Engine
from halfstep.errors import check_number
from halfstep.metrics import ndcg_at_k
from halfstep.models.recommend import top_k

Array = NDArray[Any]

GRID = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
FALLBACK = 1.0
"""For sides too small to tell."""
OF_RATINGS = 0.01
"""Strength for each row of a side, of ratings: features speak of biases first. docs/features.md has figures."""
SWEEPS = 3
"""Of the model without features, before its rows are looked at."""
COLUMNS = 48
"""Of that model, at most: how much features say of a row shows in few columns as well as in many."""
FIRST = (1, 3)
"""Of GRID, looked at first; then what is beside the best."""
_LEARN, _JUDGE, _ASK, _LEAST, _DEPTH, _STEPS = 20_000, 2000, 1000, 20, 20, 3


def both_strengths(given: Any, name: str = "feature_reg", none: bool = False) -> tuple[float, float]:
    """A pair (users, items) as it is; a number is for both. none : whether 0 is a strength."""
    pair = tuple(given) if isinstance(given, (tuple, list)) else (given, given)
    if len(pair) != 2:
        least = "at least 0" if none else "above 0"
        raise ValueError(f"{name}={given!r} must be a number {least}, or a pair (users, items) of them.")
    for each in pair:
        check_number(name, each, at_least=0 if none else None, above=None if none else 0)
    return float(pair[0]), float(pair[1])


def learned_strengths(
    engine: Engine, plain: Problem, start: Any, order: Sequence[int], features: Sequence[Features | None]
) -> tuple[float, float]:
    """The best strength for each side that has features. plain : the problem without them."""
    session: Any = engine.open(plain, start, Solver())
    alternate(session, order=order, max_iter=SWEEPS, tol=0)
    found = [0.0, 0.0]
    for side, told in enumerate(features):
        if told is not None:
            cells = sp.csr_array(plain.cells(side).to_csr())
            own, other = session.factors[side], session.factors[1 - side]
            found[side] = best_strength(plain.sides[side], own, other, cells, told, side == 0, thread_count(None))
    return found[0], found[1]


def best_strength(
    side: Side, own: Array, other: Array, cells: sp.csr_array, features: Features, for_own: bool, n_threads: int
) -> float:
    """The strength of GRID under which rows of a side, left out and put where their features say, rank best: better
    than under those beside it.

    own, other : rows of both sides. cells : of the rows of this side. for_own : whether the other side is ranked for
    these rows, or they for the other side. Of equally good strengths the largest.
    """
    chance = np.random.default_rng(0)
    order = chance.permutation(np.flatnonzero(np.diff(cells.indptr)))
    n_judged = min(_JUDGE, len(order) // 5)
    if n_judged < _LEAST:
        return FALLBACK
    judged, learned = np.sort(order[:n_judged]), np.sort(order[n_judged : n_judged + _LEARN])
    F, relevant = with_constant(features.matrix), sp.csr_array(cells[judged])
    told = F[judged].astype(own.dtype)
    if for_own:
        chosen = np.sort(chance.permutation(n_judged)[:_ASK])
        told, relevant = told[chosen], relevant[chosen]
    else:
        who = np.flatnonzero(np.bincount(relevant.indices, minlength=len(other)))
        who = np.sort(chance.permutation(who)[:_ASK])
        other, relevant = other[who], sp.csr_array(relevant[:, who].T)
    held = side.take(learned).expecting(sp.csr_array(F[learned]), 1.0).features
    assert held is not None
    unit, seen = held.eta, np.ascontiguousarray(own[learned])
    values: dict[int, float] = {}
    waiting, best = list(FIRST), 0
    while waiting:
        place = waiting.pop(0)
        held = held.held(GRID[place] * unit).learned(seen, n_threads, _STEPS)  # from where another strength ended
        rows = np.ascontiguousarray(told @ held.solved)
        values[place] = _worth(*((rows, other) if for_own else (other, rows)), relevant, n_threads)
        best = max(sorted(values), key=lambda at: round(values[at], 4))
        beside = [at for at in (best + 1, best - 1) if 0 <= at < len(GRID) and at not in values]
        waiting = waiting or beside[:1]
    return GRID[best]


def _worth(left: Array, right: Array, relevant: sp.csr_array, n_threads: int) -> float:
    """Mean NDCG of rankings of `right` for the rows of `left`."""
    k = min(_DEPTH, len(right))
    places, _ = top_k(left, right, k, None, n_threads)
    return float(np.mean(ndcg_at_k(places, relevant, k)))
