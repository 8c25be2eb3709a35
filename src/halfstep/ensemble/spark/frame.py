"""A Spark DataFrame, one row an instance: checked, labelled rows brought here, the others cut into blocks.

Knows DataFrames, columns and labels. Must not know factors.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.engine.spark.moves import kept
from halfstep.ensemble.confidence import CellWeights
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.predictions import PredictionWarning, read_labels
from halfstep.ensemble.scale import CellScale
from halfstep.ensemble.spark import is_spark_frame
from halfstep.ensemble.table import PredictionTable, make_table

LABELLED_CELLS = 100_000_000
"""Cells of labelled instances that are brought to the driver: 0.8 GB of numbers, below what Spark lets a job return."""
_SHOWN_LABELS = 8
_PACKED = "n long, numbers binary"


@dataclass(frozen=True)
class Roles:
    """What the columns of a DataFrame are: `predictions` and `features` in order, and where the label is."""

    predictions: list[str]
    features: list[str]
    label: str

    @classmethod
    def read(cls, frame: Any, y: Any, features: Any) -> Roles:
        """Predictions are all numeric columns that are nothing else; text, dates and the like are passed by."""
        from pyspark.sql import types as T

        check_frame(frame)
        if not isinstance(y, str) or y not in frame.columns:
            raise ValueError(
                f"y={y!r} must name the column with the labels, null where unknown, because the engine is SparkEngine; "
                f"P has {frame.columns}"
            )
        named = [] if features is None else [features] if isinstance(features, str) else list(features)
        strange = [name for name in named if not isinstance(name, str) or name not in frame.columns or name == y]
        if strange:
            raise ValueError(
                f"features names {strange[0]!r}, which is not a column of P beside the labels; with SparkEngine "
                f"features are names of numeric columns, and P has {frame.columns}"
            )
        rest = [field for field in frame.schema.fields if field.name not in (y, *named)]
        lists = [f.name for f in rest if isinstance(f.dataType, T.ArrayType) or f.dataType.typeName() == "vector"]
        if lists:
            raise ValueError(
                f"column {lists[0]!r} holds a list of numbers for each instance; SparkEngine fuses two classes, with "
                "one column for each classifier that holds its probability of the second class"
            )
        found = [f.name for f in rest if isinstance(f.dataType, T.NumericType | T.BooleanType)]
        if not found:
            raise ValueError(f"P has no numeric column beside y={y!r}; each classifier needs one with probabilities")
        for name in named:
            if not isinstance(frame.schema[name].dataType, T.NumericType | T.BooleanType):
                kind = frame.schema[name].dataType.simpleString()
                raise TypeError(f"the feature {name!r} holds {kind}, not numbers; encode it first")
        return cls(found, named, y)


def check_frame(frame: Any) -> None:
    if not is_spark_frame(frame):
        raise TypeError(
            f"P must be a Spark DataFrame with one row for each instance, because the engine is SparkEngine; got "
            f"{type(frame).__name__}. spark.createDataFrame(P) makes one of a pandas frame"
        )


@dataclass(frozen=True, eq=False)
class Labels:
    """The classes of a label column, its codes (0, 1, null where unlabelled), and how many rows have which."""

    classes: NDArray[Any]
    codes: Any
    labelled: int
    unlabelled: int

    @classmethod
    def read(cls, frame: Any, name: str) -> Labels:
        """Null, NaN and -1 mean unlabelled, as on one machine."""
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        column = F.col(f"`{name}`")
        if isinstance(frame.schema[name].dataType, T.DecimalType):
            column = column.cast("double")
        counts = frame.groupBy(column.alias("label")).count().limit(_SHOWN_LABELS).collect()
        if not counts:
            raise ValueError("P has no rows; a fit needs labelled instances")
        values = [row["label"] for row in counts]
        if all(value is None or value != value or value == -1 for value in values):
            raise ValueError(
                f"column {name!r} has no label at all; a fit on a cluster learns from labelled instances of both "
                "classes. Without labels use fit(P) on one machine, whose answer is the mean of reconstructed scores"
            )
        read, classes = read_labels(values, len(values), max_classes=_SHOWN_LABELS)
        if len(classes) > 2:
            raise ValueError(
                f"column {name!r} has more than two classes, such as {classes[:3].tolist()}; SparkEngine fuses "
                "two: fuse each class against the rest"
            )
        codes = F.lit(None).cast("double")
        for value, code in zip(values, read.tolist(), strict=True):
            if code >= 0:
                codes = F.when(column == F.lit(value), float(code)).otherwise(codes)
        known = sum(row["count"] for row, code in zip(counts, read, strict=True) if code >= 0)
        return cls(classes, codes, known, sum(row["count"] for row in counts) - known)


@dataclass(frozen=True, eq=False)
class Instances:
    """A checked DataFrame: labelled rows and their features are here, the others stay there."""

    frame: Any
    roles: Roles
    labels: Labels
    rows: InstanceRows
    features: Floats | None
    moments: tuple[Floats, Floats] | None
    """Mean and deviation of every feature over all instances."""

    @classmethod
    def read(cls, frame: Any, roles: Roles) -> Instances:
        labels = Labels.read(frame, roles.label)
        m = len(roles.predictions)
        if labels.labelled * (m + len(roles.features)) > LABELLED_CELLS:
            raise ValueError(
                f"{labels.labelled} labelled instances x {m} classifiers are more than the {LABELLED_CELLS:,} cells "
                "that the driver takes; labels of a sample teach the same: set the others to null"
            )
        moments = _moments(frame, roles.features)
        numbers = _numbers(frame.where(labels.codes.isNotNull()), roles, [labels.codes.alias("code")])
        packed = numbers.mapInArrow(_pack, _PACKED).collect()
        known = np.concatenate([_unpack(row, m + len(roles.features) + 1) for row in packed])
        P = known[:, :m]
        refuse_wrong(_wrong(P), roles.predictions)
        side = known[:, m:-1] if roles.features else None
        return cls(
            frame, roles, labels, InstanceRows(P, known[:, -1].astype(np.int64), labels.classes, 1), side, moments
        )

    def blocks(self, n_blocks: int, recipe: BlockRecipe) -> Any:
        """RDD of (number, `RowBlock`) of the unlabelled rows, persisted; a partition without rows has no block."""
        numbers = _numbers(self.frame.where(self.labels.codes.isNull()), self.roles, [])
        width = len(self.roles.predictions) + len(self.roles.features)

        def build(number: int, packed: Iterator[Any]) -> Iterator[tuple[int, RowBlock]]:
            parts = [_unpack(row, width) for row in packed if row["n"]]
            if parts:
                yield number, recipe.build(np.concatenate(parts))

        shuffled = numbers.repartition(n_blocks).mapInArrow(_pack, _PACKED)
        return kept(shuffled.rdd.mapPartitionsWithIndex(build))

    def warn_empty(self, elsewhere: Iterable[Any]) -> None:
        """Say which instances and classifiers have no prediction at all, here and elsewhere."""
        seen = ~np.isnan(self.rows.P)
        counts, empty = seen.sum(axis=0), int((~seen.any(axis=1)).sum())
        for part in elsewhere:
            counts, empty = counts + part.weights[1], empty + part.empty
        silent = [self.roles.predictions[j] for j in np.flatnonzero(counts == 0)]
        told = [f"{empty} of {self.labels.labelled + self.labels.unlabelled} instances"] if empty else []
        told += [f"classifiers {', '.join(silent[:5])}{', ...' if len(silent) > 5 else ''}"] if silent else []
        if told:
            warnings.warn(
                f"no prediction at all for {' and '.join(told)}; nothing can be said there beyond the average",
                PredictionWarning,
                stacklevel=4,
            )


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Unlabelled rows: their cells and features, and what was wrong with their predictions."""

    table: PredictionTable
    features: Floats | None
    wrong: list[tuple[int, float, int]]
    """(column, example, count) where predictions are outside [0, 1]."""
    empty: int
    mark: NDArray[np.uint64]
    """(1,) a sum over rows that tells other data apart, in whatever order and blocks it comes."""


