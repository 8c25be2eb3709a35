"""Answers of a fitted ensemble for a DataFrame, made where its rows are. Knows Arrow batches and a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from halfstep.ensemble.fit import EnsembleFit
from halfstep.ensemble.spark.frame import check_frame, columns_of

_KINDS = {"b": "boolean", "i": "long", "u": "long", "f": "double"}


def score_frame(fit: EnsembleFit, frame: Any, columns: dict[str, list[str]]) -> Any:
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
    label = _KINDS.get(fit.classes.dtype.kind, "string")
    schema = T.StructType.fromJson(frame.schema.jsonValue())
    schema.add("probability", T.ArrayType(T.DoubleType())).add("prediction", label).add("novelty", T.DoubleType())
    return frame.mapInArrow(_scorer(_travelling(fit), columns), schema)


def _travelling(fit: EnsembleFit) -> EnsembleFit:
    """A fit without its instances, which answers on one thread."""
    nobody = np.zeros(0, np.int64)
    factors = replace(fit.factors.take(nobody), n_threads=1)
    side = None if fit.features is None else replace(fit.features, values=fit.features.values[nobody])
    return replace(
        fit, factors=factors, features=side, labels=nobody, probabilities=fit.probabilities[nobody], novelty=np.zeros(0)
    )


def _scorer(fit: EnsembleFit, columns: dict[str, list[str]]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if not batch.num_rows:
                continue
            P = columns_of(batch, columns["predictions"])
            features = columns_of(batch, columns["features"]) if columns["features"] else None
            probability, novelty = fit.answer(P, features, None)
            offsets = np.arange(len(P) + 1, dtype=np.int32) * probability.shape[1]
            found = {
                "probability": pa.ListArray.from_arrays(pa.array(offsets), pa.array(probability.ravel())),
                "prediction": pa.array(fit.classes[probability.argmax(axis=1)].tolist()),
                "novelty": pa.array(novelty),
            }
            yield pa.RecordBatch.from_arrays([*batch.columns, *found.values()], names=[*batch.schema.names, *found])

    return run
