"""Two predictors of ratings that every other must beat: one number for all, and a bias for each user and each item.

Knows pairs, losses and scikit-learn's conventions. Has no factors, and draws no random number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core import losses
from halfstep.core.arrays import Floats
from halfstep.core.estimators import available_if
from halfstep.core.fitted import FromFit, fit_of
from halfstep.core.losses.constant import best_constant
from halfstep.data import files
from halfstep.data.files import Saved
from halfstep.data.frames import pairs_from
from halfstep.data.ids import Index
from halfstep.data.pairs import read_pairs
from halfstep.data.tensors import FACTORS, Tensor, kept_classes
from halfstep.engine.here import tell_unknown
from halfstep.errors import check_number
from halfstep.figures.shown import Shown
from halfstep.models.factor import SIDES
from halfstep.models.listed import ListedCells
from halfstep.models.rating_penalty import learn_penalty

ROUNDS, SETTLED = 50, 1e-6
FARTHEST = 1.0  # a Newton step of a bias under a loss that is no parabola
GRID = 1001  # quantiles of errors that are kept
BIASES = {"user_bias": Tensor("users", FACTORS), "item_bias": Tensor("items", FACTORS)}
ERRORS = {"errors": Tensor(str(GRID))}


@dataclass(frozen=True, eq=False)
class BiasFit:
    """Scores intercept + user_bias + item_bias; `errors` (GRID,) are even quantiles of y minus prediction, or None.

    bounds : the smallest and the largest y.
    """

    ids: tuple[Index, Index]
    intercept: float
    user_bias: Floats
    item_bias: Floats
    damping: tuple[float, float]
    bounds: tuple[float, float]
    errors: Floats | None
    classes: NDArray[Any] | None

    @property
    def users(self) -> Index:
        return self.ids[0]

    @property
    def items(self) -> Index:
        return self.ids[1]

    @property
    def n_features(self) -> int:
        return 2

    def scores(self, places: list[NDArray[np.int64]]) -> Floats:
        """An unknown id, at place -1, has no bias."""
        sides = zip((self.user_bias, self.item_bias), places, strict=True)
        return np.asarray(self.intercept + sum(np.append(bias, 0.0)[place] for bias, place in sides))


def _has_probabilities(model: _Plain) -> bool:
    return isinstance(losses.get(model.loss), losses.Logistic)


class _Plain(Shown):
    """What both share: how pairs are read, what is answered, and the file."""

    loss: Any
    fitted_: BiasFit
    user_ids_ = FromFit[NDArray[Any]]("users.ids")
    item_ids_ = FromFit[NDArray[Any]]("items.ids")
    intercept_ = FromFit[float]("intercept")
    n_features_in_ = FromFit[int]("n_features")

    def _fit(self) -> BiasFit:
        fit: BiasFit = fit_of(self)
        return fit

    def _facts(self) -> dict[str, str]:
        fit = self._fit()
        return {"users": f"{len(fit.users):,}", "items": f"{len(fit.items):,}", "intercept": f"{fit.intercept:.4g}"}

    @property
    def classes_(self) -> NDArray[Any]:
        """The two labels, for losses of two classes."""
        classes = self._fit().classes
        if classes is None:
            raise AttributeError(f"loss={self.loss!r} has no classes; losses of two classes have.")
        return classes

    def _check_parameters(self) -> None:
        self._checked_loss()

    def _checked_loss(self) -> losses.Loss:
        loss = losses.get(self.loss)
        if loss.has_quantiles:
            raise ValueError(f"loss={self.loss!r} fits levels, which one number for all has not; use 'squared'.")
        return loss

    def _places(self, X: Any, unknown: str) -> list[NDArray[np.int64]]:
        found = [index.find(ids) for index, ids in zip(self._fit().ids, pairs_from(X), strict=True)]
        tell_unknown(found, self._fit().ids, unknown)
        return found

    def decision_function(self, X: Any, *, unknown: str = "average") -> Floats:
        """Scores of pairs, (N,), on the scale of the loss."""
        return self._fit().scores(self._places(X, unknown))

    def predict(self, X: Any, *, unknown: str = "average") -> NDArray[Any]:
        """What the scores stand for, (N,): numbers, probabilities (Bernoulli), rates (Poisson) or classes.

        unknown : "average" answers unseen users and items without a bias and warns with their number; "error" refuses.
        """
        scores = self.decision_function(X, unknown=unknown)
        return losses.get(self.loss).decode(scores, self._fit().classes)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any, *, unknown: str = "average") -> Floats:
        """Probabilities of the two `classes_`, (N, 2); loss "logistic" only."""
        from scipy.special import expit

        scores = self.decision_function(X, unknown=unknown)
        return np.stack([expit(-scores), expit(scores)], axis=1)

    def predict_interval(self, X: Any, level: float = 0.9, *, unknown: str = "average") -> Floats:
        """(N, 2): predictions plus the middle `level` of all errors of the fit, within the range of y."""
        check_number("level", level, above=0)
        if level >= 1:
            raise ValueError(f"level={level!r} must lie between 0 and 1, both excluded.")
        predicted = np.asarray(self.predict(X, unknown=unknown))
        errors = self._fit().errors
        if errors is None:
            raise ValueError(f"loss={self.loss!r} has classes and no intervals.")
        ends = np.interp([(1 - level) / 2, (1 + level) / 2], np.linspace(0, 1, len(errors)), errors)
        return np.clip(predicted[:, None] + ends, *self._fit().bounds)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R^2, or accuracy for losses of two classes."""
        from sklearn.metrics import accuracy_score, r2_score

        predicted = self.predict(X)
        rule = r2_score if self._fit().classes is None else accuracy_score
        return float(rule(y, predicted, sample_weight=sample_weight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its ids as one safetensors file; `halfstep.load` reads it back."""
        self._check_parameters()
        fit = self._fit()
        params = self.get_params(deep=False) | {"loss": losses.get(self.loss)}
        arrays = {"user_bias": fit.user_bias, "item_bias": fit.item_bias}
        if fit.errors is not None:
            arrays["errors"] = fit.errors
        meta: dict[str, Any] = {"intercept": fit.intercept, "bounds": list(fit.bounds)}
        meta["damping"] = [d if np.isfinite(d) else None for d in fit.damping]
        meta["classes"] = None if fit.classes is None else fit.classes.tolist()
        files.save(path, type(self).__name__, params, arrays, meta, {"user": fit.users, "item": fit.items})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """The model that a file holds; `halfstep.load` calls it."""
        model: Self = saved.made(cls)
        model._check_parameters()
        meta = saved.meta
        users, items = saved.index("user"), saved.index("item")
        classes = None if meta["classes"] is None else kept_classes(meta["classes"])
        for name, value in [("intercept", meta["intercept"]), *(("bounds", bound) for bound in meta["bounds"])]:
            check_number(name, value)
        losses.get(model.loss).decode(np.zeros(1), classes)
        kept = saved.tensors(BIASES | (ERRORS if classes is None else {}), users=len(users), items=len(items))
        model.fitted_ = BiasFit(
            (users, items),
            float(meta["intercept"]),
            kept["user_bias"],
            kept["item_bias"],
            _two(np.inf if d is None else d for d in meta["damping"]),
            _two(meta["bounds"]),
            kept.get("errors"),
            classes,
        )
        return model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        classes = losses.get(self.loss).form == "margin"
        tags.estimator_type = "classifier" if classes else "regressor"
        tags.classifier_tags = ClassifierTags(multi_class=False) if classes else None
        tags.regressor_tags = None if classes else RegressorTags()
        tags.target_tags.required = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class Constant(_Plain):
    """One number for every pair: argmin_c sum_obs s phi(c; y).

    The mean for squared errors, the median for absolute ones, a quantile, the more frequent class.

    loss : a name or object of `halfstep.losses`. Fitted: `intercept_`, c on the scale of the loss.
    """

    def __init__(self, loss: Any = "squared") -> None:
        self.loss = loss

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """X : (N, 2) pairs of ids, or a frame; y : (N,) what they are worth; sample_weight : (N,) or None."""
        loss = self._checked_loss()
        given = read_pairs(X, y, sample_weight, loss, SIDES, dtype=np.float64)
        cells = ListedCells.of(given.cells)
        constant = best_constant(loss, np.zeros(len(cells.t)), cells.t, cells.w)
        zeros = [np.zeros(n) for n in given.cells.shape]
        errors = _errors(loss, cells, np.full(len(cells.t), constant), np.zeros(len(cells.t)))
        self.fitted_ = BiasFit(
            given.ids, constant, zeros[0], zeros[1], (np.inf, np.inf), cells.bounds, errors, given.classes
        )
        return self


class Biases(_Plain):
    """Mean and damped biases, the predictor that most factorisations of sparse ratings do not beat.

    Scores are c + a_u + b_i. With m the best constant (the mean for squared errors), biases minimise

        sum_obs s phi(m + a_u + b_i; y)  +  h (d sum_u a_u^2 + d' sum_i b_i^2)

    where h is half the mean curvature of phi at m, 1 for squared errors: a bias that rests on n pairs is drawn to zero
    as if d more pairs stood at the mean. phi is the loss where it is smooth; else squared errors, or log odds for two
    classes. c is then the best constant under the loss itself.

    loss : a name or object of `halfstep.losses`. damping : d = d', two numbers (d, d'), or None: the ratio of the
    variance of a rating to that of the biases, learned from the pairs. Fitted: `intercept_`, `user_bias_`,
    `item_bias_`, `damping_`.
    """

    user_bias_ = FromFit[Floats]("user_bias")
    item_bias_ = FromFit[Floats]("item_bias")
    damping_ = FromFit[tuple[float, float]]("damping")

    def __init__(self, loss: Any = "squared", damping: float | tuple[float, float] | None = 5.0) -> None:
        self.loss = loss
        self.damping = damping

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """X : (N, 2) pairs of ids, or a frame; y : (N,) what they are worth; sample_weight : (N,) or None."""
        loss = self._checked_loss()
        rule = loss if loss.is_smooth else losses.get("logistic" if loss.form == "margin" else "squared")
        damping = self._given_damping()
        given = read_pairs(X, y, sample_weight, loss, SIDES, dtype=np.float64)
        cells = ListedCells.of(given.cells)
        start = best_constant(rule, np.zeros(len(cells.t)), cells.t, cells.w)
        half = float(np.average(rule.curvature(np.full(len(cells.t), start), cells.t), weights=cells.w)) / 2
        if damping is None:
            learned = learn_penalty(given.cells, rule, 0)
            damping = learned.user_bias / half, learned.item_bias / half
        biases = _fit_biases(rule, cells, start, (2 * half * damping[0], 2 * half * damping[1]))
        base = cells.spread_out(biases)
        constant = best_constant(loss, base, cells.t, cells.w)
        counts = (cells.sums(cells.w, side)[place] for side, place in enumerate(cells.places))
        leverage = sum(cells.w / (n + d) for n, d in zip(counts, damping, strict=True))
        errors = _errors(loss, cells, base + constant, np.asarray(leverage))
        self.fitted_ = BiasFit(given.ids, constant, biases[0], biases[1], damping, cells.bounds, errors, given.classes)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._given_damping()

    def _given_damping(self) -> tuple[float, float] | None:
        if self.damping is None:
            return None
        both = tuple(self.damping) if isinstance(self.damping, tuple | list) else (self.damping, self.damping)
        if len(both) != 2:
            raise ValueError(f"damping={self.damping!r} must be one number, two (users, items), or None to learn it.")
        for value in both:
            check_number("damping", value, above=0)
        return float(both[0]), float(both[1])


def _fit_biases(
    rule: losses.Loss, cells: ListedCells, start: float, penalty: tuple[float, float]
) -> tuple[Floats, Floats]:
    """argmin of sum w phi(start + a + b; t) + penalty/2 |.|^2 by Newton steps, all biases of a side at once."""
    biases = np.zeros(cells.shape[0]), np.zeros(cells.shape[1])
    longest = np.inf if rule.is_quadratic else FARTHEST
    for _ in range(ROUNDS):
        moved = 0.0
        for side in (1, 0):
            z = start + cells.spread_out(biases)
            pull = cells.sums(cells.w * rule.gradient(z, cells.t), side) + penalty[side] * biases[side]
            bend = cells.sums(cells.w * rule.curvature(z, cells.t), side) + penalty[side]
            step = np.clip(-pull / bend, -longest, longest)
            biases[side][:] += step
            moved = max(moved, float(np.abs(step).max(initial=0.0)))
        if moved <= SETTLED * (1 + float(np.abs(cells.t).max(initial=0.0))):
            break
    return biases


def _two(values: Iterable[float]) -> tuple[float, float]:
    first, second = values
    return float(first), float(second)


def _errors(loss: losses.Loss, cells: ListedCells, z: Floats, leverage: Floats) -> Floats | None:
    """Even quantiles of what predictions miss by, each as if its own pair had not been fitted."""
    if loss.form == "margin":
        return None
    missed = (cells.t - loss.decode(z)) / np.maximum(1 - leverage, 0.1)
    order = np.argsort(missed, kind="stable")
    share = np.cumsum(cells.w[order])
    middle = (share - cells.w[order] / 2) / share[-1]
    return np.asarray(np.interp(np.linspace(0, 1, GRID), middle, missed[order]))
