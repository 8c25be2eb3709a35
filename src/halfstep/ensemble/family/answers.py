"""What a fitted family says of instances: of its own, of arrays, of a frame.

Knows a fit. Must not know how rows travel: `engine.spark.instances` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.engine.instances import only_here
from halfstep.ensemble.family.distance import parts_of
from halfstep.ensemble.family.fitting import Answering, FamilyFit
from halfstep.ensemble.family.told import share_nearer
from halfstep.ensemble.family.views import FactorView, PredictedRows
from halfstep.ensemble.framed import answered_by

METHODS = {
    "probability": "predict_proba",
    "prediction": "predict",
    "uncertainty": "uncertainty",
    "novelty": "novelty",
}
"""The answers, and what asks for one of them."""


def array_answer(fit: FamilyFit, name: str, P: Any, features: ArrayLike | None = None) -> NDArray[Any]:
    """One answer for instances in an array or frame that is here; None: the fitted ones."""
    cells = None
    if P is not None:
        rows, _ = fit.naming.rows(only_here(P), fit.n_classifiers, fit.n_channels)
        cells = PredictedRows.of(rows, fit.clip) if name == "novelty" else fit.cells(rows, features)
    elif fit.frame_columns is not None:
        method = METHODS[name]
        raise ValueError(
            f"{method}() without P answers for the fitted instances, which a model fitted by SparkEngine leaves on the "
            f"cluster; pass the DataFrame, {method}(df), or use transform(df)"
        )
    if name == "novelty":
        return fit.told.novelty(cells)
    probabilities, spread = (fit.probabilities, fit.uncertainty) if cells is None else fit.committee.answer(cells)
    if name == "prediction":
        return np.asarray(fit.classes[probabilities.argmax(axis=1)])
    return (probabilities if name == "probability" else spread).copy()


def frame_answers(fit: FamilyFit, names: Sequence[str], P: Any, keep: bool) -> Any:
    """A DataFrame with answers beside its columns. keep : whether predictions and features stay among them."""
    from halfstep.engine.spark.instances import answered_frame

    predictions, features, said = answered_by(fit.frame_columns)
    number = (np.dtype(float), 1)
    kinds = {"probability": (np.dtype(float), 2), "prediction": (fit.classes.dtype, 1)}
    kinds |= {"uncertainty": number, "novelty": number}
    answer = partial(TravellingFamily.of(fit).answers, names)
    return answered_frame(P, [*predictions, *features], said, {name: kinds[name] for name in names}, answer, keep=keep)


@dataclass(frozen=True, eq=False)
class TravellingFamily:
    """What goes to executors: a committee, and what is usual for novelty. No fitted instance.

    moments : mean and scale of the features, which stand after the m predictions of a row, or None.
    """

    classes: NDArray[Any]
    clip: float
    m: int
    moments: tuple[Floats, Floats] | None
    committee: Answering
    view: FactorView
    usual: Floats

    @classmethod
    def of(cls, fit: FamilyFit) -> TravellingFamily:
        side = fit.beside.features
        moments = None if side is None else (side.mean, side.scale)
        told = fit.told
        return cls(fit.classes, fit.clip, fit.n_classifiers, moments, fit.committee, told.view, told.usual)

    def answers(self, names: Sequence[str], numbers: Floats) -> dict[str, NDArray[Any]]:
        """The answers of those names for rows of m predictions, then features."""
        P, features = numbers[:, : self.m], None
        if self.moments is not None:
            features = (numbers[:, self.m :] - self.moments[0]) / self.moments[1]
        cells = PredictedRows(P, np.zeros(len(P), np.int64), self.clip, features)
        found: dict[str, NDArray[Any]] = {}
        if "novelty" in names:
            found["novelty"] = share_nearer(self.usual, parts_of(self.view.model, cells, 1)[:, 1])
        if set(names) - {"novelty"}:
            found["probability"], found["uncertainty"] = self.committee.answer(cells)
            found["prediction"] = self.classes[found["probability"].argmax(axis=1)]
        return {name: found[name] for name in names}
