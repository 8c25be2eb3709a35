"""What runs inside the executors: one partition at a time, on NumPy arrays, in the compiled core. Knows no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.cells import Observations, Values
from halfstep.core.losses import Loss
from halfstep.core.problem import Problem, Side, Solver, rows_of
from halfstep.engine.local import gram_matrix
from halfstep.engine.spark.layout import Ints, Layout

Array = NDArray[Any]


@dataclass(frozen=True)
class PerRow:
    """A rule that gives each row its penalty from its number of cells, applied where the rows are."""

    rule: Callable[[Ints], Values]


@dataclass
class CellBlock:
    """The cells of one partition, grouped by its rows.

    cells : (rows, gathered) where column k < len(needed) is row needed[k] of the other side, and the columns after that
        are the long rows of the other side, which everybody gets.
    """

    first: int
    cells: Observations
    needed: Ints

    def places(self, other: Layout) -> tuple[Ints, Ints]:
        """Row and row of the other side of every cell."""
        rows = self.first + np.repeat(np.arange(self.cells.shape[0]), self.cells.counts)
        return rows, np.concatenate([self.needed, other.long])[self.cells.indices]


@dataclass(frozen=True)
class Summary:
    """What blocks report to the driver: the core's sums, Gram matrix (None where nobody asks), cost of the penalty."""

    sums: dict[str, float] = field(default_factory=dict)
    gram: NDArray[np.float64] | None = None
    cost: float = 0.0

    def __add__(self, more: Summary) -> Summary:
        gram = more.gram if self.gram is None else self.gram if more.gram is None else self.gram + more.gram
        return Summary(merged(self.sums, more.sums), gram, self.cost + more.cost)


@dataclass
class BlockRows:
    """The factors of one block, with the dual variables of its cells where the loss has any."""

    values: Array
    summary: Summary
    duals: Array | None = None


@dataclass
class Piece:
    """What a piece of a long row adds to the row's quadratic, (f + 1, f)."""

    number: int
    quadratic: NDArray[np.float64]


class CellPart(NamedTuple):
    """Cells of one chunk of the data that belong to one partition; weights and targets None where all are 1."""

    number: Any
    rows: Ints
    others: Ints
    weights: Array | None
    targets: Array | None


class Route(NamedTuple):
    """What a block sends to a partition of the other side: its rows at `places`, to stand there from `first` on."""

    partition: int
    first: int
    places: NDArray[np.int32]


class Message(NamedTuple):
    """Rows of the other side that a partition needs, from one of its blocks."""

    first: int
    values: Array


@dataclass
class SidePart:
    """Penalties and priors of the rows of one block, where they are given row by row."""

    penalty: Values | None = None
    prior: Array | None = None


@dataclass
class FeaturesOfPart:
    """Features of the rows of one block. columns : those of F that occur here, in order, and matrix : (n, columns).

    lam : (n,) how strongly rows are held where they say, 0 for long rows, which have their features on the driver.
    """

    columns: Ints
    matrix: Any
    lam: Array | None = None

    @classmethod
    def of(cls, matrix: Any) -> FeaturesOfPart:
        """Of rows of all columns, (n, p)."""
        columns, places = np.unique(matrix.indices, return_inverse=True)
        shape = (matrix.shape[0], len(columns))
        return cls(columns, sp.csr_array((matrix.data, places.ravel(), matrix.indptr), shape=shape))

    def whole(self, p: int) -> Any:
        """All p columns, (n, p)."""
        return sp.csr_array((self.matrix.data, self.columns[self.matrix.indices], self.matrix.indptr), (len(self), p))

    def matrix_of(self, p: int) -> Any:
        """The features that were given, (n, p), without the constant behind them."""
        return self.whole(p + 1)[:, :p]

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def times(self, weights: Array) -> Array:
        """F W, (n, f)."""
        return np.asarray(self.matrix @ weights[self.columns])

    def size(self) -> FeatureSize:
        assert self.lam is not None
        squares = np.asarray(self.matrix.multiply(self.matrix).sum(axis=1)).ravel()
        held = self.lam[self.lam != 0]
        return FeatureSize(float(self.lam @ squares), float(held.min(initial=np.inf)), int(self.matrix.nnz))


