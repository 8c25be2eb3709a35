"""How strongly features are held is learned from rows that are left out, in few columns."""

import numpy as np
import pytest
import scipy.sparse as sp

from halfstep.core.problem import Side
from halfstep.data.features import Features
from halfstep.models import feature_strength
from halfstep.models.feature_strength import GRID, best_strength
from halfstep.models.wals import WALS


def world(noise: float, n: int = 400, p: int = 12, m: int = 80):
    """Rows that are their features times weights, and noise; the cells of each are its best columns."""
    rng = np.random.default_rng(1)
    F, W, other = rng.normal(size=(n, p)), rng.normal(size=(p, 4)), rng.normal(size=(m, 4))
    rows = F @ W + noise * rng.normal(size=(n, 4))
    scores = rows @ other.T
    cells = sp.csr_array((scores > np.quantile(scores, 0.9, axis=1)[:, None]).astype(np.float64))
    return Side(np.ones(n)), rows, other, cells, Features.of(F)


@pytest.mark.parametrize("noise", [0.01, 8.0])
def test_a_search_that_ends_early_finds_what_the_whole_grid_does(noise, monkeypatch):
    given = world(noise)
    short = best_strength(*given, True, 1)
    monkeypatch.setattr(feature_strength, "WORSE", len(GRID))
    assert short == best_strength(*given, True, 1)


def test_the_less_features_say_the_more_strongly_they_are_held():
    assert best_strength(*world(0.01), True, 1) < best_strength(*world(8.0), True, 1)


def test_strengths_are_learned_in_few_columns_whatever_the_rank(monkeypatch):
    seen, best = [], feature_strength.best_strength

    def watched(side, own, *others):
        seen.append(own.shape[1])
        return best(side, own, *others)

    monkeypatch.setattr(feature_strength, "best_strength", watched)
    _, _, _, cells, features = world(0.5, m=300)
    WALS(rank=160, max_iter=2, random_state=0).fit(cells, user_features=features.matrix)
    assert seen == [feature_strength.COLUMNS]
