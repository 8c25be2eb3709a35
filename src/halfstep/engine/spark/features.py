"""Features of the rows of a side on a cluster: encoded where the rows are, one matrix for each block.

They come from a Spark DataFrame, whose columns are learned there, or from the driver. Knows no model and no weights.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from halfstep.core.cells import Observations
from halfstep.core.problem import Side
from halfstep.data.feature_columns import Categories, FeatureBlock, Flags, Lists, Numbers
from halfstep.data.feature_sources import id_column
from halfstep.data.features import Features
from halfstep.data.ids import Index
from halfstep.engine.features import FeaturesHere, with_constant
from halfstep.engine.spark.arrow import blob, from_arrow, to_arrow
from halfstep.engine.spark.checkpoint import digest
from halfstep.engine.spark.layout import Layout
from halfstep.engine.spark.moves import Shared, kept, keyed, together
from halfstep.engine.spark.numbering import Numbering
from halfstep.engine.spark.reading import CellsThere
from halfstep.engine.spark.regression import FarRegression
from halfstep.engine.spark.tasks import Array, FeaturesOfPart, beside_features, lam_of
from halfstep.errors import one_of


@dataclass(frozen=True, eq=False)
class FeaturesThere:
    """Features of the rows of side `side` of some cells.

    parts : RDD of (block, FeaturesOfPart) without lam, kept. known : how they are encoded, without rows.
    """

    given: CellsThere
    side: int
    parts: Any
    known: Features
    mark: str

    @classmethod
    def more(cls, given: CellsThere, told: Any, known: Features) -> FeaturesThere:
        """Features of new rows of side 0, which say whose they are; None is none."""
        return cls.of(given, 0, told, given.columns.roles[0], known)

    @classmethod
    def of(cls, given: CellsThere, side: int, told: Any, role: str, known: Features | None = None) -> FeaturesThere:
        """Features of the ids of a side; rows of other ids are not used. known : how they are encoded, if learned."""
        numbering = given.numberings[side]
        if _is_frame(told):
            frame = _read(told, role, known)
            blocks = _learn(frame) if known is None else known.blocks
            if known is not None:
                for name in frame.columns[1:]:
                    sources = [source for block in blocks for source in block.sources]
                    one_of("column", name, sources, "is none of the columns that features were made of, which are")
            parts = _encoded(frame, numbering, blocks)
            names = tuple(name for block in blocks for name in block.names)
            encoder = Features(sp.csr_array((0, len(names))), names, Index.range(0, role), blocks)
            mark = digest(f"{_hash(frame)} {blocks!r}".encode())
        else:
            index = numbering.ids(role)
            if known is None:
                here = FeaturesHere.of(told, index, role)
            else:
                here = FeaturesHere.more(told, known, index, by_id=True)
            matrix = with_constant(here.known.matrix)
            starts = numbering.layout.starts
            cut = [(b, matrix[starts[b] : starts[b + 1]]) for b in range(numbering.layout.blocks)]
            packed = [(b, FeaturesOfPart.of(part)) for b, part in cut]
            parts = keyed(numbering.spark.sparkContext.parallelize(packed, len(packed)), numbering.layout.partitions)
            nobody = sp.csr_array((0, here.known.shape[1]))
            encoder = replace(here.known, matrix=nobody, ids=Index.range(0, role))
            mark = here.digest()
        return cls(given, side, kept(parts), encoder, mark)

    @property
    def layout(self) -> Layout:
        return self.given.numberings[self.side].layout

    def expecting(self, side: Side, strength: float, share: float) -> Any:
        """One job: penalties of rows follow from their cells, and eta from both."""
        layout, penalty, cells = self.layout, side.penalty, self.given.cells
        counts = cells.blocks[self.side].mapValues(lambda block: block.cells.counts)

        def weigh(items: Iterator[Any]) -> Iterator[Any]:
            partition, found, n_cells = beside_features(items)
            if found is not None:
                lam = share * lam_of(penalty, n_cells, slice(*layout.range_of(partition)))
                lam[layout.long_in(partition)[1]] = 0  # the driver looks after long rows
                yield partition, replace(found, lam=lam)

        rows = kept(together([counts, self.parts]).mapPartitions(weigh, preservesPartitioning=True))
        long = self._long(rows)
        long.lam = share * lam_of(penalty, cells.long_counts[self.side], layout.long)
        sums = [long.size(), *(size for _, size in sorted(rows.mapValues(lambda part: part.size()).collect()))]
        self.parts.unpersist()
        if min(size.least for size in sums) <= 0:
            raise ValueError("features say where rows are held, and a penalty of 0 holds none; give reg above 0.")
        eta = strength * sum(size.squares for size in sums) / layout.n
        shape = layout.n, self.known.shape[1] + 1
        nnz = sum(size.nnz for size in sums)
        held: Any = FarRegression(rows, layout, long, shape, nnz, eta, share, self.mark)
        return replace(side, features=held)

    def _long(self, rows: Any) -> FeaturesOfPart:
        """The features of long rows, in their order."""
        layout, p = self.layout, self.known.shape[1] + 1
        if not len(layout.long):
            return FeaturesOfPart.of(sp.csr_array((0, p)))

        def pick(item: tuple[int, FeaturesOfPart]) -> tuple[int, Any]:
            return item[0], item[1].whole(p)[layout.long_in(item[0])[1]]

        found = sorted(rows.map(pick).collect(), key=lambda item: item[0])
        return FeaturesOfPart.of(sp.csr_array(sp.vstack([matrix for _, matrix in found])))

    def means(self, weights: Array, share: float) -> Any:
        """A prior whose rows stay in the executors: RDD of (block, (n, f)), kept."""
        shared = Shared(self.parts.context, weights)
        return FarMeans(kept(self.parts.mapValues(lambda rows: share * rows.times(shared.value))))

    def here(self, cells: Observations, side: int) -> Features:
        """The features of the blocks in which some row has a cell."""
        counts = cells.counts if side == 0 else np.bincount(cells.indices, minlength=cells.shape[1])
        starts, blocks = self.layout.starts, np.unique(self.layout.block_of(np.flatnonzero(counts)))
        found = dict(self.parts.filter(lambda item: item[0] in set(blocks.tolist())).collect())
        return self._whole([
            found[block].matrix_of(self.known.shape[1])
            if block in found
            else sp.csr_array((int(starts[block + 1] - starts[block]), self.known.shape[1]))
            for block in range(self.layout.blocks)
        ])  # fmt: skip

    def _whole(self, parts: list[Any]) -> Features:
        return replace(self.known, matrix=sp.csr_array(sp.vstack(parts, format="csr")), ids=None)

    def digest(self) -> str:
        return self.mark


@dataclass(frozen=True, eq=False)
class FarMeans:
    """A prior of rows that are in the executors. rows : RDD of (block, (n, f))."""

    rows: Any


def _is_frame(told: Any) -> bool:
    from pyspark.sql import DataFrame

    return isinstance(told, DataFrame)


def _read(frame: Any, role: str, known: Features | None) -> Any:
    """A DataFrame whose first column is the id; ids are neither null nor repeated."""
    from pyspark.sql import functions as F

    sources = [] if known is None else [source for block in known.blocks for source in block.sources]
    id = id_column(role, [name for name in frame.columns if name not in sources])
    if id is None:
        raise ValueError(
            f"no column of {role}_features looks like the id of the {role}s; the columns are {frame.columns}: call it "
            f"{role!r}."
        )
    column = F.col(f"`{id}`")
    frame = frame.select(column.alias("id"), *[F.col(f"`{name}`") for name in frame.columns if name != id])
    twice = frame.groupBy("id").count().where("count > 1 or id is null").limit(1).collect()
    if twice:
        raise ValueError(f"{role}_features has {twice[0][1]} rows of the id {twice[0][0]!r}; it must have one of each.")
    return frame


def _learn(frame: Any) -> tuple[FeatureBlock, ...]:
    """How the columns of a DataFrame are encoded, as `Features.of` would encode them on one machine."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    blocks: list[FeatureBlock] = []
    for field in frame.schema.fields[1:]:
        name, kind, column = field.name, field.dataType, F.col(f"`{field.name}`")
        if isinstance(kind, T.BooleanType):
            blocks.append(Flags(name))
        elif isinstance(kind, T.NumericType):
            number = F.nanvl(column.cast("double"), F.lit(None))
            mean, spread, most = frame.select(F.avg(number), F.stddev_pop(number), F.max(F.abs(number))).collect()[0]
            if most == np.inf:
                raise ValueError(f"column {name!r} holds infinite values; leave them empty where they are not known")
            blocks.append(Numbers(name, float(mean or 0.0), float(spread or 0.0) or 1.0))
        elif isinstance(kind, T.StringType):
            blocks.append(Categories(name, _distinct(frame.select(column.alias("value")))))
        elif isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StringType):
            blocks.append(Lists(name, _distinct(frame.select(F.explode(column).alias("value")), strip=True)))
        else:
            raise TypeError(
                f"column {name!r} holds {kind.simpleString()}; features are made of numbers, booleans, text and lists "
                "of text: cast it (a date to its year, say), or leave it out"
            )
    return tuple(blocks)


