"""Blend: a weighted sum of recommenders, their scores put on one scale for each user. One model, one file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from halfstep.core.fitted import FromFit
from halfstep.core.initial import seed_from
from halfstep.data import files as persistence
from halfstep.data.files import ModelFileError, Saved
from halfstep.data.names import labels_of
from halfstep.data.table import CellsHere, from_saved, read_table, to_arrays
from halfstep.errors import check_number
from halfstep.metrics import checked_k
from halfstep.models.answers import Explanation, Ranking
from halfstep.models.baselines import ItemKNN, Popularity
from halfstep.models.ease import EASE
from halfstep.models.fold_in import somebody_with
from halfstep.models.held_out import HeldOut, RankingMetric, keep_some
from halfstep.models.item_based import CellsFit
from halfstep.models.item_graph import ItemGraph
from halfstep.models.item_matrix import best_of_blocks
from halfstep.models.mixing import blended, chosen_weights, scaled_scores, spread
from halfstep.models.newcomers import NewcomerRecommender
from halfstep.models.recommend import Best, Scorer
from halfstep.models.wals import WALS

PARTS: dict[str, Any] = {kind.__name__: kind for kind in (WALS, ItemGraph, EASE, ItemKNN, Popularity)}
"""What a file can hold the parts of."""


@dataclass(frozen=True, eq=False)
class BlendFit(CellsFit):
    """Who has what, the fitted parts and what each counts."""

    parts: tuple[Any, ...]
    weights: NDArray[np.float64]
    trials: tuple[dict[str, Any], ...]

    @cached_property
    def directions(self) -> sp.csr_array:
        """The cells, columns scaled to length 1, so that their products are cosines; by their largest first, whose
        square may be no number."""
        cells = sp.csr_array(self.history, dtype=np.float64)
        cells = _columns_over(cells, abs(cells).max(axis=0).toarray())
        return _columns_over(cells, np.sqrt(cells.multiply(cells).sum(axis=0)))


def _columns_over(cells: sp.csr_array, sizes: NDArray[Any]) -> sp.csr_array:
    """Columns divided by their sizes; those of size 0 as they are."""
    sizes = np.asarray(sizes).ravel()
    return sp.csr_array(cells @ sp.diags_array(1 / np.where(sizes > 0, sizes, 1.0)))


@dataclass(frozen=True, eq=False)
class BlendScorer:
    """Blended scores of all items for rows of users, a block at a time."""

    fit: BlendFit
    seen: Any
    rows: NDArray[Any] | None

    def scores(self, block: slice) -> NDArray[np.float64]:
        rows = None if self.rows is None else self.rows[block]
        return blended(scaled_scores(self.fit.parts, self.seen[block], rows), self.fit.weights)

    def best(self, k: int, seen: Any, allowed: NDArray[np.int64] | None) -> Best:
        order = self.fit.by_popularity
        if allowed is not None:
            order = order[np.isin(order, allowed)]
        return best_of_blocks(self.scores, self.seen.shape, k, seen, order)

    def alike(self, items: NDArray[Any]) -> NDArray[Any]:
        columns = self.fit.directions[:, items]
        return np.asarray((columns.T @ columns).toarray())


class Blend(NewcomerRecommender[BlendFit]):
    """score_uj = sum_m w_m s_m(u, j) / sd_m(u), where sd_m(u) is the standard deviation of part m's scores of user u.

    Dividing by it puts parts on one scale for each user; nothing is subtracted, so what items contribute still adds up.

    Parameters
    ----------
    models : recommenders with `score_rows`: WALS, ItemGraph, EASE, ItemKNN, Popularity. They are cloned, never changed.
    weights : w, one number >= 0 for each model; None chooses them: a fifth of the cells of every user is kept apart,
        the models are fitted to the rest, and weights are moved greedily from the best single model while `metric`
        rises on the cells kept apart. Then the models are fitted to everything.
    metric : what weights are chosen by, such as "ndcg@20".
    random_state : decides which cells are kept apart.

    Attributes
    ----------
    models_ : the fitted parts. weights_ : (models,), summing to 1. trials_ : every weighting that was tried, with its
        value on the cells kept apart; empty where weights were given.
    """

    weights_ = FromFit[NDArray[np.float64]]("weights")
    models_ = FromFit[tuple[Any, ...]]("parts")
    trials_ = FromFit[tuple[dict[str, Any], ...]]("trials")
    user_ids_ = FromFit[NDArray[Any]]("users.ids")
    item_ids_ = FromFit[NDArray[Any]]("items.ids")
    user_labels_ = FromFit["NDArray[Any] | None"]("user_labels")
    item_labels_ = FromFit["NDArray[Any] | None"]("item_labels")
    n_features_in_ = FromFit[int]("n_features")

    def __init__(
        self,
        models: Sequence[Any] = (),
        weights: Sequence[float] | None = None,
        *,
        metric: str = "ndcg@20",
        random_state: Any = 0,
    ) -> None:
        self.models = models
        self.weights = weights
        self.metric = metric
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, user: str | None = None, item: str | None = None, weight: str | None = None
    ) -> Self:
        """Fit every part to interactions, as `WALS.fit` takes them, and choose weights where none were given."""
        if not isinstance(self.models, Sequence) or not len(self.models):
            raise ValueError(
                "models is empty or no list; give the recommenders to blend, such as [WALS(), ItemGraph()]."
            )
        for model in self.models:
            if not hasattr(model, "score_rows"):
                raise TypeError(f"models holds a {type(model).__name__}, which has no score_rows; give {list(PARTS)}.")
        given, metric = self._given(), RankingMetric.of(self.metric)
        table = read_table(X, user=user, item=item, weight=weight, dtype=np.float64)
        cells = sp.csr_array(table.cells.to_csr())
        trials: list[dict[str, Any]] = []
        if given is None:
            train, hidden = keep_some(cells, seed_from(self.random_state))
            kept = HeldOut.of(train, hidden, seed_from(self.random_state))
            parts = [clone(model).fit(train) for model in self.models]
            given = chosen_weights(scaled_scores(parts, kept.seen, kept.rows), kept, metric, trials)
        fitted = tuple(clone(model).fit(X, user=user, item=item, weight=weight) for model in self.models)
        self.fitted_ = BlendFit(table, fitted, given / given.sum(), tuple(trials))
        return self

    def _given(self) -> NDArray[np.float64] | None:
        if self.weights is None:
            return None
        weights = np.asarray(self.weights, np.float64)
        if weights.shape != (len(self.models),) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(f"weights={self.weights!r} must be {len(self.models)} numbers >= 0, one for each model.")
        if not weights.any():
            raise ValueError("every weight is zero; give at least one model a weight above 0.")
        return weights

    # ------------------------------------------------------------------ answers

    def _scorer(self, rows: NDArray[Any]) -> Scorer:
        return BlendScorer(self._fit(), self.seen(rows), rows)

    _cells_as = (np.float32, False)

    def _new_scorer(self, given: CellsHere, how: str, features: Any = None) -> Scorer:
        return BlendScorer(self._fit(), sp.csr_array(given.cells.to_csr()), None)

    def similar_items(self, item: Any, n: int = 10) -> Ranking:
        """The `n` items that most of the same users have: the cosine of columns of the interactions."""
        fit = self._fit()
        check_number("n", n, at_least=1, whole=True)
        place = int(self.item_positions([item])[0])
        order = fit.by_popularity[fit.by_popularity != place]
        likeness = (fit.directions.T @ fit.directions[:, [place]]).toarray().ravel()[order]
        best = np.argsort(-likeness, kind="stable")[:n]
        return Ranking(fit.items.take(order[best]), likeness[best], labels_of(fit.item_labels, order[best]))

    def explain(self, user: Any = None, item: Any = None, *, items: Iterable[Any] | None = None) -> Explanation:
        """What each item the user has contributes to the blended score, through all parts; they sum to it."""
        fit = self._fit()
        if item is None or (user is None) == (items is None):
            raise ValueError("explain needs `item` and either `user` (an id) or `items` (what somebody new has).")
        has = None if items is None else list(items)
        if has is None:
            rows = self.user_positions([user])
            seen = self.seen(rows)
        else:
            rows, seen = None, somebody_with(fit, has, None, np.float32).cells.to_csr()
        together: dict[Any, float] = {}
        for part, weight in zip(fit.parts, fit.weights, strict=True):
            if weight:
                times = weight / spread(part.score_rows(sp.csr_array(seen), rows))[0]
                why = part.explain(user, item, items=has)
                for id, contribution in zip(why.ids.tolist(), why.contributions, strict=True):
                    together[id] = together.get(id, 0.0) + float(times * contribution)
        order = sorted(together, key=lambda id: -abs(together[id]))
        ids = np.array(order, object if "popularity" in together else fit.items.ids.dtype)
        labels = None
        if fit.item_labels is not None and "popularity" not in together:
            labels = labels_of(fit.item_labels, self.item_positions(ids))
        parts = np.array([together[id] for id in order])
        return Explanation(float(parts.sum()), ids, parts, labels)

    def score_rows(self, seen: Any, rows: Any = None) -> NDArray[np.float64]:
        """(len, n_items) blended scores of all items; seen items are not masked. Dense: pass a block at a time."""
        fit = self._fit()
        return blended(scaled_scores(fit.parts, sp.csr_array(seen), rows), fit.weights)

    def rank_items(self, seen: Any, n: int, rows: Any = None) -> NDArray[np.int32]:
        """(len, n) positions of the best items that are not stored in `seen`, padded with -1.

        rows : training rows whose fitted state is used; None folds the rows of `seen` in.
        """
        seen, n = sp.csr_array(seen), checked_k(n, "n")
        scorer = BlendScorer(self._fit(), seen, None if rows is None else np.asarray(rows))
        places, _ = scorer.best(min(n, seen.shape[1]), seen, None)
        return np.pad(places, ((0, 0), (0, n - places.shape[1])), constant_values=-1)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all parts, ids and who has what as one safetensors file; `halfstep.load` reads it back."""
        fit = self._fit()
        arrays, parts = to_arrays(fit.table, np.float64), []
        for number, part in enumerate(fit.parts):
            if type(part).__name__ not in PARTS:
                raise ValueError(f"models holds a {type(part).__name__}; a file keeps {list(PARTS)}.")
            kept = part.to_state()
            parts.append({"kind": type(part).__name__, "params": kept.params, "meta": kept.meta})
            arrays |= {f"{number}.{name}": array for name, array in kept.arrays.items()}
        meta = {"parts": parts, "weights": fit.weights.tolist(), "trials": list(fit.trials)}
        params = {
            "weights": None if self.weights is None else [float(w) for w in self.weights],
            "metric": self.metric,
            "random_state": self.random_state if isinstance(self.random_state, int) else None,
        }
        persistence.save(path, "Blend", params, arrays, meta, {"user": fit.users, "item": fit.items})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """The blend that a file holds; `halfstep.load` calls this."""
        table, parts = from_saved(saved), []
        for number, kept in enumerate(saved.meta["parts"]):
            if kept["kind"] not in PARTS:
                raise ModelFileError(f"{saved.path}: a part is a {kept['kind']!r}; known parts are {list(PARTS)}")
            parts.append(PARTS[kept["kind"]].from_saved(saved.part(f"{number}.", kept["kind"], kept)))
        model: Self = saved.made(cls, models=[clone(part) for part in parts])
        weights = np.asarray(saved.meta["weights"], np.float64)
        if weights.shape != (len(parts),):
            raise ModelFileError(f"{saved.path}: it has {len(weights)} weights for {len(parts)} parts")
        trials = tuple(saved.meta["trials"])
        model.fitted_ = BlendFit(table, tuple(parts), weights, trials)
        return model


def blend_of_fitted(blend: Blend, parts: Sequence[Any], table: CellsHere) -> Blend:
    """The blend, whose weights are given, of parts that were fitted to these cells already."""
    given = blend._given()
    assert given is not None
    blend.fitted_ = BlendFit(table, tuple(parts), given / given.sum(), ())
    return blend
