"""What estimators do on a cluster: read a Spark DataFrame, return factors as DataFrames, recommend, fold in, collect.

Knows users and items and their ids. How half-steps run is `engine/spark`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.core.losses import Loss
from halfstep.core.problem import Problem, Solver
from halfstep.data.columns import choose_columns
from halfstep.data.ids import Index
from halfstep.data.tables import Table
from halfstep.engine.spark import SparkEngine
from halfstep.engine.spark.cells import DistributedCells
from halfstep.engine.spark.checkpoint import Files, digest
from halfstep.engine.spark.chunks import Chunks, read_chunks
from halfstep.engine.spark.engine import Start
from halfstep.engine.spark.factors import Factors
from halfstep.engine.spark.numbering import Numbering, number_ids
from halfstep.engine.spark.ranking import best_rows
from halfstep.engine.spark.session import DistributedSession
from halfstep.errors import UnknownIdError, check_number

_ROLES = ("user", "item")


@dataclass(frozen=True, eq=False)
class DistributedTable:
    """What `Table` is on one machine: cells, the ids of both sides, and the columns that they came from."""

    observations: DistributedCells
    users: Numbering
    items: Numbering
    names: dict[str, str]
    n_rows: int
    duplicates: str

    def weighted(self, factor: float) -> DistributedTable:
        """The same with all weights times `factor`."""
        return replace(self, observations=self.observations.weighted(factor))


def read_frame(
    engine: SparkEngine,
    X: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    weight: Any = None,
    target: str | None = None,
    duplicates: str = "sum",
    splits: bool = True,
    dtype: Any = np.float32,
) -> DistributedTable:
    """Users x items from a Spark DataFrame with a row for each pair; columns named or detected.

    target : column with the targets; None for 1. duplicates : "sum" adds the weights of repeated pairs, "keep" keeps
    each as an observation. splits : whether the cells of one row may be solved in pieces.
    """
    engine.check_executors()
    source, names = _columns(X, user, item, weight, target)
    chunks = read_chunks(source, engine.n_blocks, dtype)
    fingerprint = _check(chunks, names, source.dtypes)
    cells, (users, items) = engine.distribute(chunks, fingerprint, duplicates=duplicates, splits=splits)
    if not len(cells):
        raise ValueError(f"every weight in column {names['weight']!r} is zero; a fit needs at least one interaction.")
    return DistributedTable(cells, users, items, names, chunks.n_rows, duplicates)


def encode_column(X: Any, y: Any, loss: Loss, classes: NDArray[Any] | None = None) -> tuple[Any, NDArray[Any] | None]:
    """X with its column `y` as the loss wants targets, and the two classes of losses that have them."""
    _refuse_other_kinds(X)
    if not isinstance(y, str) or y not in X.columns:
        raise ValueError(f"y={y!r} must name a column of X, because the engine is SparkEngine; X has {X.columns}.")
    from pyspark.sql import functions as F

    column = F.col(f"`{y}`")
    if loss.form == "margin":
        found = [row[0] for row in X.where(column.isNotNull()).select(column).distinct().limit(3).collect()]
        _, classes = loss.encode_targets(np.array(found), classes)
        assert classes is not None
        known = F.when(column == F.lit(classes[1].item()), 1.0).when(column == F.lit(classes[0].item()), -1.0)
        return X.withColumn(y, known), classes
    bounds = X.select(F.min(column), F.max(column)).collect()[0]
    if bounds[0] is not None:
        loss.encode_targets(np.array(bounds, np.float64))
    return X, None


class DistributedModel:
    """Fitted factors on a cluster.

    problem_of : builds the problem of an estimator from cells, for fold-in.
    """

    def __init__(
        self,
        engine: SparkEngine,
        table: DistributedTable,
        session: DistributedSession,
        problem_of: Callable[[Any], Problem],
    ) -> None:
        self.engine, self.table, self.problem_of = engine, table, problem_of
        self.factors = session.factors
        self.d, self.dtype = session.d, session.dtype

    def frame(self, side: int) -> Any:
        """DataFrame (id, factors array<float>) of one side; the id column has the name it had in the data."""
        numbering = (self.table.users, self.table.items)[side]
        return self._named(self.factors[side], numbering, self.table.names[_ROLES[side]])

    def recommend_for_all(self, n: int = 10, *, keep_seen: bool = False) -> Any:
        """DataFrame (user, rank, item, score): the best `n` items of every user, what the user has left out."""
        check_number("n", n, at_least=1, whole=True)
        found = best_rows(self.table.observations, self.factors, int(n), keep_seen, self.engine.broadcast_limit)
        frame = self.engine.spark.createDataFrame(found, "rows binary, ranks binary, columns binary, scores binary")
        flat = frame.mapInArrow(_listed(self.dtype), "row long, rank int, column long, score double")
        user, item = (self.table.names[role] for role in _ROLES)
        users = self.table.users.frame.withColumnsRenamed({"position": "row", "id": user})
        items = self.table.items.frame.withColumnsRenamed({"position": "column", "id": item})
        return flat.join(users, "row").join(items, "column").select(user, "rank", item, "score")

    def fold_in(
        self,
        X: Any,
        *,
        weight: Any = None,
        target: str | None = None,
        scale: float = 1.0,
        start: Start | None = None,
        solver: Solver | None = None,
    ) -> Any:
        """DataFrame (user, factors) of new users from a DataFrame of their interactions, by the exact row problem.

        weight, target : columns, as in `read_frame`; None is the weight of the fit. scale : times all weights.
        start : where rows start; None is zero. solver : None is "cholesky", for the squared loss.
        """
        names, items = self.table.names, self.table.items
        weight = names.get("weight", False) if weight is None else weight
        source, found = _columns(X, names["user"], names["item"], weight, target)
        chunks = read_chunks(source, self.engine.n_blocks, self.dtype)
        fingerprint = _check(chunks, found, source.dtypes)
        asked = items.ask(chunks, 1)
        _refuse_unknown(*items.unknown(asked))
        blocks = self.engine.n_blocks
        users, asked_users = number_ids(chunks, 0, blocks, blocks, 0)
        cells = self.engine.place(chunks, (users, items), (asked_users, asked), fingerprint, self.table.duplicates)
        cells = cells if scale == 1.0 else cells.weighted(scale)
        zero = Factors(cells.context, users.layout, np.zeros((0, self.d), self.dtype))
        new = zero if start is None else self.engine.made(cells, 0, start)
        # a copy of the items, whose broadcast is freed with the session; these solvers turn nothing
        session = DistributedSession(
            self.problem_of(cells),
            [new, replace(self.factors[1], shared=None, needs=[])],
            solver or Solver("cholesky"),
            self.d,
            self.dtype,
            self.engine.broadcast_limit,
        )
        session.half_step(0)
        return self._named(session.factors[0], users, names["user"])

    def scores(
        self,
        X: Any,
        average: Callable[[NDArray[Any]], NDArray[Any]],
        decode: Callable[[Any], Any],
        column: str,
        kind: str,
    ) -> Any:
        """The rows of a DataFrame of pairs with one more column: what `decode` makes of the dot product of both rows.

        average : the row that an unseen id gets, from the mean of all rows. column, kind : of the new column.
        """
        from pyspark.sql import functions as F

        wanted = [self.table.names[role] for role in _ROLES]
        _refuse_other_kinds(X)
        missing = [name for name in wanted if name not in X.columns]
        if missing:
            raise ValueError(f"X must have the columns {wanted}, as the fit had; it has {X.columns}.")
        if column in X.columns:
            raise ValueError(f"X already has a column {column!r}, the name of what is computed; rename it.")
        joined, rows = X, []
        for side, name in enumerate(wanted):
            place = f"row of side {side}"
            unseen = F.array(*map(F.lit, average(self.factors[side].mean()).tolist()))
            joined = joined.join(self.frame(side).withColumnRenamed("factors", place), name, "left")
            rows.append(F.coalesce(F.col(f"`{place}`").cast("array<double>"), unseen).alias(place))
        known = joined.select(*[F.col(f"`{name}`") for name in X.columns], *rows)
        return known.mapInArrow(_scored(self.d, decode, column), f"{_ddl(X)}, `{column}` {kind}")

    def write(self, path: str, about: dict[str, Any]) -> None:
        """Parquet folders user_factors and item_factors, and model.json with `about`; the JSON is written last."""
        path = path.rstrip("/")
        files = Files(self.engine.spark, path)
        if files.names():
            raise FileExistsError(f"path={path!r} is not empty; give a new folder.")
        for side, role in enumerate(_ROLES):
            self.frame(side).write.parquet(f"{path}/{role}_factors")
        files.write("model.json", json.dumps(about))

    def collect(self) -> tuple[Table, list[NDArray[Any]]]:
        """Cells, ids and factors on this machine, ids in the order of the factor rows."""
        cells = self.table.observations
        own, other = cells.layouts

        def spread(item: Any) -> tuple[Any, Any, Any]:
            _, block = item
            rows = block.first + np.repeat(np.arange(block.cells.shape[0]), block.cells.counts)
            columns = np.concatenate([block.needed, other.long])[block.cells.indices]
            return rows, columns, np.broadcast_to(np.asarray(block.cells.weights, np.float64), len(rows))

        parts = cells.blocks[0].map(spread).collect()
        rows, columns, weights = (np.concatenate([part[k] for part in parts]) for k in range(3))
        matrix = sp.csr_array((weights.astype(self.dtype), (rows, columns)), shape=(own.n, other.n))
        users, items = (
            Index(_ids(numbering), role)
            for numbering, role in zip((self.table.users, self.table.items), _ROLES, strict=True)
        )
        table = Table(Observations.from_weights(matrix, self.dtype), users, items)
        return table, [factors.to_array() for factors in self.factors]

    def unpersist(self) -> None:
        """Free what the cluster keeps for this model."""
        self.table.observations.unpersist()
        for numbering in (self.table.users, self.table.items):
            numbering.unpersist()
        for factors in self.factors:
            factors.unpersist()

    def _named(self, factors: Factors, numbering: Numbering, name: str) -> Any:
        starts = factors.layout.starts

        def pack(item: tuple[int, NDArray[Any]]) -> tuple[int, int, bytearray]:
            block, values = item
            return int(starts[block]), len(values), bytearray(np.ascontiguousarray(values).tobytes())

        packed = self.engine.spark.createDataFrame(factors.blocks().map(pack), "first long, n int, values binary")
        number = "float" if self.dtype == np.float32 else "double"
        rows = packed.mapInArrow(_expanded(self.dtype, self.d), f"position long, factors array<{number}>")
        ids = numbering.frame.withColumnRenamed("id", name)
        return rows.join(ids, "position").select(name, "factors")


def _refuse_unknown(count: int, first: Any) -> None:
    if count:
        raise UnknownIdError(
            f"{count} items of X are unknown to this model, such as {first!r}; drop their rows, or fit again with them."
        )


def _columns(X: Any, user: Any, item: Any, weight: Any, target: Any) -> tuple[Any, dict[str, str]]:
    """The columns of a DataFrame under the engine's names, and where each came from."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    _refuse_other_kinds(X)
    if target is not None and target not in X.columns:
        raise ValueError(f"target={target!r} is not a column; the frame has {X.columns}.")
    asked: Any = {"user": user, "item": item, "weight": weight, "timestamp": False}
    names: Any = dict(choose_columns(asked, [name for name in X.columns if name != target]))
    for role in _ROLES:
        kind = X.schema[names[role]].dataType
        if not isinstance(kind, T.StringType | T.IntegralType):
            raise TypeError(
                f"column {names[role]!r} holds {kind.simpleString()}; {role} ids must be integers or strings. Cast the "
                f"column, say to long, after dropping rows where it is null or NaN."
            )
    if target is not None:
        names["target"] = target
    for role in ("weight", "target"):
        if role in names and not isinstance(X.schema[names[role]].dataType, T.NumericType | T.BooleanType):
            raise TypeError(
                f"column {names[role]!r} was taken as the {role} but holds "
                f"{X.schema[names[role]].dataType.simpleString()}, not numbers; pass {role}= with a numeric column."
            )
    ids = [F.col(f"`{names[role]}`").alias(f"id{side}") for side, role in enumerate(_ROLES)]
    values = [F.col(f"`{names[r]}`").cast("double").alias(r) for r in ("weight", "target") if r in names]
    return X.select(*ids, *values), names


