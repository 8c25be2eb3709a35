"""Which ratings a model may see, and which it must predict. Knows pairs and times; no model, no metric.

Every rating is in exactly one place. Ratings of users or items that training has not seen stay in the test: a model
has to answer them too, and `cold` counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.data.datasets.ratings import Ratings
from halfstep.data.ids import encode


@dataclass(frozen=True, eq=False)
class RatingSplit:
    """What a model is fitted on, and what it must predict. protocol : name of the function that made the split."""

    train: Ratings
    test: Ratings
    protocol: str

    @cached_property
    def cold(self) -> int:
        """How many test ratings have a user or an item that training has not."""
        sides = (encode(self.train.pairs[:, side], "id")[0].find(self.test.pairs[:, side]) < 0 for side in (0, 1))
        return int(np.logical_or(*sides).sum())


def random_ratings(data: Ratings, *, share: float = 0.1, seed: int = 0) -> RatingSplit:
    """Each rating is held out with probability `share`: `default_rng(seed).random(N) < share`."""
    _checked_share(share)
    return _split(data, np.random.default_rng(seed).random(len(data)) < share, "random")


def ratings_per_user(data: Ratings, *, share: float = 0.2, seed: int = 0) -> RatingSplit:
    """Hold `round(share * n)` of the n ratings of every user out, at least one; users with one rating only train."""
    _checked_share(share)
    users = encode(data.pairs[:, 0], "user")[1]
    counts = np.bincount(users)
    wanted = np.where(counts > 1, np.clip(np.rint(share * counts), 1, counts - 1), 0)
    order = np.lexsort((np.random.default_rng(seed).random(len(data)), users))
    place = np.empty(len(data), np.int64)
    place[order] = np.arange(len(data)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _split(data, place < wanted[users], "per_user")


def ratings_by_time(data: Ratings, *, share: float = 0.1, cutoff: Any = None, seed: int = 0) -> RatingSplit:
    """Learn from the past, predict the future: ratings later than `cutoff` are held out, else the latest `share`.

    Ratings of the same time as the last one of training train too. `seed` changes nothing.
    """
    if data.timestamps is None:
        raise ValueError("protocol='by_time' needs times and data has none; give Ratings(pairs, y, timestamps).")
    if cutoff is None:
        _checked_share(share)
        cutoff = np.sort(data.timestamps)[max(0, round((1 - share) * len(data)) - 1)]
    elif data.timestamps.dtype.kind == "M":
        cutoff = np.datetime64(cutoff)
    return _split(data, data.timestamps > cutoff, "by_time")


def ratings_of_new_users(data: Ratings, *, share: float = 0.2, seed: int = 0) -> RatingSplit:
    """Hold all ratings of a share of the users out, drawn at random: nothing is known of them, but perhaps features."""
    return _whole_side(data, 0, share, seed, "cold_users")


def ratings_of_new_items(data: Ratings, *, share: float = 0.2, seed: int = 0) -> RatingSplit:
    """Hold all ratings of a share of the items out, drawn at random."""
    return _whole_side(data, 1, share, seed, "cold_items")


RATING_PROTOCOLS: dict[str, Callable[..., RatingSplit]] = {
    "random": random_ratings,
    "per_user": ratings_per_user,
    "by_time": ratings_by_time,
    "cold_users": ratings_of_new_users,
    "cold_items": ratings_of_new_items,
}


def _whole_side(data: Ratings, side: int, share: float, seed: int, protocol: str) -> RatingSplit:
    _checked_share(share)
    index, codes = encode(data.pairs[:, side], ("user", "item")[side])
    held_out = np.random.default_rng(seed).permutation(len(index)) < round(share * len(index))
    return _split(data, held_out[codes], protocol)


def _split(data: Ratings, test: NDArray[np.bool_], protocol: str) -> RatingSplit:
    if not test.any() or test.all():
        raise ValueError(
            f"protocol={protocol!r} puts {int(test.sum())} of {len(data)} ratings into the test; both parts need some. "
            "Choose another share or cutoff, or give more ratings."
        )
    return RatingSplit(data.take(~test), data.take(test), protocol)


def _checked_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"share={share!r}; expected a share of the ratings between 0 and 1, such as 0.1.")
