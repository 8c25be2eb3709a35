"""From factors to ranked lists: best items, similar rows, diversity, files. Knows ids and labels, not losses."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from halfstep import _core
from halfstep.core.cells import Observations
from halfstep.data.ids import Index
from halfstep.data.names import labels_of, rows_by_name
from halfstep.engine.local import thread_count
from halfstep.errors import require
from halfstep.models.answers import Ranking


class Recommender:
    """What an estimator with users, items and a score `user . item` can do for people.

    Needs `user_factors_`, `item_factors_`, `_users` and `_items` (Index), `_cells` (what users have) and
    `item_labels_`/`user_labels_` (titles or None).
    """

    user_factors_: NDArray[Any]
    item_factors_: NDArray[Any]
    user_labels_: NDArray[Any] | None = None
    item_labels_: NDArray[Any] | None = None
    n_threads: int | None
    _users: Index
    _items: Index
    _cells: Observations

    @property
    def user_ids_(self) -> NDArray[Any]:
        return self._users.ids

    @property
    def item_ids_(self) -> NDArray[Any]:
        return self._items.ids

    def _scoring_rows(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows of users and items whose dot products are the scores; the factors, and biases where there are any."""
        return self.user_factors_, self.item_factors_

    def _seen_rows(self, rows: NDArray[np.int64]) -> Any:
        """CSR (rows, items) of what these users have."""
        return self._cells.take(np.asarray(rows, np.int64)).to_csr()

    def seen(self, rows: NDArray[np.int64]) -> Any:
        """CSR (rows, items) of what these users, given by row number, have."""
        return self._seen_rows(rows)

    def recommend(
        self,
        users: Any,
        n: int = 10,
        *,
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        keep_seen: bool = False,
        diversity: float = 0.0,
    ) -> Ranking:
        """The best `n` items of one user (1-D arrays) or of several (2-D arrays, one row for each).

        users : one id, or a list or array of ids; labels where the model has them.
        candidates : only these items may be recommended. exclude : these may not.
        keep_seen : also recommend what the user already has.
        diversity : 0 ranks by score; up to 1, items unlike those already chosen are preferred (maximal marginal
            relevance on cosine similarity of the item factors).

        Lists shorter than `n` (n may exceed the catalogue) are padded with None and NaN where several users are asked
        for, and simply shorter for one user. A seen item is never used as padding.
        """
        check_is_fitted(self)
        many = is_many(users)
        rows = self.user_positions(users if many else [users])
        seen = None if keep_seen else self._seen_rows(rows)
        best = self._rank(self._scoring_rows()[0][rows], seen, n, candidates, exclude, diversity)
        return best if many else best.first()

    def similar_items(self, item: Any, n: int = 10) -> Ranking:
        """The `n` items with the largest cosine similarity of factors; `item` itself is left out."""
        check_is_fitted(self)
        row = int(self.item_positions([item])[0])
        return _similar(self.item_factors_, row, self._items, self.item_labels_, n, self.n_threads)

    def similar_users(self, user: Any, n: int = 10) -> Ranking:
        """The `n` users with the largest cosine similarity of factors; `user` itself is left out."""
        check_is_fitted(self)
        row = int(self.user_positions([user])[0])
        return _similar(self.user_factors_, row, self._users, self.user_labels_, n, self.n_threads)

    def recommend_to_file(self, path: str | os.PathLike[str], users: Iterable[Any] | None = None, n: int = 10) -> int:
        """Write (user, rank, item, score) for many users as a Parquet file, block by block; returns the row count.

        Where the model has labels they follow as user_label and item_label. All users when `users` is None. The file
        appears whole or not at all.
        """
        from halfstep.data.files import atomic_write

        check_is_fitted(self)
        pa, parquet = require("pyarrow", "frames"), require("pyarrow.parquet", "frames")
        kinds = {"range": pa.int64(), "int": pa.int64(), "str": pa.string()}  # anything else is inferred
        user_type, item_type = kinds.get(self._users.kind), kinds.get(self._items.kind)
        rows = np.arange(len(self._users)) if users is None else self.user_positions(users)
        written, writer = 0, None
        with atomic_write(path) as temporary:
            try:
                for start in range(0, max(len(rows), 1), 16384):
                    block = rows[start : start + 16384]
                    best = self._rank(self._scoring_rows()[0][block], self._seen_rows(block), n, None, (), 0.0)
                    there = ~np.isnan(best.scores)
                    user, rank = np.nonzero(there)
                    columns = {
                        "user": pa.array(self._users.take(block[user]).tolist(), user_type),
                        "rank": pa.array((rank + 1).astype(np.int32)),
                        "item": pa.array(best.ids[there].tolist(), item_type),
                        "score": pa.array(best.scores[there].astype(np.float32)),
                    }
                    if self.user_labels_ is not None:
                        columns["user_label"] = pa.array(self.user_labels_[block[user]].tolist(), pa.string())
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

    def user_positions(self, users: Iterable[Any]) -> NDArray[np.int64]:
        """Row numbers of users given by id or, where the model has labels, by label (case does not matter)."""
        return rows_by_name(self._users, self.user_labels_, users)

    def item_positions(self, items: Iterable[Any]) -> NDArray[np.int64]:
        """Column numbers of items given by id or, where the model has labels, by label (case does not matter)."""
        return rows_by_name(self._items, self.item_labels_, items)

    def _rank(
        self,
        left: NDArray[Any],
        seen: Any,
        n: int,
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        diversity: float = 0.0,
    ) -> Ranking:
        """The best n items for rows of user factors."""
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n={n!r} must be a whole number of at least 1.")
        if not 0.0 <= diversity <= 1.0:
            raise ValueError(f"diversity={diversity!r} must lie between 0 (by score) and 1.")
        allowed = None if candidates is None else np.unique(self.item_positions(candidates))
        banned = self.item_positions(exclude)
        if len(banned):
            allowed = np.setdiff1d(np.arange(len(self._items)) if allowed is None else allowed, banned)
        right = self._scoring_rows()[1]
        right = right if allowed is None else np.ascontiguousarray(right[allowed])
        if seen is not None and allowed is not None:
            seen = sp.csr_array(seen)[:, allowed]
        depth = min(int(n), max(len(right), 1)) if diversity == 0 else min(max(10 * n, 100), max(len(right), 1))
        places, scores = top_k(left, right, depth, seen, self.n_threads)
        if diversity > 0:
            factors = self.item_factors_ if allowed is None else self.item_factors_[allowed]
            places, scores = _diverse(places, scores, factors, n, diversity)
        if places.shape[1] < n:
            wide = ((0, 0), (0, n - places.shape[1]))
            places = np.pad(places, wide, constant_values=-1)
            scores = np.pad(scores, wide, constant_values=np.nan)
        if allowed is not None:
            places = np.where(places < 0, -1, np.append(allowed, -1)[places])
        return Ranking(self._items.take(places), scores, labels_of(self.item_labels_, places))


