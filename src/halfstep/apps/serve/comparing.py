"""Two profiles side by side: what both have, what one lacks, and what of that brings them closest. Knows no HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.apps.serve.facets import Where
from halfstep.apps.serve.listed import scored
from halfstep.apps.serve.problems import FieldError, Refusal
from halfstep.apps.serve.ranking import RankingAnswers
from halfstep.figures.plane import unit_rows


def compare(
    ranking: RankingAnswers,
    to: Any,
    user: Any = None,
    items: list[Any] | None = None,
    n: int = 50,
    where: Where | None = None,
    relation: str | None = None,
) -> dict[str, Any]:
    """Somebody, known or described by `items`, beside the known user `to`.

    likeness : cosine of the two positions, the first one folded in from its items. The gain of an item that is lacking
    is what it adds to that, folded in exactly with it: what to learn first.
    where : what must be known of items that count. relation : how they must be related to `to`.
    """
    if not ranking.folds_items:
        raise Refusal(422, "this model cannot place somebody new from items alone, so it cannot compare")
    if (user is None) == (items is None):
        raise FieldError("user", "give either `user` (an id) or `items` (what somebody new has)")
    goal = ranking.users.row(to, "to")
    own = ranking.items_of(ranking.users.row(user, "user")) if items is None else ranking.items.rows(items, "items")
    if not len(own):
        raise FieldError("items", "is empty; give at least one")
    wanted = ranking.items_of(goal)
    if relation is not None:
        wanted = wanted[ranking.facets.related(goal, wanted, relation)]
    allowed = ranking.facets.allowed("items", where)
    if allowed is not None:
        wanted = wanted[allowed[wanted]]
    lacking, both = np.setdiff1d(wanted, own), np.intersect1d(wanted, own)
    likeness = _likeness(ranking, own, lacking, goal)
    gain = likeness[1:] - likeness[0]
    order = np.lexsort((lacking, -gain))[:n]
    return {
        "to": ranking.users.describe(np.array([goal]))[0],
        "likeness": round(float(likeness[0]), 6),
        "both": ranking.items.describe(both[np.argsort(-ranking.popularity[both], kind="stable")]),
        "lacking": scored(ranking.items.describe(lacking[order]), gain[order], "gain"),
        "only_you": ranking.items.describe(np.setdiff1d(own, ranking.items_of(goal))),
    }


def _likeness(
    ranking: RankingAnswers, own: NDArray[np.int64], lacking: NDArray[np.int64], goal: int
) -> NDArray[np.float64]:
    """(1 + lacking,): cosine to the goal of somebody with `own`, and of the same with each lacking item in turn."""
    rows = [own, *(np.append(own, item) for item in lacking)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    cells = sp.csr_array(
        (np.ones(indptr[-1], np.float32), np.concatenate(rows), indptr), shape=(len(rows), len(ranking.items))
    )
    cells.sort_indices()
    return np.asarray(unit_rows(ranking.model.transform(cells)) @ unit_rows(ranking.model.user_factors_[[goal]])[0])
