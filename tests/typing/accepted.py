"""What a user may write: mypy strict finds nothing wrong here. Checked by test_public_types.py, never run."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import halfstep as hs


def recommender(R: NDArray[np.float32]) -> None:
    assert_type(hs.WALS(rank=3, random_state=0), hs.WALS)
    model = hs.WALS(rank=3).fit(R)
    assert_type(model, hs.WALS)
    model.recommend(0, n=5)
    model.save("model.safetensors")


def ratings(pairs: NDArray[np.int64], y: NDArray[np.float64]) -> None:
    assert_type(hs.PLQMF(loss=hs.losses.Huber(0.5)).fit(pairs, y), hs.PLQMF)


def fusion(P: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    assert_type(hs.CFEnsemble(rank=2, confidence=hs.weights.Certainty()).fit(P, y), hs.CFEnsemble)
    assert_type(hs.CFEnsembleCV().fit(P, y), hs.CFEnsembleCV)
    hs.baselines.Mean().fit(P, y)


def modules() -> None:
    hs.show_config()
    hs.datasets.load_sample_skills()
    hs.load("model.safetensors")
    assert_type(hs.__version__, str)
