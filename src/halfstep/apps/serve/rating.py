"""What a model of ratings answers: the value of pairs, how sure it is, what it is made of. Knows models, not HTTP."""

from __future__ import annotations

import warnings
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.rating_parts import parts_of, values_of
from halfstep.apps.serve.facets import titles
from halfstep.apps.serve.names import NamesAsked
from halfstep.apps.serve.problems import FieldError, at_most
from halfstep.apps.serve.settings import Settings
from halfstep.apps.serve.taste import Taste, taste_of
from halfstep.errors import UnknownIdWarning
from halfstep.figures.views import cell_counts

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
        """Of a model without lists of its own; titles are those of the files it was fitted to, where they are given."""
        fit, nouns = model.fitted_, (settings.user_name, settings.item_name)
        counts: Any = [np.zeros(len(index)) for index in fit.ids]
        if hasattr(fit, "cells"):
            counts = cell_counts(lambda rows: fit.cells.take(rows).to_csr(), (len(fit.ids[0]), len(fit.ids[1])))
        labels = (None, None) if settings.about is None else titles(settings.about, *fit.ids)
        users, items = (
            NamesAsked(index, label, count, noun)
            for index, label, count, noun in zip(fit.ids, labels, counts, nouns, strict=True)
        )
        return cls(model, users, items, settings)

    def prepare(self) -> None:
        """Compute what is needed once, ahead of the first request."""
        self.users.prepare()
        self.items.prepare()
        _ = self.taste

    @cached_property
    def taste(self) -> Taste | None:
        """How users differ; None where the model knows no taste, or answers classes."""
        return None if self.has_classes else taste_of(self.model)

    @property
    def scale(self) -> float:
        """Standard deviation of a single rating about its mean, where the model knows it; else 0."""
        fit = self.model.fitted_
        return float(fit.unit[1]) * float(np.sqrt(self.taste.noise)) if self.taste and hasattr(fit, "alphas") else 0.0

    @property
    def middle(self) -> float | None:
        """What an average user is expected to give an average item; None for classes."""
        nobody = np.empty((1, 2), object)
        nobody[0] = [object(), object()]
        return None if self.has_classes else float(values_of(self.model, nobody)[0])

    @property
    def folds(self) -> bool:
        """Whether somebody new can tell their ratings."""
        return self.taste is not None and hasattr(self.model, "recommend_for")

    @cached_property
    def example(self) -> dict[str, Any] | None:
        """A known user worth a first look: one with a middling number of ratings."""
        counts = self.users.popularity
        if not counts.any():
            return None
        return self.users.describe(np.array([int(np.argsort(counts, kind="stable")[int(0.9 * len(counts))])]))[0]

    def rated_by(self, user: Any) -> NDArray[np.int64]:
        """Items that a known user has rated."""
        row = self.users.row(user, "user")
        return np.unique(self.model.fitted_.cells.take(np.array([row])).to_csr().indices).astype(np.int64)

    def complete(self, text: str, of: str, n: int) -> dict[str, Any]:
        """Names for what somebody has typed so far, most likely first."""
        names = self.users if of == "users" else self.items
        return {"results": names.describe(names.complete(text, min(n, len(names), self.settings.max_n)))}

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
