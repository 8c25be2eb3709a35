"""What a fitted ensemble says about itself: figures and arrays that a report can draw. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.fit import EnsembleFit
from halfstep.ensemble.fusion import Fusion
from halfstep.ensemble.inputs import expand_labels
from halfstep.figures.tables import FactTable
from halfstep.metrics import calibration_bins


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of a fit; m classifiers, n instances, k classes.

    rmse_labelled, rmse_unlabelled : root mean square of prediction minus reconstruction, in probabilities, over the
        observed cells of labelled and unlabelled instances; a large gap speaks of overfitting. None: no such cell.
    classifier_similarity (m, m) : cosine of the shared factors, 0 where a classifier has none.
    classifier_weights (m,) : what a classifier's log odds count in the answer; see `classifier_weights`.
    difficulty (n,) : length of the instance's shared factors; long means unusual.
    novelty (n,) : how far an instance is from what was fitted, 0 to 1, about one half as usual.
    convergence : for each term of the loss ("total", "reconstruction", "supervised", "penalty") its value by sweep.
    calibration : ten bins of predicted probability over labelled instances (and, with k > 2, over their classes):
        "predicted" and "observed" means and "count" of each bin that is not empty. The aggregator has seen these
        labels, the instances' factors have not.
    """

    rmse_labelled: float | None
    rmse_unlabelled: float | None
    classifier_similarity: Floats
    classifier_weights: Floats
    difficulty: Floats
    novelty: Floats
    convergence: dict[str, Floats]
    calibration: dict[str, Floats]

    def __repr__(self) -> str:
        return repr(self._summary())

    def _repr_html_(self) -> str:
        return self._summary()._repr_html_()

    def _summary(self) -> FactTable:
        """The numbers that are read first."""
        weights, novelty = np.asarray(self.classifier_weights), np.asarray(self.novelty)
        m = len(self.classifier_similarity)
        alike = np.asarray(self.classifier_similarity)[~np.eye(m, dtype=bool)] if m > 1 else np.zeros(1)
        told = {
            "instances": len(novelty),
            "classifiers": m,
            "rmse, labelled": self.rmse_labelled,
            "rmse, unlabelled": self.rmse_unlabelled,
            "weights of classifiers": f"{weights.min():.3f} to {weights.max():.3f}, {(weights < 0).sum()} negative",
            "largest similarity of two classifiers": float(alike.max()),
            "novelty, median and 95%": f"{np.median(novelty):.3f}, {np.quantile(novelty, 0.95):.3f}",
            "labelled instances in the calibration": int(np.sum(self.calibration.get("count", 0))),
        }
        return FactTable({name: value for name, value in told.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        """By name, arrays as lists: for JSON."""

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: plain(item) for key, item in value.items()}
            return value.tolist() if isinstance(value, np.ndarray) else value

        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


def diagnose(fit: EnsembleFit) -> Diagnostics:
    """Diagnostics of a fitted ensemble."""
    factors, k = fit.factors, fit.n_channels
    labelled = np.repeat(fit.labels >= 0, k)
    errors, counts = _squared_errors(factors)
    latent = factors.row_factors[:, factors.columns.shared].astype(np.float64)
    difficulty = np.sqrt((latent**2).sum(axis=1).reshape(-1, k).mean(axis=1))
    truth = expand_labels(fit.labels, k).astype(np.float64)
    terms = ("total", "reconstruction", "supervised", "penalty")
    return Diagnostics(
        root(errors[labelled].sum(), counts[labelled].sum()),
        root(errors[~labelled].sum(), counts[~labelled].sum()),
        cosines(factors.classifier_factors[:, factors.columns.shared].astype(np.float64)),
        classifier_weights(factors, fit.fusion),
        difficulty,
        fit.novelty,
        {term: np.array([record[term] for record in fit.outcome.history]) for term in terms},
        calibration_curve(fit.positive[labelled], truth[labelled]),
    )


def root(total: float, count: float) -> float | None:
    return float(np.sqrt(total / count)) if count else None


def _squared_errors(factors: EnsembleFactors) -> tuple[Floats, Floats]:
    """(N,) sums of squared errors in probabilities over observed cells, and their number."""
    errors, counts = np.zeros(len(factors.row_factors)), np.zeros(len(factors.row_factors))
    for rows in factors.chunks():
        gap = factors.predictions(rows) - factors.scale.probability(factors.scores(rows))
        errors[rows], counts[rows] = np.nansum(gap**2, axis=1), (~np.isnan(gap)).sum(axis=1)
    return errors, counts


def cosines(vectors: Floats) -> Floats:
    length = np.sqrt((vectors**2).sum(axis=1))
    unit = vectors / np.where(length > 0, length, 1)[:, None]
    cosines: Floats = np.clip(unit @ unit.T, -1, 1)
    return cosines


def classifier_weights(factors: EnsembleFactors, fusion: Fusion) -> Floats:
    """(m,) how much the answer's log odds move with one log odds of a classifier.

    The coefficients of a linear aggregator; of any other, the shortest coefficients of the linear model nearest to it
    on (up to 2,000 of) the fitted instances.
    """
    m, aggregator = len(factors.classifier_factors), fusion.aggregator
    linear = aggregator.linear(m, fusion.n_channels, fusion.form)
    if linear is not None:
        return linear[0]
    sample = np.unique(np.linspace(0, len(factors.row_factors) - 1, 2000).astype(int))
    design = factors.design(sample, fusion.form)
    answer = aggregator.log_odds(design)
    weights: Floats = np.linalg.lstsq(design.scores - design.scores.mean(axis=0), answer - answer.mean(), rcond=1e-6)[0]
    return weights


def calibration_curve(positive: Floats, truth: Floats, bins: int = 10) -> dict[str, Floats]:
    """Mean prediction, mean truth and count of each equally wide bin that is not empty."""
    found = calibration_bins(positive, truth, bins)
    return {"predicted": found.predicted, "observed": found.observed, "count": found.count}
