"""What a fitted ensemble says of instances: probability, prediction, novelty; of its own, of arrays, of a frame.

Knows a fit. Must not know where the instances are: `engine.questions` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.ensemble.fit import EnsembleFit

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


@dataclass(frozen=True, eq=False)
class EnsembleQuestions:
    """Which answers a fit is asked for, and what is known of the instances beside P."""

    fit: EnsembleFit
    names: Sequence[str]
    features: ArrayLike | None = None
    tasks: ArrayLike | None = None

    def arrays(self, P: Any) -> NDArray[Any]:
        (answer,) = answers(self.fit, self.names, P, self.features, self.tasks).values()
        return answer

    def frame(
        self,
    ) -> tuple[list[str], str, dict[str, tuple[DTypeLike, int]], Callable[[Floats], dict[str, NDArray[Any]]]]:
        """See `engine.questions.Questions`."""
        columns = self.fit.frame_columns
        if columns is None:
            raise ValueError(
                "this model was fitted on arrays and knows no column names; fit it with engine=SparkEngine(spark), or "
                "pass arrays"
            )
        predictions, features = columns["predictions"], columns["features"]
        said = f"the model was fitted on the predictions {predictions} and the features {features}"
        kinds: dict[str, tuple[DTypeLike, int]] = {
            "probability": (np.float64, 2),
            "prediction": (self.fit.classes.dtype, 1),
            "novelty": (np.float64, 1),
        }
        answer = partial(_of_numbers, _travelling(self.fit), self.names, len(predictions))
        return [*predictions, *features], said, {name: kinds[name] for name in self.names}, answer


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
