"""g: from the scores of all classifiers on an instance to one log odds. Trained on factors that saw no label.

Knows scores, latent factors and labels of some rows. Must not know how the factors were found. Every aggregator sees
the mean score as a free feature and is penalised only for what it does beyond it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, softmax

from halfstep.core.arrays import Codes, Floats
from halfstep.core.logistic import (
    FREE_PENALTY,
    STRENGTHS,
    choose_shrunken,
    choose_strength,
    cross_entropy,
    fit_shrunken,
    shrinkage,
)
from halfstep.ensemble.learned import Learned
from halfstep.ensemble.predictions import logit
from halfstep.errors import one_of

DEFAULT_STRENGTH = 10.0
ATTENTION_STRENGTHS = (np.inf, 1000.0, 100.0, 10.0)
FORMS = ("reconstructed", "latent", "filled")


@dataclass(frozen=True, eq=False)
class Design:
    """What an aggregator sees of r rows.

    scores (r, m) log odds of every classifier, reconstructed or, in the form "filled", observed where observed;
    deviations (r, k) what the linear form may weigh beyond the mean: scores minus their mean, or latent factors;
    channel (r,) the class of each row, 0..n_channels-1; latent (r, d) and keys (m, d) factors of rows and classifiers.
    """

    scores: Floats
    deviations: Floats
    channel: Codes
    n_channels: int
    latent: Floats
    keys: Floats

    @property
    def mean(self) -> Floats:
        mean: Floats = self.scores.mean(axis=1)
        return mean

    @property
    def intercepts(self) -> Floats:
        """(r, n_channels) which class a row is about."""
        return np.eye(self.n_channels)[self.channel]

    def take(self, rows: Any) -> Design:
        return Design(
            self.scores[rows], self.deviations[rows], self.channel[rows], self.n_channels, self.latent[rows], self.keys
        )


class Aggregator(Learned, ABC):
    """`fit` learns from labelled rows; `log_odds` answers for any."""

    @abstractmethod
    def fit(self, design: Design, truth: Floats, weights: Floats, folds: Codes | None) -> Self:
        """truth (r,) 0 or 1; weights (r,) of the rows; folds (r,) for choosing strengths, None where labels are few."""

    @abstractmethod
    def log_odds(self, design: Design) -> Floats:
        """(r,)."""

    def linear(self, m: int, n_channels: int, form: str = "reconstructed") -> tuple[Floats, Floats] | None:
        """(m,) weights of the scores and (n_channels,) intercepts, where log odds are linear in scores; None elsewhere.

        form : that of the designs, one of `FORMS`.
        """
        return None


class MeanAggregator(Aggregator):
    """The mean of the scores. With the identity link it is the mean of the reconstructed probabilities themselves."""

    def __init__(self, probabilities: bool = False) -> None:
        self.probabilities = probabilities

    def fit(self, design: Design, truth: Floats, weights: Floats, folds: Codes | None) -> Self:
        return self

    def log_odds(self, design: Design) -> Floats:
        return logit(0.5 + design.mean / 4, 1e-6) if self.probabilities else design.mean

    def linear(self, m: int, n_channels: int, form: str = "reconstructed") -> tuple[Floats, Floats]:
        """Probabilities count by the tangent of their logit at 1/2."""
        return np.full(m, 1 / m), np.zeros(n_channels)


class WeightedAggregator(Aggregator):
    """sigmoid(b_k + b1 mean + deviations'w), penalty strength/2 |w|^2: a weighted mean shrunk towards the plain one.

    `shrinkage` is the strength, or "auto": the one of `STRENGTHS` with the lowest held-out loss over the given folds.
    Without folds "auto" is the largest: the recalibrated mean.
    """

    learned = ("coefficients", "strength")

    def __init__(self, shrinkage: float | str = "auto") -> None:
        if isinstance(shrinkage, str):
            one_of("shrinkage", shrinkage, ("auto",))
        elif not shrinkage > 0:
            raise ValueError(
                f"shrinkage={shrinkage!r} must be positive, or 'auto'; infinity is the mean with its own slope"
            )
        self.shrinkage = shrinkage

    def fit(
        self,
        design: Design,
        truth: Floats,
        weights: Floats,
        folds: Codes | None = None,
        start: Floats | None = None,
    ) -> Self:
        X, n_channels = self.features(design), design.n_channels
        grid = STRENGTHS if self.shrinkage == "auto" else (float(self.shrinkage),)
        self.strength, _ = choose_shrunken(grid, folds, X, n_channels, truth, weights)
        self.coefficients = fit_shrunken(X, n_channels, truth, weights, self.strength, start)
        return self

    def features(self, design: Design) -> Floats:
        """(r, n_channels + 1 + k): which class, the mean, deviations from it."""
        return np.column_stack([design.intercepts, design.mean, design.deviations])

    def log_odds(self, design: Design) -> Floats:
        return self.features(design) @ self.coefficients

    def start(self, k: int, n_channels: int, strength: float | None = None) -> None:
        """The plain mean over k deviations, before anything is learned."""
        self.strength = float(self.shrinkage if strength is None else strength)
        self.coefficients = np.zeros(n_channels + 1 + k)
        self.coefficients[n_channels] = 1.0

    def penalty(self, n_channels: int) -> tuple[Floats, Floats]:
        """Penalty and prior of every coefficient."""
        return shrinkage(len(self.coefficients), n_channels, self.strength)

    def cost(self, n_channels: int) -> float:
        """1/2 sum penalty (b - prior)^2, what is added to the summed cross-entropy."""
        penalty, prior = self.penalty(n_channels)
        finite = np.isfinite(penalty)
        return 0.5 * float(penalty[finite] @ (self.coefficients - prior)[finite] ** 2)

    def linear(self, m: int, n_channels: int, form: str = "reconstructed") -> tuple[Floats, Floats] | None:
        return None if form == "latent" else self.on_scores(n_channels)

    def on_scores(self, n_channels: int) -> tuple[Floats, Floats]:
        """(m,) weights of the scores and (n_channels,) intercepts, where deviations are scores minus their mean."""
        slope, w = self.coefficients[n_channels], self.coefficients[n_channels + 1 :]
        return slope / len(w) + w - w.mean(), self.coefficients[:n_channels]


class AttentionAggregator(Aggregator):
    """sigmoid(b_k + b1 sum_j a_ij z_ij) with a_ij = softmax over classifiers j of latent_i' W keys_j.

    Weights of classifiers depend on the instance. Penalty strength/2 |W|^2; W = 0 is the mean. Factors are scaled to
    unit mean square. Minimised by L-BFGS from W = 0, so it never ends above the recalibrated mean.
    """

    learned = ("coefficients", "sizes")

    def __init__(self, shrinkage: float | str = "auto") -> None:
        self.shrinkage = WeightedAggregator(shrinkage).shrinkage

    def fit(self, design: Design, truth: Floats, weights: Floats, folds: Codes | None) -> Self:
        self.sizes = np.array([_root_mean_square(design.latent), _root_mean_square(design.keys)])
        grid = ATTENTION_STRENGTHS if self.shrinkage == "auto" else (float(self.shrinkage),)
        strength, _ = choose_strength(
            grid,
            folds,
            truth,
            weights,
            lambda kept, strength, _: self._solve(design.take(kept), truth[kept], weights[kept], strength),
            lambda b, held: self._score(design.take(held), b),
        )
        self.coefficients = self._solve(design, truth, weights, strength)
        return self

    def _solve(self, design: Design, truth: Floats, weights: Floats, strength: float) -> Floats:
        d, n_channels = design.latent.shape[1], design.n_channels
        latent, keys, z = design.latent / self.sizes[0], design.keys / self.sizes[1], design.scores
        one_hot = design.intercepts
        size = d * d + 1 + n_channels
        penalty, prior = np.full(size, FREE_PENALTY), np.zeros(size)
        penalty[: d * d], prior[d * d] = strength, 1.0
        start = prior.copy()
        flat = fit_shrunken(np.column_stack([one_hot, design.mean]), n_channels, truth, weights, np.inf)
        start[d * d], start[d * d + 1 :] = flat[n_channels], flat[:n_channels]
        if np.isinf(strength):
            return start  # W = 0: the recalibrated mean

        def objective(b: Floats) -> tuple[float, Floats]:
            W, slope, intercepts = b[: d * d].reshape(d, d), b[d * d], b[d * d + 1 :]
            attention = softmax(latent @ W @ keys.T, axis=1)
            mixed = np.einsum("ij,ij->i", attention, z)
            score = slope * mixed + one_hot @ intercepts
            residual = weights * (expit(score) - truth)
            pull = (attention * (z - mixed[:, None])) @ keys
            gradient = np.concatenate(
                [(latent.T @ ((slope * residual)[:, None] * pull)).ravel(), [residual @ mixed], one_hot.T @ residual]
            )
            away = b - prior
            value = float(weights @ cross_entropy(score, truth)) + 0.5 * float(penalty @ away**2)
            return value, gradient + penalty * away

        found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-12})
        return np.asarray(found.x)

    def attention(self, design: Design, coefficients: Floats) -> Floats:
        """(r, m) the weights of the classifiers on each row; each row sums to 1."""
        d = design.latent.shape[1]
        W = coefficients[: d * d].reshape(d, d)
        weights: Floats = softmax((design.latent / self.sizes[0]) @ W @ (design.keys / self.sizes[1]).T, axis=1)
        return weights

    def _score(self, design: Design, coefficients: Floats) -> Floats:
        d = design.latent.shape[1]
        mixed = np.einsum("ij,ij->i", self.attention(design, coefficients), design.scores)
        score: Floats = coefficients[d * d] * mixed + design.intercepts @ coefficients[d * d + 1 :]
        return score

    def log_odds(self, design: Design) -> Floats:
        return self._score(design, self.coefficients)


class StackerAggregator(Aggregator):
    """Any scikit-learn classifier on the mean score, the deviations and, with several classes, which class is asked."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, design: Design, truth: Floats, weights: Floats, folds: Codes | None) -> Self:
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        self.fitted = clone(self.model)
        extra = {"sample_weight": weights} if has_fit_parameter(self.fitted, "sample_weight") else {}
        self.fitted.fit(self._features(design), truth.astype(np.int64), **extra)
        return self

    def _features(self, design: Design) -> Floats:
        parts = [design.mean, design.deviations] + ([design.intercepts] if design.n_channels > 1 else [])
        return np.column_stack(parts)

    def log_odds(self, design: Design) -> Floats:
        return logit(self.fitted.predict_proba(self._features(design))[:, 1], 1e-6)


def _root_mean_square(x: Floats) -> float:
    size = float(np.sqrt(np.mean(x**2)))
    return size if size > 0 else 1.0


AGGREGATORS: dict[str, Callable[[float | str, bool], Aggregator]] = {
    "mean": lambda shrinkage, probabilities: MeanAggregator(probabilities),
    "weighted": lambda shrinkage, probabilities: WeightedAggregator(shrinkage),
    "attention": lambda shrinkage, probabilities: AttentionAggregator(shrinkage),
}
"""What the parameter `aggregator` may be called; each is made of `shrinkage` and whether scores are probabilities."""


def make_aggregator(aggregator: Any, shrinkage: float | str, probabilities: bool) -> Aggregator:
    """The aggregator that a name or a scikit-learn classifier stands for; an `Aggregator` stands for a fresh copy."""
    if isinstance(aggregator, str):
        one_of("aggregator", aggregator, AGGREGATORS)
        return AGGREGATORS[aggregator](shrinkage, probabilities)
    if isinstance(aggregator, Aggregator):
        return copy.deepcopy(aggregator)  # what is learned belongs to the fit, never to a parameter
    if not (hasattr(aggregator, "fit") and hasattr(aggregator, "predict_proba")):
        raise TypeError(
            f"aggregator={aggregator!r} must be one of {list(AGGREGATORS)}, an Aggregator, or a classifier with fit "
            "and predict_proba"
        )
    return StackerAggregator(aggregator)
