"""What kept draws know of rows by their features: weights of every draw, for ids that the fit has not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.drawn_features import DrawnWeights
from halfstep.data.features import Features
from halfstep.data.files import Saved
from halfstep.data.ids import Index
from halfstep.data.tensors import FACTORS, SINGLE, WEIGHTS, Tensor
from halfstep.models.known import SIDES


@dataclass(frozen=True, eq=False)
class DrawnFeatures:
    """How the features of a side are encoded, and what they weigh in each of K kept draws.

    features : no rows, only how rows are encoded. centre : (p,), the mean of features over the rows of the fit.
    weights : (K, p, f) over the free columns of a row. spread : (K, f), the variance of F W over the rows of the fit,
    which is what somebody without features lacks.
    """

    features: Features
    centre: Floats
    weights: NDArray[np.float32]
    spread: Floats

    @classmethod
    def room(cls, features: Features | None, told: DrawnWeights | None, draws: int) -> DrawnFeatures | None:
        """Room for so many draws; None where nothing is known of the side."""
        if features is None or told is None:
            return None
        weights = np.empty((draws, *told.weights.shape), np.float32)
        return cls(_without_rows(features), told.features.mean, weights, np.empty((draws, weights.shape[2])))

    def keep(self, k: int, told: DrawnWeights) -> None:
        """Draw number k."""
        self.weights[k], self.spread[k] = told.weights, told.fitted.var(axis=0)

    def expected(self, given: Features) -> NDArray[np.float32]:
        """(K, n, f): what features add to the means of free columns."""
        both = [given.matrix @ weights - self.centre @ weights for weights in self.weights]
        return np.asarray(both, np.float32).reshape(len(both), len(given), self.weights.shape[2])

    def unseen(self, given: Any, index: Index, argument: str) -> Features:
        """Rows of the ids that the fit has not seen; `index` has those that it has."""
        new = self.features.encode(given)
        if new.ids is None:
            raise ValueError(f"{argument} must say whose they are: give a frame with ids, or a dict by id.")
        return new.outside(index)


KnownSides = tuple[DrawnFeatures | None, DrawnFeatures | None]


def _without_rows(features: Features) -> Features:
    return replace(features, matrix=sp.csr_array((0, features.shape[1])), ids=None)


def to_file(known: KnownSides) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Tensors and the rest, as a file keeps them."""
    arrays: dict[str, NDArray[Any]] = {}
    meta: dict[str, Any] = {}
    for name, each in zip(SIDES, known, strict=True):
        if each is not None:
            meta[name], _ = each.features.to_state()
            arrays |= {f"{name}_feature_centre": each.centre, f"{name}_feature_weights": each.weights}
            arrays[f"{name}_feature_spread"] = each.spread
    return arrays, meta


def from_file(saved: Saved, draws: int, free: int) -> KnownSides:
    """What `to_file` took apart; every length checked."""
    found: list[DrawnFeatures | None] = []
    for name in SIDES:
        state = saved.meta.get("features", {}).get(name)
        if state is None:
            found.append(None)
            continue
        declared = {
            f"{name}_feature_centre": Tensor("columns", FACTORS),
            f"{name}_feature_weights": Tensor("draws columns free", SINGLE),
            f"{name}_feature_spread": Tensor("draws free", WEIGHTS),
        }
        sizes = {"draws": draws, "columns": len(state["names"]), "free": free}
        centre, weights, spread = saved.tensors(declared, **sizes).values()
        empty: dict[str, NDArray[Any]] = {
            "data": np.empty(0),
            "indices": np.empty(0, np.int32),
            "indptr": np.zeros(1, np.int32),
        }
        found.append(DrawnFeatures(Features.from_state(state, empty, None), centre, weights, spread))
    return found[0], found[1]
