"""Where factors start. Knows tables and columns; must not know labels, aggregators or estimators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.core.initial import random_rows
from halfstep.ensemble.columns import FactorArray, LatentColumns
from halfstep.ensemble.sums import SummedFields
from halfstep.ensemble.table import BLOCK_CELLS, PredictionTable, row_passes

INITS = ("svd", "random")
RANDOM_SCALE = 0.01


@dataclass(frozen=True, eq=False)
class StartSums(SummedFields):
    """Sums over rows from which classifiers start; those of several sites add up.

    counts, targets (n_channels, m) : observed cells and their summed targets, by class
    centred (m,), gram (m, m), rows : sums of the targets less their row's mean (0 where missing), of the products of
        such deviations, and of 1. Without biases nothing is taken off.
    """

    counts: Floats
    targets: Floats
    centred: Floats
    gram: Floats
    rows: float

    @classmethod
    def of(cls, table: PredictionTable, columns: LatentColumns, channel: Codes) -> StartSums:
        m, k = table.shape[1], columns.n_channels
        counts, targets, centred, gram = np.zeros((k, m)), np.zeros((k, m)), np.zeros(m), np.zeros((m, m))
        for rows in row_passes(*table.shape, BLOCK_CELLS):
            cells = table.targets[rows].astype(np.float64)
            seen, one_hot = ~np.isnan(cells), np.eye(k)[channel[rows]]
            cells = np.where(seen, cells, 0.0)
            counts += one_hot.T @ seen
            targets += one_hot.T @ cells
            if columns.biases:
                cells = seen * (cells - (cells.sum(axis=1) / np.maximum(seen.sum(axis=1), 1))[:, None])
            centred += cells.sum(axis=0)
            gram += cells.T @ cells
        return cls(counts, targets, centred, gram, float(table.shape[0]))

    def classifiers(self, columns: LatentColumns, dtype: Any) -> FactorArray:
        """(m, d): biases are classifier means; the shared part are the leading eigenvectors of the covariance of what
        row means leave, each times the root of its singular value.
        """
        V = columns.classifiers(len(self.centred), dtype)
        gram = self.gram
        if columns.biases:
            gram = gram - np.outer(self.centred, self.centred) / max(self.rows, 1.0)
            V[:, : columns.n_channels] = (self.targets / np.maximum(self.counts, 1)).T
        values, vectors = np.linalg.eigh(gram)
        top = np.argsort(values)[::-1][: columns.rank]
        leading = vectors[:, top]
        largest = np.abs(leading).argmax(axis=0)
        signs = np.sign(leading[largest, np.arange(len(top))])  # eigenvectors come with any sign
        V[:, columns.shared] = signs * leading * np.maximum(values[top], 0) ** 0.25
        return V


def start_classifiers(
    table: PredictionTable,
    columns: LatentColumns,
    channel: Codes,
    init: str,
    seed: int,
    dtype: Any,
    elsewhere: Iterable[StartSums] = (),
) -> FactorArray:
    """(m, d) classifier factors: those of `StartSums` ("svd"), or 0.01 times standard normal numbers ("random").

    elsewhere : sums over rows that are not here.
    """
    if init == "svd":
        return reduce(add, elsewhere, StartSums.of(table, columns, channel)).classifiers(columns, dtype)
    m = table.shape[1]
    V = columns.classifiers(m, dtype)
    V[:, columns.shared] = RANDOM_SCALE * random_rows(seed, 1, 0, m, columns.rank, dtype)
    return V


def start_rows(
    columns: LatentColumns, channel: Codes, features: Floats | None, seed: int, init: str, dtype: Any
) -> FactorArray:
    """(N, d) row factors: pinned columns, and 0 or, with "random", 0.01 times standard normal numbers."""
    U = columns.rows(channel, features, dtype)
    if init == "random":
        U[:, columns.shared] = RANDOM_SCALE * random_rows(seed, 0, 0, len(U), columns.rank, dtype)
    return U
