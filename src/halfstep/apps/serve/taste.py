"""How the users of a model of ratings differ, in the coordinates of its rows. Knows fitted rows, not what they mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Taste(NamedTuple):
    """How users differ: covariance of their rows (d, d), rows of items (m, d), the noise of one rating."""

    spread: NDArray[np.float64]
    items: NDArray[np.float64]
    noise: float


def taste_of(model: Any) -> Taste | None:
    """Of a model with rows of both sides; None where it has none. Of draws the last one, where rows fit each other.

    Without a noise of its own (`PLQMF`), a rating counts as half noise.
    """
    fit = model.fitted_
    if hasattr(fit, "alphas"):
        users, items, noise = fit.users[-1], fit.items[-1], 1 / float(fit.alphas[-1])
    elif hasattr(fit, "rows"):
        (users, items), noise = fit.rows, None
    else:
        return None
    spread, rows = np.cov(np.asarray(users, np.float64), rowvar=False), np.asarray(items, np.float64)
    if noise is None:
        noise = max(float(np.einsum("ij,jk,ik->i", rows, spread, rows).mean()), 1e-12)
    return Taste(np.atleast_2d(spread), rows, noise)
