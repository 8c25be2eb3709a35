"""Features beside a split: who may be told what. Knows splits and features; no model, no metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halfstep.data.features import Features
from halfstep.data.ids import Index
from halfstep.judge.splits import Split

NEEDED = {"cold_users": "user_features", "cold_items": "item_features"}
"""Without what a protocol has nothing to rank by."""


@dataclass(frozen=True)
class FeaturesOf:
    """Features of all rows and columns of the matrix that is split; None where nothing is known of a side."""

    users: Features | None
    items: Features | None

    @classmethod
    def of(cls, data: Any, protocol: str | None, user_features: Any, item_features: Any) -> FeaturesOf:
        """Whatever was given, in the order of the data. What a cold protocol needs is taken from the data otherwise."""
        given: dict[str, Any] = {"user_features": user_features, "item_features": item_features}
        needed = NEEDED.get(protocol or "")
        if needed is not None and given[needed] is None:
            side = needed.partition("_")[0]
            if getattr(data, f"about_{side}s", None) is None:
                raise ValueError(
                    f"protocol={protocol!r} ranks by features alone, and nothing is known of the {side}s; pass "
                    f"{needed}= with a frame, a dict of dicts, a matrix or Features"
                )
            given[needed] = getattr(data, needed)()
        return cls(*(_in_order(data, side, given[f"{side}_features"]) for side in ("user", "item")))

    def __bool__(self) -> bool:
        return self.users is not None or self.items is not None

    def to_fit(self, split: Split) -> dict[str, Features]:
        """Arguments of `fit`: of users and items that train."""
        told: dict[str, Features] = {}
        if self.users is not None:
            told["user_features"] = self.users if split.trained is None else self.users.take(split.trained)
        if self.items is not None:
            told["item_features"] = self.items if split.items is None else self.items.without(split.items)
        return told

    def to_rank(self, split: Split) -> dict[str, Features]:
        """Arguments of `rank_new`: of users and items that are new."""
        told: dict[str, Features] = {}
        if self.users is not None and split.rows is None:
            told["user_features"] = self.users.take(split.users)
        if self.items is not None and split.items is not None:
            told["item_features"] = self.items.take(split.items)
        return told


def _in_order(data: Any, side: str, given: Any) -> Features | None:
    """Features of a side of the data, row by row, by place: a split has no ids."""
    if given is None:
        return None
    matrix = getattr(data, "matrix", data)
    ids = getattr(data, f"{side}_ids", None)
    index = Index.range(matrix.shape[side == "item"], side) if ids is None else Index(ids, side)
    features = Features.of(given, side=side)
    return Features(features.aligned(index), features.names, None, features.blocks)