def _distinct(values: Any, strip: bool = False) -> tuple[str, ...]:
    found = values.where("value is not null and value != ''").distinct().collect()
    return tuple(sorted({row[0].strip() if strip else row[0] for row in found}))


def _hash(frame: Any) -> int:
    """The same for the same rows in any order."""
    from pyspark.sql import functions as F

    hashed = F.xxhash64(*[F.col(f"`{name}`") for name in frame.columns])
    return int(frame.select(F.sum(hashed.cast("decimal(38,0)"))).collect()[0][0] or 0)


def _encoded(frame: Any, numbering: Numbering, blocks: tuple[FeatureBlock, ...]) -> Any:
    """RDD of (block, FeaturesOfPart) for all rows of the side; rows without features have the constant alone."""
    layout, width = numbering.layout, sum(len(block.names) for block in blocks)
    placed = frame.join(numbering.frame, "id").drop("id")
    packed = placed.mapInArrow(_packed(layout, blocks), "block int, rows binary").rdd
    moved = keyed(packed.map(lambda row: (row["block"], pickle.loads(row["rows"]))), layout.partitions)

    def join(partition: int, items: Iterable[Any]) -> Iterator[tuple[int, FeaturesOfPart]]:
        if partition >= layout.blocks:
            return
        n = int(layout.starts[partition + 1] - layout.starts[partition])
        matrix = sp.csr_array((n, width))
        for _, (places, part) in items:
            matrix = (
                matrix + sp.csr_array((np.ones(len(places)), (places, np.arange(len(places)))), (n, len(places))) @ part
            )
        yield partition, FeaturesOfPart.of(with_constant(matrix))

    return moved.mapPartitionsWithIndex(join, preservesPartitioning=True)


def _packed(layout: Layout, blocks: tuple[FeatureBlock, ...]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For `mapInArrow`: rows by position into encoded parts of blocks."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if not batch.num_rows:
                continue
            places = from_arrow(batch.column("position"))
            names = [name for name in batch.schema.names if name != "position"]
            table = {name: batch.column(name).to_pylist() for name in names}
            parts = [block.encode(table, batch.num_rows) for block in blocks]
            matrix = sp.csr_array(sp.hstack(parts, "csr")) if parts else sp.csr_array((batch.num_rows, 0))
            matrix.eliminate_zeros()
            homes = layout.block_of(places)
            for home in np.unique(homes).tolist():
                mine = np.flatnonzero(homes == home)
                rows = pickle.dumps((places[mine] - layout.starts[home], matrix[mine]), 5)
                yield pa.RecordBatch.from_arrays([to_arrow([home]), blob(rows)], names=["block", "rows"])

    return run
