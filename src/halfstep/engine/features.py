"""Features of the rows of a side as an engine has read them: what problems are made of, wherever the rows are.

Knows a side and its encoded features; learns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.core.problem import Side
from halfstep.data.features import Features
from halfstep.data.ids import Index
from halfstep.data.sweeps import digest_of

Array = NDArray[Any]


class RowFeatures(Protocol):
    """Features of the rows of a side, in their order."""

    @property
    def known(self) -> Features:
        """How rows are encoded. Their own rows are in it where they are on this machine."""

    def expecting(self, side: Side, strength: float, share: float) -> Side:
        """The side, its rows expected where these features say; see `Side.expecting`."""

    def means(self, weights: Array, share: float) -> Any:
        """Where weights W (p + 1, f) say that the rows are held, share * W'f: a prior for `Side`, (n, f) here."""

    def here(self, cells: Observations, side: int) -> Features:
        """The features of those rows of the side that have any of these cells; the others have none."""

    def digest(self) -> str:
        """The same for the same rows of features."""


@dataclass(frozen=True, eq=False)
class FeaturesHere:
    """Features on this machine: a row for each id of the side, in their order."""

    known: Features

    @classmethod
    def of(cls, told: Any, index: Index, role: str) -> FeaturesHere:
        """Features of the ids of a side, in their order. Rows of other ids are not used.

        role : "user" or "item", whatever the data set calls them.
        """
        features = Features.of(told, side=role)
        return cls(replace(features, matrix=features.aligned(index), ids=index))

    @classmethod
    def more(cls, told: Any, known: Features, index: Index, by_id: bool) -> FeaturesHere:
        """Features of new rows, encoded as those that are known; see `KeptRows.about`."""
        new = encoded_rows(known, None if by_id else told, len(index))
        if by_id and told is not None:
            given = known.encode(told)
            new = replace(given, matrix=given.aligned(index))
        return cls(new)

    def expecting(self, side: Side, strength: float, share: float) -> Side:
        return side.expecting(with_constant(self.known.matrix), strength, share)

    def means(self, weights: Array, share: float) -> Array:
        return expected_rows(self.known, weights, share)

    def here(self, cells: Observations, side: int) -> Features:
        return self.known

    def digest(self) -> str:
        matrix = self.known.matrix
        return digest_of(*(np.asarray(part) for part in (matrix.indptr, matrix.indices, matrix.data)))


def encoded_rows(known: Features, given: Any, n: int) -> Features:
    """Features of n new rows; None of which stands for rows of which nothing is known."""
    if given is None:
        return replace(known, matrix=sp.csr_array((n, known.shape[1])), ids=None)
    rows = known.encode(given)
    if len(rows) != n:
        raise ValueError(f"features has {len(rows)} rows; it must have {n}, one for each row that is asked about.")
    return rows


def expected_rows(features: Features, weights: Array, share: float) -> Array:
    """share * W'f, (n, f), in the numbers of the weights."""
    return np.ascontiguousarray(share * (with_constant(features.matrix) @ weights), weights.dtype)


def with_constant(matrix: Any) -> sp.csr_array:
    """[F | 1], (n, p + 1)."""
    return sp.csr_array(sp.hstack([matrix, np.ones((matrix.shape[0], 1))], format="csr"))
