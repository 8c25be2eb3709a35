"""Checkpoints of a fit on a cluster: factors as Parquet, the rest as JSON, in a folder that all nodes reach.

    folder/sweep-000005/side0, side1   Parquet (block, rows, columns, values): one row for each block
    folder/sweep-000005/state.json     fingerprint, history, Gram matrices, long rows; written last, so a folder
                                       without it is not a checkpoint

A fit goes on from what it wrote, as a resumed one does, so both do the same arithmetic. Knows sessions, not estimators.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

from halfstep.core.loop import Record
from halfstep.core.problem import Problem, Solver
from halfstep.engine.spark.cells import DistributedCells
from halfstep.engine.spark.factors import Factors, held, let_go
from halfstep.engine.spark.layout import described
from halfstep.engine.spark.moves import kept, keyed
from halfstep.engine.spark.session import DistributedSession
from halfstep.engine.spark.tasks import BlockRows, PerRow, Summary
from halfstep.errors import CheckpointError

__all__ = ["CheckpointError", "Checkpoints", "Files", "array_of", "digest", "fingerprint_of", "text_of"]
_ARRAYS, _RECORD = "first long, d int, dtype string, values binary", 1 << 24
_BLOCKS = "block int, n int, d int, values binary, duals binary"


class Checkpoints:
    """The checkpoints of one fit. `mark` says which: see `fingerprint_of`."""

    def __init__(self, spark: Any, folder: str, every: int, mark: dict[str, str]) -> None:
        self.spark, self.folder, self.every, self.mark = spark, folder.rstrip("/"), every, mark
        self.files = Files(spark, self.folder)
        self.history: list[Record] = []

    def attach(self, session: DistributedSession, resume: bool) -> None:
        """Let a session start from the newest checkpoint, where asked, and write one every so many sweeps."""
        newest = self._newest()
        if newest is not None:
            self._compare(json.loads(self.files.read(f"{newest}/state.json"))["mark"])
            if not resume:
                raise CheckpointError(
                    f"checkpoint={self.folder!r} already holds sweep {_number(newest)} of this fit; pass resume=True "
                    "to continue from it, or give an empty folder to start again."
                )
            session.past = self._load(session, newest)
        self.history = list(session.past)

        def after_sweep(record: Record) -> None:
            self.history.append(record)
            if len(self.history) % self.every == 0:
                self._save(session)

        session.callbacks = (after_sweep,)

    def _newest(self) -> str | None:
        done = [name for name in self.files.names() if self.files.exists(f"{name}/state.json")]
        return max((name for name in done if name.startswith("sweep-")), default=None)

    def _compare(self, found: dict[str, str]) -> None:
        differ = [name for name in self.mark if found.get(name) != self.mark[name]]
        if differ:
            raise CheckpointError(
                f"checkpoint={self.folder!r} is of another fit: {', '.join(differ)} differ. Give an empty folder, or "
                "the data, parameters and blocks of the fit that wrote it."
            )

    def _save(self, session: DistributedSession) -> None:
        name = f"sweep-{len(self.history):06d}"
        before = self._newest()
        for side, factors in enumerate(session.factors):
            frame = self.spark.createDataFrame(_packed(factors), _BLOCKS)
            frame.write.mode("overwrite").parquet(f"{self.folder}/{name}/side{side}")
        both: list[Any] = [spec.features for spec in session.problem.sides]
        told = [None if held is None else held.state() for held in both]
        for side, learned in enumerate(told):
            for part, array in (learned or {}).items():
                self._save_array(f"{name}/{part}{side}", array)
        state = {
            "mark": self.mark,
            "told": [None if each is None else [part for part, a in each.items() if a is not None] for each in told],
            "history": self.history,
            "sides": [{"gram": text_of(f.gram), "long": text_of(f.long), "cost": f.cost} for f in session.factors],
        }
        self.files.write(f"{name}/state.json", json.dumps(state))
        if before is not None and before != name:
            self.files.delete(before)
        old = held(session.factors)
        self._load(session, name)
        let_go(old, session.factors)

    def _save_array(self, name: str, array: Any) -> None:
        """An array of the driver as Parquet, some rows to a record: W may be large."""
        if array is None:
            return
        step = max(1, _RECORD // max(array[0].nbytes, 1))
        parts = [(k, array[k : k + step]) for k in range(0, len(array), step)]
        rows = [
            (k, part.shape[1], str(part.dtype), bytearray(np.ascontiguousarray(part).tobytes())) for k, part in parts
        ]
        self.spark.createDataFrame(rows, _ARRAYS).write.mode("overwrite").parquet(f"{self.folder}/{name}")

    def _load_array(self, name: str) -> Any:
        rows = self.spark.read.schema(_ARRAYS).parquet(f"{self.folder}/{name}").collect()
        parts = [
            np.frombuffer(r["values"], r["dtype"]).reshape(-1, r["d"]) for r in sorted(rows, key=lambda r: r["first"])
        ]
        return np.concatenate(parts)

    def _load(self, session: DistributedSession, name: str) -> list[Record]:
        """Put the factors of a checkpoint into a session; returns the sweeps that led to them."""
        state = json.loads(self.files.read(f"{name}/state.json"))
        for side, saved in enumerate(state["sides"]):
            layout = session.factors[side].layout
            frame = self.spark.read.schema(_BLOCKS).parquet(f"{self.folder}/{name}/side{side}")
            rows = keyed(frame.rdd.map(_unpacked(session.dtype)), layout.partitions)
            found = Factors(self.spark.sparkContext, layout, array_of(saved["long"], session.dtype), kept=kept(rows))
            found.gram, found.cost, found.depth = array_of(saved["gram"]), saved["cost"], 1
            if session.is_broadcast(side):
                found.values = found.to_array()
                if not session.problem.loss.keeps_duals:
                    found.kept.unpersist()
                    found.kept = None
            session.factors[side] = found
        for side, parts in enumerate(state.get("told", (None, None))):
            if parts is not None:
                session.restore(side, {part: self._load_array(f"{name}/{part}{side}") for part in parts})
        history: list[Record] = state["history"]
        return history


def fingerprint_of(problem: Problem, cells: DistributedCells, solver: Solver, start: Any) -> dict[str, str]:
    """What must be the same for a fit to go on: short digests of the data, the cut into blocks, and the parameters."""
    both: list[Any] = [spec.features for spec in problem.sides]
    told = [None if held is None else [held.eta, held.share, held.mark] for held in both]
    sides = [_plain(replace(spec, features=None)) for spec in problem.sides]
    starts = [digest(array.tobytes()) for array in start] if isinstance(start, list) else start
    return {
        "data": cells.fingerprint,
        "blocks": digest(json.dumps(described(cells.layouts)).encode()),
        "parameters": digest(
            json.dumps(
                [
                    problem.loss.to_dict(),
                    problem.background,
                    *sides,
                    _plain(solver),
                    _plain(starts),
                    *([told] if any(told) else []),
                ],
                default=str,
            ).encode()
        ),
    }


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """A value in a form that JSON writes the same in every process."""
    if isinstance(value, PerRow):
        rule: Any = value.rule
        return [rule.func.__qualname__, rule.args, sorted(rule.keywords.items())]
    if isinstance(value, np.ndarray):
        return digest(value.tobytes())
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def _packed(factors: Factors) -> Any:
    """Rows for a DataFrame: the blocks of one side, rotated. Long rows travel in the state."""
    from halfstep.engine.spark import tasks

    found = factors.rows()
    bases = factors.bases  # after rows(), which may have brought them up to date

    def pack(item: tuple[int, BlockRows]) -> tuple[int, int, int, bytearray, bytearray | None]:
        block, rows = item
        values = tasks.rotated(rows.values, bases)
        duals = None if rows.duals is None else bytearray(rows.duals.tobytes())
        return block, *values.shape, bytearray(values.tobytes()), duals

    return found.map(pack)


def _unpacked(dtype: Any) -> Callable[[Any], tuple[int, BlockRows]]:
    def unpack(row: Any) -> tuple[int, BlockRows]:
        values = np.frombuffer(row["values"], dtype).reshape(row["n"], row["d"]).copy()
        duals = None if row["duals"] is None else np.frombuffer(row["duals"], dtype).copy()
        return row["block"], BlockRows(values, Summary(), duals)

    return unpack


def text_of(array: Any) -> dict[str, Any] | None:
    """An array as JSON keeps it, to the last bit."""
    if array is None:
        return None
    return {
        "shape": array.shape,
        "dtype": str(array.dtype),
        "base64": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
    }


def array_of(saved: dict[str, Any] | None, dtype: Any = None) -> Any:
    if saved is None:
        return None
    values = np.frombuffer(base64.b64decode(saved["base64"]), saved["dtype"]).reshape(saved["shape"])
    return values.astype(dtype or saved["dtype"])


def _number(name: str) -> int:
    return int(name.removeprefix("sweep-"))


class Files:
    """Small files in a folder of any file system that Spark reaches."""

    def __init__(self, spark: Any, folder: str) -> None:
        jvm, configuration = spark._jvm, spark.sparkContext._jsc.hadoopConfiguration()
        self._java_path = jvm.org.apache.hadoop.fs.Path
        self._folder = self._java_path(folder)
        self._system = self._folder.getFileSystem(configuration)
        self._streams = jvm.org.apache.commons.io.IOUtils

    def _at(self, name: str) -> Any:
        return self._java_path(self._folder, name)

    def names(self) -> list[str]:
        if not self._system.exists(self._folder):
            return []
        return sorted(status.getPath().getName() for status in self._system.listStatus(self._folder))

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._at(name)))

    def read(self, name: str) -> str:
        stream = self._system.open(self._at(name))
        try:
            return str(self._streams.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """The file appears whole or not at all."""
        temporary = self._at(name + ".part")
        stream = self._system.create(temporary, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._system.delete(self._at(name), False)
        self._system.rename(temporary, self._at(name))

    def delete(self, name: str) -> None:
        self._system.delete(self._at(name), True)
