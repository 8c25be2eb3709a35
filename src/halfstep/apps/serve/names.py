"""Ids and titles of one side as people type them: exact, as a completion, or misspelt. Knows text, not scores."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.apps.serve.problems import Unknown
from halfstep.data.ids import Index

MAX_HITS = 2_000  # completions looked at before they are ranked; a single letter may occur everywhere
MAX_FUZZY = 200_000  # names with a table of letter groups; in a larger catalogue, the most popular ones


class Names:
    """Rows of one side by id, by title, by what somebody has typed so far, or by something near to it.

    index : ids in the order of the rows. labels : titles or None. popularity : what comes first among equals.
    """

    def __init__(self, index: Index, labels: NDArray[Any] | None, popularity: NDArray[Any], noun: str) -> None:
        self.index = index
        self.labels = labels
        self.popularity = popularity
        self.noun = noun
        self._numeric = index.kind in ("range", "int")

    def __len__(self) -> int:
        return len(self.index)

    def label(self, row: int) -> str:
        """The title of a row, its id where there are no titles."""
        return str(self.index.take([row])[0] if self.labels is None else self.labels[row])

    def describe(self, rows: NDArray[Any]) -> list[dict[str, Any]]:
        """Id and label of rows, JSON-able."""
        ids = self.index.take(rows).tolist()
        labels = map(str, ids) if self.labels is None else map(str, self.labels[rows].tolist())
        return [{"id": id, "label": label} for id, label in zip(ids, labels, strict=True)]

    def row(self, given: Any, field: str, text: bool = False) -> int:
        """The row of one id or title. `text`: it comes from a URL, where numbers are texts too."""
        return int(self.rows([given], field, text, many=False)[0])

    def rows(self, given: list[Any], field: str, text: bool = False, many: bool = True) -> NDArray[np.int64]:
        """Rows of ids or titles; an unknown one is a 404 with near matches."""
        ids = [self._as_id(value, text) for value in given]
        try:
            found = self.index.find(ids)
        except (TypeError, ValueError):  # one of them can be no id at all; look at each
            found = np.array([self._find_one(id) for id in ids], np.int64)
        for place in np.flatnonzero(found < 0):
            row = self._by_label.get(_folded(str(given[place])), -1)
            if row < 0:
                where = f"{field}[{place}]" if many else field
                raise Unknown(where, self.noun, given[place], self.near(str(given[place])))
            found[place] = row
        return found

    def complete(self, text: str, n: int) -> NDArray[np.int64]:
        """Rows for what somebody has typed: those that begin with it, then with a word of it, then anything near."""
        needle = _folded(text).strip()
        if not needle:
            return np.argsort(-self.popularity, kind="stable")[:n]
        chosen: list[int] = []
        for pattern in ("\n" + needle, " " + needle, needle):
            hits = np.setdiff1d(self._hits(pattern), chosen)
            order = np.lexsort((hits, -self.popularity[hits]))
            chosen += hits[order].tolist()
            if len(chosen) >= n:
                break
        if not chosen:
            chosen = self._fuzzy(needle, n)
        return np.array(chosen[:n], np.int64)

    def near(self, text: str, n: int = 3) -> list[Any]:
        """Ids (labels, where there are any) near to a text that is neither."""
        rows = self.complete(text[:80], n)
        source = self.index.take(rows) if self.labels is None else self.labels[rows]
        return list(source.tolist())

    def _as_id(self, value: Any, text: bool) -> Any:
        if isinstance(value, list):
            return tuple(value)
        if text and self._numeric:
            digits = value.strip().removeprefix("-")
            return int(value) if digits.isdecimal() and len(digits) < 19 else value
        return value

    def _find_one(self, id: Any) -> int:
        try:
            return int(self.index.find([id])[0])
        except (TypeError, ValueError):
            return -1

    def _hits(self, pattern: str) -> NDArray[np.int64]:
        text, starts = self._text
        places: list[int] = []
        at = text.find(pattern)
        while at >= 0 and len(places) < MAX_HITS:
            places.append(at + 1 if pattern[0] == "\n" else at)
            at = text.find(pattern, at + 1)
        return np.unique(np.searchsorted(starts, places, side="right") - 1)

    def _fuzzy(self, needle: str, n: int) -> list[int]:
        vectoriser, table, rows = self._letters
        likeness = (table @ vectoriser.transform([needle]).T).toarray().ravel()
        best = np.argsort(-likeness, kind="stable")[:n]
        return list(rows[best[likeness[best] > 0.3]].tolist())

    @cached_property
    def _folded(self) -> list[str]:
        source = self.index.ids if self.labels is None else self.labels
        return [_folded(str(name)) for name in source.tolist()]

    @cached_property
    def _by_label(self) -> dict[str, int]:
        """Rows by name, whatever its case; the first of several that differ in case only."""
        names = self._folded if self.labels is not None or self.index.kind == "str" else []
        return {name: row for row, name in reversed(list(enumerate(names)))}

    @cached_property
    def _text(self) -> tuple[str, NDArray[np.int64]]:
        """All names in one text, a line each, and where each begins: one search is one scan."""
        lengths = np.fromiter(map(len, self._folded), np.int64, len(self._folded))
        starts = 1 + np.concatenate([[0], np.cumsum(lengths + 1)[:-1]])
        return "\n" + "\n".join(self._folded) + "\n", starts.astype(np.int64)

    @cached_property
    def _letters(self) -> tuple[Any, Any, NDArray[np.int64]]:
        """Groups of two and three letters of every name, for near matches."""
        from sklearn.feature_extraction.text import HashingVectorizer

        rows = np.sort(np.argsort(-self.popularity, kind="stable")[:MAX_FUZZY])
        vectoriser = HashingVectorizer(
            analyzer="char_wb", ngram_range=(2, 3), n_features=2**18, alternate_sign=False, lowercase=False
        )
        return vectoriser, vectoriser.transform(self._folded[row] for row in rows), rows

    def prepare(self) -> None:
        """Build what completion and near matches need, ahead of the first request."""
        _ = self._text, self._by_label, self._letters


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())
