"""Lists in answers: names with a number each, JSON-able. Knows neither models nor HTTP."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

DIGITS = 6  # of a number in an answer; float32 has about seven


def with_labels(ids: NDArray[Any], labels: NDArray[Any] | None) -> list[dict[str, Any]]:
    """Id and label of what a model has answered."""
    titles = ids if labels is None else labels
    return [{"id": id, "label": str(label)} for id, label in zip(ids.tolist(), titles.tolist(), strict=True)]


def reasons(parts: Any, n: int) -> list[dict[str, Any]]:
    """What speaks most for a score: items, then features."""
    labels = None if parts.labels is None else parts.labels[:n]
    found = scored(with_labels(parts.ids[:n], labels), parts.contributions[:n], "contribution")
    told = getattr(parts, "features", None)
    if told is None:
        return found
    names = [{"id": name, "label": name} for name in told.names[:n].tolist()]
    return found + scored(names, told.contributions[:n], "contribution")


def scored(named: list[dict[str, Any]], scores: Any, what: str = "score") -> list[dict[str, Any]]:
    """Names with a number each."""
    return [entry | {what: round(score, DIGITS)} for entry, score in zip(named, map(float, scores), strict=True)]


def number(value: Any) -> float:
    """A number as answers have it."""
    return round(float(value), DIGITS)
