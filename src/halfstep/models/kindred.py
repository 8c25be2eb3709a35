"""What rows like a new one have beyond their factors, as a part of its scores.

    u.v + strength * sum_k a_k (x_k - u_k.v),      a_k = (f.f_k)^2 / sum_l (f.f_l)^2

over the NEAREST rows k that have cells, by the product f.f_k of their features with those of the new one, where that is
above 0; x_k is 1 where row k has the item. For users without cells and items that somebody has, and the other way
round: a row that has cells of its own is said by them. Factors leave out what few rows have; those most alike know it.
Knows features, factors and cells; no ids, no files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.blas import one_blas_thread
from halfstep.data.features import Features
from halfstep.models.answers import Parts
from halfstep.models.item_matrix import best_of_product

Array = NDArray[Any]

NEAREST = 50
KINDRED = "(rows alike)"
"""What all of them add together, where reasons are given."""


@dataclass(frozen=True, eq=False)
class Kin:
    """The rows of a side that speak for others. features : (n, p) of all rows. rows : (n, f) their factors. speaking :
    (n,) which have cells that count."""

    features: sp.csr_array
    rows: Array
    speaking: NDArray[np.bool_]

    def shares(self, new: sp.csr_array, n_threads: int | None) -> sp.csr_array:
        """a of rows with these features, (new, n); zeros for those like nobody."""
        shape, order = (new.shape[0], len(self.rows)), np.flatnonzero(self.speaking).astype(np.int32)
        k = min(NEAREST, len(order))
        if not k or not new.nnz:
            return sp.csr_array(shape, dtype=np.float64)
        places, alike = best_of_product(new, self._turned, k, None, order, positive=True, n_threads=n_threads)
        row, rank = np.nonzero(places >= 0)
        weights = alike[row, rank].astype(np.float64) ** 2
        weights /= np.bincount(row, weights, minlength=len(new.indptr) - 1)[row]
        return sp.csr_array((weights, (row, places[row, rank])), shape=shape)

    @cached_property
    def _turned(self) -> sp.csr_array:
        return sp.csr_array(self.features.T.tocsr())


@dataclass(frozen=True, eq=False)
class Beyond:
    """Scores (rows, items): strength * (cells theirs - left right'), of which one half is sparse."""

    strength: float
    cells: sp.csr_array
    theirs: sp.csr_array
    left: Array
    right: Array

    @one_blas_thread
    def scores(self, rows: slice) -> Array:
        """(rows, items), dense."""
        had = (self.cells[rows] @ self.theirs).toarray()
        return np.asarray(self.strength * (had - self.left[rows] @ self.right.T))


@dataclass(frozen=True, eq=False)
class Kindred:
    """Both sides of a fit. strengths : for new users and for new items. cells : (users, items), 1 where there is one;
    kin : None where nothing is known of a side."""

    strengths: tuple[float, float]
    kin: tuple[Kin | None, Kin | None]
    cells: sp.csr_array

    @classmethod
    def of(cls, strengths: tuple[float, float], known: Any, rows: tuple[Array, Array], cells: Any) -> Kindred:
        """Of a fit with these rows, this known of them, and who has what (CSR)."""
        has = _ones(cells)
        counts = np.diff(has.indptr), np.bincount(has.indices, minlength=has.shape[1])
        users, items = (
            None if told is None else Kin(told.features.matrix, row, count > 0)
            for told, row, count in zip(known, rows, counts, strict=True)
        )
        return cls(strengths, (users, items), has)

    def beside(
        self,
        left: Array,
        right: Array,
        own: sp.csr_array,
        users: Features | None,
        new: Features | None = None,
        n_threads: int | None = None,
    ) -> Iterator[Beyond]:
        """What is added for users with factors `left`, cells `own` (CSR) and these features, and items `right`.

        new : features of these items, which nobody has; None for those of the fit.
        """
        some = np.diff(own.indptr) > 0
        mine, theirs = self.kin
        if self.strengths[0] and mine is not None and users is not None and new is None and not some.all():
            shares = mine.shares(_only(users.matrix, ~some), n_threads)
            yield Beyond(self.strengths[0], shares, self.cells, shares @ mine.rows, right * self._had[:, None])
        if self.strengths[1] and theirs is not None and some.any() and not (new is None and self._had.all()):
            shares = self._unheard if new is None else theirs.shares(new.matrix, n_threads)
            heard = sp.csr_array(shares.T.tocsr())
            yield Beyond(self.strengths[1], _ones(own), heard, left * some[:, None], shares @ theirs.rows)

    def parts(self, left: Array, right: Array, own: sp.csr_array, user: Features | None, item: int) -> Parts | None:
        """What they add to the score of one item for one user; None where it is nothing."""
        added = sum(float(each.scores(slice(0, 1))[0, item]) for each in self.beside(left, right, own, user))
        return Parts(np.array([KINDRED], object), np.array([added])) if added else None

    @cached_property
    def _had(self) -> NDArray[np.bool_]:
        """(items,) whether somebody has it."""
        return np.bincount(self.cells.indices, minlength=self.cells.shape[1]) > 0

    @cached_property
    def _unheard(self) -> sp.csr_array:
        """Shares of the items of the fit that nobody has, (items, items); zeros for the others."""
        theirs = self.kin[1]
        assert theirs is not None, "asked for where items are known"
        return theirs.shares(_only(theirs.features, ~self._had), None)


def _ones(cells: Any) -> sp.csr_array:
    return sp.csr_array(cells > 0, dtype=np.float64)


def _only(features: Any, chosen: NDArray[np.bool_]) -> sp.csr_array:
    """The same, rows that are not chosen zero."""
    return sp.csr_array(sp.diags_array(chosen.astype(np.float64)) @ features)
