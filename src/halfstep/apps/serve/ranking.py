"""What a recommender answers: rankings, reasons, neighbours, a map. JSON-able results; knows models, not HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.apps.serve.facets import Facets, Where, titles
from halfstep.apps.serve.listed import number, reasons, scored, with_labels
from halfstep.apps.serve.names import NamesAsked
from halfstep.apps.serve.places import Places
from halfstep.apps.serve.problems import FieldError, Refusal, at_most
from halfstep.apps.serve.settings import Settings
from halfstep.apps.serve.told import FeatureNames
from halfstep.core import losses
from halfstep.figures.views import cell_counts
from halfstep.models.recommend import top_k


class RankingAnswers:
    """Answers of a recommender: `WALS`, `PLQMF`, and those without factors, which have no map and no like users."""

    def __init__(self, model: Any, settings: Settings, path: Path | None = None) -> None:
        self.model = model
        self.settings = settings
        activity, self.popularity = cell_counts(model.seen, (len(model.user_ids_), len(model.item_ids_)))
        fit = model.fitted_
        self.has_factors = hasattr(model, "item_factors_")
        others = (names.aliases for names in fit.names) if hasattr(fit, "names") else (None, None)
        users, items = others
        labels: Any = fit.user_labels, fit.item_labels
        if settings.about is not None and labels[0] is None and labels[1] is None:
            labels = titles(settings.about, fit.users, fit.items)
        self.users = NamesAsked(fit.users, labels[0], activity, settings.user_name, users)
        self.items = NamesAsked(fit.items, labels[1], self.popularity, settings.item_name, items)
        self.facets = Facets() if settings.about is None else Facets.read(settings.about, fit.users, fit.items)
        self.places = Places(model.item_factors_, self.items, path) if self.has_factors else None

    @property
    def folds_items(self) -> bool:
        """Whether somebody new can be described by items alone, without ratings."""
        return "weights" in signature(self.model.recommend_for).parameters

    @property
    def can_explain(self) -> bool:
        quadratic = losses.get(getattr(self.model, "loss", "squared")).is_quadratic
        return self.folds_items and hasattr(self.model, "explain") and quadratic

    def cost(self, rows: int = 1) -> int:
        """Multiply-adds to score every item for so many rows."""
        return rows * int(self.model.item_factors_.size if self.has_factors else 64 * len(self.items))

    # ------------------------------------------------------------------ rankings

    def recommend(
        self,
        users: list[Any],
        n: int,
        *,
        candidates: list[Any] | None = None,
        exclude: list[Any] | None = None,
        keep_seen: bool = False,
        diversity: float = 0.0,
        strategy: str | None = None,
        where: Where | None = None,
    ) -> list[dict[str, Any]]:
        """The best items of known users, one entry for each user."""
        self._within(n, users=users, candidates=candidates, exclude=exclude)
        chosen, rows = self._candidates(candidates, where), self.users.rows(users, "users")
        if chosen is not None and not len(chosen):
            return [{"user": user, "items": []} for user in self.users.describe(rows)]
        return self.recommend_rows(
            rows,
            n,
            candidates=chosen,
            exclude=self._ids(exclude, "exclude") or [],
            keep_seen=keep_seen,
            diversity=diversity,
            strategy=strategy,
        )

    def recommend_rows(
        self,
        users: NDArray[np.int64] | list[int],
        n: int,
        *,
        candidates: Any = None,
        exclude: Sequence[Any] = (),
        keep_seen: bool = False,
        diversity: float = 0.0,
        strategy: str | None = None,
    ) -> list[dict[str, Any]]:
        """The best items of rows of users. The plain case goes straight to the core."""
        self._without_draws(strategy)
        rows, n = np.asarray(users, np.int64), min(n, len(self.items))
        if self.has_factors and candidates is None and not exclude and diversity == 0:
            seen = None if keep_seen else self.model.seen(rows)
            left, right = self.model.fitted_.rows  # their dot products are the scores, biases included
            places, scores = top_k(left[rows], right, n, seen, self.settings.threads)
            there = places >= 0  # the padding of short lists is left out
            named = self.items.describe(places[there])
        else:
            options: dict[str, Any] = {"candidates": candidates, "exclude": exclude, "keep_seen": keep_seen}
            best = self.model.recommend(self.users.index.take(rows), n, diversity=diversity, **options)
            scores, there = best.scores, ~np.isnan(best.scores)
            named = self._named(best.ids[there], None if best.labels is None else best.labels[there])
        items = iter(scored(named, scores[there]))
        lengths = there.sum(axis=1).tolist()
        known = self.users.describe(rows)
        return [{"user": user, "items": list(islice(items, n))} for user, n in zip(known, lengths, strict=True)]

    def recommend_for(
        self,
        items: list[Any] | None,
        n: int,
        *,
        features: dict[str, Any] | None = None,
        weights: list[float] | None = None,
        ratings: list[float] | None = None,
        how: str = "fold_in",
        candidates: list[Any] | None = None,
        exclude: list[Any] | None = None,
        diversity: float = 0.0,
        why: int = 0,
        strategy: str | None = None,
        where: Where | None = None,
    ) -> dict[str, Any]:
        """The best items for somebody new who has `items`, or of whom `features` are known, or both.

        why : so many of the given items, and as many features, that speak most for each.
        """
        self._without_draws(strategy)
        self._within(n, items=items, candidates=candidates, exclude=exclude)
        if items is None and features is None:
            raise FieldError("items", "is missing, and so is `features`; give one of them, or both")
        self._check_features(features, items, how)
        having = items or []
        if where and not self.folds_items:
            raise FieldError("where", "lists from ratings cannot be narrowed; leave it out")
        if not self.folds_items:
            return self._recommend_for_ratings(having, ratings, n)
        if ratings is not None:
            raise FieldError("ratings", "this model knows who has what, not ratings; use `weights`")
        if weights is not None and len(weights) != len(having):
            raise FieldError("weights", f"{len(weights)} given for {len(having)} items; give one for each item")
        if why and not self.can_explain:
            raise FieldError("why", "this model cannot give reasons; leave `why` out")
        if why and weights is not None:
            raise FieldError("why", "reasons are for items that count alike; leave `weights` out")
        given = self._ids(items, "items")
        told = {} if features is None else {"features": features}
        chosen = self._candidates(candidates, where)
        if chosen is not None and not len(chosen):
            return {"items": []}
        best = self.model.recommend_for(
            given,
            n,
            **told,
            weights=weights,
            how=how,
            candidates=chosen,
            exclude=self._ids(exclude, "exclude") or (),
            diversity=diversity,
        )
        ranked = scored(self._named(best.ids, best.labels), best.scores)
        for entry in ranked if why else ():
            entry["why"] = reasons(self.model.explain(items=given, item=entry["id"], **told), why)
        return {"items": ranked}

    def _check_features(self, features: dict[str, Any] | None, items: list[Any] | None, how: str) -> None:
        """Refuse features that the model cannot read."""
        if features is None:
            return
        known = getattr(self.model.fitted_, "known", (None, None))[0]
        if known is None:
            raise FieldError("features", "this model was fitted without features of users; leave them out")
        if not self.folds_items:
            raise FieldError("features", f"a {type(self.model).__name__} is not asked by features here; leave them out")
        if how == "average":
            raise FieldError("how", "'average' looks at items alone; leave `features` out, or take 'fold_in'")
        try:
            known.encoded(features, 1)
        except (ValueError, TypeError) as error:
            raise FieldError("features", str(error)) from error

    def _recommend_for_ratings(self, items: list[Any], ratings: list[float] | None, n: int) -> dict[str, Any]:
        if ratings is None or len(ratings) != len(items):
            raise FieldError("ratings", f"this model needs a rating for each of the {len(items)} items")
        best = self.model.recommend_for(self._ids(items, "items"), ratings, n)
        return {"items": scored(self._named(best.ids, best.labels), best.scores)}

    def explain(self, item: Any, user: Any = None, items: list[Any] | None = None, n: int = 10) -> dict[str, Any]:
        """What each item somebody has contributes to the score of `item`, largest first."""
        if not self.can_explain:
            raise Refusal(422, "this model cannot give reasons; they need the squared loss and fold-in")
        if (user is None) == (items is None):
            raise FieldError("user", "give either `user` (an id) or `items` (what somebody new has)")
        self._within(n, items=items)
        target = self.items.row(item, "item")
        who: dict[str, Any] = (
            {"items": self._ids(items, "items")}
            if items is not None
            else {"user": self.users.index.take([self.users.row(user, "user")]).tolist()[0]}
        )
        parts = self.model.explain(item=self.items.index.take([target]).tolist()[0], **who)
        return {
            "item": self.items.describe(np.array([target]))[0],
            "score": number(parts.score),
            "contributions": reasons(parts, n),
        }

    # ------------------------------------------------------------------ neighbours

    def similar(
        self,
        of: str,
        n: int,
        *,
        item: Any = None,
        user: Any = None,
        items: list[Any] | None = None,
        text: bool = False,
        where: Where | None = None,
    ) -> dict[str, Any]:
        """Rows with the largest cosine similarity of factors to an item, a user, or somebody new who has `items`.

        of : "items" or "users", what is looked for; where : what must be known of them.
        """
        allowed = self.facets.allowed(of, where)
        self._within(n, items=items)
        given = {name: value for name, value in (("item", item), ("user", user), ("items", items)) if value is not None}
        if len(given) != 1:
            raise FieldError("item", f"give one of `item`, `user` and `items`, not {sorted(given) or 'none'}")
        if not self.has_factors:
            return self._like_item(of, given.get("item"), n, text)
        names, factors = (
            (self.users, self.model.user_factors_) if of == "users" else (self.items, self.model.item_factors_)
        )
        itself: list[int] = []
        if items is not None:
            vector, itself = self.vector(items), [] if of == "users" else self.items.rows(items, "items").tolist()
        elif item is not None:
            row = self.items.row(item, "item", text)
            vector, itself = self.model.item_factors_[row], [row] if of == "items" else []
        else:
            row = self.users.row(user, "user", text)
            vector, itself = self.model.user_factors_[row], [row] if of == "users" else []
        likeness = factors @ vector / np.maximum(self._lengths[of] * np.linalg.norm(vector), 1e-30)
        likeness[itself] = -np.inf
        if allowed is not None:
            likeness[~allowed] = -np.inf
        n = min(n, int(np.isfinite(likeness).sum()))
        best = np.argpartition(-likeness, max(n - 1, 0))[:n] if n < len(likeness) else np.arange(len(likeness))
        best = best[np.lexsort((best, -likeness[best]))]
        return {"of": of, "results": scored(names.describe(best), likeness[best])}

    def _like_item(self, of: str, item: Any, n: int, text: bool) -> dict[str, Any]:
        """Items like an item, of a model that compares nothing else."""
        if of != "items" or item is None:
            raise Refusal(422, f"a {type(self.model).__name__} compares items alone; give `item`, and `of` as items")
        row = self.items.row(item, "item", text)
        best = self.model.similar_items(self.items.index.take([row]).tolist()[0], min(n, len(self.items) - 1))
        there = ~np.isnan(best.scores)
        labels = None if best.labels is None else best.labels[there]
        return {"of": of, "results": scored(with_labels(best.ids[there], labels), best.scores[there])}

    def vector(self, items: list[Any]) -> NDArray[Any]:
        """Factors of somebody new who has `items`, (d,)."""
        if not self.folds_items:
            raise Refusal(422, "this model cannot place somebody new from items alone; ask for a known user")
        rows = self.items.rows(items, "items")
        if not len(rows):
            raise FieldError("items", "is empty; give at least one")
        cells = sp.csr_array((np.ones(len(rows), np.float32), (np.zeros(len(rows), int), rows)), (1, len(self.items)))
        return np.asarray(self.model.transform(cells)[0])

    def items_of(self, row: int) -> NDArray[np.int64]:
        """Items that a row of users has."""
        return np.unique(self.model.seen(np.array([row])).indices).astype(np.int64)

    def profile(self, user: Any, text: bool = False, relation: str | None = None) -> dict[str, Any]:
        """What a known user has, heaviest first; with a `relation`, what is related to them that way."""
        row = self.users.row(user, "user", text)
        cells = self.model.seen(np.array([row]))
        order = np.argsort(-cells.data, kind="stable")
        if relation is not None:
            order = order[self.facets.related(row, cells.indices[order], relation)]
        order = order[: self.settings.max_list]
        items = scored(self.items.describe(cells.indices[order]), cells.data[order], "weight")
        return {"user": self.users.describe(np.array([row]))[0], "items": items}

    @cached_property
    def example(self) -> dict[str, Any]:
        """A known user worth a first look: among middling numbers of items, the most common ones."""
        counts = self.users.popularity
        middling = np.flatnonzero(np.abs(counts - np.median(counts)) <= max(1.0, 0.1 * float(np.median(counts))))
        middling = middling[: self.settings.max_list]
        seen = self.model.seen(middling)
        common = np.add.reduceat(self.popularity[seen.indices], seen.indptr[:-1]) / np.maximum(np.diff(seen.indptr), 1)
        return self.users.describe(middling[[int(np.argmax(common))]])[0]

    def complete(self, text: str, of: str, n: int, language: str | None = None) -> dict[str, Any]:
        """Names for what somebody has typed so far, most likely first."""
        side = self.users if of == "users" else self.items
        self.allow(n, side)
        names = side if language is None else self.facets.names(side, language)
        return {"results": names.describe(names.complete(text, min(n, len(names))))}

    @cached_property
    def told(self) -> FeatureNames | None:
        """Features that somebody new may be described by; None where the fit knew none by name."""
        known = getattr(self.model.fitted_, "known", (None, None))[0] if self.folds_items else None
        names = None if known is None else FeatureNames(known.features)
        return names if names else None

    def features(self, text: str, n: int) -> dict[str, Any]:
        """Features of users by name, those that most users have first."""
        at_most("n", n, self.settings.max_n)
        assert self.told is not None  # without names /features is not among the answers
        return {"results": self.told.complete(text, n)}

    # ------------------------------------------------------------------ the map

    def map(self, n: int) -> dict[str, Any]:
        """The `n` most popular items on the map, and the groups they fall into."""
        assert self.places is not None  # without factors /map is not among the answers
        rows = np.sort(np.argsort(-self.popularity, kind="stable")[:n])
        return {
            "points": self.places.points(self.items, rows, self.model.item_factors_),
            "groups": self.places.groups,
            "method": self.places.method,
            "total": len(self.items),
        }

    def locate(self, items: list[Any], show: list[Any], users: list[Any]) -> dict[str, Any]:
        """Where somebody who has `items` stands on the map, and where other items and users do."""
        assert self.places is not None
        self._within(1, items=items, show=show, users=users)
        place = self.places.plane.place(self.vector(items)[None, :])[0] if items else None
        return {
            "position": None if place is None else [number(c) for c in place],
            "items": self.places.points(self.items, self.items.rows(show, "show"), self.model.item_factors_),
            "users": self.places.points(self.users, self.users.rows(users, "users"), self.model.user_factors_),
        }

    def prepare(self) -> None:
        """Compute what is needed once, ahead of the first request."""
        self.items.prepare()
        self.users.prepare()
        if self.places is None:
            return
        self.places.prepare()
        _ = self._lengths
        if self.folds_items:
            self.vector(self.items.index.take([0]).tolist())

    @cached_property
    def _lengths(self) -> dict[str, NDArray[Any]]:
        sides = {"users": self.model.user_factors_, "items": self.model.item_factors_}
        return {name: np.sqrt(np.einsum("ij,ij->i", f, f)) for name, f in sides.items()}

    # ------------------------------------------------------------------ small things

    def allow(self, n: int, names: NamesAsked | None = None) -> None:
        """Raise where a list of `n` is above the limit; nobody can ask for more than there is."""
        at_most("n", min(n, len(self.items if names is None else names)), self.settings.max_n)

    def _without_draws(self, strategy: str | None) -> None:
        if strategy is not None:
            raise FieldError("strategy", f"this {type(self.model).__name__} has one answer and no draws; leave it out")

    def _within(self, n: int, **lists: list[Any] | None) -> None:
        self.allow(n)
        for name, values in lists.items():
            at_most(name, len(values or ()), self.settings.max_list, "entries are")

    def _named(self, ids: NDArray[Any], labels: NDArray[Any] | None) -> list[dict[str, Any]]:
        """What a model has answered, by the titles of the files where the model itself has none."""
        if labels is None and self.items.labels is not None:
            return self.items.describe(self.items.index.positions(ids))
        return with_labels(ids, labels)

    def _candidates(self, given: list[Any] | None, where: Where | None) -> Any:
        """Ids that a list may hold, of those given and those that meet what is asked; None for all."""
        allowed = self.facets.allowed("items", where)
        if allowed is None:
            return self._ids(given, "candidates")
        rows = np.flatnonzero(allowed)
        if given is not None:
            rows = np.intersect1d(rows, self.items.rows(given, "candidates"))
        return self.items.index.take(rows)

    def _ids(self, given: list[Any] | None, field: str) -> list[Any] | None:
        return None if given is None else list(self.items.index.take(self.items.rows(given, field)).tolist())
