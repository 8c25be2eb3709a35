"""Rows that requests ask for, by id or title; what is unknown is an answer of its own. Knows names, not scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.serve.problems import Unknown
from halfstep.data.ids import Index
from halfstep.data.names import Aliases, Names


class NamesAsked(Names):
    """Names of one side; `noun` is what one of them is called, None what the data said."""

    def __init__(
        self,
        index: Index,
        labels: NDArray[Any] | None,
        popularity: NDArray[Any],
        noun: str | None,
        aliases: Aliases | None = None,
    ) -> None:
        super().__init__(index, labels, popularity, aliases)
        self.noun = noun or index.name

    def row(self, given: Any, field: str, text: bool = False) -> int:
        """The row of one id or title. `text`: it comes from a URL, where numbers are texts too."""
        return int(self._known([given], [field], text)[0])

    def rows(self, given: list[Any], field: str) -> NDArray[np.int64]:
        """Rows of ids or titles; an unknown one is a 404 with near matches."""
        return self._known(given, [f"{field}[{place}]" for place in range(len(given))])

    def _known(self, given: list[Any], fields: list[str], text: bool = False) -> NDArray[np.int64]:
        found = self.find(given, text=text)
        for place in np.flatnonzero(found < 0)[:1]:
            raise Unknown(fields[place], self.noun, given[place], self.near(given[place]))
        return found
