"""Where fits on a cluster begin: what the engine is told, the checks before any work, where factors start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from halfstep._version import __version__
from halfstep.core.initial import OneSideAtRandom, random_start
from halfstep.core.losses import Loss
from halfstep.core.problem import Problem, Solver
from halfstep.engine.instances import Arrays, Frame, Read
from halfstep.engine.protocol import Start
from halfstep.engine.spark.cells import DistributedCells
from halfstep.engine.spark.checkpoint import Checkpoints, fingerprint_of
from halfstep.engine.spark.drawing import DrawnThere
from halfstep.engine.spark.factors import Factors
from halfstep.engine.spark.features import FeaturesThere
from halfstep.engine.spark.instances import InstanceFrame
from halfstep.engine.spark.reading import CellsThere, encoded, read_cells
from halfstep.engine.spark.session import DistributedSession
from halfstep.engine.spark.starting import Placing
from halfstep.engine.spark.there import RowsThere
from halfstep.errors import check_number, require

_SHIP = (
    "On one machine, set the environment variable PYSPARK_PYTHON to sys.executable before the session starts. On a "
    "cluster, install the same version on every node, or ship an environment: pack one that has halfstep and pyspark "
    "(conda-pack or venv-pack), then set spark.archives=environment.tar.gz#environment and "
    "PYSPARK_PYTHON=./environment/bin/python before the session starts."
)


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

    def instances(self, P: Any, arrays: Arrays[Read], frame: Frame[Read]) -> Read:
        """What is made of a DataFrame with one row for each instance; see `instances.InstanceFrame`."""
        return frame(InstanceFrame(P, self))

    def check_executors(self) -> None:
        """Raise unless the executors can import this version of halfstep."""
        context = self.spark.sparkContext
        # Spark SQL starts its Python workers with this set, and RDDs without: two pools of processes where one will do.
        if self.spark.conf.get("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", "true") == "true":
            context.environment.setdefault("SPARK_SIMPLIFIED_TRACEBACK", "1")
        n = max(2, int(context.defaultParallelism))
        try:
            versions = set(context.parallelize(range(n), n).map(_versions()).collect())
        except Exception as error:
            if "No module named 'halfstep" in str(error) or "No module named 'numpy" in str(error):
                raise RuntimeError(f"the executors cannot import halfstep. {_SHIP}") from error
            raise
        if versions != {__version__}:
            raise RuntimeError(f"the executors have halfstep {sorted(versions)}, the driver has {__version__}. {_SHIP}")

    # ------------------------------------------------------------------ the protocol

    def read(self, X: Any, columns: Mapping[str, Any], *, dtype: Any, splits: bool, signed: bool = False) -> CellsThere:
        if signed:
            raise ValueError("dislikes need a fit on this machine; leave them out with SparkEngine.")
        self.check_executors()
        return read_cells(X, columns, blocks=self.n_blocks, split=self.split if splits else 0, dtype=dtype)

    def read_values(
        self, X: Any, y: Any, weight: Any, loss: Loss, roles: tuple[str, str], *, dtype: Any, splits: bool
    ) -> CellsThere:
        """X is a DataFrame; y and weight name its columns."""
        if loss.learns or loss.beside:
            why = "has parameters that are solved with all cells at hand" if loss.learns else "is several fits in one"
            raise ValueError(
                f"loss={loss!r} {why}, so it is not for SparkEngine; fit it on one machine, or use a plain loss "
                "such as 'squared' or Quantile(0.9) there."
            )
        X, classes = encoded(X, y, loss)
        self.check_executors()
        given = read_cells(
            X,
            {roles[0]: None, roles[1]: None, "weight": False if weight is None else weight},
            target=y,
            duplicates="keep",
            blocks=self.n_blocks,
            split=self.split if splits else 0,
            dtype=dtype,
        )
        return replace(given, classes=classes)

    def about(self, given: CellsThere, side: int, told: Any, role: str) -> FeaturesThere:
        """From anything that `Features.of` takes, or a DataFrame with an id column."""
        return FeaturesThere.of(given, side, told, role)

    def starts(
        self, cells: DistributedCells, rank: int, init: str, seeds: Sequence[int], dtype: Any
    ) -> Iterator[tuple[OneSideAtRandom, tuple[int, int]]]:
        """As on one machine, but made where the rows are."""
        if init == "svd":
            raise ValueError("init='svd' needs the whole matrix on one machine; use init='power' with SparkEngine.")
        if self.checkpoint is not None and len(seeds) > 1:
            raise ValueError(
                f"n_init={len(seeds)} does not go with checkpoints: one folder holds the sweeps of one start. "
                "Use n_init=1, or an engine without checkpoint."
            )
        return (random_start(cells.shape, rank, init, seed, dtype) for seed in seeds)

    def warm(self, kept: Any, dtype: Any) -> NoReturn:
        raise ValueError("warm_start=True is not for SparkEngine; it has checkpoint= and resume=True.")

    def kept_loop(self, file: Any, session: Any, others: Any = ()) -> NoReturn:
        raise ValueError(
            f"checkpoint={str(file.path)!r} is a file of one machine; pass the folder to SparkEngine(checkpoint=...), "
            "which all executors reach."
        )

    def to_draw(self, given: CellsThere) -> DrawnThere:
        if self.checkpoint is not None:
            raise ValueError(
                f"SparkEngine(checkpoint={self.checkpoint!r}) does not go with draws, which the driver keeps; pass "
                "checkpoint= to the model."
            )
        return DrawnThere.of(given)

    def open(self, problem: Problem, start: Start | list[Any], solver: Solver) -> DistributedSession:
        """Start from rows that are made where they are needed or, for each side, from an (n, d) array, a `Start`, or
        factors that are there already. Those were solved before, so such a session has no checkpoints."""
        cells: DistributedCells = problem.observations  # type: ignore[assignment]
        sides = start if isinstance(start, list) else [start, start]
        gram = problem.background > 0
        factors = [Placing(cells, side, gram, self.broadcast_limit).place(one) for side, one in enumerate(sides)]
        session = DistributedSession(problem, factors, solver, self.broadcast_limit)
        if self.checkpoint is not None and not any(isinstance(one, Factors) for one in sides):
            mark = fingerprint_of(problem, cells, solver, start)
            Checkpoints(self.spark, self.checkpoint, self.every, mark).attach(session, self.resume)
        return session

    def keep(self, given: CellsThere, session: DistributedSession) -> RowsThere:
        own, other = session.factors
        features = [held.features for held in session.problem.sides]
        return RowsThere(self, given, (own, other), self.n_blocks, self.broadcast_limit, (features[0], features[1]))


def _versions() -> Callable[[int], str]:
    """What says the version that an executor has; a closure, so that nothing else of this module is imported there."""

    def version(_: int) -> str:
        from halfstep._version import __version__ as there

        return there

    return version


def _is_classic(spark: Any) -> bool:
    try:
        return hasattr(spark.sparkContext, "parallelize")
    except Exception:  # Spark Connect refuses to answer, each version with an error of its own
        return False
