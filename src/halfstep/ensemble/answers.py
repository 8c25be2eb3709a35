"""What a fitted ensemble says of instances: probability, prediction, novelty; of its own, of arrays, of a frame.

Knows a fit. Must not know how rows travel: `engine.spark.instances` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.ensemble.fit import EnsembleFit
from halfstep.ensemble.framed import answered_by

METHODS = {"probability": "predict_proba", "prediction": "predict", "novelty": "novelty"}
"""The answers, and what asks for one of them."""


def answers(
    fit: EnsembleFit, names: Sequence[str], P: Any, features: ArrayLike | None = None, tasks: ArrayLike | None = None
) -> dict[str, NDArray[Any]]:
    """The answers of those names for new instances, which are folded in."""
    factors = fit.fold_in(P, features)
    found: dict[str, NDArray[Any]] = {"novelty": fit.fusion.novelty(factors)}
    if set(names) - set(found):
        found["probability"] = fit.answer(factors, found["novelty"], tasks)
        found["prediction"] = fit.classes[found["probability"].argmax(axis=1)]
    return {name: found[name] for name in names}


def own_answer(fit: EnsembleFit, name: str) -> NDArray[Any]:
    """The answer for the fitted instances."""
    if fit.frame_columns is not None:
        raise ValueError(
            f"{METHODS[name]}() without P answers for the fitted instances, which a model fitted by SparkEngine leaves "
            f"on the cluster; pass the DataFrame, {METHODS[name]}(df), or use transform(df)"
        )
    if name == "prediction":
        return np.asarray(fit.classes[fit.probabilities.argmax(axis=1)])
    return (fit.probabilities if name == "probability" else fit.novelty).copy()


def array_answer(
    fit: EnsembleFit, name: str, P: Any, features: ArrayLike | None, tasks: ArrayLike | None
) -> NDArray[Any]:
    return answers(fit, (name,), P, features, tasks)[name]


def frame_answers(fit: EnsembleFit, names: Sequence[str], P: Any, keep: bool) -> Any:
    """A DataFrame with answers beside its columns. keep : whether predictions and features stay among them."""
    from halfstep.engine.spark.instances import answered_frame

    predictions, features, said = answered_by(fit.frame_columns)
    kinds = {"probability": (np.dtype(float), 2), "prediction": (fit.classes.dtype, 1), "novelty": (np.dtype(float), 1)}
    answer = partial(_of_numbers, _travelling(fit), names, len(predictions))
    return answered_frame(P, [*predictions, *features], said, {name: kinds[name] for name in names}, answer, keep=keep)


def _of_numbers(fit: EnsembleFit, names: Sequence[str], m: int, numbers: Floats) -> dict[str, NDArray[Any]]:
    """Answers for rows of m predictions, then features."""
    return answers(fit, names, numbers[:, :m], numbers[:, m:] if numbers.shape[1] > m else None)


def _travelling(fit: EnsembleFit) -> EnsembleFit:
    """A fit without its instances, which answers on one thread."""
    nobody = np.zeros(0, np.int64)
    factors = replace(fit.factors.take(nobody), n_threads=1)
    side = None if fit.features is None else replace(fit.features, values=fit.features.values[nobody])
    return replace(
        fit, factors=factors, features=side, labels=nobody, probabilities=fit.probabilities[nobody], novelty=np.zeros(0)
    )
