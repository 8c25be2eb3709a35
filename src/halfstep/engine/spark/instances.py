"""A Spark DataFrame with one row for each instance: some rows are brought here, others stay there in blocks.

Knows columns of numbers, codes of labels, RDDs of blocks, and functions that run on one block. Must not know what the
numbers mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.core.loop import Record
from halfstep.engine.spark.arrow import blob, from_arrow, to_arrow
from halfstep.engine.spark.checkpoint import Checkpoints, array_of, digest, text_of
from halfstep.engine.spark.moves import kept
from halfstep.engine.spark.sums import tree_sum

_PACKED = "n long, numbers binary"

Block = TypeVar("Block")
State = TypeVar("State")
Found = TypeVar("Found")
Prepare = Callable[[Any], None]


class InstanceFrame:
    """A checked DataFrame and the engine it came with."""

    def __init__(self, frame: Any, engine: Any) -> None:
        need_instances(frame)
        self.frame, self.engine = frame, engine

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """What columns hold: "numbers", "lists", or what Spark calls it."""
        return {field.name: _kind(field.dataType) for field in self.frame.schema.fields}

    def counts(self, name: str, most: int) -> list[tuple[Any, int]]:
        """`most` values of a column, and how many rows have each."""
        found = self.frame.groupBy(self._column(name).alias("value")).count().limit(most).collect()
        return [(row["value"], row["count"]) for row in found]

    def moments(self, names: Sequence[str]) -> tuple[Floats, Floats]:
        """Mean and deviation of each feature over all rows; 1 in place of a deviation of 0."""
        from pyspark.sql import functions as F

        def missing(c: Any) -> Any:
            return F.sum(F.when(c.isNull() | F.isnan(c) | (F.abs(c) == float("inf")), 1).otherwise(0))

        columns = [F.col(f"`{name}`").cast("double") for name in names]
        wanted = [make(c) for c in columns for make in (missing, F.avg, F.stddev_pop)]
        odd, mean, spread = np.array(self.frame.agg(*wanted).collect()[0], np.float64).reshape(-1, 3).T
        if odd.any():
            j = int(np.argmax(odd > 0))
            raise ValueError(
                f"{int(odd[j])} values of the feature {names[j]!r} are null, NaN or infinite; fill or drop them first"
            )
        return mean, np.where(spread > 0, spread, 1.0)

    def rows_here(self, names: Sequence[str], label: str, codes: Mapping[Any, int]) -> Floats:
        """(n, len(names) + 1) numbers of the rows whose label has a code, which stands last."""
        coded = self._coded(label, codes)
        numbers = self.frame.where(coded.isNotNull()).select(*_doubles(names), coded.alias("code"))
        packed = numbers.mapInArrow(_pack, _PACKED).collect()
        return np.concatenate([_unpack(row, len(names) + 1) for row in packed])

    def blocks(
        self, names: Sequence[str], label: str, codes: Mapping[Any, int], build: Callable[[Floats], Block]
    ) -> InstanceBlocks[Block]:
        """What `build` makes of the numbers (n, len(names)) of all other rows; a partition without rows has no block.

        Rows arrive in any order. They are put in that of their bytes, so a block that is made again has the same bits.
        """
        width, n_blocks = len(names), self.engine.n_blocks

        def make(number: int, packed: Iterator[Any]) -> Iterator[tuple[int, Block]]:
            parts = [_unpack(row, width) for row in packed if row["n"]]
            if parts:
                numbers = np.concatenate(parts)
                order = np.argsort(numbers.view(np.dtype((np.void, numbers.itemsize * width))).ravel())
                yield number, build(numbers[order])

        numbers = self.frame.where(self._coded(label, codes).isNull()).select(*_doubles(names))
        shuffled = numbers.repartition(n_blocks).mapInArrow(_pack, _PACKED)
        return InstanceBlocks(kept(shuffled.rdd.mapPartitionsWithIndex(make)), n_blocks)

    def checkpoints(self, names: Sequence[str], more: Any, parameters: Mapping[str, Any]) -> Prepare | None:
        """Lets a session write checkpoints and go on from them, where the engine asks for it.

        The columns `names`, in whatever order their rows come, `more` and the parameters must be those of the fit.
        """
        from pyspark.sql import functions as F

        engine = self.engine
        if engine.checkpoint is None:
            return None
        hashed = F.xxhash64(*(F.col(f"`{name}`") for name in names)).cast("decimal(38,0)")
        data = self.frame.agg(F.sum(hashed), F.count("*")).collect()[0], more
        mark = {name: digest(repr(part).encode()) for name, part in (("data", data), ("parameters", parameters))}
        checkpoints = StateCheckpoints(engine.spark, engine.checkpoint, engine.every, mark)
        return lambda session: checkpoints.attach(session, engine.resume)

    def _column(self, name: str) -> Any:
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        column = F.col(f"`{name}`")
        return column.cast("double") if isinstance(self.frame.schema[name].dataType, T.DecimalType) else column

    def _coded(self, name: str, codes: Mapping[Any, int]) -> Any:
        """A column with the codes of values, null for all others."""
        from pyspark.sql import functions as F

        column, coded = self._column(name), F.lit(None).cast("double")
        for value, code in codes.items():
            coded = F.when(column == F.lit(value), float(code)).otherwise(coded)
        return coded


class InstanceBlocks(Generic[Block]):
    """An RDD of (number, block), and what was last made of each. Sums are added in the order of the numbers."""

    def __init__(self, blocks: Any, n_blocks: int) -> None:
        self._blocks, self._n = blocks, n_blocks
        self._states: Any = None

    def total(self, function: Callable[[Block], Found]) -> Found:
        """The sum over blocks."""
        found: Found = self._sum(self._blocks.mapValues(function))
        return found

    def advance(self, make: Callable[[Block], State], report: Callable[[State, State | None], Found]) -> Found:
        """Make something new of each block; the sum of what `report` says of it and of what was there before."""
        states = kept(self._blocks.mapValues(make))
        before, self._states = self._states, states
        if before is None:
            reports = states.mapValues(lambda state: report(state, None))
        else:
            reports = states.zip(before).map(lambda pair: (pair[0][0], report(pair[0][1], pair[1][1])))
        found: Found = self._sum(reports)
        if before is not None:
            before.unpersist()
        return found

    def total_of_states(self, function: Callable[[Block, Any], Found]) -> Found:
        """The sum over blocks and what was last made of them."""
        pairs = self._blocks.zip(self._states)
        found: Found = self._sum(pairs.map(lambda pair: (pair[0][0], function(pair[0][1], pair[1][1]))))
        return found

    def gather(self, function: Callable[[Block, Any], Found]) -> list[Found]:
        """One value from each block and what was last made of it."""
        return list(self._blocks.zip(self._states).map(lambda pair: function(pair[0][1], pair[1][1])).collect())

    def unpersist(self) -> None:
        """Free what the cluster keeps."""
        for rdd in (self._blocks, self._states):
            if rdd is not None:
                rdd.unpersist()

    def _sum(self, numbered: Any) -> Any:
        return tree_sum(numbered, self._n)


class StateCheckpoints(Checkpoints):
    """folder/sweep-000005/state.json with what the driver has: the `state` of a session, and its history."""

    def _save(self, session: Any) -> None:
        name, before = f"sweep-{len(self.history):06d}", self._newest()
        arrays = {key: text_of(array) for key, array in session.state().items()}
        state = {"mark": self.mark, "history": self.history, "arrays": arrays}
        self.files.write(f"{name}/state.json", json.dumps(state))
        if before is not None and before != name:
            self.files.delete(before)

    def _load(self, session: Any, name: str) -> list[Record]:
        state = json.loads(self.files.read(f"{name}/state.json"))
        session.restore({key: array_of(text) for key, text in state["arrays"].items()})
        history: list[Record] = state["history"]
        return history


def answered_frame(
    frame: Any,
    names: Sequence[str],
    fitted_on: str,
    columns: Mapping[str, tuple[DTypeLike, int]],
    answer: Callable[[Floats], Mapping[str, NDArray[Any]]],
    *,
    keep: bool,
) -> Any:
    """The frame with `columns`, which `answer` gives for the numbers `names` of rows, made where the rows are.

    columns : type and number of axes by name. keep : whether the columns `names` stay.
    """
    from pyspark.sql import types as T

    need_instances(frame)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ValueError(f"P has no column {missing[0]!r} ({len(missing)} of {len(names)} are missing); {fitted_on}")
    for name in names:
        kind = frame.schema[name].dataType
        if _kind(kind) != "numbers":
            raise TypeError(f"column {name!r} holds {kind.simpleString()}, not numbers, as it did in the fit")
    taken = [name for name in columns if name in frame.columns]
    if taken:
        raise ValueError(f"P already has a column {taken[0]!r}, which the answer would hide; drop or rename it")
    schema = T.StructType.fromJson(frame.schema.jsonValue())
    kinds = {"b": T.BooleanType, "i": T.LongType, "u": T.LongType, "f": T.DoubleType}
    for name, (dtype, axes) in columns.items():
        one = kinds.get(np.dtype(dtype).kind, T.StringType)()
        schema.add(name, one if axes == 1 else T.ArrayType(one))

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows:
                found = answer(_columns_of(batch, names))
                more = [_arrow(found[name]) for name in columns]
                yield pa.RecordBatch.from_arrays([*batch.columns, *more], names=[*batch.schema.names, *columns])

    answered = frame.mapInArrow(run, schema)
    return answered if keep else answered.drop(*names)


def need_instances(frame: Any) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        raise TypeError(
            f"P must be a Spark DataFrame with one row for each instance, because the engine is SparkEngine; got "
            f"{type(frame).__name__}. spark.createDataFrame(P) makes one of a pandas frame"
        )


def _kind(dtype: Any) -> str:
    from pyspark.sql import types as T

    if isinstance(dtype, T.NumericType | T.BooleanType):
        return "numbers"
    return "lists" if isinstance(dtype, T.ArrayType) or dtype.typeName() == "vector" else str(dtype.simpleString())


def _doubles(names: Sequence[str]) -> list[Any]:
    from pyspark.sql import functions as F

    return [F.col(f"`{name}`").cast("double") for name in names]


def _pack(batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches of doubles as rows (n, numbers): one (n, columns) array for each batch."""
    import pyarrow as pa

    for batch in batches:
        found = _columns_of(batch, batch.schema.names)
        yield pa.RecordBatch.from_arrays(
            [to_arrow(np.array([len(found)])), blob(found.tobytes())], names=["n", "numbers"]
        )


def _unpack(row: Any, width: int) -> Floats:
    return np.frombuffer(row["numbers"], np.float64).reshape(row["n"], width)


def _columns_of(batch: Any, names: Sequence[str]) -> Floats:
    """(n, columns) float64 from an Arrow batch, NaN for null."""
    import pyarrow as pa

    found = np.empty((batch.num_rows, len(names)))
    for k, name in enumerate(names):
        found[:, k] = from_arrow(batch.column(name).cast(pa.float64()), np.nan)
    return found


def _arrow(values: NDArray[Any]) -> Any:
    """(n,) or (n, k) as a column of numbers, text or lists."""
    import pyarrow as pa

    if values.ndim == 1:
        return pa.array(values.tolist())
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))
