"""The chapter about a recommender without sweeps or factors: its data, its quality, what it recommends and why."""

from __future__ import annotations

from typing import Any

from halfstep.apps.report.page import Section
from halfstep.apps.report.wals import data_section, examples, nouns, quality
from halfstep.figures.views import cell_counts

LEAD = (
    "What one {user} has speaks for each other {item}, by a matrix that follows from who has what. Nothing is drawn "
    "and nothing sweeps: the same data give the same lists."
)


def sections(model: Any, result: Any = None) -> list[Section]:
    """Sections about a fitted model; `result` is an evaluation of its parameters."""
    per_user, per_item = cell_counts(model.seen, (len(model.user_ids_), len(model.item_ids_)))
    called = nouns(model)
    judged = [] if result is None else [quality(result, type(model).__name__, called)]
    return [*judged, examples(model, per_user), data_section(per_user, per_item, called)]