def beside_features(items: Iterable[tuple[int, Any]]) -> tuple[int, FeaturesOfPart | None, Any]:
    """A partition of features and of what was joined to them: its number, the features, the other; None for none."""
    told, other, partition = None, None, -1
    for partition, item in items:  # noqa: B007
        if isinstance(item, FeaturesOfPart):
            told = item
        else:
            other = item
    return partition, told, other


class FeatureSize(NamedTuple):
    """Of some rows: sum lam |f|^2, the smallest lam that is not 0, stored values."""

    squares: float
    least: float
    nnz: int


@dataclass
class ColumnSums:
    """Sums over rows for some columns of features, (columns, width), and numbers beside them."""

    columns: Ints
    values: NDArray[np.float64]
    extra: NDArray[np.float64]

    def whole(self, p: int) -> ColumnSums:
        """For all p columns."""
        values = np.zeros((p, self.values.shape[1]))
        values[self.columns] = self.values
        return ColumnSums(np.arange(p), values, self.extra)

    def __add__(self, more: ColumnSums) -> ColumnSums:
        return ColumnSums(self.columns, self.values + more.values, self.extra + more.extra)

    def cut(self, ends: Ints) -> list[ColumnSums]:
        """The columns from each end to the next; what is beside them goes with the first."""
        at = np.searchsorted(self.columns, ends)
        spans = [slice(a, b) for a, b in pairwise(at.tolist())]
        return [
            ColumnSums(self.columns[span], self.values[span], self.extra if k == 0 else 0 * self.extra)
            for k, span in enumerate(spans)
        ]

    def take(self, more: ColumnSums) -> None:
        """Add columns that are among these."""
        self.values[np.searchsorted(self.columns, more.columns)] += more.values
        self.extra = self.extra + more.extra if len(self.extra) else more.extra

    @classmethod
    def zero(cls, first: int, last: int, width: int) -> ColumnSums:
        return cls(np.arange(first, last), np.zeros((last - first, width)), np.zeros(0))

    @classmethod
    def joined(cls, parts: list[ColumnSums]) -> ColumnSums:
        """Neighbouring columns."""
        columns, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("columns", "values"))
        return cls(columns, values, sum((part.extra for part in parts[1:]), parts[0].extra))


@dataclass(frozen=True)
class Step:
    """Everything about a half-step that is the same for all partitions."""

    side: int
    spec: Side  # its penalty may be a PerRow; what is given row by row comes in SideParts
    layout: Layout
    loss: Loss
    background: float
    solver: Solver
    d: int
    dtype: Any
    gram: NDArray[np.float64] | None
    spectrum: NDArray[np.float64] | None
    own_bases: list[Array]
    long_own: Array
    long_other: Array
    long_places: Ints  # row numbers of the long rows of the other side
    evaluate: bool
    reports_gram: bool = False  # blocks report Gram matrices of their rows, which the driver does not get
    share: float = 0.0  # of the penalty, that about where features say
    lift: tuple[int, float] | None = None  # a column of the own rows, and what is added there before they are solved


class Work(NamedTuple):
    """What one partition works on; the columns of `cells` are the rows of `other`, `old` are rows to be replaced."""

    partition: int
    cells: Observations
    other: Array
    old: BlockRows | None
    part: SidePart
    told: FeaturesOfPart | None = None


def build_block(
    partition: int, parts: Sequence[CellPart], own: Layout, other: Layout, duplicates: Any, dtype: Any
) -> CellBlock:
    """The cells of one partition as a CSR over the rows it needs of the other side."""
    start, stop = own.range_of(partition)
    nothing = np.zeros(0, np.int32)
    rows = np.concatenate([nothing, *(part.rows for part in parts)])
    others = np.concatenate([nothing, *(part.others for part in parts)])
    weights, targets = (_joined([part[k] for part in parts]) for k in (3, 4))
    numbers = other.long_numbers(others)
    needed = np.unique(others[numbers < 0])
    columns = np.where(numbers < 0, np.searchsorted(needed, others), len(needed) + numbers)
    shape = stop - start, len(needed) + len(other.long)
    cells = Observations.from_cells(rows - start, columns, shape, targets, weights, duplicates, dtype)
    return CellBlock(start, cells, needed)


def _joined(parts: list[Array | None]) -> Values:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else 1.0


def rotated(values: Array, bases: Iterable[Array]) -> Array:
    """Rows rotated by one basis after the other, in place: what arrives in a task is the task's own copy."""
    for basis in bases:
        _core.rotate(values, basis, 0, 1)
    return values


