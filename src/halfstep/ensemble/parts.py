"""Parts of the instance side, and the sums by which the classifiers know them.

A part holds rows: arrays of this process (`LocalPart`), blocks on a cluster, a site of a federated fit. Classifiers
never look at the rows of another part. They need, for given classifiers, the rows' quadratics and what they cost; these
are sums over rows, so those of parts add up to those of all rows. Must not know labels beyond one cell for each row,
nor aggregators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.cells import DenseCells, Observations
from halfstep.core.losses import Bernoulli, Squared
from halfstep.core.problem import Problem, Side, Solver
from halfstep.engine.local import LabelCell, evaluate_cells, normal_equations, solve_rows
from halfstep.ensemble.columns import Columns, Factors
from halfstep.ensemble.predictions import expit
from halfstep.ensemble.table import Extra, Scale, Table

DENSE_COLUMNS = 100
"""Rows of f free columns are solved side by side where f / DENSE_COLUMNS of the cells are observed: a measured rule."""
CURVATURE_FLOOR = 1e-3  # of the Bernoulli loss in a Newton step: a saturated cell must not make the step wild
REPORTED = ("squares", "data", "scores", "change", "size", "gap", "steps", "repaired")
"""What the core reports of solved rows and the loop asks for."""


@dataclass(frozen=True, eq=False)
class PartSums:
    """What rows add up to under given classifiers.

    matrices (m, f, f), vectors (m, f) : the quadratic 1/2 v'Av - r'v of every classifier on its cells, over its f free
        columns; that of a Newton step for the Bernoulli loss.
    data, penalty : sum c phi over the cells, reg sum |u_i|^2 over the rows.
    """

    matrices: Floats
    vectors: Floats
    data: float
    penalty: float

    def __add__(self, more: PartSums) -> PartSums:
        return PartSums(*(getattr(self, f.name) + getattr(more, f.name) for f in fields(self)))


def penalised(matrices: Floats, vectors: Floats, reg: float, prior: Floats | None = None) -> tuple[Floats, Floats]:
    """Quadratics of classifiers with reg |v - prior|^2 added; prior (m, f) or None for 0."""
    f = matrices.shape[1]
    return matrices + reg * np.eye(f), vectors if prior is None else vectors + reg * prior


def best_classifiers(matrices: Floats, vectors: Floats, reg: float, prior: Floats | None = None) -> Floats:
    """(m, f) the minimiser of each classifier's penalised quadratic."""
    A, r = penalised(matrices, vectors, reg, prior)
    return np.asarray(np.linalg.solve(A, r[:, :, None])[:, :, 0], np.float64)


@dataclass(frozen=True, eq=False)
class SiteSums:
    """What a part that is elsewhere sends, by name; sums of several are added entry by entry."""

    stage: str
    sums: dict[str, Any]

    def __add__(self, other: SiteSums) -> SiteSums:
        if self.stage != other.stage:
            raise ValueError(
                f"sums of the stages {self.stage!r} and {other.stage!r} cannot be added; merge every round"
            )
        return SiteSums(self.stage, {name: value + other.sums[name] for name, value in self.sums.items()})


class Part(Protocol):
    """Rows that take part in a factorisation without their values being seen."""

    n_cells: int

    def solve(self, V: Factors, evaluate: bool = False) -> dict[str, float]:
        """Every row against the classifiers V (m, d); the `REPORTED` sums over rows."""

    def sums(self, V: Factors) -> PartSums:
        """Sums over the rows as last solved, under the classifiers V (m, d)."""


