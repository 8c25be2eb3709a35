"""How much words in common count, learned from the data: what ranks rows best that are left out of the regression and
known by features alone. Looks at a finished fit; fits no model.

Rows of the other side have seen the cells of those left out, so words get somewhat less than their due.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.problem import Problem
from halfstep.core.regression import Regression
from halfstep.engine.features import with_constant
from halfstep.metrics import ndcg_at_k
from halfstep.models.common_words import CommonWords, WordScorer
from halfstep.models.item_matrix import blocks, first_maxima
from halfstep.models.known import WeighedFeatures
from halfstep.models.recommend import FactorScorer

Array = NDArray[Any]

GRID = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
"""Scores of what somebody has are near 1."""
LEARN, JUDGE, LEAST, DEPTH, STEPS = 20_000, 500, 20, 20, 8
"""Rows that weights are learned from, and judged, at most; judged, at least; of a list; of conjugate gradients."""


def learned_words(
    words: CommonWords,
    problem: Problem,
    rows: tuple[Array, Array],
    known: tuple[WeighedFeatures, WeighedFeatures],
    n_threads: int,
) -> float:
    """The strength of GRID under which new users and new items rank best, on average; of equally good ones the least.

    problem, rows, known : of the fit, features of both sides among them.
    """
    if not words.vocabulary.words:
        return 0.0
    values = np.zeros(len(GRID))
    for side in (0, 1):
        cells = sp.csr_array(problem.cells(side).to_csr() > 0, dtype=np.float64)
        chance = np.random.default_rng(side)
        order = chance.permutation(np.flatnonzero(np.diff(cells.indptr)))
        n_judged = min(JUDGE, len(order) // 5)
        if n_judged < LEAST:
            continue
        judged, learned = np.sort(order[:n_judged]), np.sort(order[n_judged : n_judged + LEARN])
        expected = _expected(problem, side, rows[side], known[side], judged, learned, n_threads)
        features = known[side].features.take(judged)
        if side == 0:
            factors = FactorScorer(expected, rows[1], rows[1])
            scorer, relevant = words.beside(factors, features, np.zeros(n_judged)), sp.csr_array(cells[judged])
        else:
            theirs = sp.csr_array(cells[judged].T.tocsr())
            who = np.flatnonzero(np.diff(theirs.indptr))
            who = np.sort(chance.permutation(who)[:JUDGE])
            factors = FactorScorer(rows[0][who], expected, expected)
            users, counts = known[0].features.take(who), problem.cells(0).counts[who]
            scorer, relevant = words.beside(factors, users, counts, features), sp.csr_array(theirs[who])
        values += _worths(scorer, relevant)
    return GRID[int(np.argmax(np.round(values, 4)))]


def _expected(
    problem: Problem,
    side: int,
    rows: Array,
    known: WeighedFeatures,
    judged: NDArray[np.int64],
    learned: NDArray[np.int64],
    n_threads: int,
) -> Array:
    """Where the rows judged are by the weights of those learned from, held as in the fit."""
    matrix = with_constant(known.features.matrix)
    lam = np.broadcast_to(np.asarray(problem.sides[side].penalty, np.float64), len(rows))[learned]
    held = Regression.of(sp.csr_array(matrix[learned]), known.eta, lam, known.share)
    solved = held.learned(np.ascontiguousarray(rows[learned]), n_threads, STEPS).solved
    assert solved is not None
    return np.ascontiguousarray(known.share * (matrix[judged] @ solved), rows.dtype)


def _worths(scorer: WordScorer, relevant: sp.csr_array) -> NDArray[np.float64]:
    """Mean NDCG under each strength."""
    k = min(DEPTH, relevant.shape[1])
    found = np.zeros(len(GRID))
    for block in blocks(*relevant.shape):
        factors, words = scorer.parts(block)
        lists = (first_maxima(factors + strength * words, k).astype(np.int32) for strength in GRID)
        found += [ndcg_at_k(places, relevant[block], k).sum() for places in lists]
    return np.asarray(found / relevant.shape[0])
