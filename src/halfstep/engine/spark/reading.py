"""A Spark DataFrame into cells on the cluster: which column is what, what cannot be fitted, numbers for ids.

Knows two sides; their roles, which are names of columns and words in messages, come in as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.cells import Observations
from halfstep.core.losses import Loss
from halfstep.core.weighting import Margins, Weighting
from halfstep.data.columns import choose_columns
from halfstep.engine.spark.cells import DistributedCells, distribute
from halfstep.engine.spark.checkpoint import digest
from halfstep.engine.spark.chunks import Chunks, read_chunks
from halfstep.engine.spark.numbering import Numbering, number_ids
from halfstep.errors import UnknownIdError

_MIN_SPLIT = 8192  # cells; a shorter row is never worth a second round trip


@dataclass(frozen=True)
class PairColumns:
    """Columns of a DataFrame: roles of both sides, the column of each role, "weight" and "target" where there are any.

    duplicates : "sum" adds the weights of repeated pairs, "keep" keeps each as a cell.
    """

    roles: tuple[str, str]
    names: dict[str, str]
    duplicates: str

    @property
    def ids(self) -> tuple[str, str]:
        return self.names[self.roles[0]], self.names[self.roles[1]]


@dataclass(frozen=True, eq=False)
class CellsThere:
    """Cells on the cluster, the ids of both sides, and the columns that they came from."""

    cells: DistributedCells
    numberings: tuple[Numbering, Numbering]
    columns: PairColumns
    n_rows: int
    total_weight: float
    classes: NDArray[Any] | None = None

    def listed(self, blocks: int | None = None) -> list[NDArray[Any]]:
        """Rows, columns, targets and weights of the cells of the first so many blocks, or of all, on this machine."""
        long = self.cells.layouts[1].long

        def spread(item: Any) -> list[Any]:
            _, block = item
            cells = block.cells
            rows = block.first + np.repeat(np.arange(cells.shape[0]), cells.counts)
            columns = np.concatenate([block.needed, long])[cells.indices]
            values = (np.broadcast_to(np.asarray(v, np.float64), len(rows)) for v in (cells.targets, cells.weights))
            return [rows, columns, *values]

        some = self.cells.blocks[0]
        if blocks is not None:
            some = some.filter(lambda item: item[0] < blocks)
        return [np.concatenate(parts) for parts in zip(*some.map(spread).collect(), strict=True)]

    def sample(self, n_cells: int) -> Observations:
        share = n_cells / max(len(self.cells), 1)
        blocks = None if share >= 1 else max(1, int(share * self.cells.layouts[0].blocks))
        rows, columns, targets, weights = self.listed(blocks)
        return Observations.from_cells(rows, columns, self.cells.shape, targets, weights, dtype=np.float64)

    def weighed(self, weighting: Weighting, margins: Margins | None, dtype: Any) -> CellsThere:
        if not weighting.identity:
            raise ValueError(
                f"weighting={weighting!r} is not for SparkEngine: pairs are summed and counted on the cluster. "
                "Weigh the column of the DataFrame before the fit, or fit on one machine."
            )
        return self


def read_cells(
    X: Any,
    asked: Mapping[str, Any],
    *,
    target: str | None = None,
    duplicates: str = "sum",
    blocks: int,
    split: int | None,
    dtype: Any,
) -> CellsThere:
    """Cells from a DataFrame with a row for each pair; columns named or detected.

    asked : role -> column, see `Engine.read`. target : column with the targets; None for 1. blocks : into how many the
    rows of each side are cut. split : cells of a row that is cut into pieces; 0 for none, None for half a block.
    """
    chunks, columns, fingerprint = _checked_chunks(X, asked, target, duplicates, blocks, dtype)
    if split is None:
        split = max(_MIN_SPLIT, chunks.n_rows // (2 * blocks))
    (own, asked_own), (other, asked_other) = (number_ids(chunks, side, blocks, blocks, split) for side in (0, 1))
    given = _placed(chunks, (own, other), (asked_own, asked_other), columns, fingerprint)
    if not len(given.cells):
        raise ValueError(
            f"every weight in column {columns.names['weight']!r} is zero; a fit needs at least one interaction."
        )
    return given


def read_more(
    X: Any, columns: PairColumns, known: Numbering, *, weight: Any, target: str | None, blocks: int, dtype: Any
) -> CellsThere:
    """Cells of new rows of side 0 against known rows of side 1; columns are called as they were."""
    asked = dict(zip(columns.roles, columns.ids, strict=True)) | {"weight": weight}
    chunks, taken, fingerprint = _checked_chunks(X, asked, target, columns.duplicates, blocks, dtype)
    wanted = known.ask(chunks, 1)
    count, first = known.unknown(wanted)
    if count:
        raise UnknownIdError(
            f"{count} {columns.roles[1]}s of X are unknown to this model, such as {first!r}; drop their rows, or fit "
            "again with them."
        )
    own, asked_own = number_ids(chunks, 0, blocks, blocks, 0)
    return _placed(chunks, (own, known), (asked_own, wanted), taken, fingerprint)


def encoded(X: Any, y: Any, loss: Loss, classes: NDArray[Any] | None = None) -> tuple[Any, NDArray[Any] | None]:
    """X with its column `y` as the loss wants targets, and the two classes of losses that have them."""
    need_frame(X)
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


def need_frame(X: Any) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(X, DataFrame):
        raise TypeError(
            f"X must be a Spark DataFrame with user and item columns, because the engine is SparkEngine; got "
            f"{type(X).__name__}. spark.createDataFrame(X) makes one of a pandas frame."
        )


def _placed(
    chunks: Chunks,
    numberings: tuple[Numbering, Numbering],
    asked: tuple[Any, Any],
    columns: PairColumns,
    fingerprint: str,
) -> CellsThere:
    """Cells of chunks whose ids are numbered already; `asked` are their ids, see `Numbering.ask`."""
    replies = (
        numberings[0].replies(asked[0], 0, chunks.partitions),
        numberings[1].replies(asked[1], 1, chunks.partitions),
    )
    layouts = (numberings[0].layout, numberings[1].layout)
    cells = distribute(chunks, replies, layouts, columns.duplicates, fingerprint)
    return CellsThere(cells, numberings, columns, chunks.n_rows, cells.total_weight)


def _checked_chunks(
    X: Any, asked: Mapping[str, Any], target: str | None, duplicates: str, blocks: int, dtype: Any
) -> tuple[Chunks, PairColumns, str]:
    """Chunks of what can be fitted, before anything is numbered; where they came from; a fingerprint of the data."""
    source, columns = _taken(X, asked, target, duplicates)
    chunks = read_chunks(source, blocks, dtype)
    n, marks, names = chunks.n_rows, chunks.marks, columns.names
    if not n:
        raise ValueError("X has no rows; a fit needs at least one interaction.")
    for side, role in enumerate(columns.roles):
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
    return chunks, columns, digest(f"{n} {chunks.hash} {source.dtypes}".encode())


def _taken(X: Any, asked: Mapping[str, Any], target: str | None, duplicates: str) -> tuple[Any, PairColumns]:
    """The columns of a DataFrame under the engine's names, and where each came from."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    need_frame(X)
    if target is not None and target not in X.columns:
        raise ValueError(f"target={target!r} is not a column; the frame has {X.columns}.")
    wanted: Any = dict(asked)
    names: Any = dict(choose_columns(wanted, [name for name in X.columns if name != target]))
    first, second = list(wanted)[:2]
    for role in (first, second):
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
    ids = [F.col(f"`{names[role]}`").alias(f"id{side}") for side, role in enumerate((first, second))]
    values = [F.col(f"`{names[r]}`").cast("double").alias(r) for r in ("weight", "target") if r in names]
    return X.select(*ids, *values), PairColumns((first, second), names, duplicates)
