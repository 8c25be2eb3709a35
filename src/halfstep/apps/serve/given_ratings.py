"""What given ratings leave open: what to rate next, and which of them do not fit. Knows models of ratings, not HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.rating_parts import values_of
from halfstep.apps.serve.listed import number, scored
from halfstep.apps.serve.problems import FieldError, at_most
from halfstep.apps.serve.rating import LEVEL, RatingAnswers
from halfstep.apps.serve.taste import Taste
from halfstep.data.datasets.ratings import Ratings

ASKED_ABOUT = 500  # items that may be asked about: the most rated ones, which people are likely to know
MOST_FOLDED = 40  # ratings of somebody new that are left out one by one


def what_next(rating: RatingAnswers, user: Any = None, items: list[Any] | None = None, n: int = 5) -> dict[str, Any]:
    """Items whose rating would say most about the others, for a known user or somebody who rated `items`.

    gain : share of what is uncertain of all other ratings that this one would resolve. With S the covariance of the
    rows of users given what is rated so far, a rating of item j takes (v_k' S v_j)^2 / (s^2 + v_j' S v_j) from the
    variance of item k; the sum counts items as often as they are rated.
    """
    taste = rating.taste
    if taste is None:
        raise FieldError("user", f"a {type(rating.model).__name__} knows no taste, so no rating says more than another")
    known = rating.rated_by(user) if items is None else rating.items.rows(items, "items")
    S = _given(taste, taste.items[known])
    counts = rating.items.popularity
    allowed = np.setdiff1d(np.argsort(-counts, kind="stable")[:ASKED_ABOUT], known)
    V, weight = taste.items, counts / max(counts.sum(), 1)
    shared = V @ S @ V[allowed].T
    own = np.einsum("ij,jk,ik->i", V[allowed], S, V[allowed])
    gain = (weight @ shared**2) / (taste.noise + own)
    open_still = float(weight @ np.einsum("ij,jk,ik->i", V, S, V))
    share = gain / max(open_still, 1e-30)
    order = np.lexsort((allowed, -share))[:n]
    return {"results": scored(rating.items.describe(allowed[order]), share[order], "gain")}


def _given(taste: Taste, rated: NDArray[np.float64]) -> NDArray[np.float64]:
    """Covariance of the row of somebody who has rated these."""
    if not len(rated):
        return taste.spread
    cross = taste.spread @ rated.T
    within = rated @ cross + taste.noise * np.eye(len(rated))
    return np.asarray(taste.spread - cross @ np.linalg.solve(within, cross.T))


def do_not_fit(rating: RatingAnswers, items: list[Any], ratings: list[float]) -> dict[str, Any]:
    """Ratings of somebody new, each beside what the others make the model expect; least expected first.

    surprise : the difference in standard deviations of all differences, held to the noise of the model.
    """
    _numbers_only(rating)
    at_most("items", len(items), MOST_FOLDED, "entries are")
    if len(items) != len(ratings):
        raise FieldError("ratings", f"{len(ratings)} given for {len(items)} items; give one for each item")
    if len(items) < 2:
        raise FieldError("items", "has fewer than two; a rating is judged by the others")
    rows = rating.items.rows(items, "items")
    ids = rating.items.index.take(rows).tolist()
    expected = []
    for place, id in enumerate(ids):
        others = [other for k, other in enumerate(ids) if k != place]
        told = [value for k, value in enumerate(ratings) if k != place]
        best = rating.model.recommend_for(others, told, len(rating.items))
        expected.append(float(best.scores[best.ids.tolist().index(id)]))
    off = np.asarray(ratings) - np.array(expected)
    scale = max(float(np.sqrt(np.mean(off**2))), rating.scale)
    order = np.argsort(-np.abs(off), kind="stable")
    entries = rating.items.describe(rows[order])
    return {
        "results": [
            entry | {"given": number(ratings[k]), "expected": number(expected[k]), "surprise": number(off[k] / scale)}
            for entry, k in zip(entries, order.tolist(), strict=True)
        ]
    }


def judged(rating: RatingAnswers, data: Ratings, n: int = 20, level: float = LEVEL) -> dict[str, Any]:
    """A table of ratings beside what is expected: the least expected ones, and how the table as a whole fits."""
    _numbers_only(rating)
    at_most("body", len(data), 100 * rating.settings.max_list, "rows are")
    pairs = np.asarray(data.pairs, object)
    known = (rating.users.find(pairs[:, 0], text=True) >= 0) & (rating.items.find(pairs[:, 1], text=True) >= 0)
    if not known.any():
        raise FieldError("body", f"the model knows {rating.users.noun} and {rating.items.noun} of no row")
    for side, names in ((0, rating.users), (1, rating.items)):
        pairs[known, side] = names.index.take(names.find(pairs[known, side], text=True))
    pairs, y = pairs[known], np.asarray(data.y)[known]
    expected = values_of(rating.model, pairs)
    off = y - expected
    found: dict[str, Any] = {
        "rows": len(data),
        "unknown": int((~known).sum()),
        "mae": number(np.abs(off).mean()),
        "covered": None,
        "level": None,
    }
    bounds = None
    if rating.has_intervals:
        bounds = np.asarray(rating.model.predict_interval(pairs, level))
        found |= {"covered": number(((y >= bounds[:, 0]) & (y <= bounds[:, 1])).mean()), "level": level}
    scale = max(float(np.sqrt(np.mean(off**2))), 1e-12)
    surprise = off / scale if bounds is None else off / np.maximum(np.diff(bounds, axis=1)[:, 0] / 2, 1e-12)
    order = np.argsort(-np.abs(surprise), kind="stable")[:n]
    users, items = (
        names.describe(names.index.positions(pairs[order, side]))
        for side, names in ((0, rating.users), (1, rating.items))
    )
    found["results"] = [
        {"user": users[k], "item": items[k], "given": number(y[place]), "expected": number(expected[place])}
        | {"surprise": number(surprise[place])}
        | ({} if bounds is None else {"interval": [number(bound) for bound in bounds[place]]})
        for k, place in enumerate(order.tolist())
    ]
    return found


def _numbers_only(rating: RatingAnswers) -> None:
    if rating.has_classes:
        raise FieldError("ratings", f"this {type(rating.model).__name__} answers classes, which have no distance")
