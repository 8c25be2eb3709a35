"""Checkpoints of an ensemble's fit: what the driver has. Rows on the cluster are solved again from the classifiers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from halfstep.core.loop import Record
from halfstep.engine.spark.checkpoint import Checkpoints, array_of, text_of
from halfstep.ensemble.combined import Factorisation


class EnsembleCheckpoints(Checkpoints):
    """folder/sweep-000005/state.json with classifiers, labelled rows, groups, aggregator and the history."""

    def _save(self, session: Any) -> None:
        name = f"sweep-{len(self.history):06d}"
        before = self._newest()
        arrays = {key: text_of(array) for key, array in _arrays(session).items()}
        state = {"mark": self.mark, "history": self.history, "arrays": arrays}
        self.files.write(f"{name}/state.json", json.dumps(state))
        if before is not None and before != name:
            self.files.delete(before)

    def _load(self, session: Any, name: str) -> list[Record]:
        state = json.loads(self.files.read(f"{name}/state.json"))
        saved = {key: array_of(text) for key, text in state["arrays"].items()}
        session.classifier_factors[:] = saved["classifiers"]
        session.row_factors[:] = saved["rows"]
        session.group_means = saved["groups"]
        if session.labels is not None:
            session.labels.aggregator.coefficients = saved["aggregator"]
        if session.extrapolation is not None:
            session.extrapolation.before, session.extrapolation.after = map(list, saved["sweeps"])
            session.lowest = float(saved["lowest"])
        if session.rest is not None:
            session.rest.solve(session.classifier_factors)
        history: list[Record] = state["history"]
        return history


def _arrays(session: Factorisation) -> dict[str, Any]:
    seen = session.extrapolation
    return {
        "classifiers": session.classifier_factors,
        "rows": session.row_factors,
        "groups": session.group_means,
        "aggregator": None if session.labels is None else session.labels.aggregator.coefficients,
        "sweeps": None if seen is None else np.array([seen.before, seen.after]),
        "lowest": np.array(session.lowest),
    }
