"""The chapter about an averaged ensemble: what the average is made of, and where its members disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep.apps.report.charts import histogram
from halfstep.apps.report.page import Facts, Section, Table

LEAD = (
    "An average over a family of factorisations of the predictions, weighted by how well members answer for labels "
    "they have not seen. Few labels mean nearly equal weights."
)
SHOWN = 50


def sections(model: Any, P: ArrayLike | None = None, ids: Sequence[Any] | None = None, **_: Any) -> list[Section]:
    """Sections about a fitted average. P : predictions to answer for where the model keeps no instances."""
    rows = [[member[name] for name in ("name", "weight", "log_loss", "seconds")] for member in model.members_]
    shown = [
        Section(
            "What the average is made of",
            [
                Facts({"members": len(rows), "classes": ", ".join(str(c) for c in model.classes_)}),
                Table(
                    ["member", "weight", "log loss", "seconds"],
                    rows,
                    "Weight, out-of-fold log loss and cost of every member",
                    search=True,
                ),
            ],
        )
    ]
    spread = getattr(model, "uncertainty_", None) if P is None else model.uncertainty(P)
    if spread is None:
        return shown
    values = np.asarray(spread, np.float64)
    proba = np.asarray(model.predict_proba() if P is None else model.predict_proba(P))
    named = range(len(values)) if ids is None else ids
    doubtful = np.argsort(-values, kind="stable")[:SHOWN]
    table = [[str(named[i]), str(model.classes_[proba[i].argmax()]), proba[i].max(), values[i]] for i in doubtful]
    head = ["instance", "answer", "probability", "uncertainty"]
    chart = histogram("Uncertainty of the instances", {"instances": values}, x_label="deviation of the probability")
    return [
        *shown,
        Section("Where it should not be trusted", [chart, Table(head, table, "The most doubtful instances")]),
    ]
