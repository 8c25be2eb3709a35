"""Blends of a few contenders rank as blends of everything."""

import numpy as np
import pytest
import scipy.sparse as sp

import halfstep as hs
from halfstep.models.baselines import Popularity
from halfstep.models.mixing import Contenders, scaled_scores

CELLS = sp.csr_array(hs.datasets.load_sample_skills().matrix)


@pytest.mark.parametrize("contenders", [1, 40, 1000])
def test_blends_of_contenders_rank_as_blends_of_all_items(monkeypatch, contenders):
    users = np.arange(0, 111, 2)
    scaled = scaled_scores(
        [part.fit(CELLS) for part in (hs.WALS(4, max_iter=3, random_state=0), hs.ItemGraph(), Popularity())],
        CELLS[users],
        users,
    )
    monkeypatch.setattr("halfstep.models.mixing.CONTENDERS", contenders)
    found = Contenders.of(scaled, CELLS[users], 10)
    for weights in ([1, 0, 0], [0.2, 0.5, 0.3], [0, 0.05, 0.95]):
        whole = sum(weight * scores for weight, scores in zip(weights, scaled, strict=True))
        whole[CELLS[users].toarray() != 0] = -np.inf
        ranked = found.best(np.array(weights, float), 10)
        expected = np.sort(whole, axis=1)[:, ::-1][:, :10]
        np.testing.assert_allclose(np.take_along_axis(whole, ranked, axis=1), expected, rtol=1e-12)
