"""From a fitted model to the chapter about it: what every model has in common, and which module knows the rest."""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np

from halfstep.apps.report.charts import lines
from halfstep.apps.report.page import Block, Chapter, Facts, Note, Page, Section
from halfstep.core.fitted import fit_of
from halfstep.figures.views import objective_parts, objectives

# Kind of estimator to the module whose `sections(model, **evidence)` and `LEAD` tell its own story.
CHAPTERS = {
    "WALS": "halfstep.apps.report.wals",
    **dict.fromkeys(("ItemGraph", "EASE", "ItemKNN", "Popularity", "Blend"), "halfstep.apps.report.closed"),
    "PLQMF": "halfstep.apps.report.plqmf",
    "BayesMF": "halfstep.apps.report.bayes",
    **dict.fromkeys(("Constant", "Biases"), "halfstep.apps.report.plain_ratings"),
    "CFEnsemble": "halfstep.apps.report.ensemble",
    "CFEnsembleCV": "halfstep.apps.report.averaged",
}


def write_report(model: Any, path: str | os.PathLike[str], *, title: str | None = None, **evidence: Any) -> Path:
    """Write one self-contained HTML page about a fitted model, and return its path.

    evidence : what a model file does not hold, passed to `chapter`; each is optional.
    """
    made = chapter(model, title=title, **evidence)
    return Page(title or f"{type(model).__name__} report", [made]).write(path)


def chapter(model: Any, *, title: str | None = None, lead: str = "", **evidence: Any) -> Chapter:
    """The chapter about a fitted model: the verdict first, what stands behind it folded, parameters last.

    WALS takes `result`, an evaluation to show. PLQMF and BayesMF take `pairs` and `y`, ratings to judge them on. The
    ensembles take `y_true`, labels to judge probabilities on.
    """
    kind = type(model).__name__
    if kind not in CHAPTERS:
        raise TypeError(f"model is a {kind}; a report can be made of {', '.join(CHAPTERS)}.")
    fit_of(model)
    own = importlib.import_module(CHAPTERS[kind])
    told = own.sections(model, **evidence)
    parameters = Section("What was fitted", [Facts(_fitted(model))], folded=True)
    sections = [*sorted(told, key=lambda section: section.folded), *_progress(model), parameters]
    return Chapter(
        title or kind, sections, lead or _lead(own.LEAD, model), _warnings(model), badge=kind if title else ""
    )


def _lead(text: str, model: Any) -> str:
    """What a chapter begins with, in the words of the data where its text has a place for them."""
    users, items = (getattr(getattr(model.fitted_, side, None), "name", "") for side in ("users", "items"))
    return text.format(user=users or "user", item=items or "item")


def _fitted(model: Any) -> dict[str, Any]:
    """Parameters that decide the answer, as the docstring of the estimator names them."""
    order = list(inspect.signature(type(model)).parameters)
    quiet = {"callbacks", "engine", "verbose", "n_threads", "warm_start", "dtype", "max_seconds"}
    values = model.get_params(deep=False)
    return {name: values[name] for name in order if name not in quiet and not _says_nothing(values[name])}


def _says_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, (tuple, list)) and not value)


def _warnings(model: Any) -> list[Note]:
    notes: list[Note] = []
    history = _minimised(model)
    if getattr(model, "interrupted_", False):
        notes.append(Note(f"The fit was interrupted after sweep {len(history)}; this is its last finished sweep."))
    risen = _risen(history)
    if risen:
        notes.append(
            Note(f"The objective rose at sweep {risen}, which exact half-steps never do; please report this fit.")
        )
    repaired = sum(record.get("repaired", 0) for record in history)
    if repaired:
        notes.append(Note(f"{repaired:,.0f} rows were too ill-conditioned and were solved again with a small ridge."))
    return notes


def _minimised(model: Any) -> list[dict[str, Any]]:
    """Records of sweeps that minimise something; a sampler has none."""
    history = getattr(model, "history_", None) or []
    return history if history and {"objective", "total"} & history[0].keys() else []


def _risen(history: list[dict[str, Any]], slack: float = 1e-4) -> int:
    """The first sweep whose objective is above the one before by more than rounding, or 0."""
    values = objectives(history)
    worse = np.flatnonzero(values[1:] > values[:-1] * (1 + slack))
    return int(worse[0]) + 2 if len(worse) else 0


def _fall(history: list[dict[str, Any]]) -> float:
    if len(history) < 2:
        return 1.0
    before, after = objectives(history[-2:])
    return float(abs(before - after) / max(abs(after), 1e-300))


def _progress(model: Any) -> list[Section]:
    """Objective and time by sweep."""
    history = _minimised(model)
    if not history:
        return []
    sweep = np.arange(1, len(history) + 1)
    values = objectives(history)
    parts = {name: (sweep, part) for name, part in objective_parts(history).items() if part.any()}
    seconds = np.array([record.get("seconds", np.nan) for record in history])
    blocks: list[Block] = [
        lines(
            "Objective by sweep",
            {"objective": (sweep, values)},
            x_label="sweep",
            y_label="objective",
            caption="The quantity that is minimised.",
        )
    ]
    if len(parts) > 1:
        blocks.append(
            lines("Its parts", parts, x_label="sweep", y_label="part", caption="They add up to the objective.")
        )
    if not getattr(model, "converged_", True):
        words = (
            f"The objective was still falling by {_fall(history):.2%} a sweep when `max_iter={len(history)}` ended the "
            "fit. More sweeps lower it; whether they answer better, held-out data say."
        )
        blocks.insert(0, Note(words, "info"))
    facts: dict[str, Any] = {
        "sweeps": len(history),
        "converged": bool(getattr(model, "converged_", True)),
        "last objective": values[-1],
        "last relative change": _fall(history),
    }
    if np.isfinite(seconds).all():
        facts |= {"seconds in all": float(seconds[-1]), "seconds a sweep": float(seconds[-1] / len(history))}
    return [Section("How the fit went", [Facts(facts), *blocks], folded=True)]
