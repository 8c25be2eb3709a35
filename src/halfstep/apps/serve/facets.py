"""What published files say beside a model: what lists can be narrowed by, and names in other languages.

Read once from a folder as downloaded; never a part of the model. Knows tables and rows, neither scores nor HTTP.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.apps.serve.problems import FieldError
from halfstep.data.datasets import DataWarning
from halfstep.data.datasets.about import OTHER_NAMES, About
from halfstep.data.datasets.esco import esco_languages
from halfstep.data.datasets.interactions import Interactions
from halfstep.data.datasets.published import load_published
from halfstep.data.ids import Index
from halfstep.data.names import Names
from halfstep.errors import close_matches, did_you_mean

MOST_VALUES = 60  # of one column that can be chosen from; the most common ones
RELATIONS = {"essential": 2.0, "optional": 1.0}
"""Kinds of relations of ESCO, by weights that tell them apart once they are read."""

Where = Mapping[str, list[str]]


@dataclass(frozen=True, eq=False)
class Facet:
    """One column: its values, what they are called, and (rows, values) which row has which."""

    name: str
    values: list[str]
    titles: list[str]
    has: sp.csc_array

    def described(self) -> dict[str, Any]:
        counts = np.diff(self.has.indptr).tolist()
        rows = zip(self.values, self.titles, counts, strict=True)
        return {"name": self.name, "values": [{"value": v, "title": t, "count": n} for v, t, n in rows]}


@dataclass(frozen=True, eq=False)
class Facets:
    """Columns of both sides, and which pairs are related how, in the rows of one model."""

    users: list[Facet] = field(default_factory=list)
    items: list[Facet] = field(default_factory=list)
    relations: dict[str, sp.csr_array] = field(default_factory=dict)
    folder: Path | None = None
    languages: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: str | os.PathLike[str], users: Index, items: Index) -> Facets:
        """Of a folder as downloaded, for these rows."""
        with warnings.catch_warnings(action="ignore", category=DataWarning):  # said when the model was fitted
            data = load_published(folder, weights=RELATIONS)
        for index, ids in ((users, data.user_ids), (items, data.item_ids)):
            if not (index.find(ids) >= 0).any():
                raise ValueError(f"about={str(folder)!r} knows none of the {index.name or 'row'}s of this model")
        sides = [
            [] if about is None else list(_facets(about, index))
            for about, index in ((data.about_users, users), (data.about_items, items))
        ]
        esco = data.nouns == ("occupation", "skill") and data.name.startswith("ESCO")
        relations = _relations(data, users, items) if esco else {}
        languages = esco_languages(folder) if esco else []
        return cls(sides[0], sides[1], relations, Path(folder), languages if len(languages) > 1 else [])

    def described(self) -> dict[str, Any]:
        """What can be chosen, JSON-able."""
        return {
            "users": [facet.described() for facet in self.users],
            "items": [facet.described() for facet in self.items],
            "relations": list(self.relations),
        }

    def allowed(self, side: str, where: Where | None, field: str = "where") -> NDArray[np.bool_] | None:
        """Mask of the rows that have one of the wanted values in every column; None where nothing is asked."""
        if not where:
            return None
        known = {facet.name: facet for facet in getattr(self, side)}
        masks = []
        for name, wanted in where.items():
            if name not in known:
                near = close_matches(name, list(known))
                said = f"it has {', '.join(known)}" if known else "the server was started without --about"
                raise FieldError(f"{field}.{name}", f"is nothing that is known of {side}; {said}", near)
            facet = known[name]
            for value in wanted:
                if value not in facet.values:
                    near = close_matches(value, facet.values)
                    raise FieldError(f"{field}.{name}", f"{value!r} is none of its values.{did_you_mean(near)}", near)
            columns = [facet.values.index(value) for value in wanted]
            masks.append(np.asarray(facet.has[:, columns].sum(axis=1)).ravel() > 0)
        return np.asarray(np.logical_and.reduce(masks))

    def related(self, row: int, items: NDArray[np.int64], relation: str) -> NDArray[np.bool_]:
        """Which items of a row of users are related to it that way."""
        if relation not in self.relations:
            said = f"one of {list(self.relations)}" if self.relations else "left out: the server knows none"
            raise FieldError("relation", f"{relation!r} is unknown; it must be {said}")
        return np.isin(items, self.relations[relation][[row]].indices)

    @lru_cache(maxsize=4)  # noqa: B019 - as long as the model is served
    def tongue(self, language: str) -> dict[Any, str]:
        """Titles of all ids in one of `languages`."""
        data = load_published(self.folder or "", language=language)
        pairs = ((data.user_ids, data.user_labels), (data.item_ids, data.item_labels))
        return {
            id: str(label)
            for ids, labels in pairs
            if labels is not None
            for id, label in zip(ids.tolist(), labels.tolist(), strict=True)
        }

    @lru_cache(maxsize=8)  # noqa: B019
    def names(self, side: Names, language: str) -> Names:
        """Names of one side in another language; the names it had serve where no other does."""
        told, ids = self.tongue(language), side.index.ids.tolist()
        labels = np.array([told.get(id, side.label(row)) for row, id in enumerate(ids)], object)
        return Names(side.index, labels, side.popularity, side.aliases)


def titles(folder: str, users: Index, items: Index) -> tuple[NDArray[Any] | None, ...]:
    """Titles of the rows of a model as the files have them; ids where they have none."""
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        data = load_published(folder)
    found: list[NDArray[Any] | None] = []
    for index, ids, labels in ((users, data.user_ids, data.user_labels), (items, data.item_ids, data.item_labels)):
        named = {} if labels is None else dict(zip(map(str, ids.tolist()), labels.tolist(), strict=True))
        known = [named.get(str(id), str(id)) for id in index.ids.tolist()]
        found.append(np.array(known, object) if named else None)
    return tuple(found)


def _facets(about: About, index: Index) -> Iterable[Facet]:
    places = index.find(about.ids)
    there = np.flatnonzero(places >= 0)
    texts = {name for together in about.text for name in together} | set(OTHER_NAMES)
    for name, column in about.columns.items():
        if name in texts:
            continue
        values = [_values(column[place]) for place in there.tolist()]
        counts = Counter(value for each in values for value in each)
        chosen = sorted(value for value, count in counts.most_common(MOST_VALUES) if count > 1)
        if len(chosen) < 2:
            continue
        code = {value: place for place, value in enumerate(chosen)}
        cells = [
            (row, code[v]) for row, each in zip(places[there].tolist(), values, strict=True) for v in each if v in code
        ]
        rows, columns = np.array(cells, np.int64).T
        has = sp.coo_array((np.ones(len(rows), np.int32), (rows, columns)), shape=(len(index), len(chosen))).tocsc()
        yield Facet(name, chosen, [about.called.get(value, value) for value in chosen], has)


def _values(given: Any) -> list[str]:
    """The values of one cell as text: none, one, or those of a list."""
    if isinstance(given, (list, tuple)):
        return [str(value) for value in given]
    if given is None or given != given:  # NaN
        return []
    if isinstance(given, (bool, np.bool_)):
        return ["yes" if given else "no"]
    return [str(int(given)) if isinstance(given, (float, np.floating)) and float(given).is_integer() else str(given)]


def _relations(data: Interactions, users: Index, items: Index) -> dict[str, sp.csr_array]:
    """Which pairs of the model's rows are related how."""
    cells = data.matrix.tocoo()
    rows, columns = users.find(data.user_ids)[cells.row], items.find(data.item_ids)[cells.col]
    found = {}
    for name, weight in RELATIONS.items():
        mine = (cells.data == weight) & (rows >= 0) & (columns >= 0)
        shape = (len(users), len(items))
        found[name] = sp.csr_array((np.ones(mine.sum(), np.int8), (rows[mine], columns[mine])), shape=shape)
    return found