def _refuse_other_kinds(X: Any) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(X, DataFrame):
        raise TypeError(
            f"X must be a Spark DataFrame with user and item columns, because the engine is SparkEngine; got "
            f"{type(X).__name__}. spark.createDataFrame(X) makes one of a pandas frame."
        )


def _check(chunks: Chunks, names: dict[str, str], dtypes: Any) -> str:
    """Refuse what cannot be fitted, before anything is numbered. Returns a fingerprint of the data."""
    n, marks = chunks.n_rows, chunks.marks
    if not n:
        raise ValueError("X has no rows; a fit needs at least one interaction.")
    for side, role in enumerate(_ROLES):
        missing = sum(mark.missing[side] for mark in marks)
        if missing:
            raise ValueError(
                f"{missing} of {n} {role} ids in column {names[role]!r} are null; drop those rows or give them an id."
            )
    bad = sum(mark.bad_weights for mark in marks)
    if bad:
        raise ValueError(
            f"{bad} of {n} weights in column {names['weight']!r} are null, NaN, infinite or negative; "
            "weights must be finite and >= 0. Drop those rows or fill them."
        )
    bad = sum(mark.bad_targets for mark in marks)
    if bad:
        raise ValueError(
            f"{bad} of {n} targets in column {names['target']!r} are null, NaN or infinite; drop those rows."
        )
    return digest(f"{n} {chunks.hash} {dtypes}".encode())


