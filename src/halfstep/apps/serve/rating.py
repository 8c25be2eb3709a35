"""What a model of ratings answers: the value of pairs, how sure it is, what it is made of. Knows models, not HTTP."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np

from halfstep.apps.rating_parts import parts_of, values_of
from halfstep.apps.serve.names import NamesAsked
from halfstep.apps.serve.problems import FieldError, at_most
from halfstep.apps.serve.settings import Settings
from halfstep.errors import UnknownIdWarning

LEVEL = 0.9
"""Level of intervals where none is asked for."""


class RatingAnswers:
    """Answers of a model with `predict` over (user, item) pairs: `PLQMF`, `BayesMF`, `Biases`, `Constant`."""

    def __init__(self, model: Any, users: NamesAsked, items: NamesAsked, settings: Settings) -> None:
        self.model = model
        self.users = users
        self.items = items
        self.settings = settings

    @classmethod
    def of(cls, model: Any, settings: Settings) -> RatingAnswers:
        """Of a model that only predicts; its ids are all that is known of users and items."""
        nouns = settings.user_name, settings.item_name
        users, items = (
            NamesAsked(index, None, np.zeros(len(index)), noun)
            for index, noun in zip(model.fitted_.ids, nouns, strict=True)
        )
        return cls(model, users, items, settings)

    @property
    def has_classes(self) -> bool:
        from sklearn.base import is_classifier  # takes a second: when somebody asks

        return bool(is_classifier(self.model))

    @property
    def has_intervals(self) -> bool:
        return hasattr(self.model, "predict_interval") and not self.has_classes

    @property
    def has_doubt(self) -> bool:
        return "return_std" in signature(self.model.predict).parameters and not self.has_classes

    def predict(
        self, pairs: list[tuple[Any, Any]], unknown: str, level: float | None = None, parts: bool = False
    ) -> dict[str, Any]:
        """A value for each pair, with intervals where the model has them.

        Unknown ids are a 404, or count as an average one with unknown="average". parts : what each value is made of.
        """
        at_most("pairs", len(pairs), self.settings.max_list, "entries are")
        if level is not None and not self.has_intervals:
            raise FieldError("level", f"this {type(self.model).__name__} has no intervals; leave it out")
        if parts and self.has_classes:
            raise FieldError(
                "parts", f"this {type(self.model).__name__} answers classes, which are no sums; leave it out"
            )
        table = np.empty((len(pairs), 2), object)
        table[:] = [(_plain(user), _plain(item)) for user, item in pairs]
        if unknown == "error":
            for column, names in ((0, self.users), (1, self.items)):
                table[:, column] = names.index.take(names.rows(table[:, column].tolist(), "pairs")).tolist()
        found: dict[str, Any] = {"values": values_of(self.model, table).tolist()}
        if self.has_intervals:
            found["level"] = LEVEL if level is None else level
            with _without_warnings():
                found["intervals"] = np.asarray(self.model.predict_interval(table, found["level"])).tolist()
        if self.has_doubt:
            with _without_warnings():
                found["doubt"] = np.asarray(self.model.predict(table, return_std=True)[1]).tolist()
        if parts:
            made_of = parts_of(self.model, table, np.array(found["values"]))
            lists = [column.tolist() for column in made_of.values()]
            found["parts"] = [dict(zip(made_of, row, strict=True)) for row in zip(*lists, strict=True)]
        return found


def _without_warnings() -> warnings.catch_warnings[None]:
    """Whoever asks for unknown ids over HTTP has said that they count as average ones."""
    return warnings.catch_warnings(action="ignore", category=UnknownIdWarning)


def _plain(id: Any) -> Any:
    return tuple(id) if isinstance(id, list) else id
