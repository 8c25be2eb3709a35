"""Generated reviews: names that differ, stars, the share of slips that was asked for, the same for a seed."""

import numpy as np
import pytest

from halfstep.data.datasets import make_reviews


def test_reviews_are_stars_with_names():
    reviews = make_reviews(700, 400, 5000, random_state=1)
    data = reviews.ratings
    assert set(data.y) == {1, 2, 3, 4, 5}
    assert data.shape == (len(set(data.pairs[:, 0])), len(set(data.pairs[:, 1])))
    assert len({tuple(pair) for pair in data.pairs.tolist()}) == 5000
    assert data.shape[0] > 650  # nobody shares a name
    assert reviews.mistaken.sum() == 250


def test_slips_are_far_from_what_was_meant():
    reviews = make_reviews(random_state=2)
    far = np.abs(reviews.ratings.y - reviews.clean)
    assert far[reviews.mistaken].mean() > 2 * far[~reviews.mistaken].mean()
    again = make_reviews(random_state=2)
    assert again.ratings.y.tobytes() == reviews.ratings.y.tobytes()


def test_a_share_is_a_share():
    with pytest.raises(ValueError, match="mistakes=5 is a share"):
        make_reviews(mistakes=5)
