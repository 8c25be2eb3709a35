"""A small random matrix of ratings."""

import numpy as np
from scipy import sparse


def random_matrix(seed=0, shape=(40, 15), density=0.3):
    random = np.random.default_rng(seed)
    dense = random.integers(1, 6, shape) * (random.random(shape) < density)
    dense[:3, :4] = 1
    return sparse.csr_matrix(dense.astype(float))
