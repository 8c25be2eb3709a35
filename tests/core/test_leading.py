"""What a power step is made of before the first sweep: orthogonal columns, more alike, rows of length 1 on the mean."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from halfstep.core.leading import EVENED, FAINT, levelled
from halfstep.engine.local import symmetric_eigen


@pytest.mark.parametrize("size", [None, 7.5])
def test_columns_become_orthogonal_and_more_alike(size):
    rows = np.random.default_rng(0).normal(size=(50, 6)) @ np.random.default_rng(1).normal(size=(6, 6))
    found = rows @ levelled(*symmetric_eigen(rows.T @ rows), size or len(rows))
    gram = found.T @ found
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12 * gram.max())
    assert_allclose(np.trace(gram), size or len(rows))
    lengths, before = np.sqrt(np.diag(gram)), np.linalg.svd(rows, compute_uv=False)[::-1]
    assert_allclose(lengths / lengths[-1], (before / before[-1]) ** EVENED)


def test_columns_that_are_not_there_stay_small():
    rows = np.random.default_rng(0).normal(size=(50, 3)) @ np.eye(3, 5)
    matrix = levelled(*symmetric_eigen(rows.T @ rows), 50)
    assert np.isfinite(matrix).all()
    assert np.abs(matrix).max() < 2 * FAINT ** (EVENED / 2 - 0.5)


def test_nothing_to_go_by():
    assert levelled(np.zeros(3), np.eye(3), 4) is None
    assert levelled(np.array([1.0, np.nan]), np.eye(2), 4) is None
    assert levelled(np.array([1.0, np.inf]), np.eye(2), 4) is None