def starting(values: Array, layout: Layout, partition: int, wants_gram: bool) -> BlockRows:
    """Rows of a block before anything was solved."""
    values[layout.long_in(partition)[1]] = 0
    return BlockRows(values, Summary(gram=gram_matrix(values, 1) if wants_gram else None))


def solve(step: Step, work: Work, weights: Array | None = None) -> Any:
    """One partition's half-step: `Rows` for a block, `Piece` for a piece of a long row. weights : of features."""
    partition, cells = work.partition, work.cells
    number = step.layout.long_of(partition)
    if number is not None:
        return Piece(number, _quadratic(step, cells, work.other, number))
    spec = side_of(step.spec, work.part, cells.counts)
    beside = 0.0
    if work.told is not None and weights is not None:
        spec, beside = expecting(spec, work.told, weights, step.share)
    old = work.old
    own = np.zeros((cells.shape[0], step.d), step.dtype) if old is None else rotated(old.values, step.own_bases)
    if step.lift is not None:
        own[:, step.lift[0]] += step.dtype.type(step.lift[1])
    problem = Problem(cells, (spec, spec), step.loss, step.background)
    rows = problem.rows(0, own, work.other, step.solver, gram=step.gram, spectrum=step.spectrum)
    duals = old.duals if old is not None else None
    if step.loss.keeps_duals:
        duals = np.zeros(len(cells), step.dtype) if duals is None else duals
        rows.duals(duals)
    sums = rows.solve(step.evaluate, 1)
    for name in PLACES:
        if sums[name] >= 0:
            sums[name] += step.layout.range_of(partition)[0]
    places = step.layout.long_in(partition)[1]
    own[places] = 0
    cost = _cost_without(spec, own, places) + beside
    return BlockRows(own, Summary(sums, gram_matrix(own, 1) if step.reports_gram else None, cost), duals)


def assemble(items: Iterable[Any], step: Step, fixed: Array | None, before: Array | None) -> Work:
    """What a partition works on, from whatever was brought together in it; its cells come first.

    fixed : all rows of the other side where they were broadcast; otherwise its rows come as messages.
    before : all rows of the own side, where they were broadcast and are read.
    """
    block: CellBlock | None = None
    gathered, old, part, told, partition = None, None, SidePart(), None, -1
    for partition, item in items:  # noqa: B007
        if isinstance(item, CellBlock):
            block = item
            if fixed is None:
                gathered = np.empty((item.cells.shape[1], step.d), step.dtype)
                gathered[len(item.needed) :] = step.long_other
        elif isinstance(item, Message):
            assert gathered is not None
            gathered[item.first : item.first + len(item.values)] = item.values
        elif isinstance(item, BlockRows):
            old = item
        elif isinstance(item, SidePart):
            part = item
        elif isinstance(item, FeaturesOfPart):
            told = item
    assert block is not None
    if before is not None and partition < step.layout.blocks:
        old = block_of(before, step.layout, partition)
    if gathered is not None:
        return Work(partition, block.cells, gathered, old, part, told)
    assert fixed is not None
    # No row is copied: the cells name rows of the whole side, in the same order.
    columns = np.concatenate([block.needed, step.long_places]).astype(np.int32)
    cells = replace(block.cells, indices=columns[block.cells.indices], shape=(block.cells.shape[0], len(fixed)))
    return Work(partition, cells, fixed, old, part, told)


def block_of(values: Array, layout: Layout, block: int) -> BlockRows:
    """The rows of a block out of those of a whole side; long rows at zero."""
    rows = values[layout.starts[block] : layout.starts[block + 1]].copy()
    rows[layout.long_in(block)[1]] = 0
    return BlockRows(rows, Summary())


def score(step: Step, work: Work) -> tuple[Array, Array, Array]:
    """Score, target and weight of the cells of a partition, as its rows are before they are solved."""
    cells, number = work.cells, step.layout.long_of(work.partition)
    if number is not None:
        own = step.long_own[number : number + 1]
    else:
        assert work.old is not None
        own = work.old.values
    rows = np.repeat(np.arange(cells.shape[0]), cells.counts)
    z = _core.pair_scores(np.ascontiguousarray(own), work.other, rows, cells.indices.astype(np.int64), n_threads=1)
    t, w = (np.broadcast_to(np.asarray(v, np.float64), len(rows)).copy() for v in (cells.targets, cells.weights))
    return np.asarray(z, np.float64), t, w


