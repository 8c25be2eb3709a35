"""What people call rows: ids, titles, other names. Exact, as a completion, or misspelt; knows no factors.

`errors.close_matches` is for short lists, such as the values of a parameter. This is for catalogues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfstep.data.ids import Index
from halfstep.errors import UnknownIdError, did_you_mean

MAX_HITS = 2_000  # completions looked at before they are ranked; a single letter may occur everywhere
MAX_FUZZY = 200_000  # names with a table of letter groups; in a larger catalogue, the most popular ones
SHARED = 0.25  # share of the letter groups that were typed from which a name is looked at more closely
LOOKED_AT = 60  # names compared word by word with what was typed
NEAR = 0.6  # likeness of words from which a name counts as near; difflib's measure, 1 for the same

_WORD = re.compile(r"[^\W_]+")


class Aliases(NamedTuple):
    """Other names of rows: `texts` (k,), and whose they are, `rows` (k,). A row may have several, or none."""

    texts: NDArray[Any]
    rows: NDArray[np.int64]


class Names:
    """Rows of one side by id, by title, by another name, by what somebody has typed so far, or by something near to it.

    index : ids in the order of the rows. labels : titles or None. popularity : what comes first among equals.
    aliases : other names than titles, which serve where no title does.
    """

    def __init__(
        self,
        index: Index,
        labels: NDArray[Any] | None = None,
        popularity: NDArray[Any] | None = None,
        aliases: Aliases | None = None,
    ) -> None:
        self.index = index
        self.labels = labels
        self.aliases = aliases
        self.popularity = np.zeros(len(index)) if popularity is None else popularity

    def __len__(self) -> int:
        return len(self.index)

    def find(self, given: Iterable[Any], *, text: bool = False) -> NDArray[np.int64]:
        """Rows given by id, title or other name, -1 where none is known. Ids come first, then titles.

        Case and blanks do not matter. Of rows that share a title or another name, the first. Without titles, ids that
        are strings are found in any case too.
        `text`: the names come from a URL or a command line, where numbers are texts.
        """
        wanted: Any = given if hasattr(given, "__array__") else [self._as_id(name, text) for name in given]
        found = self._rows_of_ids(wanted)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            names = list(wanted)
            found[missing] = [self._called(_folded(names[place])) for place in missing]
        return found

    def positions(self, given: Iterable[Any]) -> NDArray[np.int64]:
        """Rows given by id or, where there are labels, by label (case does not matter). Ids come first.

        An unknown name raises with close matches, and so does a label that several rows have.
        """
        if isinstance(given, str):
            raise TypeError(f"{given!r} is one name where a list is expected; write [{given!r}].")
        if isinstance(given, Mapping):
            raise TypeError("a dict where a list of names is expected; give list(it), and its values as weights.")
        wanted: Any = given if hasattr(given, "__array__") else list(given)
        if self.labels is None:
            return self.index.positions(wanted)
        if not hasattr(wanted, "__array__"):
            wanted = [self._as_id(name, False) for name in wanted]
        found = self._rows_of_ids(wanted)
        missing = np.flatnonzero(found < 0)
        if len(missing):  # titles and other names are folded only then
            names = list(wanted)
            found[missing] = [self._only_called(names[place]) for place in missing]
        return found

    def label(self, row: int) -> str:
        """The title of a row, its id where there are no titles."""
        return str(self.index.take([row])[0] if self.labels is None else self.labels[row])

    def describe(self, rows: NDArray[Any]) -> list[dict[str, Any]]:
        """Id and label of rows, JSON-able."""
        ids = self.index.take(rows).tolist()
        labels = map(str, ids) if self.labels is None else map(str, self.labels[rows].tolist())
        return [{"id": id, "label": label} for id, label in zip(ids, labels, strict=True)]

    def complete(self, text: str, n: int) -> NDArray[np.int64]:
        """Rows for what somebody has typed: those that begin with it, then with a word of it, then anything near."""
        needle = _folded(text)
        if not needle:
            return np.argsort(-self.popularity, kind="stable")[:n]
        exact = self._called(needle) if needle in self._by_name else self._row_of_text(text)
        chosen: list[int] = [] if exact < 0 else [exact]
        for pattern in ("\n" + needle, " " + needle, needle):
            hits = np.setdiff1d(self._hits(pattern), chosen)
            order = np.lexsort((hits, -self.popularity[hits]))
            chosen += hits[order].tolist()
            if len(chosen) >= n:
                break
        return np.array(chosen[:n] or self._alike(needle, n), np.int64)

    def near(self, name: Any, n: int = 3) -> list[Any]:
        """Labels (ids, where there are none) near to a name that is neither."""
        rows = self.complete(str(name)[:80], n)
        source = self.index.take(rows) if self.labels is None else self.labels[rows]
        return list(source.tolist())

    def prepare(self) -> None:
        """Build what lookups need ahead of the first one."""
        _ = self._text, self._by_name, self._also, self._letters

    def _as_id(self, name: Any, text: bool) -> Any:
        if isinstance(name, list):  # JSON has no tuples
            return tuple(name)
        if text and name not in self.index:
            digits = name.strip().removeprefix("-")
            return int(name) if digits.isdecimal() and len(digits) < 19 else name
        return name

    def _rows_of_ids(self, wanted: Any) -> NDArray[np.int64]:
        try:
            return self.index.find(wanted)
        except (TypeError, ValueError):  # one of them can be no id at all; look at each
            return np.array([self._row_of_id(name) for name in wanted], np.int64)

    def _row_of_id(self, id: Any) -> int:
        return int(self.index.find([id])[0]) if id in self.index else -1

    def _row_of_text(self, text: str) -> int:
        """The row of an id that somebody has typed in full, digits for whole numbers."""
        return self._row_of_id(self._as_id(text.strip(), True))

    def _called(self, name: str) -> int:
        return self._by_name[name] if name in self._by_name else self._also.get(name, [-1])[0]

    def _only_called(self, name: Any) -> int:
        """The one row of a title or another name, which is no id."""
        called, side = _folded(name), self.index.name or "row"
        row, by_title = self._called(called), called in self._by_name
        if row < 0:
            near = self.near(name)
            raise UnknownIdError(
                f"{side} {name!r} is neither an id nor a label of this model.{did_you_mean(near)}", near
            )
        same = self._shared.get(called, []) if by_title else self._also[called]
        if len(same) > 1:
            ids, what = self.index.take(same[:3]).tolist(), "the label" if by_title else "another name"
            raise UnknownIdError(f"{side} {name!r} is {what} of {len(same)} {side}s; give an id, such as {ids}.", ids)
        return row

    def _hits(self, pattern: str) -> NDArray[np.int64]:
        text, starts, rows = self._text
        places: list[int] = []
        at = text.find(pattern)
        while at >= 0 and len(places) < MAX_HITS:
            places.append(at + 1 if pattern[0] == "\n" else at)
            at = text.find(pattern, at + 1)
        return np.unique(rows[np.searchsorted(starts, places, side="right") - 1])

    def _alike(self, needle: str, n: int) -> list[int]:
        """Rows that share most groups of letters with what was typed, and of those the ones with the nearest words."""
        vectoriser, table, rows = self._letters
        wanted = vectoriser.transform([needle])
        shared = (table @ wanted.T).toarray().ravel() / max(wanted.sum(), 1)
        best = np.argsort(-shared, kind="stable")[: max(LOOKED_AT, n)]
        best = best[shared[best] > SHARED]
        likeness = np.array([_likeness(needle, self._names[row]) for row in rows[best].tolist()])
        order = np.argsort(-likeness, kind="stable")[:n]
        return list(rows[best[order[likeness[order] > NEAR]]].tolist())

    @cached_property
    def _names(self) -> list[str]:
        return [_folded(name) for name in (self.index.ids if self.labels is None else self.labels).tolist()]

    @cached_property
    def _by_name(self) -> dict[str, int]:
        """The first row of every name; numbers without titles have no names beside themselves."""
        named = self.labels is not None or self.index.kind == "str"
        return {name: row for row, name in reversed(list(enumerate(self._names)))} if named else {}

    @cached_property
    def _shared(self) -> dict[str, list[int]]:
        """All rows of the names that several rows have."""
        if len(self._by_name) == len(self):
            return {}
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self._names):
            rows.setdefault(name, []).append(row)
        return {name: same for name, same in rows.items() if len(same) > 1}

    @cached_property
    def _other_names(self) -> list[str]:
        return [] if self.aliases is None else [_folded(name) for name in self.aliases.texts.tolist()]

    @cached_property
    def _also(self) -> dict[str, list[int]]:
        """All rows of every other name."""
        rows: dict[str, list[int]] = {}
        for name, row in zip(
            self._other_names, [] if self.aliases is None else self.aliases.rows.tolist(), strict=True
        ):
            if row not in rows.setdefault(name, []):
                rows[name].append(row)
        return rows

    @cached_property
    def _text(self) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
        """All names in one text, a line each, titles first; where each begins, and whose it is: a search is a scan."""
        lines = [*self._names, *self._other_names]
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        starts = 1 + np.concatenate([[0], np.cumsum(lengths + 1)[:-1]])
        rows = np.arange(len(self)) if self.aliases is None else np.append(np.arange(len(self)), self.aliases.rows)
        return "\n" + "\n".join(lines) + "\n", starts.astype(np.int64), rows

    @cached_property
    def _letters(self) -> tuple[Any, Any, NDArray[np.int64]]:
        """Groups of two and three letters of every name, for near matches."""
        from sklearn.feature_extraction.text import HashingVectorizer

        rows = np.sort(np.argsort(-self.popularity, kind="stable")[:MAX_FUZZY])
        vectoriser = HashingVectorizer(
            analyzer="char_wb",
            ngram_range=(2, 3),
            n_features=2**18,
            alternate_sign=False,
            lowercase=False,
            norm=None,
            binary=True,
        )
        return vectoriser, vectoriser.transform(self._names[row] for row in rows), rows


def labels_of(labels: NDArray[Any] | None, positions: NDArray[Any]) -> NDArray[Any] | None:
    """Labels of rows in the shape of `positions`; None for -1, and None as a whole where there are no labels."""
    if labels is None:
        return None
    taken: NDArray[Any] = labels.astype(object)[positions]
    taken[positions < 0] = None
    return taken


def _likeness(needle: str, name: str) -> float:
    """How like the needle the words of a name are that are most like it, as many as it has; 1 for the same."""
    words = _WORD.findall(name) or [name]
    wide = max(len(_WORD.findall(needle)), 1)
    runs = (" ".join(words[at : at + wide]) for at in range(max(len(words) - wide, 0) + 1))
    return max(SequenceMatcher(None, run, needle).ratio() for run in runs)


def _folded(name: Any) -> str:
    return " ".join(str(name).casefold().split())
