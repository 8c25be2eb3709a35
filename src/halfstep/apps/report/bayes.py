"""The chapter about a BayesMF model: how sure it is, whether rightly so, and the ratings it does not believe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from halfstep.apps.report.charts import histogram, lines
from halfstep.apps.report.page import Block, Facts, Note, Section, Table
from halfstep.apps.report.plqmf import comparison_section
from halfstep.apps.report.wals import pair_facts

LEAD = (
    "Every row was drawn from its posterior, sweep after sweep. A prediction is a mean over kept draws; their spread "
    "and the noise of a single rating give an interval."
)
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LEVEL = 0.9
SHOWN, SAMPLE = 40, 2000


def sections(
    model: Any,
    pairs: Any = None,
    y: ArrayLike | None = None,
    comparison: Sequence[dict[str, Any]] = (),
    caption: str = "",
) -> list[Section]:
    """Sections about a fitted model. pairs, y : ratings to judge it on. comparison : as in the chapter of PLQMF."""
    shown = [_data(model)]
    if comparison:
        shown.append(comparison_section(list(comparison), caption))
    if is_classifier(model):
        return [*shown, _chain(model)]
    if pairs is None or y is None:
        note = "The model file does not hold the ratings; give them (`--data`, or `pairs=` and `y=`) to see its errors."
        shown.append(Section("How it errs", [Note(note, "info")]))
        return [*shown, _doubt(model, *_fitted_pairs(model)), _chain(model)]
    asked = np.asarray(pairs)
    return [*shown, *_judged(model, asked, np.asarray(y, np.float64)), _doubt(model, asked, "judged"), _chain(model)]


def _data(model: Any) -> Section:
    cells = model.fitted_.cells
    per_item = np.bincount(cells.indices, minlength=cells.shape[1])
    facts = pair_facts(np.asarray(cells.counts), per_item, "ratings", "ratings of a user", "ratings of an item")
    return Section("The data", [Facts(facts)], folded=True)


def _fitted_pairs(model: Any) -> tuple[NDArray[Any], str]:
    """Some pairs of the fit, evenly chosen."""
    fit = model.fitted_
    rows = np.repeat(np.arange(fit.cells.shape[0]), fit.cells.counts)
    some = np.unique(np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(int))
    pairs = np.empty((len(some), 2), object)
    pairs[:, 0], pairs[:, 1] = model.user_ids_[rows[some]], model.item_ids_[fit.cells.indices[some]]
    return pairs, "fitted"


def _judged(model: Any, pairs: NDArray[Any], y: NDArray[np.float64]) -> list[Section]:
    predicted = np.asarray(model.predict(pairs))
    missed = y - predicted
    bounds = {level: model.predict_interval(pairs, level) for level in LEVELS}
    covered = {level: float(np.mean((b[:, 0] <= y) & (y <= b[:, 1]))) for level, b in bounds.items()}
    errors = {
        "judged on": f"{len(y):,} ratings, as given",
        "root mean square error": float(np.sqrt((missed**2).mean())),
        "mean absolute error": float(np.abs(missed).mean()),
    }
    wide = [[level, covered[level], float(np.mean(b[:, 1] - b[:, 0]))] for level, b in bounds.items()]
    off = abs(covered[LEVEL] - LEVEL) > 0.03
    words = f"{covered[LEVEL]:.1%} of the ratings lie within their {LEVEL:.0%} interval."
    intervals: list[Block] = [
        Note(words + (" That is off by more than 3 points." if off else ""), "warning" if off else "good"),
        lines(
            "Share of ratings within their interval",
            {"observed": (list(covered), list(covered.values()))},
            x_label="level of the interval",
            y_label="share covered",
            unit_square=True,
        ),
        Table(["level", "covered", "mean width"], wide, "Intervals and what they cover", wide=False),
    ]
    residuals = histogram("Residuals", {"given minus expected": missed}, x_label="residual", reference=0.0)
    low, high = bounds[LEVEL].T
    surprise = np.abs(missed) / np.maximum((high - low) / 2, 1e-12)
    least = np.argsort(-surprise, kind="stable")[:SHOWN]
    rows = [[str(pairs[k, 0]), str(pairs[k, 1]), y[k], predicted[k], low[k], high[k]] for k in least]
    table = Table(
        ["user", "item", "given", "expected", "low", "high"],
        rows,
        f"The {len(rows)} ratings farthest outside of their {LEVEL:.0%} interval, by its half width",
        search=True,
    )
    return [
        Section("Are the intervals right", intervals),
        Section("What it does not believe", [table], "Mistakes look like this, and so does a change of mind."),
        Section("How it errs", [Facts(errors), residuals], folded=True),
    ]


def _doubt(model: Any, pairs: NDArray[Any], which: str) -> Section:
    """What intervals are made of: doubt about the expected value, and noise of a single rating."""
    _, doubt = model.predict(pairs, return_std=True)
    bounds = model.predict_interval(pairs, LEVEL)
    chart = histogram(
        "Doubt",
        {f"{which} pairs": np.asarray(doubt)},
        x_label="standard deviation of the expected value",
    )
    wide = histogram(
        "Width", {f"{which} pairs": bounds[:, 1] - bounds[:, 0]}, x_label=f"width of the {LEVEL:.0%} interval"
    )
    words = "An interval is wider than the doubt alone: a single rating has noise of its own, which no data remove."
    return Section("How sure it is", [chart, wide], words, folded=True)


def _chain(model: Any) -> Section:
    """How the sampler went."""
    history, found = model.history_, model.diagnostics_
    sweep = np.arange(1, len(history) + 1)
    name = "rmse" if "rmse" in history[0] else "loss"
    blocks: list[Block] = [Facts({"sweeps": len(history), **{k.replace("_", " "): v for k, v in found.items()}})]
    if found.get("r_hat", 1.0) > 1.1:
        note = (
            f"Split R-hat is {found['r_hat']:.2f}, above 1.1: the chain still moves. More sweeps make intervals truer."
        )
        blocks.append(Note(note))
    series = {name: (sweep, [record[name] for record in history])}
    blocks.append(lines(f"{name} of the fitted ratings by sweep", series, x_label="sweep", y_label=name))
    return Section("How the sampler went", blocks, folded=True)