def evaluate_piece(step: Step, work: Work) -> dict[str, float]:
    """What the cells of a piece cost under the long row's new values, `step.long_own`."""
    number = step.layout.long_of(work.partition)
    assert number is not None
    return rows_of(work.cells, step.loss, step.long_own[number : number + 1], work.other).evaluate(1)


def side_of(spec: Side, part: SidePart, counts: Ints) -> Side:
    """The side as the rows of one block see it."""
    penalty = part.penalty if part.penalty is not None else spec.penalty
    if isinstance(penalty, PerRow):
        penalty = penalty.rule(counts)
    return replace(spec, penalty=penalty, prior=part.prior if part.prior is not None else spec.prior)


def expecting(spec: Side, told: FeaturesOfPart, weights: Array, share: float) -> tuple[Side, float]:
    """The side, its rows held where features say, and what F W costs beside the penalty about that."""
    fitted = told.times(weights)
    assert told.lam is not None
    cost = (1 - share) * float(told.lam @ np.einsum("ij,ij->i", fitted, fitted))
    return replace(spec, prior=np.asarray(share * fitted, weights.dtype)), cost


def lam_of(penalty: Any, counts: Ints, rows: Any) -> NDArray[np.float64]:
    """The penalty of rows with so many cells. rows : which ones they are, for penalties given row by row."""
    if isinstance(penalty, PerRow):
        penalty = penalty.rule(counts)
    elif isinstance(penalty, np.ndarray):
        penalty = penalty[rows]
    return np.array(np.broadcast_to(np.asarray(penalty, np.float64), len(counts)))


def finish_long(step: Step, spec: Side, quadratics: NDArray[np.float64]) -> tuple[Array, dict[str, float]]:
    """New values of the long rows from what their cells add up to, and the core's sums; `spec` is theirs."""
    new, none = np.array(step.long_own, step.dtype), np.zeros((0, step.d), step.dtype)
    nothing = Observations((len(new), 0), np.zeros(len(new) + 1, np.int64), np.zeros(0, np.int32))
    problem = Problem(nothing, (spec, spec), step.loss, step.background)
    rows = problem.rows(0, new, none, step.solver, gram=step.gram, spectrum=step.spectrum)
    sums = rows.finish(quadratics, 1)
    for name in PLACES:
        if sums[name] >= 0:
            sums[name] = int(step.layout.long[int(sums[name])])
    return new, sums


def merged(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    """Sums over two sets of rows."""
    if not a or not b:
        return dict(a or b)
    total = {name: a[name] + b[name] for name in a}
    first = {name: min((s[name] for s in (a, b) if s[name] >= 0), default=-1) for name in PLACES}
    return total | {"gap": max(a["gap"], b["gap"])} | first


PLACES = ("failed", "stalled")
"""Sums that are numbers of rows."""


def send(items: Iterable[Any], bases: list[Array]) -> Iterator[tuple[int, Message]]:
    """Each row of a block once to each partition that needs it; `items` are the block's rows, then its routes."""
    values: Array | None = None
    for _, item in items:
        if isinstance(item, BlockRows):
            values = rotated(item.values, bases)
        elif isinstance(item, Route) and values is not None:
            yield item.partition, Message(item.first, values[item.places])


def _cost_without(spec: Side, values: Array, places: Ints) -> float:
    """What the penalty costs on the rows of a block, those of long rows left out."""
    if not len(places):
        return spec.cost(values)
    keep = np.setdiff1d(np.arange(len(values)), places)
    penalty = spec.penalty[keep] if isinstance(spec.penalty, np.ndarray) else spec.penalty
    prior = spec.prior[keep] if spec.prior is not None and len(spec.prior) > 1 else spec.prior
    return replace(spec, penalty=penalty, prior=prior).cost(values[keep])


def _quadratic(step: Step, cells: Observations, other: Array, number: int) -> NDArray[np.float64]:
    rows = rows_of(cells, step.loss, step.long_own[number : number + 1], other)
    rows.columns(*step.spec.columns(step.d))
    rows.background(step.background)
    found: NDArray[np.float64] = rows.quadratics(1)[0]
    return found
