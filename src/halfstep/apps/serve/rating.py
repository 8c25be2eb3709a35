"""What a model of ratings answers: the value of pairs. Knows models, not HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfstep.apps.serve.names import NamesAsked
from halfstep.apps.serve.problems import at_most
from halfstep.apps.serve.settings import Settings


class RatingAnswers:
    """Answers of a model with `predict` over (user, item) pairs, such as `PLQMF`."""

    def __init__(self, model: Any, users: NamesAsked, items: NamesAsked, settings: Settings) -> None:
        self.model = model
        self.users = users
        self.items = items
        self.settings = settings

    def predict(self, pairs: list[tuple[Any, Any]], unknown: str) -> dict[str, Any]:
        """A value for each pair. Unknown ids are a 404, or count as an average one with unknown="average"."""
        at_most("pairs", len(pairs), self.settings.max_list, "entries are")
        table = np.empty((len(pairs), 2), object)
        table[:] = [(_plain(user), _plain(item)) for user, item in pairs]
        if unknown == "error":
            for column, names in ((0, self.users), (1, self.items)):
                table[:, column] = names.index.take(names.rows(table[:, column].tolist(), "pairs")).tolist()
        return {"values": np.asarray(self.model.predict(table)).tolist()}


def _plain(id: Any) -> Any:
    return tuple(id) if isinstance(id, list) else id
