"""How much each observed cell of a prediction matrix counts: confidences as objects that a string may name.

Knows predictions, which of them are observed, and labels. Must not know what minimises the weighted loss.

    weights.get("certainty").compute(P, observed, y)      # by name
    weights.get(LabelAware("agreement", alpha=2.0))       # an object, with its parameters
    weights.get(array)                                    # (n, m) weights of your own
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Codes, Floats, Mask
from halfstep.ensemble.cell_weights import CellWeights
from halfstep.errors import one_of

__all__ = [
    "Agreement",
    "Calibration",
    "CellWeights",
    "Certainty",
    "Given",
    "LabelAware",
    "LabelMatch",
    "Reliability",
    "Uniform",
    "get",
]


@dataclass(frozen=True)
class Uniform(CellWeights):
    """c_ij = 1."""

    row_local = True
    constant = 1.0

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        return np.ones_like(P)


@dataclass(frozen=True)
class Certainty(CellWeights):
    """c_ij = max(|p_ij - 1/2|, floor). With the default floor 0 a prediction of 1/2 counts nothing."""

    floor: float = 0.0
    row_local = True

    def __post_init__(self) -> None:
        _at_least_zero("floor", self.floor)

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        return np.maximum(np.abs(P - 0.5), self.floor)


@dataclass(frozen=True)
class Calibration(CellWeights):
    """c_ij = 1 - Brier_j, with Brier_j = mean over labelled observed i of (p_ij - y_i)^2.

    A classifier without a labelled cell takes the Brier score over all labelled cells.
    """

    row_local = False
    by_classifier = True

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        seen = observed & (y >= 0)[:, None]
        if not seen.any():
            raise ValueError(
                "Calibration needs labelled instances with predictions and found none; label some, or use "
                "'uniform', 'certainty' or 'agreement'"
            )
        errors = np.where(seen, (P - y[:, None]) ** 2, 0.0)
        count = seen.sum(axis=0)
        overall = errors.sum() / count.sum()
        brier = np.where(count > 0, errors.sum(axis=0) / np.maximum(count, 1), overall)
        return np.broadcast_to(1 - brier, P.shape)


@dataclass(frozen=True)
class Agreement(CellWeights):
    """c_ij = 1 - Var_j(p_ij), the variance of an instance's observed predictions (over their number)."""

    row_local = True

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        mean = _instance_mean(P, observed)
        spread = np.where(observed, (P - mean[:, None]) ** 2, 0.0).sum(axis=1)
        variance = spread / np.maximum(observed.sum(axis=1), 1)
        return np.broadcast_to((1 - variance)[:, None], P.shape)


@dataclass(frozen=True)
class LabelAware(CellWeights):
    """c_ij = base_ij (1 + alpha q_ij), q the probability given to the true class: p if y = 1, 1 - p if y = 0.

    Unlabelled instances keep the base. `base` is whatever `get` takes; `alpha` >= 0 is the strength of
    labels.
    """

    base: Any = "certainty"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        _at_least_zero("alpha", self.alpha)
        get(self.base)

    @property
    def unlabelled(self) -> CellWeights:
        return get(self.base)

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        return get(self.base).compute(P, observed, y) * (1 + self.alpha * _match(P, y, 0.0))


@dataclass(frozen=True)
class LabelMatch(CellWeights):
    """c_ij = p_ij where y_i = 1, 1 - p_ij where y_i = 0, and `base` on unlabelled instances."""

    base: Any = "certainty"

    def __post_init__(self) -> None:
        get(self.base)

    @property
    def unlabelled(self) -> CellWeights:
        return get(self.base)

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        return _match(P, y, get(self.base).compute(P, observed, y))


