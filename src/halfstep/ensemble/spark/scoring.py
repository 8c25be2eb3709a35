"""Answers of a fitted CFEnsemble for a DataFrame, made where its rows are. Knows Arrow batches and a model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from halfstep.ensemble.spark.frame import check_frame, columns_of

_KINDS = {"b": "boolean", "i": "long", "u": "long", "f": "double"}


def score_frame(model: Any, frame: Any, columns: dict[str, list[str]]) -> Any:
    """The frame with columns probability, prediction and novelty."""
    from pyspark.sql import types as T

    check_frame(frame)
    wanted = [*columns["predictions"], *columns["features"]]
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise ValueError(
            f"P has no column {missing[0]!r} ({len(missing)} of {len(wanted)} are missing); the model was fitted on "
            f"the predictions {columns['predictions']} and the features {columns['features']}"
        )
    for name in wanted:
        kind = frame.schema[name].dataType
        if not isinstance(kind, T.NumericType | T.BooleanType):
            raise TypeError(f"column {name!r} holds {kind.simpleString()}, not numbers, as it did in the fit")
    taken = [name for name in ("probability", "prediction", "novelty") if name in frame.columns]
    if taken:
        raise ValueError(f"P already has a column {taken[0]!r}, which the answer would hide; drop or rename it")
    label = _KINDS.get(model.classes_.dtype.kind, "string")
    schema = T.StructType.fromJson(frame.schema.jsonValue())
    schema.add("probability", T.ArrayType(T.DoubleType())).add("prediction", label).add("novelty", T.DoubleType())
    return frame.mapInArrow(_scorer(_travelling(model), columns), schema)


def _travelling(model: Any) -> Any:
    """A copy of the model without what only the driver has: engine, callbacks, fitted instances."""
    small = copy.copy(model)
    small.engine, small.callbacks, nobody = None, (), np.zeros(0, np.int64)
    small._factors = model._factors.take(nobody)
    small._factors.n_threads = 1
    small._features, small._y, small._proba, small.novelty_ = None, nobody, np.zeros((0, 2)), np.zeros(0)
    return small


def _scorer(model: Any, columns: dict[str, list[str]]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if not batch.num_rows:
                continue
            P = columns_of(batch, columns["predictions"])
            features = columns_of(batch, columns["features"]) if columns["features"] else None
            probability, novelty = model._answers(P, features, None)
            offsets = np.arange(len(P) + 1, dtype=np.int32) * probability.shape[1]
            found = {
                "probability": pa.ListArray.from_arrays(pa.array(offsets), pa.array(probability.ravel())),
                "prediction": pa.array(model.classes_[probability.argmax(axis=1)].tolist()),
                "novelty": pa.array(novelty),
            }
            yield pa.RecordBatch.from_arrays([*batch.columns, *found.values()], names=[*batch.schema.names, *found])

    return run