def top_k(
    left: NDArray[Any], right: NDArray[Any], k: int, seen: Any = None, n_threads: int | None = None
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Positions and scores of the best k rows of `right` for every row of `left`, cells of `seen` left out."""
    seen_indptr = seen_indices = None
    if seen is not None:
        seen = sp.csr_array(seen)
        if not seen.has_sorted_indices:
            seen = seen.sorted_indices()
        seen_indptr, seen_indices = seen.indptr.astype(np.int64), seen.indices.astype(np.int32)
    return _core.top_k(
        np.ascontiguousarray(left),
        np.ascontiguousarray(right, left.dtype),
        int(k),
        None,
        seen_indptr,
        seen_indices,
        n_threads=thread_count(n_threads),
    )


def is_many(users: Any) -> bool:
    """Whether this is a collection of ids rather than one. A tuple can be one id; lists, arrays and columns cannot."""
    return isinstance(users, (list, np.ndarray, set, range)) or hasattr(users, "to_numpy")


def _similar(
    factors: NDArray[Any], row: int, index: Index, labels: NDArray[Any] | None, n: int, n_threads: int | None
) -> Ranking:
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n={n!r} must be a whole number of at least 1.")
    unit = factors / np.maximum(np.linalg.norm(factors, axis=1, keepdims=True), np.finfo(factors.dtype).tiny)
    itself = sp.csr_array(([1.0], ([0], [row])), shape=(1, len(index)))
    places, scores = top_k(unit[row : row + 1], unit, min(n, len(index)), itself, n_threads)
    return Ranking(index.take(places), scores, labels_of(labels, places)).first()


def _diverse(
    places: NDArray[np.int32], scores: NDArray[Any], right: NDArray[Any], n: int, diversity: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Maximal marginal relevance: greedily the largest (1-diversity) * score - diversity * similarity to the chosen."""
    out_places = np.full((len(places), n), -1, places.dtype)
    out_scores = np.full((len(places), n), np.nan, scores.dtype)
    for r, (row, score) in enumerate(zip(places, scores, strict=True)):
        pool = row[row >= 0]
        if not len(pool):
            continue
        value = score[: len(pool)]
        spread = float(value.max() - value.min()) or 1.0
        relevance = (value - value.min()) / spread  # on the scale of a cosine
        unit = right[pool] / np.maximum(np.linalg.norm(right[pool], axis=1, keepdims=True), 1e-30)
        nearest = np.full(len(pool), -1.0)
        free = np.ones(len(pool), bool)
        for k in range(min(n, len(pool))):
            gain = (1 - diversity) * relevance - diversity * (nearest if k else 0.0)
            pick = int(np.argmax(np.where(free, gain, -np.inf)))
            free[pick] = False
            out_places[r, k], out_scores[r, k] = pool[pick], value[pick]
            nearest = np.maximum(nearest, unit @ unit[pick])
    return out_places, out_scores
