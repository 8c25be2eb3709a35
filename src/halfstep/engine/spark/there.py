"""Rows that a fit has left on the cluster, and their answers, which run there and come as DataFrames."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from halfstep.core.cells import Observations
from halfstep.core.initial import AtZero
from halfstep.core.losses import Loss
from halfstep.core.problem import Problem, Solver
from halfstep.data.features import Features
from halfstep.data.table import CellsHere
from halfstep.engine.here import RowsHere
from halfstep.engine.protocol import Array, Cut, Decode, Engine, Start
from halfstep.engine.spark.arrow import to_arrow
from halfstep.engine.spark.checkpoint import Files
from halfstep.engine.spark.factors import Factors
from halfstep.engine.spark.features import FeaturesThere
from halfstep.engine.spark.moves import expanding
from halfstep.engine.spark.numbering import Numbering
from halfstep.engine.spark.ranking import best_rows
from halfstep.engine.spark.reading import CellsThere, encoded, need_frame, read_more
from halfstep.errors import check_number


@dataclass(frozen=True, eq=False)
class SideThere:
    """Rows of one side as DataFrames; the id column has the name it had in the data."""

    side: int
    numbering: Numbering
    solved: Factors
    name: str

    @cached_property
    def _frame(self) -> Any:
        starts, (d, dtype) = self.solved.layout.starts, self.solved.kind

        def pack(item: tuple[int, Array]) -> tuple[int, int, bytearray]:
            block, values = item
            return int(starts[block]), len(values), bytearray(np.ascontiguousarray(values).tobytes())

        packed = self.numbering.spark.createDataFrame(
            self.solved.blocks().map(pack), "first long, n int, values binary"
        )
        number = "float" if dtype == np.float32 else "double"
        rows = packed.mapInArrow(
            expanding(_rows_of(dtype, d), ["position", "factors"]), f"position long, factors array<{number}>"
        )
        ids = self.numbering.frame.withColumnRenamed("id", self.name)
        return rows.join(ids, "position").select(self.name, "factors")

    def whole(self) -> Any:
        return self._frame

    def apart(self, cut: Cut) -> Any:
        from pyspark.sql import functions as F

        column, times = cut.bias(self.side) or (0, 0.0)
        bias = F.element_at("factors", column + 1) * F.lit(times)  # SQL counts from 1
        factors = F.slice("factors", cut.factors.start + 1, cut.factors.stop - cut.factors.start)
        return self._frame.select(self.name, factors.alias("factors"), bias.alias("bias"))

    factors = apart


@dataclass(frozen=True, eq=False)
class RowsThere:
    """Rows of both sides on a cluster. blocks, limit : as the engine has them. features : of both sides, if any."""

    engine: Engine
    given: CellsThere
    solved: tuple[Factors, Factors]
    blocks: int
    limit: int
    features: tuple[Any, Any] = (None, None)

    @property
    def shape(self) -> tuple[int, int]:
        return self.given.cells.shape

    @cached_property
    def sides(self) -> tuple[SideThere, SideThere]:
        names = self.given.columns.ids
        first, second = (SideThere(k, self.given.numberings[k], self.solved[k], names[k]) for k in (0, 1))
        return first, second

    def read(self, X: Any, *, dtype: Any, signed: bool = False) -> CellsThere:
        return self._read_more(X, self.given.columns.names.get("weight", False), None)

    def read_values(self, X: Any, y: Any, weight: Any, loss: Loss, classes: Array | None, *, dtype: Any) -> CellsThere:
        X, _ = encoded(X, y, loss, classes)
        return self._read_more(X, False if weight is None else weight, y)

    def _read_more(self, X: Any, weight: Any, target: str | None) -> CellsThere:
        known, dtype = self.given.numberings[1], self.solved[1].kind[1]
        return read_more(X, self.given.columns, known, weight=weight, target=target, blocks=self.blocks, dtype=dtype)

    def about(self, given: CellsThere, told: Any, known: Features, by_id: bool) -> FeaturesThere:
        return FeaturesThere.more(given, told, known)

    def known(self, side: int, known: Features) -> Features:
        index = self.given.numberings[side].ids(self.given.columns.roles[side])
        found: Features = self.features[side].collect(known, index)
        return found

    def fold_in(
        self, given: CellsThere, problem: Problem, start: Start | None, solver: Solver, n_threads: int | None = None
    ) -> SideThere:
        # A copy of the other side, whose broadcast is freed with the session. It must not be rotated, as new rows are
        # to meet it where it is: so Cholesky, which never asks for that.
        known = replace(self.solved[1], shared=None, needs=[])
        d, dtype = self.solved[1].kind
        session: Any = self.engine.open(problem, [start or AtZero(d, dtype), known], replace(solver, method="cholesky"))
        session.half_step(0)
        return SideThere(0, given.numberings[0], session.factors[0], self.sides[0].name)

    def scores(self, X: Any, cut: Cut, decode: Decode, column: str, unknown: str, n_threads: int | None = None) -> Any:
        """A DataFrame of pairs with one more column: what `decode` makes of the dot product of both rows."""
        if unknown != "average":
            raise ValueError(
                f"unknown={unknown!r} would need a pass over X before its answer; on a cluster unknown ids are "
                "answered as 'average' ones. Join X with the factors to find them."
            )
        from pyspark.sql import functions as F

        wanted = list(self.given.columns.ids)
        need_frame(X)
        if any(name not in X.columns for name in wanted):
            raise ValueError(f"X must have the columns {wanted}, as the fit had; it has {X.columns}.")
        if column in X.columns:
            raise ValueError(f"X already has a column {column!r}, the name of what is computed; rename it.")
        joined, rows = X, []
        for side in self.sides:
            place = f"row of side {side.side}"
            unseen = F.array(*map(F.lit, cut.average(side.side, side.solved.mean()).tolist()))
            joined = joined.join(side.whole().withColumnRenamed("factors", place), side.name, "left")
            rows.append(F.coalesce(F.col(f"`{place}`").cast("array<double>"), unseen).alias(place))
        known = joined.select(*[F.col(f"`{name}`") for name in X.columns], *rows)
        kind = {"f": "double", "i": "long", "b": "boolean"}.get(decode(np.zeros(1)).dtype.kind, "string")
        ddl = ", ".join(f"`{name}` {kind}" for name, kind in [*X.dtypes, (column, kind)])
        return known.mapInArrow(_scored(self.solved[0].kind[0], decode, column), ddl)

    def rank_all(self, n: int, keep_seen: bool) -> Any:
        """DataFrame (id, rank, other id, score)."""
        check_number("n", n, at_least=1, whole=True)
        found = best_rows(
            self.given.cells, list(self.solved), min(int(n), self.given.cells.shape[1]), keep_seen, self.limit
        )
        own, other = self.given.numberings
        frame = own.spark.createDataFrame(found, "rows binary, ranks binary, columns binary, scores binary")
        listed = expanding(_lists_of(self.solved[0].kind[1]), ["row", "rank", "column", "score"])
        flat = frame.mapInArrow(listed, "row long, rank int, column long, score double")
        first, second = self.given.columns.ids
        rows = own.frame.withColumnsRenamed({"position": "row", "id": first})
        columns = other.frame.withColumnsRenamed({"position": "column", "id": second})
        return flat.join(rows, "row").join(columns, "column").select(first, "rank", second, "score")

    def write(self, path: str, about: dict[str, Any], weights: Mapping[int, tuple[Sequence[str], Array]]) -> None:
        """Parquet folders <role>_factors and <role>_feature_weights, and model.json with `about`, written last."""
        path = path.rstrip("/")
        files = Files(self.given.numberings[0].spark, path)
        if files.names():
            raise FileExistsError(f"path={path!r} is not empty; give a new folder.")
        for side, role in zip(self.sides, self.given.columns.roles, strict=True):
            side.whole().write.parquet(f"{path}/{role}_factors")
        for number, (names, values) in weights.items():
            listed = [(name, row.tolist()) for name, row in zip(names, values.astype(np.float64), strict=True)]
            table = self.given.numberings[number].spark.createDataFrame(listed, "feature string, weights array<double>")
            table.write.parquet(f"{path}/{self.given.columns.roles[number]}_feature_weights")
        files.write("model.json", json.dumps(about))

    def collect(self) -> RowsHere:
        """Cells, ids and rows on this machine, ids in the order of the rows."""
        given, dtype = self.given, self.solved[0].kind[1]
        rows, columns, targets, weights = self.given.listed()
        ids = [numbering.ids(role) for numbering, role in zip(given.numberings, given.columns.roles, strict=True)]
        shape = given.cells.shape
        if "target" in given.columns.names:
            cells = Observations.from_cells(rows, columns, shape, targets, weights, dtype=dtype)
        else:
            cells = Observations.from_weights(
                sp.csr_array((weights.astype(dtype), (rows, columns)), shape=shape), dtype
            )
        here = CellsHere(cells, (ids[0], ids[1]), total_weight=given.total_weight, classes=given.classes)
        return RowsHere((self.solved[0].to_array(), self.solved[1].to_array()), here)

    def unpersist(self) -> None:
        """Free what the cluster keeps for these rows."""
        told = [held.parts for held in self.features if held is not None]
        for thing in (self.given.cells, *self.given.numberings, *self.solved, *told):
            thing.unpersist()

    # ------------------------------------------------------------------ what is not here

    @property
    def rows(self) -> NoReturn:
        raise RuntimeError(
            "this model was fitted by SparkEngine and its factors are on the cluster; call collect() for a local "
            "model, or use recommend_for_all, transform, predict and write, which run there."
        )

    cells = ids = labels = aliases = gram = rows

    def gram_under(self, problem: Problem) -> Any:
        return self.rows


def _scored(d: int, decode: Decode, column: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The last two columns, rows of both sides, into one."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            left, right = (values.flatten().to_numpy().reshape(-1, d) for values in batch.columns[-2:])
            found = decode(np.einsum("kd,kd->k", left, right))
            names = [*batch.schema.names[:-2], column]
            yield pa.RecordBatch.from_arrays([*batch.columns[:-2], pa.array(found)], names=names)

    return run


def _rows_of(dtype: Any, d: int) -> Callable[[int, int, bytes], Sequence[Any]]:
    """A packed block of factors as positions and lists."""

    def make(first: int, n: int, values: bytes) -> Sequence[Any]:
        import pyarrow as pa

        ends = to_arrow(np.arange(n + 1, dtype=np.int32) * np.int32(d))
        return np.arange(first, first + n), pa.ListArray.from_arrays(ends, to_arrow(np.frombuffer(values, dtype)))

    return make


def _lists_of(dtype: Any) -> Callable[..., Sequence[Any]]:
    """Packed lists as rows, ranks, columns and scores."""
    kinds = (np.int64, np.int32, np.int64, dtype)

    def make(*packed: bytes) -> Sequence[Any]:
        *places, scores = (np.frombuffer(values, kind) for values, kind in zip(packed, kinds, strict=True))
        return *places, scores.astype(np.float64)

    return make
