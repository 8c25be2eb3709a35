"""`About`: what published files say of users or items beside their interactions, also of those without any.

Loaders fill it, `Interactions` keeps it, and features are made of it. Must not know any file format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from halfstep.data.features import Features, TextColumnNames, text_columns
from halfstep.data.ids import Index
from halfstep.data.names import Aliases
from halfstep.data.plain_ids import objects
from halfstep.errors import one_of

from ._columns import Coded

OTHER_NAMES = ("altLabels", "altTitles")
"""Columns of lists of names that people use for the same."""


@dataclass(frozen=True, eq=False, repr=False)
class About:
    """Columns about n ids, such as groups, flags, titles, descriptions.

    ids : (n,), each once. columns : name to n values, None where there is none; lists for groups within groups.
    text : the columns that are to be read word by word, those together that are read as one text.
    called : what people call values of columns, such as codes of groups; values without an entry are their own names.
    """

    ids: NDArray[Any]
    columns: dict[str, NDArray[Any]]
    text: tuple[tuple[str, ...], ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ids: Coded,
        columns: Mapping[str, Iterable[Any]],
        text: Sequence[Sequence[str]] = (),
        called: Mapping[str, str] | None = None,
    ) -> Self:
        """From columns of a file. Rows without an id are left out; of an id that comes twice, the last row stays.

        text, called : as in the class; columns of text that are not there are passed over.
        """
        last = {code: row for row, code in enumerate(ids.codes.tolist()) if code >= 0}
        rows = np.fromiter(last.values(), np.int64, len(last))
        kept = {name: objects(list(values))[rows] for name, values in columns.items()}
        there = (tuple(name for name in together if name in kept) for together in text)
        return cls(ids.values[np.fromiter(last, np.int64, len(last))], kept, tuple(filter(None, there)), called or {})

    def __repr__(self) -> str:
        return f"<About {len(self.ids):,} ids: {', '.join(self.columns)}>"

    def features(
        self, side: str, columns: Sequence[str] | None = None, text: TextColumnNames | None = None
    ) -> Features:
        """Features of all n ids: of these columns, and of the words of these text columns; None takes all there are."""
        texts = [name for together in self.text for name in together]
        chosen = [name for name in self.columns if name not in texts] if columns is None else list(columns)
        read = self.text if text is None else text_columns(text)
        asked = [("columns", chosen), *(("text", together) for together in read)]
        for argument, names in asked:
            for name in names:
                one_of(argument, name, self.columns, "is not known of them; known are")
        table = {name: self.columns[name].tolist() for _, names in asked for name in names}
        return Features.of_columns(Index(self.ids, side), table, text=read)

    def aliases(self, ids: NDArray[Any]) -> Aliases | None:
        """Other names of these ids, by their places; None where the files have none."""
        column = next((self.columns[name] for name in OTHER_NAMES if name in self.columns), None)
        if column is None:
            return None
        named = [column[place] if place >= 0 else () for place in Index(self.ids).find(ids).tolist()]
        counts = np.fromiter(map(len, named), np.int64, len(named))
        return Aliases(objects([*chain.from_iterable(named)]), np.repeat(np.arange(len(named)), counts))


def prefixes(code: str | None, lengths: Sequence[int]) -> list[str]:
    """The groups of a code: its beginnings of these lengths, as far as it goes; "2654" is in 2, 26, 265 and 2654."""
    return [] if code is None else [code[:length] for length in lengths if length <= len(code)]


def levels(code: str | None, separator: str) -> list[str]:
    """The groups of a code by its parts: "2654.1.7" is in 2654, 2654.1 and 2654.1.7."""
    if code is None:
        return []
    parts = code.split(separator)
    return [separator.join(parts[: place + 1]) for place in range(len(parts))]
