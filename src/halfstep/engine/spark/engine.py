"""Where fits on a cluster begin: what the engine is told, the checks before any work, where factors start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from halfstep._version import __version__
from halfstep.core.initial import initial_scale, random_rows
from halfstep.core.problem import Problem, Solver
from halfstep.engine.local import gram_matrix
from halfstep.engine.spark import tasks
from halfstep.engine.spark.cells import DistributedCells, distribute
from halfstep.engine.spark.checkpoint import Checkpoints, fingerprint_of
from halfstep.engine.spark.chunks import Chunks
from halfstep.engine.spark.factors import Factors, partitions_of
from halfstep.engine.spark.moves import kept, keyed
from halfstep.engine.spark.numbering import Numbering, number_ids
from halfstep.engine.spark.session import DistributedSession, fits
from halfstep.engine.spark.tasks import Array
from halfstep.errors import check_number, require

_MIN_SPLIT = 8192  # cells; a shorter row is never worth a second round trip

_SHIP = (
    "On one machine, set the environment variable PYSPARK_PYTHON to sys.executable before the session starts. On a "
    "cluster, install the same version on every node, or ship an environment: pack one that has halfstep and pyspark "
    "(conda-pack or venv-pack), then set spark.archives=environment.tar.gz#environment and "
    "PYSPARK_PYTHON=./environment/bin/python before the session starts."
)


class Start(Protocol):
    """Where factors start: any range of rows of a side, the same whichever range is asked for; None where all are 0."""

    @property
    def d(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    def rows(self, side: int, first: int, last: int) -> Array | None: ...


@dataclass(frozen=True)
class OneSideAtRandom:
    """One side filled at random, row by row from the seed; the other at zero."""

    side: int
    d: int
    scale: float
    seed: int
    dtype: Any

    def rows(self, side: int, first: int, last: int) -> Array | None:
        if side != self.side:
            return None
        rows: Array = random_rows(self.seed, side, first, last, self.d, self.dtype) * np.asarray(self.scale, self.dtype)
        return rows


@dataclass(frozen=True)
class SparkEngine:
    """Runs half-steps on Apache Spark. `WALS(engine=SparkEngine(spark)).fit(df)` takes a Spark DataFrame.

    Parameters
    ----------
    spark : a SparkSession.
    blocks : into how many blocks the rows of each side are cut; None is twice the default parallelism.
    checkpoint : folder that all nodes reach (HDFS, object store, shared disk); the factors are written there every
        `every` sweeps, which also bounds what has to be made again after a loss. None is no checkpoints.
    resume : continue from the newest checkpoint of the same data and parameters; without one, start from the beginning.
    broadcast_limit : bytes; a side whose factors take no more goes whole to every executor, a larger one is sent row by
        row to the partitions that need them.
    split : rows with more cells than that are cut into pieces (squared loss only); None is half a block's share of the
        cells, at least 8192.
    """

    spark: Any
    blocks: int | None = None
    checkpoint: str | None = None
    every: int = 5
    resume: bool = False
    broadcast_limit: int = 64 * 2**20
    split: int | None = None
    distributed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("pyspark", "spark")
        require("pyarrow", "spark")
        for name, low in (("blocks", 1), ("every", 1), ("broadcast_limit", 0), ("split", 1)):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), at_least=low, whole=True)
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True needs `checkpoint`, the folder that the lost fit wrote to.")
        if not _is_classic(self.spark):
            raise TypeError(
                f"spark={self.spark!r} must be a SparkSession with a SparkContext; sessions of Spark Connect have "
                "none: run the fit where the driver is."
            )

    def __deepcopy__(self, memo: Any) -> SparkEngine:
        return self  # scikit-learn copies parameters; a cluster is not copied

    @property
    def n_blocks(self) -> int:
        return self.blocks or 2 * int(self.spark.sparkContext.defaultParallelism)

    # ------------------------------------------------------------------ data

    def distribute(
        self, chunks: Chunks, fingerprint: str, *, duplicates: str, splits: bool
    ) -> tuple[DistributedCells, tuple[Numbering, Numbering]]:
        """Cells and numberings of both sides from checked chunks. splits : whether long rows may be cut into pieces."""
        blocks = self.n_blocks
        split = (self.split or max(_MIN_SPLIT, chunks.n_rows // (2 * blocks))) if splits else 0
        (users, asked0), (items, asked1) = (number_ids(chunks, side, blocks, blocks, split) for side in (0, 1))
        return self.place(chunks, (users, items), (asked0, asked1), fingerprint, duplicates), (users, items)

    def place(
        self,
        chunks: Chunks,
        numberings: tuple[Numbering, Numbering],
        asked: tuple[Any, Any],
        fingerprint: str,
        duplicates: str,
    ) -> DistributedCells:
        """Cells of chunks whose ids are numbered already; `asked` are their ids, see `Numbering.ask`."""
        first, second = (numberings[side].replies(asked[side], side, chunks.partitions) for side in (0, 1))
        layouts = (numberings[0].layout, numberings[1].layout)
        return distribute(chunks, (first, second), layouts, duplicates, fingerprint)

    def check_executors(self) -> None:
        """Raise unless the executors can import this version of halfstep."""
        context = self.spark.sparkContext
        # Spark SQL starts its Python workers with this set, and RDDs without: two pools of processes where one will do.
        if self.spark.conf.get("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", "true") == "true":
            context.environment.setdefault("SPARK_SIMPLIFIED_TRACEBACK", "1")
        n = max(2, int(context.defaultParallelism))
        try:
            versions = set(context.parallelize(range(n), n).map(_version).collect())
        except Exception as error:
            if "No module named 'halfstep" in str(error) or "No module named 'numpy" in str(error):
                raise RuntimeError(f"the executors cannot import halfstep. {_SHIP}") from error
            raise
        if versions != {__version__}:
            raise RuntimeError(f"the executors have halfstep {sorted(versions)}, the driver has {__version__}. {_SHIP}")

    # ------------------------------------------------------------------ fits

    def start(
        self, observations: DistributedCells, rank: int, init: str, seed: int, dtype: Any
    ) -> tuple[OneSideAtRandom, tuple[int, int]]:
        """Where factors start and the order of half-steps: as on one machine, but made where the rows are."""
        if init == "svd":
            raise ValueError("init='svd' needs the whole matrix on one machine; use init='scaled' with SparkEngine.")
        n, m = observations.shape
        small = 0 if n <= m else 1
        scale = float(initial_scale(init, rank))
        return OneSideAtRandom(small, rank, scale, seed, np.dtype(dtype)), (1 - small, small)

    def open(self, problem: Problem, start: Start | list[NDArray[Any]], solver: Solver) -> DistributedSession:
        """Start from rows that are made where they are needed, or from one given (n, d) array for each side."""
        cells: DistributedCells = problem.observations  # type: ignore[assignment]
        gram = problem.background > 0
        if isinstance(start, list):
            d, dtype = start[0].shape[1], start[0].dtype
            factors = [self._given(cells, side, start[side], gram) for side in (0, 1)]
        else:
            d, dtype = start.d, start.dtype
            factors = [self.made(cells, side, start, gram) for side in (0, 1)]
        session = DistributedSession(problem, factors, solver, d, dtype, self.broadcast_limit)
        if self.checkpoint is not None:
            mark = fingerprint_of(problem, cells, solver, start)
            Checkpoints(self.spark, self.checkpoint, self.every, mark).attach(session, self.resume)
        return session

    def _given(self, cells: DistributedCells, side: int, values: Array, gram: bool) -> Factors:
        """Factors that start from an (n, d) array."""
        layout = cells.layouts[side]
        if len(values) != layout.n:
            raise ValueError(f"factors of side {side} have {len(values)} rows; the cells have {layout.n}.")
        if fits(layout.n, values.shape[1], values.dtype, self.broadcast_limit):
            known = gram_matrix(values, 1) if gram else None
            return Factors(cells.context, layout, values[layout.long].copy(), values, gram=known)
        blocks = [(b, values[layout.starts[b] : layout.starts[b + 1]]) for b in range(layout.blocks)]
        rows = keyed(cells.context.parallelize(blocks, layout.blocks), layout.partitions).map(
            lambda item: (item[0], tasks.starting(item[1], layout, item[0], gram)), preservesPartitioning=True
        )
        return _summed(cells.context, layout, rows, values[layout.long].copy(), gram)

    def made(self, cells: DistributedCells, side: int, start: Start, gram: bool = False) -> Factors:
        """Factors whose rows are made where they are needed."""
        layout, d, dtype = cells.layouts[side], start.d, start.dtype
        if start.rows(side, 0, 0) is None:
            return Factors(cells.context, layout, np.zeros((len(layout.long), d), dtype))
        if fits(layout.n, d, dtype, self.broadcast_limit):
            whole = start.rows(side, 0, layout.n)
            assert whole is not None
            return self._given(cells, side, whole, gram)

        def fill(block: int, _: Iterator[Any]) -> Iterator[Any]:
            if block < layout.blocks:
                values = start.rows(side, *layout.range_of(block))
                assert values is not None
                yield block, tasks.starting(values, layout, block, gram)

        rows = partitions_of(cells.context, layout).mapPartitionsWithIndex(fill, preservesPartitioning=True)
        long: list[Any] = [start.rows(side, int(p), int(p) + 1) for p in layout.long]
        return _summed(cells.context, layout, rows, np.concatenate([np.zeros((0, d), dtype), *long]), gram)


def _version(_: int) -> str:
    return __version__


def _is_classic(spark: Any) -> bool:
    try:
        return hasattr(spark.sparkContext, "parallelize")
    except Exception:  # Spark Connect refuses to answer, each version with an error of its own
        return False


def _summed(context: Any, layout: Any, rows: Any, long: Array, gram: bool) -> Factors:
    factors = Factors(context, layout, long, kept=kept(rows), depth=1)
    if gram:
        found = factors.rows().mapValues(lambda rows: rows.summary.gram).collect()
        whole = [found for _, found in sorted(found, key=lambda pair: pair[0])]
        factors.gram = sum(whole, start=gram_matrix(long, 1))
    return factors
