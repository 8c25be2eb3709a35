"""What known rows say about a new one by their features: A (new, known), how much each known row counts for each new.

Ways to make A, all linear in what is then averaged: neighbours, members of the same group, a ridge regression. Knows
features of rows; no users, no items, no cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from halfstep.data.feature_columns import unit_rows
from halfstep.models.item_matrix import best_of_product, blocks

FACTORED = 16_384
"""Of min(n, p): up to where a ridge regression is factored; conjugate gradients above it."""
SINGLE = 4_096
"""From where on it is factored in float32: twice as fast, and exact enough for systems held by a ridge."""
STEPS, TOLERANCE = 200, 1e-4
"""Of conjugate gradients: at most so many, until the residual has fallen to this share."""


class Smoother(Protocol):
    """How much each of n known rows counts for new rows with features F."""

    def shares(self, new: sp.csr_array) -> Any:
        """A, (new, n), sparse or dense."""


@dataclass(frozen=True, eq=False)
class NearestRows:
    """The `neighbours` known rows with the largest cosine to a new one, each by its cosine; shares sum to 1."""

    known: sp.csr_array
    neighbours: int

    @cached_property
    def _turned(self) -> sp.csr_array:
        return sp.csr_array(unit_rows(self.known).T.tocsr())

    def shares(self, new: sp.csr_array) -> Any:
        n = self.known.shape[0]
        order = np.arange(n, dtype=np.int32)
        k = min(self.neighbours, n)
        places, cosines = best_of_product(unit_rows(new), self._turned, k, None, order, positive=True)
        row, rank = np.nonzero((places >= 0) & (np.nan_to_num(cosines) > 0))
        near = sp.csr_array((cosines[row, rank], (row, places[row, rank])), shape=(new.shape[0], n))
        total = np.asarray(near.sum(axis=1)).ravel()
        return sp.csr_array(sp.diags_array(1 / np.where(total > 0, total, 1.0)) @ near)


@dataclass(frozen=True, eq=False)
class GroupRows:
    """The known rows of a new row's smallest group with at least `least` of them, 1 / (members + shrink) each.

    columns : which features are groups.
    """

    known: sp.csr_array
    columns: NDArray[np.int64]
    least: int
    shrink: float

    def shares(self, new: sp.csr_array) -> Any:
        members = sp.csc_array(self.known[:, self.columns] != 0, dtype=np.float64)
        sizes = np.diff(members.indptr)
        theirs = sp.csr_array(new[:, self.columns] != 0)
        row = np.repeat(np.arange(new.shape[0]), np.diff(theirs.indptr))
        large = sizes[theirs.indices] >= self.least
        row, group = row[large], theirs.indices[large]
        order = np.lexsort((sizes[group], row))
        first = order[np.unique(row[order], return_index=True)[1]]  # the smallest of each row
        row, group = row[first], group[first]
        shape = (new.shape[0], len(self.columns))
        chosen = sp.csr_array((1 / (sizes[group] + self.shrink), (row, group)), shape=shape)
        return sp.csr_array(chosen @ members.T.tocsr())


@dataclass(frozen=True, eq=False)
class RidgeRows:
    """The rows of a ridge regression: A = F_new F'(FF' + reg I)^-1 = F_new (F'F + reg I)^-1 F', the smaller one."""

    known: sp.csr_array
    reg: float

    def shares(self, new: sp.csr_array) -> Any:
        F = self.known
        if min(F.shape) > FACTORED:
            return self._descended(new)
        if F.shape[0] < F.shape[1]:
            return self._solved((F @ new.T).toarray()).T
        return (F @ self._solved(new.toarray().T)).T

    @cached_property
    def _factor(self) -> Any:
        F = self.known
        known = F.astype(np.float32 if min(F.shape) > SINGLE else np.float64)
        system = (known @ known.T if F.shape[0] < F.shape[1] else known.T @ known).toarray()
        np.fill_diagonal(system, system.diagonal() + self.reg)
        return cho_factor(system, lower=True, overwrite_a=True, check_finite=False)

    def _solved(self, right: NDArray[Any]) -> NDArray[Any]:
        factor = self._factor
        return np.asarray(cho_solve(factor, right.astype(factor[0].dtype), overwrite_b=True, check_finite=False))

    def _descended(self, new: sp.csr_array) -> NDArray[Any]:
        """Conjugate gradients on (FF' + reg I) A' = F F_new', all new rows at once."""
        F, turned = self.known, sp.csr_array(self.known.T.tocsr())
        residual = (F @ new.T).toarray()
        answer, direction = np.zeros_like(residual), residual.copy()
        size = np.einsum("ij,ij->j", residual, residual)
        enough = TOLERANCE**2 * size
        for _ in range(STEPS):
            if not (size > enough).any():
                break
            moved = F @ (turned @ direction) + self.reg * direction
            step = size / np.maximum(np.einsum("ij,ij->j", direction, moved), np.finfo(np.float64).tiny)
            answer += step * direction
            residual -= step * moved
            before, size = size, np.einsum("ij,ij->j", residual, residual)
            direction = residual + size / np.maximum(before, np.finfo(np.float64).tiny) * direction
        return np.asarray(answer.T)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """What is expected of new rows: A T + (1 - A 1) m', with T (n, c) of the known rows and m their mean.

    What no known row speaks for is the mean.
    """

    smoother: Smoother
    targets: Any

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """m, (c,)."""
        return np.asarray(self.targets.mean(axis=0), np.float64).ravel()

    def expected(self, new: sp.csr_array) -> NDArray[np.float64]:
        """(new, c), dense; made a block of new rows at a time."""
        parts = [self._expected(new[block]) for block in self._blocks(new.shape[0])]
        return np.concatenate(parts) if parts else np.zeros((0, self.targets.shape[1]))

    def _expected(self, new: sp.csr_array) -> NDArray[np.float64]:
        shares = self.smoother.shares(new)
        rest = 1 - np.asarray(shares.sum(axis=1)).ravel()
        said = shares @ self.targets
        dense = said.toarray() if sp.issparse(said) else np.asarray(said)
        return np.asarray(dense + (rest * self._levels(shares, rest))[:, None] * self.mean)

    def _levels(self, shares: Any, rest: NDArray[np.float64]) -> Any:
        """How many times the mean a new row has, as far as can be said."""
        return 1.0

    def _blocks(self, rows: int) -> Iterator[slice]:
        return blocks(rows, self.targets.shape[0])


class SmoothedLevels(Smoothed):
    """The same, the mean times how much rows like a new one have: what is popular there stays so beside others."""

    def _levels(self, shares: Any, rest: NDArray[np.float64]) -> Any:
        amounts = np.asarray(self.targets.sum(axis=1), np.float64).ravel()
        return (shares @ amounts) / max(float(amounts.mean()), np.finfo(np.float64).tiny) + rest
