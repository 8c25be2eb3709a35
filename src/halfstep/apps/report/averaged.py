"""The chapter about an averaged ensemble: what the average is made of, and where its members disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from halfstep.apps.report import ensemble
from halfstep.apps.report.charts import histogram
from halfstep.apps.report.page import Facts, Section, Table
from halfstep.core.arrays import Floats

LEAD = (
    "An average over a family of factorisations of the predictions, weighted by how well members answer for labels "
    "they have not seen. Few labels mean nearly equal weights."
)
SHOWN = 50
MOST_CLASSIFIERS = 40
LEVEL = 0.95


def sections(model: Any, P: Any = None, ids: Sequence[Any] | None = None, **evidence: Any) -> list[Section]:
    """Sections about a fitted average; evidence as for one factorisation.

    P : predictions to answer for, where the model came from a file that kept none.
    """
    # seconds are those of a fit in this process: files do not keep them
    names = [name for name in ("name", "weight", "log_loss", "seconds") if name in model.members_[0]]
    rows = [[member[name] for name in names] for member in model.members_]
    shown = [
        Section(
            "What the average is made of",
            [
                Facts({"members": len(rows), "classes": ", ".join(str(c) for c in model.classes_)}),
                Table(
                    ["member", *(name.replace("_", " ") for name in names[1:])],
                    rows,
                    "Weight, out-of-fold log loss and cost of every member",
                    search=True,
                ),
            ],
            folded=True,
        )
    ]
    fit = model.fitted_
    known = fit.rows is not None and fit.frame_columns is None  # those of a cluster are there
    values = np.asarray(model.uncertainty_ if known or P is None else model.uncertainty(P), np.float64)
    proba = np.asarray(model.fitted_.probabilities if known or P is None else model.predict_proba(P))
    named = model.instance_ids_.tolist() if ids is None else list(ids)
    doubtful = np.argsort(-values, kind="stable")[:SHOWN]
    table = [[str(named[i]), str(model.classes_[proba[i].argmax()]), proba[i].max(), values[i]] for i in doubtful]
    head = ["instance", "answer", "probability", "uncertainty"]
    chart = histogram("Uncertainty of the instances", {"instances": values}, x_label="deviation of the probability")
    doubts = Section("Where members disagree", [chart, Table(head, table, "The most doubtful instances")], folded=known)
    if not known:
        return [*shown, doubts]
    return [*shown, doubts, *ensemble.sections(model, P, ids=ids, words=WORDS, **evidence)]


def _spread(known: Any) -> Floats | None:
    """Standard errors of the weights, where there are labels enough and the fits are quick."""
    counts = np.bincount(known.y[known.labelled], minlength=len(known.classes))
    if counts.min() < 4 or known.m > MOST_CLASSIFIERS:
        return None
    low, high = known.model.classifier_intervals(LEVEL, repeats=8).T
    return np.asarray((high - low) / (2 * ndtri((1 + LEVEL) / 2)))


WORDS = ensemble.Words(
    "labelled instances, each answered without its own label",
    "Probability that the answer is wrong, by the answer itself.",
    "Novelty compares an instance with the fitted ones, by what a factor analysis of their predictions expects.",
    "share of instances that are nearer to what is expected",
    _spread,
)