@dataclass
class LocalPart:
    """Rows in this process: cells, and factors (N, d) that are solved in place."""

    table: Table
    columns: Columns
    scale: Scale
    reg: float
    row_factors: Factors
    n_threads: int = 1
    problem: Problem = field(init=False)

    def __post_init__(self) -> None:
        n, m = self.table.shape
        rows = Side(self.reg, free=self.columns.row_free)
        classifiers = Side(self.reg, free=self.columns.classifier_free)
        loss = Bernoulli() if self.scale.bernoulli else Squared()
        nothing = Observations((n, m), np.zeros(n + 1, np.int64), np.zeros(0, np.int32))  # cells come block by block
        self.problem = Problem(nothing, (rows, classifiers), loss)

    @property
    def n_cells(self) -> int:
        return self.table.n_observed

    def _cells(self, side: int, extra: Extra | None = None) -> Iterator[tuple[slice, Observations | DenseCells]]:
        """Ranges of rows of a side with their cells, in the form from which they are solved fastest.

        Squared rows are solved side by side from the table itself, its missing cells with weight 0, unless few cells
        are observed or the rows are long; otherwise one by one from the cells they have. See DENSE_COLUMNS.
        """
        n, m = self.table.shape
        start, stop = self.columns.row_free if side == 0 else self.columns.classifier_free
        if not self.scale.bernoulli and DENSE_COLUMNS * self.table.n_observed >= (stop - start) * n * m:
            yield slice(0, n if side == 0 else m), self.table.dense(side)
        else:
            yield from self.table.blocks(side, extra)

    def solve(self, V: Factors, evaluate: bool = False, label: LabelCell | None = None) -> dict[str, float]:
        """Every row against the classifiers, in place; `label` is one more cell of each row whose weight is not 0.

        Under the Bernoulli loss that cell is one of the others, and `data` has what it costs.
        """
        extra, other = None, V
        if label is not None and self.scale.bernoulli:
            other = np.vstack([V, label.vector.astype(V.dtype)])
            extra, label = (np.where(label.weights > 0, label.targets, np.nan), label.weights), None
        total = dict.fromkeys(REPORTED, 0.0)
        for rows, cells in self._cells(0, extra):
            here = None if label is None else LabelCell(label.vector, label.targets[rows], label.weights[rows])
            sums = self._solve(0, self.problem, self.row_factors[rows], other, cells, evaluate, here)
            for name in total:
                total[name] += sums[name]
        return total

    def solve_classifiers(self, V: Factors, prior: Floats | None) -> None:
        """Every classifier against the rows, in place; prior (m, f) or None for 0."""
        for rows, cells in self._cells(1):
            side = replace(self.problem.sides[1], prior=None if prior is None else prior[rows])
            problem = replace(self.problem, sides=(self.problem.sides[0], side))
            self._solve(1, problem, V[rows], self.row_factors, cells, False)

    def _solve(
        self,
        side: int,
        problem: Problem,
        own: Factors,
        other: Factors,
        cells: Observations | DenseCells,
        evaluate: bool,
        label: LabelCell | None = None,
    ) -> dict[str, float]:
        solver = Solver(tolerance=1e-7 if own.dtype == np.float32 else 1e-10, max_steps=100)
        return solve_rows(
            problem,
            side,
            own,
            other,
            solver,
            gram=None,
            evaluate=evaluate,
            n_threads=self.n_threads,
            cells=cells,
            label=label,
        )

    def sums(self, V: Factors) -> PartSums:
        return PartSums(*self.normal_equations(V), self.reconstruction(V), self.penalty())

    def normal_equations(self, V: Factors) -> tuple[Floats, Floats]:
        """`matrices` and `vectors` of the sums."""
        matrices, vectors = [], []
        for block, cells in self._cells(1):
            if isinstance(cells, Observations) and self.scale.bernoulli:
                cells = self._working_cells(cells, V[block])
            Q, q = normal_equations(cells, V[block], self.row_factors, self.columns.classifier_free, self.n_threads)
            matrices.append(Q)
            vectors.append(q)
        return np.concatenate(matrices), np.concatenate(vectors)

    def _working_cells(self, cells: Observations, own: NDArray[Any]) -> Observations:
        """Bernoulli cells as the squared ones of a Newton step: half the curvature as weight, at the working target."""
        row = np.repeat(np.arange(len(own)), cells.counts)
        z = np.einsum("kd,kd->k", own[row], self.row_factors[cells.indices], dtype=np.float64)
        p = expit(z)
        curvature = np.maximum(p * (1 - p), CURVATURE_FLOOR)
        targets = z - (p - cells.targets) / curvature
        return replace(cells, targets=targets, weights=0.5 * cells.weights * curvature, _transposed=[])

    def reconstruction(self, V: Factors) -> float:
        """sum c phi over all observed cells."""
        return sum(
            evaluate_cells(self.problem, self.row_factors[rows], V, self.n_threads, cells)["data"]
            for rows, cells in self._cells(0)
        )

    def penalty(self) -> float:
        """reg sum |u_i|^2 over the free columns."""
        return self.problem.sides[0].cost(self.row_factors)
