"""What CFEnsemble's parameters mean, checked: no arithmetic of the fit, no state beyond what `fit` was given."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.aggregators import FORMS, make_aggregator
from halfstep.ensemble.inputs import Rows
from halfstep.ensemble.predictions import PredictionWarning
from halfstep.ensemble.start import INITS
from halfstep.ensemble.table import Scale
from halfstep.errors import one_of

SOLVERS = ("exact", "als")
LINKS = ("logit", "identity")
LOSSES = ("squared", "bernoulli")


class ParametersMixin:
    """Reads the parameters of the estimator it is mixed into."""

    def _check_parameters(self: Any) -> None:
        one_of("solver", self.solver, SOLVERS)
        one_of("link", self.link, LINKS)
        one_of("loss", self.loss, LOSSES)
        one_of("init", self.init, INITS)
        one_of("on", self.on, FORMS)
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

    def _check_labels(self: Any, rows: Rows) -> None:
        counts = np.bincount(rows.y[rows.y >= 0], minlength=len(rows.classes))
        have = dict(zip(rows.classes.tolist(), counts.tolist(), strict=True))
        if not counts.any():
            warnings.warn(
                "y has no labels at all, so there is nothing to learn an aggregator from: the answer is the mean of "
                "the reconstructed scores",
                PredictionWarning,
                stacklevel=3,
            )
        elif counts.min() == 0:
            raise ValueError(
                f"CFEnsemble learns from labels of every class, but y has labelled instances {have}; label at least "
                "one of each class, or none for an unsupervised fit"
            )
        elif counts.min() < 2:
            warnings.warn(
                f"y has labelled instances {have}; with fewer than two of a class nothing can be cross-validated, so "
                "shrinkage='auto' stays at the mean",
                PredictionWarning,
                stacklevel=3,
            )

    def _chosen_rank(self: Any, m: int) -> int:
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

    def _scale(self: Any) -> Scale:
        return Scale(self.link, self.loss == "bernoulli", float(self.temperature), float(self.clip))

    def _confidence(self: Any, n_rows: int, m: int) -> cell_weights.CellWeights:
        """The cells' weights for (n_rows, m) cells; label-aware under solver="als"."""
        given = cell_weights.get(self.confidence)
        if isinstance(given, cell_weights.Given) and np.ndim(given.array) >= 2:
            given = cell_weights.Given(_extended(_by_row(given.array, self._n_channels), n_rows, m))
        if isinstance(self.confidence, str) and self.confidence == "label_aware":
            return cell_weights.LabelAware(alpha=self.alpha)
        if self.solver == "als" and not isinstance(given, cell_weights.LabelAware | cell_weights.LabelMatch):
            return cell_weights.LabelAware(given, self.alpha)
        return given

    def _read_tasks(self: Any, tasks: ArrayLike, n: int) -> NDArray[Any]:
        names = np.asarray(tasks)
        if names.shape != (n,):
            raise ValueError(f"tasks has shape {names.shape}; it must name the label set of each of the {n} instances")
        return names

    def _standardise(self: Any, features: Floats | None, moments: tuple[Floats, Floats] | None = None) -> None:
        """Keep the features of the fitted instances with mean 0 and deviation 1; a constant one stays 0.

        moments : means and deviations (q,) where these are not all the instances.
        """
        self._n_features = 0 if features is None else features.shape[1]
        self._features = None
        if features is not None:
            mean, spread = (features.mean(axis=0), features.std(axis=0)) if moments is None else moments
            self._feature_mean, self._feature_scale = mean, np.where(spread > 0, spread, 1.0)
            self._features = (features - self._feature_mean) / self._feature_scale

    def _row_features(self: Any) -> Floats | None:
        return None if self._features is None else np.repeat(self._features, self._n_channels, axis=0)


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
