"""What an estimator says of rows, as one probability for each class. Raw scores and votes are calibrated on the way.

Knows one estimator and codes of classes. Must not know folds of other estimators, nor how answers are fused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.core.logistic import FREE_PENALTY, fit_logistic
from halfstep.ensemble.predictions import expit
from halfstep.errors import one_of

METHODS = ("predict_proba", "decision_function", "predict")
SLOPE_PENALTY = 0.1
"""Holds the slope of a calibrated score, in standard deviations, near 1: few separable labels would make it endless."""
SMALLEST = 1e-6


def method_of(name: str, estimator: Any, asked: str) -> str:
    """The first of `METHODS` that the estimator has, or the one that is asked for."""
    one_of("stack_method", asked, ("auto", *METHODS))
    for method in METHODS if asked == "auto" else (asked,):
        if hasattr(estimator, method):
            return method
    wanted = "predict_proba, decision_function or predict" if asked == "auto" else asked
    raise ValueError(f"estimator {name!r}, a {type(estimator).__name__}, has no {wanted}")


def raw_scores(estimator: Any, method: str, X: Any, codes: Codes, shares: Floats) -> Floats:
    """(r, k) scores of k classes; codes (c,) are those of the estimator's own classes, `shares` (k,) of all labels.

    A class that the estimator has never seen gets its share of the labels where scores are probabilities, and the
    lowest of the row otherwise.
    """
    answer = np.asarray(getattr(estimator, method)(X))
    if method == "predict":
        own = np.searchsorted(estimator.classes_, answer)
        return np.asarray(np.eye(len(shares))[codes[own]])
    scores = answer.astype(np.float64)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    if scores.ndim != 2 or scores.shape[1] != len(codes):
        raise ValueError(
            f"{method} of a {type(estimator).__name__} gives an array of shape {answer.shape} for {len(codes)} "
            "classes; one column for each class is needed (for SVC: decision_function_shape='ovr')"
        )
    if not np.isfinite(scores).all():
        raise ValueError(f"{method} of a {type(estimator).__name__} gives values that are not finite")
    found = np.empty((len(scores), len(shares)))
    unseen = np.setdiff1d(np.arange(len(shares)), codes)
    if method == "predict_proba":
        found[:, codes] = np.clip(scores, 0, 1) * (1 - shares[unseen].sum())
        found[:, unseen] = shares[unseen]
        return found
    found[:, codes] = scores
    found[:, unseen] = scores.min(axis=1, keepdims=True)
    return found


@dataclass(frozen=True, eq=False)
class ScoreCalibration:
    """Class k of a row with score s has log odds  intercepts_k + slopes_k s / scales_k;  normalised over the classes.

    Two classes are one regression, of the difference of their scores.
    """

    intercepts: Floats
    slopes: Floats
    scales: Floats

    @classmethod
    def fit(cls, scores: Floats, y: Codes) -> ScoreCalibration:
        """scores (r, k) of rows whose labels the estimator has not seen, y (r,) their codes.

        Minimises summed log loss + FREE_PENALTY/2 intercept^2 + SLOPE_PENALTY/2 (slope - 1)^2 for each class.
        """
        columns, k = _channels(scores), scores.shape[1]
        spread = columns.std(axis=0) if len(columns) else np.ones(columns.shape[1])
        scales = np.where(spread > 0, spread, 1.0)
        penalty, prior = np.array([FREE_PENALTY, SLOPE_PENALTY]), np.array([0.0, 1.0])
        found = np.array(
            [
                fit_logistic(
                    np.column_stack([np.ones(len(columns)), columns[:, c] / scales[c]]),
                    (y == (1 if k == 2 else c)).astype(np.float64),
                    np.ones(len(columns)),
                    penalty,
                    prior,
                )
                if len(columns)
                else prior
                for c in range(columns.shape[1])
            ]
        )
        return cls(found[:, 0], found[:, 1], scales)

    def apply(self, scores: Floats) -> Floats:
        """(r, k) probabilities."""
        positive = expit(self.intercepts + self.slopes * _channels(scores) / self.scales)
        if scores.shape[1] == 2:
            return np.column_stack([1 - positive[:, 0], positive[:, 0]])
        held = np.maximum(positive, SMALLEST)
        normalised: Floats = held / held.sum(axis=1, keepdims=True)
        return normalised


def _channels(scores: Floats) -> Floats:
    """(r, 1) of two classes, (r, k) of more."""
    channels: Floats = (scores[:, 1:] - scores[:, :1]) / 2 if scores.shape[1] == 2 else scores
    return channels
