"""The chapter about a constant or about biases: what every other model of ratings must beat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep.apps.report.charts import histogram
from halfstep.apps.report.page import Block, Facts, Note, Section
from halfstep.core import losses

LEAD = "One number for all, and where the model has them a bias for each {user} and each {item}. No taste: no factors."


def sections(model: Any, pairs: Any = None, y: ArrayLike | None = None) -> list[Section]:
    """Sections about a fitted model; `pairs` and `y` are ratings to judge it on."""
    fit = model.fitted_
    sizes = {"users": len(fit.users), "items": len(fit.items), "intercept": float(fit.intercept)}
    shown: list[Block] = [Facts(sizes)]
    for name, bias in (("users", fit.user_bias), ("items", fit.item_bias)):
        if np.any(bias):
            shown.append(histogram(f"Biases of {name}", {name: np.asarray(bias)}, x_label="bias"))
    return [Section("What it says", shown), Section("How it errs", _errors(model, pairs, y))]


def _errors(model: Any, pairs: Any, y: ArrayLike | None) -> list[Block]:
    if pairs is None or y is None:
        return [Note("The model file does not hold the ratings; give them (`--data`) to see its errors.", "info")]
    if losses.get(model.loss).form == "margin":
        return [Facts({"pairs": len(np.asarray(y)), "accuracy": float(model.score(pairs, y))})]
    error = np.asarray(y, np.float64) - np.asarray(model.predict(pairs))
    facts = {"ratings": len(error), "RMSE": float(np.sqrt(np.mean(error**2))), "MAE": float(np.mean(np.abs(error)))}
    return [Facts(facts), histogram("Errors", {"ratings": error}, x_label="rating minus prediction")]
