"""Generated ratings of a more lifelike kind than `datasets.make_ratings`: 60 factors of falling size, whole stars 1..5.

Words in the name of a kind: "decay" has normal factors and "genres" skewed ones; "mnar" rates rather what it likes;
"user" has users of different noise; "style" has users who spread their stars differently.
"""

from __future__ import annotations

import numpy as np

KINDS = ("decay", "decay-mnar", "decay-user-mnar", "decay-user-style-mnar", "genres-user-mnar")
FACTORS, LEAST = 60, 20


def world(kind: str, n: int, m: int, cells: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (cells, 2) of n users, each with 20 ratings at least, and m items by a power law; stars (cells,)."""
    rng, words = np.random.default_rng([seed, n]), kind.split("-")
    if "genres" in words:
        p, q = rng.gamma(0.5, 1, (n, FACTORS)) - 0.5, rng.gamma(0.4, 1, (m, FACTORS)) - 0.4
    else:
        p, q = rng.normal(size=(n, FACTORS)), rng.normal(size=(m, FACTORS))
    taste = (p * np.arange(1, FACTORS + 1) ** (-0.5 if "genres" in words else -0.6)) @ q.T
    taste *= 0.5 / taste.std()
    generous, good = rng.normal(0, 0.42, n), rng.normal(0, 0.5, m)
    active = (np.arange(n) + 0.02 * n) ** -0.7
    rng.shuffle(active)
    known = (np.arange(m) + 0.02 * m) ** -1.0
    good = 0.75 * good - 0.5 * (np.arange(m) / m - 0.5)  # what is known is better
    noise = np.exp(rng.normal(0, 0.35, n)) if "user" in words else np.ones(n)
    stretch = np.exp(rng.normal(0, 0.3, n)) if "style" in words else np.ones(n)
    truth = 3.6 + generous[:, None] + stretch[:, None] * (good + taste)
    wish = np.log(active)[:, None] + np.log(known) + (0.8 * (truth - 3.6) if "mnar" in words else 0)
    keys = wish + rng.gumbel(size=(n, m))
    chosen = np.zeros((n, m), bool)
    np.put_along_axis(chosen, np.argpartition(-keys, LEAST, axis=1)[:, :LEAST], True, 1)
    more = cells - int(chosen.sum())
    chosen.ravel()[np.argpartition(-np.where(chosen, -np.inf, keys).ravel(), more)[:more]] = True
    users, items = np.nonzero(chosen)
    stars = truth[users, items] + 0.85 * noise[users] * rng.normal(size=len(users))
    return np.column_stack([users, items]), np.clip(np.rint(stars), 1, 5)
