"""What any ensemble answers: one probability for each class of new instances. Knows models, not HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfstep.apps.serve.listed import DIGITS
from halfstep.apps.serve.problems import FieldError, at_most
from halfstep.apps.serve.settings import Settings


class FusionAnswers:
    """Answers of a model with `predict_proba` over the predictions of classifiers."""

    def __init__(self, model: Any, settings: Settings) -> None:
        self.model = model
        self.settings = settings
        self.classes: list[Any] = model.classes_.tolist()

    def fuse(self, predictions: list[Any], features: list[list[float]] | None = None) -> dict[str, Any]:
        """One probability for each class of each new instance; None stands for a prediction that is missing."""
        at_most("predictions", len(predictions), self.settings.max_list, "rows are")
        if isinstance(predictions[0], dict):
            return self.answer(self._by_name(predictions), features)
        try:
            P = np.array(predictions, np.float64)
        except (ValueError, TypeError):
            raise FieldError("predictions", "every row must have the same shape") from None
        k = len(self.classes)
        if P.ndim not in (2, 3) or (P.ndim == 2) != (k == 2):
            wanted = "a number" if k == 2 else f"a list of {k} numbers"
            raise FieldError("predictions", f"each row must have {wanted} for each classifier; got shape {P.shape}")
        return self.answer(P, features)

    def _by_name(self, predictions: list[dict[str, float | None]]) -> dict[str, Any]:
        """Columns of rows that name their classifiers."""
        if not hasattr(self.model, "feature_names_in_"):
            raise FieldError("predictions", "this model knows no names of classifiers; give a list for each instance")
        names = dict.fromkeys(name for row in predictions for name in row)
        return {name: np.array([row.get(name) for row in predictions], np.float64) for name in names}

    def answer(self, P: Any, features: list[list[float]] | None = None) -> dict[str, Any]:
        """Fused probabilities of rows P, as `predict_proba` takes them, and the most probable class of each."""
        given = {} if features is None else {"features": np.array(features, np.float64)}
        try:
            proba = self.model.predict_proba(P, **given)
        except ValueError as error:
            raise FieldError("predictions", str(error)) from error
        answer: dict[str, Any] = {"classes": self.classes, "probabilities": np.round(proba, DIGITS).tolist()}
        answer["labels"] = [self.classes[c] for c in proba.argmax(axis=1)]
        return answer
