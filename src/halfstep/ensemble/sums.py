"""Sums over rows add up, wherever the rows are: field by field, name by name. Knows nothing of what is summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self


class SummedFields:
    """A dataclass whose values are added field by field."""

    def __add__(self, more: Self) -> Self:
        return type(self)(*(value + getattr(more, name) for name, value in vars(self).items()))


@dataclass(frozen=True, eq=False)
class SiteSums:
    """What a part that is elsewhere sends, by name; sums of several are added entry by entry."""

    stage: str
    sums: dict[str, Any]

    def __add__(self, other: SiteSums) -> SiteSums:
        if self.stage != other.stage:
            raise ValueError(
                f"sums of the stages {self.stage!r} and {other.stage!r} cannot be added; merge every round"
            )
        return SiteSums(self.stage, {name: value + other.sums[name] for name, value in self.sums.items()})

    def opened(self) -> SiteSums:
        """Itself: plain sums hide nothing."""
        return self
