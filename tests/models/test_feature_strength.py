"""How strongly features are held is learned from rows that are left out, in few columns."""

import numpy as np
import pytest
import scipy.sparse as sp

from halfstep.core.problem import Side
from halfstep.core.regression import Regression
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
    monkeypatch.setattr(feature_strength, "FIRST", tuple(range(len(GRID))))
    assert short == best_strength(*given, True, 1)


def test_the_less_features_say_the_more_strongly_they_are_held():
    assert best_strength(*world(0.01), True, 1) < best_strength(*world(8.0), True, 1)


def test_a_search_that_begins_on_the_wrong_side_of_noise_still_finds_the_better_side(monkeypatch):
    """Strong holds that rank well are found although the weakest of those looked at first has a better neighbour."""
    values = {30.0: 0.107, 10.0: 0.101, 3.0: 0.083, 1.0: 0.049, 0.3: 0.052, 0.1: 0.047, 0.03: 0.039}
    seen = []
    monkeypatch.setattr(feature_strength, "_worth", lambda *_: values[seen[-1]])
    held = Regression.held

    def watched(self, eta):
        seen.append(min(GRID, key=lambda strength: abs(strength * unit - eta)))
        return held(self, eta)

    side, own, other, cells, features = world(0.5)
    lengths = np.mean(np.sum(np.square(np.hstack([features.matrix.toarray(), np.ones((400, 1))])), axis=1))
    unit = 0.5 * lengths
    monkeypatch.setattr(Regression, "held", watched)
    assert best_strength(side, own, other, cells, features, True, 1) == 30.0
    assert len(seen) == len(set(seen)) < len(GRID)


def test_strengths_are_learned_in_few_columns_whatever_the_rank(monkeypatch):
    seen, best = [], feature_strength.best_strength

    def watched(side, own, *others):
        seen.append(own.shape[1])
        return best(side, own, *others)

    monkeypatch.setattr(feature_strength, "best_strength", watched)
    _, _, _, cells, features = world(0.5, m=300)
    WALS(rank=160, max_iter=2, random_state=0).fit(cells, user_features=features.matrix)
    assert seen == [feature_strength.COLUMNS]
