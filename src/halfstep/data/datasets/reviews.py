"""Generated reviews of films that follow no model of this library, with names and the truth beside them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfstep.errors import check_number

from .generated import make_implicit
from .ratings import Ratings

FIRST = (
    *("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June", "Kai", "Lea", "Max", "Nora", "Otto"),
    *("Pia", "Quin", "Rosa", "Sam", "Tess", "Udo", "Vera", "Will", "Xenia", "Yara", "Zoe"),
)
QUALITIES = (
    *("Silent", "Golden", "Broken", "Distant", "Hidden", "Burning", "Frozen", "Crooked", "Endless", "Gentle"),
    *("Hollow", "Iron", "Lonely", "Midnight", "Narrow", "Paper", "Quiet", "Restless", "Scarlet", "Stolen"),
    *("Tender", "Unlikely", "Velvet", "Wandering", "Winter"),
)
THINGS = (
    *("Harbour", "Garden", "Letter", "Mountain", "Orchard", "Parade", "Railway", "Secret", "Station", "Summer"),
    *("Theatre", "Tower", "Voyage", "Window"),
)
GENRES = 6


class Reviews(NamedTuple):
    """ratings : with names for ids. clean : (N,) what people meant. mistaken : (N,) which ratings are slips."""

    ratings: Ratings
    clean: NDArray[np.float64]
    mistaken: NDArray[np.bool_]


def make_reviews(
    n_users: int = 500,
    n_items: int = 250,
    n_ratings: int = 12_000,
    *,
    mistakes: float = 0.05,
    random_state: int | np.random.Generator | None = 0,
) -> Reviews:
    """Stars from 1 to 5 as people give them, heavy tails and slips included.

    A film has a quality and one or two of six genres, of which the one that a user likes best counts; there is no
    product of factors. A user has a level and a stretch, so biases alone cannot describe them: stars are
    `level + stretch (quality + liking) + noise`, the noise a Student t with three degrees of freedom whose size is the
    user's own, rounded and clipped. A share `mistakes` is then turned upside down (6 - stars, 1 or 5 for a 3).
    """
    check_number("mistakes", mistakes, at_least=0)
    if mistakes > 1:
        raise ValueError(f"mistakes={mistakes!r} is a share of the ratings, from 0 to 1.")
    rng = np.random.default_rng(random_state)
    matrix = make_implicit(n_users, n_items, n_ratings, random_state=rng)
    places = np.column_stack([np.repeat(np.arange(n_users), np.diff(matrix.indptr)), matrix.indices])
    rng.shuffle(places)
    u, i = places.T
    quality, genres = rng.normal(0, 0.6, n_items), rng.integers(GENRES, size=(n_items, 2))
    likes = rng.gamma(0.5, 1.0, (n_users, GENRES))
    level, stretch, size = rng.normal(3.1, 0.4, n_users), rng.lognormal(0, 0.35, n_users), rng.gamma(4, 0.1, n_users)
    liking = np.maximum(likes[u, genres[i, 0]], likes[u, genres[i, 1]]) - 0.8
    clean = level[u] + stretch[u] * (quality[i] + liking)
    stars = np.clip(np.rint(clean + size[u] * rng.standard_t(3, len(u))), 1, 5)
    mistaken = np.zeros(len(u), bool)
    mistaken[rng.permutation(len(u))[: round(mistakes * len(u))]] = True
    turned = np.where(stars == 3, rng.choice([1.0, 5.0], len(u)), 6 - stars)
    users = np.array([_numbered(f"{FIRST[k % 26]} {chr(65 + k // 26 % 26)}.", k // 676) for k in range(n_users)])
    several = len(QUALITIES) * len(THINGS)
    films = [f"{QUALITIES[k % len(QUALITIES)]} {THINGS[k // len(QUALITIES) % len(THINGS)]}" for k in range(n_items)]
    items = np.array([_numbered(film, k // several) for k, film in enumerate(films)])
    data = Ratings(np.column_stack([users[u], items[i]]), np.where(mistaken, turned, stars), name="generated reviews")
    return Reviews(data, np.clip(clean, 1, 5), mistaken)


def _numbered(name: str, again: int) -> str:
    return f"{name} {again + 1}" if again else name
