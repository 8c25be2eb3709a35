"""What people ask of a fit of ratings: scores, quantiles, intervals, probabilities, lists. Fits nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.core.estimators import available_if
from halfstep.data.pairs import checked_weights, same_length
from halfstep.engine.protocol import KeptSide
from halfstep.errors import check_number
from halfstep.figures.shown import ShownRatings
from halfstep.models.answers import Ranking
from halfstep.models.factor import FactorModel
from halfstep.models.rating_fit import RatingFit, with_unseen
from halfstep.models.rating_quantiles import bounds
from halfstep.models.recommend import best_items


def _has_quantiles(model: RatingModel) -> bool:
    return bool(model._loss().beside)


def _has_intervals(model: RatingModel) -> bool:
    return _has_quantiles(model) or model._loss().has_quantiles


def _has_probabilities(model: RatingModel) -> bool:
    return model._loss().has_probabilities


class RatingModel(ShownRatings, FactorModel[RatingFit]):
    """A fit of ratings that can be asked. How it was fitted, and how new users are, its heirs say."""

    @abstractmethod
    def _folded(self, X: Any, y: Any, sample_weight: Any = None, features: Any = None) -> KeptSide:
        """Rows of new users."""

    @property
    def classes_(self) -> NDArray[Any]:
        """The two labels, for losses of two classes; the levels in their order, for loss "ordinal"."""
        classes = self._fit().classes
        if classes is None:
            raise AttributeError(f"loss={self.loss!r} has no classes; losses of two classes and 'ordinal' have.")
        return classes

    def decision_function(self, X: Any, *, unknown: str = "average") -> Any:
        """Scores mu + a_u + b_i + p_u.q_i of pairs, (N,).

        unknown : "average" answers an unseen user or item like an average one, and warns with their number: with an
            intercept it has neither factors nor bias, so that the bias of the known side remains; with biases alone it
            has their mean; without both, the mean of the factors of its side. "error" refuses it.

        After a fit by `SparkEngine` X is a Spark DataFrame, and the answer X with one more column, "score".
        """
        return self._scores(X, np.asarray, "score", unknown)

    def predict(self, X: Any, *, unknown: str = "average", user_features: Any = None, item_features: Any = None) -> Any:
        """What the scores stand for, (N,): numbers, probabilities (Bernoulli), rates (Poisson) or classes.

        Under loss "ordinal" the expected level, sum_k p_k classes_k, which is what squared loss aims at too;
        `classes_[predict_proba(X).argmax(1)]` is the most likely one.

        user_features, item_features : of users and items that the fit has not seen, by id, for models that were fitted
            with features: they are where their features say.
        unknown : see `decision_function`. After a fit by `SparkEngine` X is a Spark DataFrame, and the answer X with
        one more column, "prediction".
        """
        decode = partial(self._fit().loss.decode, classes=self._fit().classes)
        if user_features is None and item_features is None:
            return self._scores(X, decode, "prediction", unknown)
        fit: RatingFit = self._fit()
        kept = with_unseen(fit, (user_features, item_features))
        return kept.scores(X, fit.columns, decode, "prediction", unknown, self.n_threads)

    @available_if(_has_quantiles)
    def predict_quantiles(self, X: Any, *, unknown: str = "average") -> Floats:
        """(N, K): what each of the `levels` of loss Quantiles(levels) predicts, in their order, sorted in each row.

        So they do not cross, and the sum of their losses does not rise. On the grid of y, where it lies on one.
        """
        fit: RatingFit = self._fit()
        columns = [each.loss.decode(self._scores_by(each, X, unknown)) for each in (fit, *(b.fit for b in fit.bands))]
        return np.sort(np.column_stack(columns), axis=1)

    @available_if(_has_intervals)
    def predict_interval(self, X: Any, level: float = 0.9, *, unknown: str = "average") -> Floats:
        """(N, 2): bounds between which a share `level` of ratings lies; losses `Quantiles` and "ordinal".

        Quantiles((..., (1 - level) / 2, ..., (1 + level) / 2)): the scores of these two quantiles. Fitted quantiles are
        drawn to the middle, so each is shifted by one number, which a tenth of the pairs has told: under a fit to the
        others, the right share of that tenth lies below. Shares hold on average over pairs, not for every user.
        "ordinal": levels, from the probabilities; they cover at least `level` where those are right.
        """
        check_number("level", level)
        if not 0 < level < 1:
            raise ValueError(f"level={level!r} must lie between 0 and 1, both excluded.")
        fit: RatingFit = self._fit()
        if fit.loss.has_quantiles:
            scores, shares = self.decision_function(X, unknown=unknown), ((1 - level) / 2, (1 + level) / 2)
            return fit.loss.quantiles(scores, self.classes_, shares)
        return bounds(partial(self._scores_by, X=X, unknown=unknown), fit.bands, float(level))

    def _scores_by(self, fit: RatingFit, X: Any, unknown: str) -> Any:
        return fit.kept.scores(X, fit.columns, np.asarray, "score", unknown, self.n_threads)

    def _scores(self, X: Any, decode: Any, column: str, unknown: str) -> Any:
        fit: RatingFit = self._fit()
        return fit.kept.scores(X, fit.columns, decode, column, unknown, self.n_threads)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any, *, unknown: str = "average") -> Floats:
        """Probabilities of the `classes_`, (N, 2) or (N, K); losses "logistic" and "ordinal" only."""
        return self._fit().loss.probabilities(self.decision_function(X, unknown=unknown))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Larger is better. Two classes: accuracy. Squared loss: R^2. Any other: minus the mean of phi."""
        loss = self._loss()
        fit: RatingFit = self._fit()
        scores = fit.loss.rounded(self.decision_function(X))
        loss = fit.loss if loss.learns else loss
        targets, _ = loss.encode_targets(y, fit.classes)
        same_length("y", targets, len(scores))
        weights = checked_weights(sample_weight, len(scores))
        if loss.form == "margin":
            return float(np.average((scores > 0) == (targets > 0), weights=weights))
        cost = float(np.average(loss.value(scores, targets), weights=weights))
        if not loss.is_quadratic:
            return -cost
        spread = float(np.average((targets - np.average(targets, weights=weights)) ** 2, weights=weights))
        return 1 - cost / spread if spread > 0 else float(cost == 0)

    def recommend_for(self, items: Iterable[Any], y: ArrayLike, n: int = 10, *, features: Any = None) -> Ranking:
        """The best `n` other items for somebody new who gave `items` the values `y`.

        features : {column: value} of them, for models that were fitted with `user_features`.
        """
        given = list(items)
        told = None if features is None else {0: features}
        row = self._folded(np.array([(0, item) for item in given], dtype=object), y, None, told).whole()
        return best_items(self._fit(), self._scored(row), None, n, exclude=given).first()