@dataclass(frozen=True, eq=False)
class BlockRecipe:
    """How numbers (n, m + q) become a block: m predictions, then q features."""

    m: int
    scale: CellScale
    confidence: CellWeights
    moments: tuple[Floats, Floats] | None
    dtype: Any

    def build(self, numbers: Floats) -> RowBlock:
        # InstanceRows arrive in any order. In the order of their bytes a block that is made again has the same bits.
        order = np.argsort(numbers.view(np.dtype((np.void, numbers.itemsize * numbers.shape[1]))).ravel())
        numbers = numbers[order]
        P, features = numbers[:, : self.m].copy(), None
        wrong = _wrong(P)
        if wrong:
            P[:] = np.nan  # nobody will look at them
        if self.moments is not None:
            features = (numbers[:, self.m :] - self.moments[0]) / self.moments[1]
        table = make_table(P, self.scale, self.confidence, np.full(len(P), -1), self.dtype)
        return RowBlock(table, features, wrong, int(np.isnan(P).all(axis=1).sum()), _mark(numbers))


def _mark(numbers: Floats) -> NDArray[np.uint64]:
    """(1,) the wrapped sum of a hash of each row's bits."""
    keys = np.random.default_rng(0).integers(1, 2**63, numbers.shape[1], np.uint64) | np.uint64(1)
    mixed = (np.ascontiguousarray(numbers).view(np.uint64) * keys).sum(axis=1)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * keys[0]
    return np.asarray([(mixed ^ (mixed >> np.uint64(32))).sum()], np.uint64)


