"""Checkpoints of an ensemble's fit: what the driver has. Rows on the cluster are solved again from the classifiers."""

from __future__ import annotations

import json
from typing import Any

from halfstep.core.loop import Record
from halfstep.engine.spark.checkpoint import Checkpoints, array_of, text_of


class EnsembleCheckpoints(Checkpoints):
    """folder/sweep-000005/state.json with classifiers, labelled rows, groups, aggregator and the history."""

    def _save(self, session: Any) -> None:
        name = f"sweep-{len(self.history):06d}"
        before = self._newest()
        arrays = {key: text_of(array) for key, array in session.state().items()}
        state = {"mark": self.mark, "history": self.history, "arrays": arrays}
        self.files.write(f"{name}/state.json", json.dumps(state))
        if before is not None and before != name:
            self.files.delete(before)

    def _load(self, session: Any, name: str) -> list[Record]:
        state = json.loads(self.files.read(f"{name}/state.json"))
        saved = {key: array_of(text) for key, text in state["arrays"].items()}
        session.restore(saved)
        history: list[Record] = state["history"]
        return history