def _ddl(X: Any) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in X.dtypes)


def _scored(d: int, decode: Callable[[Any], Any], column: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The last two columns, rows of both sides, into one."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            left, right = (values.flatten().to_numpy().reshape(-1, d) for values in batch.columns[-2:])
            found = decode(np.einsum("kd,kd->k", left, right))
            names = [*batch.schema.names[:-2], column]
            yield pa.RecordBatch.from_arrays([*batch.columns[:-2], pa.array(found)], names=names)

    return run


def _expanded(dtype: Any, d: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Blocks of factors into rows (position, factors), as Arrow arrays."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for first, n, values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                flat = pa.array(np.frombuffer(values, dtype))
                lists = pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32) * d), flat)
                positions = pa.array(np.arange(first, first + n, dtype=np.int64))
                yield pa.RecordBatch.from_arrays([positions, lists], names=["position", "factors"])

    return run


def _listed(dtype: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Packed lists into rows (row, rank, column, score)."""
    kinds = (np.int64, np.int32, np.int64, dtype)
    names = ["row", "rank", "column", "score"]

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for packed in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                arrays = [np.frombuffer(values, kind) for values, kind in zip(packed, kinds, strict=True)]
                arrays[3] = arrays[3].astype(np.float64)
                yield pa.RecordBatch.from_arrays([pa.array(values) for values in arrays], names=names)

    return run


def _ids(numbering: Numbering) -> Any:
    """All ids of a side on this machine, in the order of their positions."""
    table = numbering.frame.toPandas().sort_values("position")
    return table["id"].to_numpy()