def _wrong(P: Floats) -> list[tuple[int, float, int]]:
    """(column, example, count) of every column with a value outside [0, 1]."""
    bad = ~(np.isnan(P) | ((P >= 0) & (P <= 1)))
    return [(int(j), float(P[bad[:, j], j][0]), int(bad[:, j].sum())) for j in np.flatnonzero(bad.any(axis=0))]


def refuse_wrong(wrong: list[tuple[int, float, int]], columns: list[str]) -> None:
    """Raise if there are predictions outside [0, 1]."""
    if wrong:
        j, example, _ = wrong[0]
        raise ValueError(
            f"{sum(count for *_, count in wrong)} values are outside [0, 1], such as {example:g} in column "
            f"{columns[j]!r}; every numeric column of P but the labels and features holds the probabilities of a "
            "classifier, null or NaN where it says nothing. Drop what is none, such as an id"
        )


def _numbers(frame: Any, roles: Roles, more: list[Any]) -> Any:
    from pyspark.sql import functions as F

    return frame.select(*[F.col(f"`{name}`").cast("double") for name in (*roles.predictions, *roles.features)], *more)


def _moments(frame: Any, features: list[str]) -> tuple[Floats, Floats] | None:
    """Mean and deviation of each feature; 1 in place of a deviation of 0."""
    from pyspark.sql import functions as F

    if not features:
        return None
    columns = [F.col(f"`{name}`").cast("double") for name in features]

    def missing(c: Any) -> Any:
        return F.sum(F.when(c.isNull() | F.isnan(c) | (F.abs(c) == float("inf")), 1).otherwise(0))

    wanted = [make(c) for c in columns for make in (missing, F.avg, F.stddev_pop)]
    odd, mean, spread = np.array(frame.agg(*wanted).collect()[0], np.float64).reshape(-1, 3).T
    if odd.any():
        j = int(np.argmax(odd > 0))
        raise ValueError(
            f"{int(odd[j])} values of the feature {features[j]!r} are null, NaN or infinite; fill or drop them first"
        )
    return mean, np.where(spread > 0, spread, 1.0)


def _pack(batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches of doubles as rows (n, numbers): one (n, columns) array for each batch."""
    import pyarrow as pa

    for batch in batches:
        numbers = columns_of(batch, batch.schema.names)
        yield pa.RecordBatch.from_arrays(
            [pa.array([len(numbers)], pa.int64()), pa.array([numbers.tobytes()], pa.binary())], names=["n", "numbers"]
        )


def columns_of(batch: Any, names: list[str]) -> Floats:
    """(n, columns) float64 from an Arrow batch, NaN for null."""
    import pyarrow as pa

    numbers = np.empty((batch.num_rows, len(names)))
    for k, name in enumerate(names):
        numbers[:, k] = batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _unpack(row: Any, width: int) -> Floats:
    return np.frombuffer(row["numbers"], np.float64).reshape(row["n"], width)
