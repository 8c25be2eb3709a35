"""How much counts what is added to scores of factors, learned from the data: what ranks rows best that are left out and
known by features alone. Looks at a finished fit, and solves the rows of the other side once more without those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.problem import Problem, Solver
from halfstep.core.regression import Regression
from halfstep.data.features import Features
from halfstep.engine import LocalEngine
from halfstep.engine.features import with_constant
from halfstep.metrics import ndcg_at_k
from halfstep.models.added import Added, AddedScorer
from halfstep.models.common_words import CommonWords
from halfstep.models.item_matrix import blocks, first_maxima
from halfstep.models.kindred import Kin, Kindred
from halfstep.models.known import Sides, WeighedFeatures
from halfstep.models.recommend import FactorScorer

Array = NDArray[Any]

WORDS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
"""Scores of what somebody has are near 1."""
ALIKE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
"""At 1 rows alike say it as if factors had said nothing."""
SURE = 1.0
"""Standard errors by which a strength must be better than none."""
LEARN, JUDGE, LEAST, DEPTH, STEPS = 20_000, 500, 20, 20, 8
"""Rows that weights are learned from, and judged, at most; judged, at least; of a list; of conjugate gradients."""


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Rows of a side put where weights of others say, and who they are ranked for, or what for them.

    factors : scores without what is added. own : cells of its users (CSR), none where these are left out. users, new :
    features of the users, and of the items where these are left out. kindred : rows of which the others speak for them.
    relevant : what is to be found.
    """

    side: int
    factors: FactorScorer
    own: sp.csr_array
    users: Features | None
    new: Features | None
    kindred: Kindred
    relevant: sp.csr_array

    def words(self, words: CommonWords) -> Sequence[Added]:
        """What words in common add in full strength."""
        counts = np.diff(self.own.indptr)
        return [] if self.users is None else [words.beside(self.users, counts, self.new)]

    def alike(self, n_threads: int) -> Sequence[Added]:
        """What rows alike add in full strength."""
        left, right = self.factors.left, self.factors.right
        return list(self.kindred.beside(left, right, self.own, self.users, self.new, n_threads))

    def worths(self, added: Sequence[Added], strengths: Sequence[float], beside: Sequence[Added]) -> Array:
        """NDCG of each row under each strength of what is added, (rows, strengths), with what is beside as it is."""
        scorer, n = AddedScorer(self.factors, tuple(beside)), self.relevant.shape[1]
        found = np.zeros((self.relevant.shape[0], len(strengths)))
        for block in blocks(*self.relevant.shape):
            plain, more = scorer.scores(block), sum(each.scores(block) for each in added)
            for place, strength in enumerate(strengths):
                ranked = first_maxima(plain + strength * more, min(DEPTH, n)).astype(np.int32)
                found[block, place] = ndcg_at_k(ranked, self.relevant[block], min(DEPTH, n))
        return found


def rehearsals(problem: Problem, rows: tuple[Array, Array], known: Sides, n_threads: int) -> Iterator[Rehearsal]:
    """One for each side that has features and rows enough. problem, rows, known : of the fit."""
    cells = sp.csr_array(problem.cells(0).to_csr() > 0, dtype=np.float64)
    for side, told in enumerate(known):
        mine = cells if side == 0 else sp.csr_array(cells.T.tocsr())
        chance = np.random.default_rng(side)
        order = chance.permutation(np.flatnonzero(np.diff(mine.indptr)))
        n_judged = min(JUDGE, len(order) // 5)
        if told is None or n_judged < LEAST:
            continue
        judged, learned = np.sort(order[:n_judged]), np.sort(order[n_judged : n_judged + LEARN])
        without = _without(problem, rows, side, judged, n_threads)
        expected = _expected(problem, side, without[side], told, judged, learned, n_threads)
        features = told.features.take(judged)
        speaking = np.isin(np.arange(len(rows[side])), learned)
        kin = Kin(told.features.matrix, without[side], speaking)
        if side == 0:
            nothing, relevant = sp.csr_array(mine[judged].shape), sp.csr_array(mine[judged])
            kindred = Kindred((1.0, 0.0), (kin, None), cells)
            factors = FactorScorer(expected, without[1], without[1])
            yield Rehearsal(0, factors, nothing, features, None, kindred, relevant)
        else:
            theirs = sp.csr_array(mine[judged].T.tocsr())
            who = np.flatnonzero(np.diff(theirs.indptr))
            who = np.sort(chance.permutation(who)[:JUDGE])
            factors = FactorScorer(without[0][who], expected, expected)
            users = None if known[0] is None else known[0].features.take(who)
            kindred = Kindred((0.0, 1.0), (None, kin), cells)
            yield Rehearsal(1, factors, sp.csr_array(cells[who]), users, features, kindred, sp.csr_array(theirs[who]))


def learned_words(words: CommonWords, tried: Sequence[Rehearsal]) -> float:
    """The strength of WORDS under which new users and new items rank best."""
    if not words.vocabulary.words or not tried:
        return 0.0
    return _best(WORDS, np.concatenate([each.worths(each.words(words), WORDS, []) for each in tried]))


def learned_kindred(words: CommonWords | None, tried: Sequence[Rehearsal], n_threads: int) -> tuple[float, float]:
    """The strengths of ALIKE under which new users, and new items, rank best beside words of the strength found."""
    found = [0.0, 0.0]
    for each in tried:
        beside = [] if words is None or not words.strength else each.words(words)
        added = each.alike(n_threads)
        if added:
            found[each.side] = _best(ALIKE, each.worths(added, ALIKE, beside))
    return found[0], found[1]


def _best(strengths: Sequence[float], worths: Array) -> float:
    """Of equally good strengths the least; 0, which comes first, where none is surely better. worths : of each row."""
    best = int(np.argmax(np.round(worths.mean(axis=0), 4)))
    gain = worths[:, best] - worths[:, 0]
    return strengths[best] if gain.mean() > SURE * gain.std() / np.sqrt(len(gain)) else 0.0


def _without(
    problem: Problem, rows: tuple[Array, Array], side: int, judged: NDArray[np.int64], n_threads: int
) -> Sequence[Array]:
    """Rows of both sides, those of the other one solved as if nobody knew the cells of the rows judged."""
    factors = [rows[0].copy(), rows[1].copy()]
    factors[side][judged] = 0
    session = LocalEngine(n_threads).open(problem, factors, Solver())
    session.half_step(1 - side)
    return session.factors


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
