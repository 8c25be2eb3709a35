"""How strongly weights of features are held, learned from the data: what ranks rows best that are known by features
alone. Looks at a few sweeps of the model without features; fits no model.

No rule from sizes does it: words of a title may say nearly all of a row or nearly nothing. eta relative to the penalty
of rows is a ratio of noise to signal, which some of the rows tell as well as all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
COLUMNS = 64
"""Of that model, at most: how much features say of a row shows in few columns as well as in many."""
WORSE = 2
"""So many strengths in a row that rank no better than the best one end the search."""
_LEARN, _JUDGE, _LEAST, _DEPTH, _STEPS = 20_000, 2000, 20, 20, 4


def both_strengths(given: Any) -> tuple[float, float]:
    """A pair (users, items) as it is; a number is for both."""
    pair = tuple(given) if isinstance(given, (tuple, list)) else (given, given)
    if len(pair) != 2:
        raise ValueError(f"feature_reg={given!r} must be a number above 0, or a pair (users, items) of them.")
    for each in pair:
        check_number("feature_reg", each, above=0)
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
    """The strength of GRID under which rows of a side, left out and put where their features say, rank best.

    own, other : rows of both sides. cells : of the rows of this side. for_own : whether the other side is ranked for
    these rows, or they for the other side. Of equally good strengths the largest.
    """
    chance = np.random.default_rng(0)
    order = chance.permutation(np.flatnonzero(np.diff(cells.indptr)))
    n_judged = min(_JUDGE, len(order) // 5)
    if n_judged < _LEAST:
        return FALLBACK
    judged, learned = np.sort(order[:n_judged]), np.sort(order[n_judged : n_judged + _LEARN])
    F, part, relevant = with_constant(features.matrix), side.take(learned), sp.csr_array(cells[judged])
    who = np.flatnonzero(np.diff(sp.csc_array(relevant).indptr))
    who = np.sort(chance.permutation(who)[:_JUDGE])
    known, values, best = None, [], 0
    for strength in GRID:
        held = part.expecting(sp.csr_array(F[learned]), strength).features
        assert held is not None
        if known is not None:  # a weaker hold begins where the stronger one ended
            held = replace(held, solved=known.solved, fitted=known.fitted)
        known = held.learned(own[learned], n_threads, _STEPS)
        rows = np.ascontiguousarray(F[judged] @ known.solved, own.dtype)
        values.append(
            _worth(rows, other, relevant, n_threads)
            if for_own
            else _worth(other[who], rows, sp.csr_array(relevant[:, who].T), n_threads)
        )
        best = int(np.argmax(np.round(values, 4)))
        if len(values) - 1 - best >= WORSE:
            break
    return GRID[best]


def _worth(left: Array, right: Array, relevant: sp.csr_array, n_threads: int) -> float:
    """Mean NDCG of rankings of `right` for the rows of `left`."""
    k = min(_DEPTH, len(right))
    places, _ = top_k(left, right, k, None, n_threads)
    return float(np.mean(ndcg_at_k(places, relevant, k)))
