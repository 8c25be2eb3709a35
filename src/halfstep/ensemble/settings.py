"""The parameters of CFEnsemble, checked, and what they mean. Reads no data; nothing here changes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Codes, Floats
from halfstep.core.initial import seed_from
from halfstep.core.loop import Callback
from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.aggregators import DEFAULT_STRENGTH, FORMS, Aggregator, WeightedAggregator, make_aggregator
from halfstep.ensemble.inputs import InstanceRows, class_weights
from halfstep.ensemble.predictions import PredictionWarning
from halfstep.ensemble.scale import CellScale, make_scale
from halfstep.ensemble.start import INITS
from halfstep.errors import check_number, one_of

SOLVERS = ("exact", "als")
SCALINGS = ("mean", "sum")


@dataclass(frozen=True, eq=False)
class EnsembleSettings:
    """`CFEnsemble` says what the parameters are. One that makes no sense is refused here."""

    rank: int | None
    rho: float
    reg: float
    confidence: Any
    alpha: float
    link: str
    loss: str
    temperature: float
    clip: float
    biases: bool
    aggregator: Any
    on: str
    shrinkage: float | str
    class_weight: Any
    calibrate: bool
    solver: str
    init: str
    max_iter: int
    tol: float
    max_seconds: float | None
    route: str | None
    novelty_level: float
    dtype: str
    n_threads: int | None
    random_state: Any
    callbacks: Sequence[Callback]
    verbose: int
    positive: Any = None
    scaling: str = "mean"
    n_init: int = 1
    checkpoint: str | os.PathLike[str] | None = None
    every: int | str = 1
    resume: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> EnsembleSettings:
        return cls(**{field.name: parameters[field.name] for field in fields(cls)})

    def __post_init__(self) -> None:
        one_of("solver", self.solver, SOLVERS)
        _ = self.scale
        one_of("init", self.init, INITS)
        one_of("on", self.on, FORMS)
        one_of("scaling", self.scaling, SCALINGS)
        check_number("n_init", self.n_init, at_least=1, whole=True)
        one_of("route", self.route, (None, "auto"))
        one_of("dtype", self.dtype, ("float32", "float64"))
        make_aggregator(self.aggregator, self.shrinkage, False)
        if not 0 <= self.rho <= 1:
            raise ValueError(f"rho={self.rho!r} must lie in [0, 1]; 1 is reconstruction alone, 0 is stacking")
        for name in ("reg", "temperature"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name}={value!r} must be a positive finite number")
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(f"alpha={self.alpha!r} must be a finite number of at least 0")
        if not 0 < self.clip < 0.5:
            raise ValueError(f"clip={self.clip!r} must lie strictly between 0 and 0.5; 0.01 is the default")
        if not 0 < self.novelty_level <= 1:
            raise ValueError(f"novelty_level={self.novelty_level!r} must be a quantile in (0, 1]")
        if isinstance(self.max_iter, bool) or self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter!r} must be at least 1")
        if self.temperature != 1 and self.loss != "bernoulli":
            raise ValueError(f"temperature={self.temperature!r} needs loss='bernoulli'; the squared loss has none")

    @property
    def scale(self) -> CellScale:
        return make_scale(self.link, self.loss, self.temperature, self.clip)

    @property
    def number(self) -> type:
        """Of the factors."""
        return np.dtype(self.dtype).type

    @property
    def form(self) -> str:
        """Of what the predicting aggregator sees."""
        return "filled" if self.rho == 0 else self.on

    @property
    def seed(self) -> int:
        return seed_from(self.random_state)

    def chosen_rank(self, m: int) -> int:
        if self.rank is None:
            return int(np.clip(round(np.sqrt(m)), 1, 10))
        if isinstance(self.rank, bool) or not isinstance(self.rank, int | np.integer) or self.rank < 1:
            raise ValueError(f"rank={self.rank!r} must be a whole number of at least 1, or None")
        if self.rank > m:
            raise ValueError(
                f"rank={self.rank} is above the number of classifiers, {m}; nothing is compressed there. Use at most "
                f"{m}, or None for its root"
            )
        return int(self.rank)

    def weights_of_cells(self, shape: tuple[int, ...], n_channels: int) -> cell_weights.CellWeights:
        """The confidence of cells of that shape, rows by classifiers; label-aware under solver="als"."""
        given = cell_weights.get(self.confidence)
        if isinstance(given, cell_weights.Given) and np.ndim(given.array) >= 2:
            given = cell_weights.Given(_extended(_by_row(given.array, n_channels), *shape))
        if isinstance(self.confidence, str) and self.confidence == "label_aware":
            return cell_weights.LabelAware(alpha=self.alpha)
        if self.solver == "als" and given.without_labels() is given:  # it does not look at an instance's label itself
            return cell_weights.LabelAware(given, self.alpha)
        return given

    def class_weights(self, y: Codes, classes: NDArray[Any]) -> Floats:
        """(n labelled,) with mean 1."""
        return class_weights(y, classes, self.class_weight)

    def aggregator_of_loss(self, m: int, n_channels: int) -> WeightedAggregator:
        """The linear one that the combined loss holds, at the plain mean."""
        aggregator = WeightedAggregator(DEFAULT_STRENGTH if self.shrinkage == "auto" else float(self.shrinkage))
        aggregator.start(m, n_channels)
        return aggregator

    def predicting_aggregator(self, name: str | None = None) -> Aggregator:
        """The one that answers, with nothing learned; `name` in place of the parameter."""
        return make_aggregator(name or self.aggregator, self.shrinkage, self.scale.in_probabilities)

    def size(self, total: float) -> float:
        """What a sum over such a total of weights is divided by in the loss."""
        return 1.0 if self.scaling == "sum" else total

    @property
    def is_mean(self) -> bool:
        return isinstance(self.aggregator, str) and self.aggregator == "mean"


def check_labels(rows: InstanceRows, depth: int) -> None:
    """Refuse labels of which a class has none; warn, `depth` calls above, where there are too few to learn from."""
    told = (~np.isnan(rows.P).all(axis=1)).reshape(rows.n, -1).all(axis=1)
    counts = np.bincount(rows.y[rows.y >= 0], minlength=len(rows.classes))
    useful = np.bincount(rows.y[(rows.y >= 0) & told], minlength=len(rows.classes))
    have = dict(zip(rows.classes.tolist(), counts.tolist(), strict=True))
    if not counts.any():
        warnings.warn(
            "y has no labels at all, so there is nothing to learn an aggregator from: the answer is the mean of the "
            "reconstructed scores",
            PredictionWarning,
            stacklevel=depth,
        )
    elif counts.min() == 0:
        raise ValueError(
            f"CFEnsemble learns from labels of every class, but y has labelled instances {have}; label at least one of "
            "each class, or none for an unsupervised fit, or take CFEnsembleCV, which needs no label of every class"
        )
    elif useful.min() == 0:
        seen = dict(zip(rows.classes.tolist(), useful.tolist(), strict=True))
        raise ValueError(
            f"CFEnsemble learns from labelled instances that have predictions, of every class; y has {have}, and "
            f"with predictions {seen}. Label instances of which some classifier says something"
        )
    elif counts.min() < 2:
        warnings.warn(
            f"y has labelled instances {have}; with fewer than two of a class nothing can be cross-validated, so "
            "shrinkage='auto' stays at the mean",
            PredictionWarning,
            stacklevel=depth,
        )


def _by_row(array: NDArray[Any], n_channels: int) -> NDArray[Any]:
    """Weights (n, m) or (n, m, classes) of instances as those of rows."""
    array = np.asarray(array, np.float64)
    if array.ndim == 3:
        return array.transpose(0, 2, 1).reshape(-1, array.shape[1])
    return np.repeat(array, n_channels, axis=0)


def _extended(array: NDArray[Any], n_rows: int, m: int) -> NDArray[Any]:
    """Weights for more cells than were given: a new row has its classifier's mean, a new classifier the overall."""
    rows, columns = n_rows - len(array), m - array.shape[1]
    if rows > 0:
        array = np.vstack([array, np.repeat(np.nanmean(array, axis=0, keepdims=True), rows, axis=0)])
    if columns > 0:
        array = np.column_stack([array, np.full((len(array), columns), np.nanmean(array))])
    return array