@dataclass(frozen=True)
class Reliability(CellWeights):
    """c_ij = the probability that classifier j is right on instance i, from a cross-fitted logistic model.

    A labelled cell is right when p_ij >= 1/2 agrees with y_i. The model's features are in `_cell_features`.
    Labelled instances are split into `n_splits` folds; a fold's weights come from a model of the other
    folds, whose classifier accuracies leave the fold out too, so no cell has seen its own label. Unlabelled
    instances take the model of all labels. `C` is the inverse penalty, `seed` shuffles the folds.
    """

    n_splits: int = 5
    C: float = 1.0
    seed: int = 0
    row_local = False
    learned = True

    def __post_init__(self) -> None:
        if self.n_splits < 2:
            raise ValueError(f"n_splits={self.n_splits!r} must be at least 2")
        if not self.C > 0:
            raise ValueError(f"C={self.C!r} must be positive: it is the inverse of the penalty")

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        labelled = np.flatnonzero((y >= 0) & observed.any(axis=1))
        if len(labelled) < 2:
            raise ValueError(
                f"Reliability needs at least 2 labelled instances with predictions and found "
                f"{len(labelled)}; label more, or use 'uniform', 'certainty' or 'agreement'"
            )
        fold = np.full(len(P), -1)
        shuffled = np.random.default_rng(self.seed).permutation(labelled)
        fold[shuffled] = np.arange(len(shuffled)) % min(self.n_splits, len(shuffled))
        right = ((P >= 0.5) == (y == 1)[:, None]) & observed
        weights = np.zeros_like(P)
        for k in np.unique(fold):  # -1 holds the unlabelled: nothing is left out for them
            train = (fold >= 0) & (fold != k)
            rows = fold == k
            weights[rows] = self._predict(P, observed, right, train, rows)
        return weights

    def _predict(self, P: Floats, observed: Mask, right: Mask, train: Mask, rows: Mask) -> Floats:
        """(rows, m) probabilities of being right, from a model of the labels of `train` alone."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        counts, hits = observed[train].sum(axis=0), right[train].sum(axis=0)
        rate = (hits.sum() + 1) / (counts.sum() + 2)
        seen = observed[train]
        # A training cell is left out of its own classifier's accuracy, as a new cell is.
        left_out = _accuracy(hits - right[train], counts - seen, rate)
        features = _cell_features(P, observed, train, left_out)[seen]
        target = right[train][seen]
        if target.all() or not target.any():
            return np.full((int(rows.sum()), P.shape[1]), rate)
        model = make_pipeline(StandardScaler(), LogisticRegression(C=self.C, max_iter=500))
        model.fit(features, target)
        accuracy = np.broadcast_to(_accuracy(hits, counts, rate), (int(rows.sum()), P.shape[1]))
        fresh = _cell_features(P, observed, rows, accuracy)
        chance: Floats = model.predict_proba(fresh.reshape(-1, fresh.shape[-1]))[:, 1]
        return chance.reshape(fresh.shape[:2])


@dataclass(frozen=True, eq=False)
class Given(CellWeights):
    """Weights handed over as an (n, m) array, or anything that broadcasts to it. Missing cells may hold
    anything.
    """

    array: NDArray[Any]

    row_local = False

    @property
    def by_classifier(self) -> bool:
        return np.ndim(self.array) <= 1

    def _weights(self, P: Floats, observed: Mask, y: Codes) -> Floats:
        try:
            weights = np.broadcast_to(np.asarray(self.array, dtype=np.float64), P.shape)
        except ValueError as error:
            raise ValueError(
                f"the weights have shape {np.shape(self.array)}, but the predictions have {P.shape} "
                "(instances, classifiers)"
            ) from error
        bad = np.argwhere(observed & ~(np.isfinite(weights) & (weights >= 0)))
        if len(bad):
            i, j = bad[0]
            raise ValueError(
                f"weight[{i}, {j}] = {weights[i, j]:g} on an observed cell; it must be finite and at least 0"
            )
        return weights


TABLE: dict[str, Callable[[], CellWeights]] = {
    "uniform": Uniform,
    "certainty": Certainty,
    "calibration": Calibration,
    "agreement": Agreement,
    "label_aware": LabelAware,
    "label_match": LabelMatch,
    "reliability": Reliability,
}


def get(weights: str | CellWeights | ArrayLike | None) -> CellWeights:
    """The weights that a name, an object or an array stands for; None is uniform."""
    if weights is None:
        return Uniform()
    if isinstance(weights, CellWeights):
        return weights
    if isinstance(weights, str):
        one_of("weights", weights, TABLE)
        return TABLE[weights]()
    if isinstance(weights, type):
        raise TypeError(f"weights={weights.__name__} is a class; pass an object, {weights.__name__}()")
    try:
        return Given(np.asarray(weights, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"weights must be one of {list(TABLE)}, an object of halfstep.ensemble.confidence, or an (n, m) array; "
            f"got {type(weights).__name__}"
        ) from error


def _match(P: Floats, y: Codes, unlabelled: Floats | float) -> Floats:
    """(n, m) the probability given to the true class; `unlabelled` where there is no label."""
    truth = y[:, None]
    return np.where(truth == 1, P, np.where(truth == 0, 1 - P, unlabelled))


def _instance_mean(P: Floats, observed: Mask) -> Floats:
    """(n,) mean observed prediction; 0 for an instance without any. P is 0 where missing."""
    mean: Floats = P.sum(axis=1) / np.maximum(observed.sum(axis=1), 1)
    return mean


def _accuracy(hits: NDArray[Any], counts: NDArray[Any], rate: float, prior_cells: float = 5.0) -> Floats:
    """Share of right cells, drawn towards the overall `rate` as by `prior_cells` more cells."""
    accuracy: Floats = (hits + prior_cells * rate) / (counts + prior_cells)
    return accuracy


def _cell_features(P: Floats, observed: Mask, rows: Mask, accuracy: Floats) -> Floats:
    """(rows, m, 6) of each cell: prediction, certainty, signed and absolute distance to the instance's mean,
    whether both are on the same side of 1/2 (by how much), and the classifier's accuracy.
    """
    p = P[rows]
    mean = np.broadcast_to(_instance_mean(p, observed[rows])[:, None], p.shape)
    away = p - mean
    return np.stack([p, np.abs(p - 0.5), away, np.abs(away), (p - 0.5) * (mean - 0.5), accuracy], axis=-1)


def _at_least_zero(name: str, value: float) -> None:
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(f"{name}={value!r} must be a finite number of at least 0")
