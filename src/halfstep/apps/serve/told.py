"""Features by name: what may be said of somebody new. Knows encoded features; ranks nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfstep.apps.serve.names import NamesAsked
from halfstep.data.feature_columns import Categories, Flags, Lists, TextWords
from halfstep.data.features import Features
from halfstep.data.ids import Index


class FeatureNames:
    """The features of a fit that are there or not: groups, elements of lists, words, flags. Numbers are none of them.

    features : as they were encoded for the fit; a matrix without columns of a table has no names to choose from.
    """

    def __init__(self, features: Features) -> None:
        said = [entry for block in features.blocks for entry in _entries(block)]
        counts = np.bincount(features.matrix.indices, minlength=features.shape[1])
        kept = [place for place, entry in enumerate(said) if entry is not None]
        self.entries = [entry for entry in said if entry is not None]
        self.names = NamesAsked(
            Index([features.names[place] for place in kept], "feature"),
            None,
            counts[kept].astype(np.float64),
            "feature",
        )

    def __len__(self) -> int:
        return len(self.entries)

    def complete(self, text: str, n: int) -> list[dict[str, Any]]:
        """Names like what somebody has typed so far; with each the column of a table, its kind, and the value there."""
        places = self.names.complete(text, min(n, len(self)))
        named = self.names.describe(places)
        return [name | self.entries[place] for name, place in zip(named, places, strict=True)]


def _entries(block: Any) -> list[dict[str, str] | None]:
    """For each column of a block, what makes it 1; None where nothing said by name does."""
    column = block.sources[0]
    if isinstance(block, Flags):
        return [{"column": column, "kind": block.kind, "value": "true"}]
    if isinstance(block, Categories | Lists | TextWords):
        values = block.words if isinstance(block, TextWords) else block.values
        return [{"column": column, "kind": block.kind, "value": value} for value in values]
    return [None] * len(block.names)
