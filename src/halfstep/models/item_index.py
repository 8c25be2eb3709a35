"""Vectors of a model for searches outside of it, and an approximate search of items behind `recommend`.

Knows vectors and scorers of factors; usearch is asked for only where an index is made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.data.files import atomic_write
from halfstep.engine.local import thread_count
from halfstep.errors import check_number, one_of, require
from halfstep.models.recommend import Best, FactorScorer, Scorer

MEASURES = ("inner", "cosine")


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of both sides whose products order items as the model does.

    users (users, d), items (items, d), with their ids. measure : "inner", the products are the scores; "cosine", the
    cosines order them alike, and a score is the cosine times `scale` times the length of the user's inner vector.
    """

    users: NDArray[Any]
    items: NDArray[Any]
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    measure: str
    scale: float

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write them as a NumPy archive (.npz) with arrays users, items, user_ids and item_ids; ids as text where they
        are not numbers."""
        users, items = (ids if ids.dtype.kind in "iu" else ids.astype(str) for ids in (self.user_ids, self.item_ids))
        about = {"measure": np.asarray(self.measure), "scale": np.asarray(self.scale)}
        arrays = about | {"users": self.users, "items": self.items, "user_ids": users, "item_ids": items}
        with atomic_write(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        return Path(path)


def by_cosine(items: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """(items, d + 1) of length 1 and the largest length M of a row: x becomes (x, sqrt(M^2 - |x|^2)) / M.

    A query (q, 0) then has the cosine q.x / (M |q|) with it, so cosines order items as inner products do.
    """
    squares = np.einsum("ij,ij->i", items, items, dtype=np.float64)
    largest = float(np.sqrt(squares.max(initial=0.0))) or 1.0
    missing = np.sqrt(np.maximum(largest**2 - squares, 0.0))
    return np.column_stack([items, missing]).astype(items.dtype) / items.dtype.type(largest), largest


def _queries(users: NDArray[Any]) -> NDArray[Any]:
    return np.column_stack([users, np.zeros(len(users), users.dtype)])


def exported(users: NDArray[Any], items: NDArray[Any], ids: tuple[Any, Any], measure: str) -> Vectors:
    """Vectors for an index that knows the measure."""
    one_of("measure", measure, MEASURES)
    if measure == "inner":
        return Vectors(users, items, ids[0], ids[1], measure, 1.0)
    turned, largest = by_cosine(items)
    return Vectors(_queries(users), turned, ids[0], ids[1], measure, largest)


@dataclass(frozen=True, eq=False)
class ItemIndex:
    """A graph over item vectors (HNSW, by usearch) that finds nearly the best items in a time that hardly grows.

    Candidates come from the graph; their scores are exact. `recall` says how many of the best are found.
    """

    items: NDArray[Any]
    graph: Any
    n_threads: int

    @classmethod
    def of(cls, items: NDArray[Any], connectivity: int, effort: int, n_threads: int | None) -> Self:
        """effort : how many nodes of the graph are kept in sight, while it is made and when it is searched."""
        check_number("connectivity", connectivity, at_least=2, whole=True)
        check_number("effort", effort, at_least=1, whole=True)
        threads, turned = thread_count(n_threads), by_cosine(items)[0]
        usearch = require("usearch.index", "index")
        effort_ = {"expansion_add": int(effort), "expansion_search": int(effort)}
        graph = usearch.Index(ndim=turned.shape[1], metric="ip", dtype="f32", connectivity=int(connectivity), **effort_)
        graph.add(np.arange(len(turned)), np.ascontiguousarray(turned, np.float32), threads=threads)
        return cls(items, graph, threads)

    def over(self, exact: Scorer) -> Scorer:
        """A scorer that asks the graph in place of every item."""
        if not isinstance(exact, FactorScorer) or exact.right is not self.items:
            raise ValueError("index belongs to another fit; make it again by item_index() of this model.")
        return IndexedScorer(exact, self)

    def near(self, left: NDArray[Any], k: int) -> NDArray[np.int64]:
        """(rows, k) positions of items, -1 where fewer were found."""
        queries = np.ascontiguousarray(_queries(left), np.float32)
        found = self.graph.search(queries, min(k, len(self.items)), threads=self.n_threads)
        keys = np.atleast_2d(np.asarray(found.keys)).astype(np.int64)
        counts = np.atleast_1d(np.asarray(getattr(found, "counts", keys.shape[1])))
        return np.where(np.arange(keys.shape[1]) < counts[:, None], keys, -1)

    def recall(self, left: NDArray[Any], k: int = 10) -> float:
        """The share of the best k items of these rows of users (rows, d) that the graph finds."""
        check_number("k", k, at_least=1, whole=True)
        left = np.ascontiguousarray(left, self.items.dtype)
        exact, _ = FactorScorer(left, self.items, self.items, self.n_threads).best(k, None, None)
        found = self.near(left, exact.shape[1])
        return float(np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(exact, found, strict=True)]))


@dataclass(frozen=True, eq=False)
class IndexedScorer:
    """The best items that a graph finds, scored exactly; all of them where only some items may be chosen."""

    exact: FactorScorer
    index: ItemIndex

    def best(self, k: int, seen: Any, allowed: NDArray[np.int64] | None) -> Best:
        if allowed is not None:
            return self.exact.best(k, seen, allowed)
        left, right = self.exact.left, self.exact.right
        cells = None if seen is None else sp.csr_array(seen)
        own = np.zeros(len(left), np.int64) if cells is None else np.diff(cells.indptr)
        found = self.index.near(left, k + int(own.max(initial=0)))
        places, scores = np.full((len(left), k), -1, np.int32), np.full((len(left), k), np.nan, left.dtype)
        for row, near in enumerate(found):
            has = () if cells is None else cells.indices[cells.indptr[row] : cells.indptr[row + 1]]
            items = near[(near >= 0) & ~np.isin(near, has)]
            value = right[items] @ left[row]
            order = np.lexsort((items, -value))[:k]
            places[row, : len(order)], scores[row, : len(order)] = items[order], value[order]
        return places, scores

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        return self.exact.alike(items)
