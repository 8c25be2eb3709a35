"""Where classifier factors start, and one unsupervised or supervised factorisation from there.

Knows tables and columns. Must not know aggregators beyond the one of the loss, nor estimators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from halfstep.cfensemble.combined import Columns, Factors
from halfstep.cfensemble.table import BLOCK_CELLS, Table
from halfstep.engine.initial import random_rows
from halfstep.predictions import Codes, Floats

INITS = ("svd", "random")
RANDOM_SCALE = 0.01


def start_classifiers(table: Table, columns: Columns, channel: Codes, init: str, seed: int, dtype: Any) -> Factors:
    """(m, d) classifier factors.

    "svd": biases are classifier means, the shared part the singular vectors of what row and classifier means leave (0
    where missing), times the root of their values. "random": 0.01 times standard normal numbers, biases 0.
    """
    m = table.shape[1]
    V = columns.classifiers(m, dtype)
    if init == "random":
        V[:, columns.shared] = RANDOM_SCALE * random_rows(seed, 1, 0, m, columns.rank, dtype)
        return V
    means = _classifier_means(table, columns, channel)
    gram = np.zeros((m, m))
    for rows in _row_blocks(table):
        left = _residual(table.targets[rows], means[channel[rows]], columns.biases)
        gram += left.T @ left
    values, vectors = np.linalg.eigh(gram)
    top = np.argsort(values)[::-1][: columns.rank]
    signs = np.where(vectors[:, top].sum(axis=0) < 0, -1.0, 1.0)  # eigenvectors come with any sign
    V[:, columns.shared] = signs * vectors[:, top] * np.maximum(values[top], 0) ** 0.25
    if columns.biases:
        V[:, : columns.n_channels] = means.T
    return V


def start_rows(columns: Columns, channel: Codes, features: Floats | None, seed: int, init: str, dtype: Any) -> Factors:
    """(N, d) row factors: pinned columns, and 0 or, with "random", 0.01 times standard normal numbers."""
    U = columns.rows(channel, features, dtype)
    if init == "random":
        U[:, columns.shared] = RANDOM_SCALE * random_rows(seed, 0, 0, len(U), columns.rank, dtype)
    return U


def _row_blocks(table: Table) -> list[slice]:
    step = max(1, BLOCK_CELLS // table.shape[1])
    return [slice(start, min(start + step, table.shape[0])) for start in range(0, table.shape[0], step)]


def _classifier_means(table: Table, columns: Columns, channel: Codes) -> Floats:
    """(n_channels, m) mean observed target of each classifier and class; 0 without biases or cells."""
    sums, counts = np.zeros((columns.n_channels, table.shape[1])), np.zeros((columns.n_channels, table.shape[1]))
    for rows in _row_blocks(table):
        one_hot = np.eye(columns.n_channels)[channel[rows]]
        sums += one_hot.T @ np.nan_to_num(table.targets[rows]).astype(np.float64)
        counts += one_hot.T @ ~np.isnan(table.targets[rows])
    return np.asarray(sums / np.maximum(counts, 1) * columns.biases)


def _residual(targets: Any, means: Floats, biases: bool) -> Floats:
    left: Floats = targets.astype(np.float64) - means
    missing = np.isnan(left)
    left[missing] = 0
    if biases:
        seen = np.maximum((~missing).sum(axis=1, keepdims=True), 1)
        left -= left.sum(axis=1, keepdims=True) / seen
        left[missing] = 0
    return left
