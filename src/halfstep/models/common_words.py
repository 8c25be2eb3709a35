"""Words that the texts of a user and of an item have in common, as a part of their score.

    u.v + strength * c_ui t_u.t_i,      c_ui = 1 where nobody has the item, else 1 / (1 + n_u / ENOUGH)

t_u and t_i are the words of all texts of a row, weighed as its features are, over the words that both sides know, of
length 1; n_u counts the cells of the user, which say it better where they are many. What a word of a user says of an
item, weights of features learn from the cells of others; that a tram driver drives trams they cannot know, unless
others did. Knows features, factors and counts; no ids, no files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.data.feature_columns import unit_rows
from halfstep.data.features import Features
from halfstep.models.answers import Parts

Array = NDArray[Any]

ENOUGH = 20
"""Cells of a user that halve what words say."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words that texts of both sides have, and which features they are: (p_users, words), (p_items, words)."""

    words: tuple[str, ...]
    columns: tuple[sp.csr_array, sp.csr_array]

    @classmethod
    def of(cls, users: Features, items: Features) -> Vocabulary:
        """Empty where a side has no texts, or came as a matrix."""
        known = [[word for block in side.blocks for word in block.keys] for side in (users, items)]
        words = sorted((set(known[0]) & set(known[1])) - {""})
        places = {word: place for place, word in enumerate(words)}
        one, other = (_columns(side, places) for side in known)
        return cls(tuple(words), (one, other))

    def rows(self, side: int, features: Features) -> sp.csr_array:
        """t of these rows of a side, (n, words)."""
        return unit_rows(sp.csr_array(features.matrix @ self.columns[side]))


def _columns(known: list[str], places: dict[str, int]) -> sp.csr_array:
    """(features, words), 1 where a feature is a word."""
    found = [(row, places[word]) for row, word in enumerate(known) if word in places]
    row, column = np.array(found, np.int64).reshape(-1, 2).T
    return sp.csr_array((np.ones(len(found)), (row, column)), shape=(len(known), len(places)))


@dataclass(frozen=True, eq=False)
class WordedItems:
    """Words of the items that are ranked, (words, items), and which of them somebody has."""

    words: sp.csr_array
    had: NDArray[np.bool_]

    def scores(self, users: sp.csr_array, counts: Array) -> Array:
        """(users, items) c_ui t_u.t_i of users with these words and so many cells."""
        share = np.where(self.had, 1 / (1 + np.asarray(counts)[:, None] / ENOUGH), 1.0)
        return np.asarray((users @ self.words).toarray() * share)


@dataclass(frozen=True, eq=False)
class CommonWords:
    """What words in common add to the scores of a fit. counts : of the cells of its items."""

    strength: float
    users: Features
    items: Features
    counts: Array

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self.users, self.items)

    @cached_property
    def worded(self) -> WordedItems:
        """Of the items of the fit."""
        return self._worded(self.items, self.counts > 0)

    def beside(self, users: Features, counts: Array, new: Features | None = None) -> WordsSaid:
        """What is added for users with these features and so many cells. new : items in place of those of the fit,
        which nobody has."""
        listed = self.worded if new is None else self._worded(new, np.zeros(len(new), np.bool_))
        return WordsSaid(self.strength, self.vocabulary.rows(0, users), np.asarray(counts), listed)

    def parts(self, user: Features, count: int, item: int) -> Parts:
        """What each word adds to the score of one item for one user with so many cells."""
        worded = WordedItems(sp.csr_array(self.worded.words[:, [item]]), self.worded.had[[item]])
        row = self.vocabulary.rows(0, user)
        each = sp.csr_array(sp.diags_array(row.toarray()[0]) @ worded.words)
        found = np.flatnonzero(each.toarray()[:, 0])
        ones = sp.csr_array((np.ones(len(found)), (np.arange(len(found)), found)), (len(found), row.shape[1]))
        shares = WordedItems(each, worded.had).scores(ones, np.full(len(found), count))[:, 0]
        names = np.array([f"both say: {self.vocabulary.words[place]}" for place in found], object)
        return Parts(names, self.strength * shares)

    def _worded(self, items: Features, had: NDArray[np.bool_]) -> WordedItems:
        return WordedItems(sp.csr_array(self.vocabulary.rows(1, items).T.tocsr()), had)


@dataclass(frozen=True, eq=False)
class WordsSaid:
    """What words in common add for some rows. users : t of each. counts : of their cells."""

    strength: float
    users: sp.csr_array
    counts: Array
    worded: WordedItems

    def scores(self, rows: slice) -> Array:
        """(rows, items), dense."""
        return np.asarray(self.strength * self.worded.scores(self.users[rows], self.counts[rows]))
