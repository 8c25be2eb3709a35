"""From scores to ranked lists: best items, similar rows, diversity, files. Functions over what a fit left behind.

Knows ids and labels, not losses. What scores items is a `Scorer`: factors here, matrices and blends elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.cells import Observations
from halfstep.data.files import atomic_write
from halfstep.data.ids import Index
from halfstep.data.names import Names, labels_of
from halfstep.engine.local import thread_count
from halfstep.errors import check_number, require
from halfstep.models.answers import Ranking
from halfstep.models.rules import ItemRules, Limit

_BLOCK = 16384  # users at a time when a file is written

Best = tuple[NDArray[np.int32], NDArray[Any]]
"""Positions of items (rows, k), best first, and their scores; short lists end in -1 and NaN."""


class Catalogue(Protocol):
    """What lists need of a fit: who there is, what there is, and who has what."""

    @property
    def users(self) -> Index: ...
    @property
    def items(self) -> Index: ...
    @property
    def user_labels(self) -> NDArray[Any] | None: ...
    @property
    def item_labels(self) -> NDArray[Any] | None: ...
    @property
    def names(self) -> tuple[Names, Names]: ...
    @property
    def cells(self) -> Observations: ...


class Scorer(Protocol):
    """Scores of every item for some rows of users."""

    def best(self, k: int, seen: Any, allowed: NDArray[np.int64] | None) -> Best:
        """The best k items for each row: cells of `seen` left out, and all but those `allowed`."""

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        """(k, k) how alike items are to each other, at most 1."""


@dataclass(frozen=True, eq=False)
class FactorScorer:
    """A score is the dot product of a row of `left` and one of `right`; likeness is the cosine of `factors`."""

    left: NDArray[Any]
    right: NDArray[Any]
    factors: NDArray[Any]
    n_threads: int | None = None

    def best(self, k: int, seen: Any, allowed: NDArray[np.int64] | None) -> Best:
        right = self.right if allowed is None else np.ascontiguousarray(self.right[allowed])
        if seen is not None and allowed is not None:
            seen = sp.csr_array(seen)[:, allowed]
        places, scores = top_k(self.left, right, min(k, max(len(right), 1)), seen, self.n_threads)
        return (places if allowed is None else np.append(allowed, -1)[places].astype(np.int32)), scores

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        unit = unit_rows(self.factors[items])
        return np.asarray(unit @ unit.T)


@dataclass(frozen=True, eq=False)
class PopularScorer:
    """For people of whom nothing is known: an item scores the share (items,) of users who have it.

    kin : says how alike items are.
    """

    n_rows: int
    share: NDArray[Any]
    kin: Scorer
    n_threads: int | None = None

    @classmethod
    def of(cls, n_rows: int, fit: Catalogue, kin: Scorer) -> PopularScorer:
        return cls(n_rows, np.bincount(fit.cells.indices, minlength=len(fit.items)) / max(len(fit.users), 1), kin)

    def best(self, k: int, seen: Any, allowed: NDArray[np.int64] | None) -> Best:
        left = np.ones((self.n_rows, 1))
        return FactorScorer(left, self.share[:, None], self.share[:, None], self.n_threads).best(k, seen, allowed)

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        return self.kin.alike(items)


def best_items(
    fit: Catalogue,
    scorer: Scorer,
    seen: Any,
    n: int,
    *,
    candidates: Iterable[Any] | None = None,
    exclude: Iterable[Any] = (),
    diversity: float = 0.0,
    rules: ItemRules | None = None,
) -> Ranking:
    """The best n items for the rows of a scorer; cells of `seen` are left out. No wider than there are items."""
    check_number("n", n, at_least=1, whole=True)
    n = min(int(n), max(len(fit.items), 1))
    if not 0.0 <= diversity <= 1.0:
        raise ValueError(f"diversity={diversity!r} must lie between 0 (by score) and 1.")
    if rules is not None and not isinstance(rules, ItemRules):
        raise TypeError(f"rules is a {type(rules).__name__}; give ItemRules(table, where=..., at_most=...).")
    names, most = fit.names[1], max(len(fit.items), 1)
    allowed = None if candidates is None else np.unique(names.positions(candidates))
    meets = None if rules is None else rules.allowed(names)
    if meets is not None:
        allowed = meets if allowed is None else np.intersect1d(allowed, meets)
    banned = names.positions(exclude)
    if len(banned):
        allowed = np.setdiff1d(np.arange(len(fit.items)) if allowed is None else allowed, banned)
    limits = [] if rules is None else rules.limits(names)
    depth = min(n if diversity == 0 and not limits else max(10 * n, 100), most)
    places, scores = pool = scorer.best(depth, seen, allowed)
    if diversity > 0 or limits:
        places, scores = _picked(pool, scorer, n, diversity, limits)
        # what a limit refused makes room for items further down
        while limits and depth < most and ((places[:, -1] < 0) & (pool[0][:, -1] >= 0)).any():
            depth = min(4 * depth, most)
            pool = scorer.best(depth, seen, allowed)
            places, scores = _picked(pool, scorer, n, diversity, limits)
    if places.shape[1] < n:
        wide = ((0, 0), (0, n - places.shape[1]))
        places = np.pad(places, wide, constant_values=-1)
        scores = np.pad(scores, wide, constant_values=np.nan)
    return Ranking(fit.items.take(places), scores, labels_of(fit.item_labels, places))


def similar_rows(fit: Any, side: int, name: Any, n: int, n_threads: int | None = None) -> Ranking:
    """The n rows of a side with the largest cosine similarity of factors to that of `name`, which is left out."""
    check_number("n", n, at_least=1, whole=True)
    names, factors = fit.names[side], fit.factors(side)
    row = int(names.positions([name])[0])
    unit = unit_rows(factors)
    itself = sp.csr_array(([1.0], ([0], [row])), shape=(1, len(names)))
    places, scores = top_k(unit[row : row + 1], unit, min(n, len(names)), itself, n_threads)
    return Ranking(names.index.take(places), scores, labels_of(names.labels, places)).first()


def write_lists(
    fit: Catalogue,
    path: str | os.PathLike[str],
    users: Iterable[Any] | None,
    n: int,
    scorer_of: Callable[[NDArray[Any]], Scorer],
) -> int:
    """Write (user, rank, item, score) for many users as a Parquet file, block by block; returns the row count."""
    pa, parquet = require("pyarrow", "frames"), require("pyarrow.parquet", "frames")
    kinds = {"range": pa.int64(), "int": pa.int64(), "str": pa.string()}  # anything else is inferred
    user_type, item_type = kinds.get(fit.users.kind), kinds.get(fit.items.kind)
    rows = np.arange(len(fit.users)) if users is None else fit.names[0].positions(users)
    written, writer = 0, None
    with atomic_write(path) as temporary:
        try:
            for start in range(0, max(len(rows), 1), _BLOCK):
                block = rows[start : start + _BLOCK]
                best = best_items(fit, scorer_of(block), seen_by(fit, block), n)
                there = ~np.isnan(best.scores)
                user, rank = np.nonzero(there)
                columns = {
                    "user": pa.array(fit.users.take(block[user]).tolist(), user_type),
                    "rank": pa.array((rank + 1).astype(np.int32)),
                    "item": pa.array(best.ids[there].tolist(), item_type),
                    "score": pa.array(best.scores[there].astype(np.float32)),
                }
                if fit.user_labels is not None:
                    columns["user_label"] = pa.array(fit.user_labels[block[user]].tolist(), pa.string())
                if best.labels is not None:
                    columns["item_label"] = pa.array(best.labels[there].tolist(), pa.string())
                table = pa.table(columns)
                writer = writer or parquet.ParquetWriter(str(temporary), table.schema)
                writer.write_table(table)
                written += len(user)
        finally:
            if writer is not None:
                writer.close()
    return written


def seen_by(fit: Catalogue, rows: NDArray[Any]) -> Any:
    """CSR (rows, items) of what these users have."""
    return fit.cells.take(np.asarray(rows, np.int64)).to_csr()


def top_k(left: NDArray[Any], right: NDArray[Any], k: int, seen: Any = None, n_threads: int | None = None) -> Best:
    """Positions and scores of the best k rows of `right` for every row of `left`, cells of `seen` left out."""
    indptr, indices = (None, None) if seen is None else pattern(seen)
    return _core.top_k(
        np.ascontiguousarray(left),
        np.ascontiguousarray(right, left.dtype),
        int(k),
        None,
        indptr,
        indices,
        n_threads=thread_count(n_threads),
    )


def pattern(cells: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """indptr and sorted indices of a sparse matrix, as the core takes them."""
    rows = sp.csr_array(cells)
    if not rows.has_sorted_indices:
        rows = rows.sorted_indices()
    return rows.indptr.astype(np.int64, copy=False), rows.indices.astype(np.int32, copy=False)


def is_many(users: Any) -> bool:
    """Whether this is a collection of ids rather than one. A tuple can be one id; lists, arrays and columns cannot."""
    return isinstance(users, (list, np.ndarray, set, range)) or hasattr(users, "to_numpy")


def unit_rows(factors: NDArray[Any]) -> NDArray[Any]:
    """Rows of length 1; those of zeros stay."""
    unit: NDArray[Any] = factors / np.maximum(
        np.linalg.norm(factors, axis=1, keepdims=True), np.finfo(factors.dtype).tiny
    )
    return unit


def _picked(pool: Best, scorer: Scorer, n: int, diversity: float, limits: list[Limit]) -> Best:
    """n of a pool, greedily the largest (1-diversity) * score - diversity * similarity to the chosen (maximal marginal
    relevance), no more of a group than its limit."""
    places, scores = pool
    out_places = np.full((len(places), n), -1, places.dtype)
    out_scores = np.full((len(places), n), np.nan, scores.dtype)
    for r, (row, score) in enumerate(zip(places, scores, strict=True)):
        items = row[row >= 0]
        if not len(items):
            continue
        value = score[: len(items)]
        spread = float(value.max() - value.min()) or 1.0
        relevance = (value - value.min()) / spread  # on the scale of a cosine
        alike = scorer.alike(items) if diversity > 0 else None
        nearest = np.full(len(items), -1.0)
        free = np.ones(len(items), bool)
        for k in range(n):
            if not free.any():
                break
            gain = (1 - diversity) * relevance - diversity * (nearest if k else 0.0)
            pick = int(np.argmax(np.where(free, gain, -np.inf)))
            free[pick] = False
            out_places[r, k], out_scores[r, k] = items[pick], value[pick]
            if alike is not None:
                nearest = np.maximum(nearest, alike[pick])
            for limit in limits:
                group = limit.codes[items]
                if group[pick] >= 0 and (limit.codes[out_places[r, : k + 1]] == group[pick]).sum() >= limit.most:
                    free &= group != group[pick]
    return out_places, out_scores
