"""The NumPy oracle of the row problem and of the loop: float64, dense, never optimised. Only tests import it.

Row problem, b the free columns of one own row, everything at half the reported scale:

    1/2 lam |b - mu|^2  +  w0/2 sum_{j unobserved} z_j^2  +  1/2 sum_{j observed} w_j phi(z_j + offset_j; t_j)

where z_j = x_j' u is the whole score, pinned columns included: u is the own row with b in its free columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from halfstep.core.losses import Loss, PiecewiseLoss, pieces

Floats = NDArray[np.float64]
Free = tuple[int, int] | None


@dataclass(frozen=True)
class RowProblem:
    """One row. A cell of the other side is observed at most once where w0 > 0."""

    x: Floats  # (n, d) rows of the other side at the observed cells
    targets: Floats  # (n,)
    weights: Floats  # (n,)
    loss: Loss
    lam: float
    offsets: Floats | float = 0.0  # (n,) or one number
    mu: Floats | float = 0.0  # (k,) or one number
    w0: float = 0.0
    gram: Floats | None = None  # (d, d) X'X of the whole other side; needed where w0 > 0
    free: Free = None  # own free columns, k = stop - start; None: all d
    own: Floats | None = None  # (d,) own row, of which the pinned columns are read; None: zeros

    @property
    def columns(self) -> slice:
        return slice(*(self.free or (0, self.x.shape[1])))

    def row(self, b: Floats | float) -> Floats:
        """The own row (d,) with `b` in its free columns."""
        row = np.zeros(self.x.shape[1]) if self.own is None else np.array(self.own, dtype=np.float64)
        row[self.columns] = b
        return row

    def scores(self, b: Floats | float) -> Floats:
        """What the loss sees, (n,)."""
        return np.asarray(self.x @ self.row(b) + self.offsets)

    def unobserved(self) -> Floats:
        """w0 times the Gram matrix (d, d) of the unobserved cells."""
        if self.w0 and self.gram is None:
            raise ValueError("w0 > 0 needs gram, the Gram matrix of the whole other side")
        return self.w0 * ((0.0 if self.gram is None else self.gram) - self.x.T @ self.x)

    def parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Q (k, k), q (k,), x (n, k), half (n,) of 1/2 b'Q b - q'b + sum half phi(x'b + ...) + constant."""
        B = self.unobserved()[self.columns]
        q = self.lam * np.broadcast_to(self.mu, len(B)) - B @ self.row(0.0)
        return self.lam * np.eye(len(B)) + B[:, self.columns], q, self.x[:, self.columns], self.weights / 2


def row_objective(b: Floats, problem: RowProblem) -> float:
    """The row problem's value at `b` (k,), constants included."""
    row, cells = problem.row(b), problem.loss.value(problem.scores(b), problem.targets)
    penalty = problem.lam * np.sum((b - problem.mu) ** 2)
    return float(penalty + row @ problem.unobserved() @ row + problem.weights @ cells) / 2


def row_gap(b: Floats, problem: RowProblem) -> float:
    """An upper bound of row_objective(b) - minimum: 1/2 s'Q^-1 s for the smallest subgradient s; lam > 0."""
    Q, q, x, half = problem.parts()
    low, high = _slopes(problem.loss, problem.scores(b), problem.targets)
    s = Q @ b - q + x.T @ (half * low)
    root = np.linalg.cholesky(np.linalg.inv(Q)).T  # |root s|^2 = s'Q^-1 s
    kinks = half * (high - low) > 0
    if kinks.any():
        moves = x[kinks].T * (half * (high - low))[kinks]
        s = s + moves @ lsq_linear(root @ moves, -root @ s, bounds=(0, 1), method="bvls", tol=1e-15).x
    return float(np.sum((root @ s) ** 2) / 2)


def _slopes(loss: Loss, z: Floats, t: Floats) -> tuple[Floats, Floats]:
    """The least and the largest d phi / dz; they differ where z is on a kink, up to 1e-9."""
    if loss.is_smooth or not isinstance(loss, PiecewiseLoss):
        return loss.gradient(z, t), loss.gradient(z, t)
    r, sign = (z * t, t) if loss.form == "margin" else (z - t, np.ones_like(t))
    breaks = np.append(loss.pieces()[0], np.inf)
    nearest = breaks[np.abs(r[:, None] - breaks).argmin(axis=1)]
    r = np.where(np.abs(r - nearest) <= 1e-9 * np.maximum(1.0, np.abs(r)), nearest, r)
    one, two = (sign * slope for slope in pieces.subdifferential(*loss.pieces(), r))
    two = np.where(np.abs(one - two) > 1e-9, two, one)  # a break without a kink
    return np.minimum(one, two), np.maximum(one, two)


def solve_row(problem: RowProblem) -> Floats:
    """The minimiser (k,) of `row_objective`."""
    if problem.loss.is_quadratic:
        Q, q, x, half = problem.parts()
        right = q + x.T @ (2 * half * (problem.targets - problem.scores(0.0)))
        return np.asarray(np.linalg.solve(Q + x.T @ (2 * half[:, None] * x), right), dtype=np.float64)
    return _solve_piecewise(problem) if problem.loss.is_plq else _solve_smooth(problem)


def _solve_smooth(problem: RowProblem) -> Floats:
    """Newton with backtracking."""
    Q, q, x, half = problem.parts()
    b = np.zeros(len(q))
    for _ in range(200):
        z = problem.scores(b)
        gradient = Q @ b - q + x.T @ (half * problem.loss.gradient(z, problem.targets))
        curvature = half * problem.loss.curvature(z, problem.targets)
        step = np.linalg.solve(Q + x.T @ (curvature[:, None] * x), gradient)
        value, drop, size = row_objective(b, problem), gradient @ step, 1.0
        if drop > 1e-12 * (1 + abs(value)):  # below that the objective's rounding hides the decrease
            while not row_objective(b - size * step, problem) <= value - size / 4 * drop:
                size /= 2
        b = b - size * step
        if drop <= 1e-18 * (1 + abs(value)):
            return b
    raise ArithmeticError("Newton did not converge")


def _solve_piecewise(problem: RowProblem) -> Floats:
    """ADMM finds which scores sit on kinks; a linear system then gives the exact row; `row_gap` proves it."""
    Q, q, x, half = problem.parts()
    shift = score = problem.scores(0.0)
    assert isinstance(problem.loss, PiecewiseLoss)
    for penalty in np.mean([*half, 1e-9]) * 10.0 ** np.array([0, -1, 1, -2, 2, -3, 3, -4]):
        inverse, dual = np.linalg.inv(Q + penalty * x.T @ x), np.zeros_like(shift)
        for iteration in range(2000):
            b = inverse @ (q + penalty * x.T @ (score - shift - dual))
            score = problem.loss.prox(x @ b + shift + dual, problem.targets, half / penalty)
            dual = dual + x @ b + shift - score
            if iteration % 20 == 0:
                exact = _polish(problem, score)
                if row_gap(exact, problem) <= 1e-13 * (1e-3 + abs(row_objective(exact, problem))):
                    return exact
    raise ArithmeticError("the row problem was not solved to a relative gap of 1e-13")


def _polish(problem: RowProblem, score: Floats) -> Floats:
    """The optimum if every score kept its piece, and those on kinks stayed there."""
    Q, q, x, half = problem.parts()
    low, high = _slopes(problem.loss, score, problem.targets)
    wanted, on = score - problem.scores(0.0), half * (high - low) > 0
    bend = half * problem.loss.curvature(score, problem.targets) * ~on
    right = q - x.T @ (half * low * ~on - bend * wanted)
    system = np.block([[Q + x.T @ (bend[:, None] * x), x[on].T], [x[on], np.zeros((on.sum(),) * 2)]])
    solution = np.linalg.lstsq(system, np.concatenate([right, wanted[on]]), rcond=None)[0]
    return np.asarray(solution[: len(q)], dtype=np.float64)


def objective(
    U: Floats, V: Floats, rows: Any, cols: Any, targets: Floats, weights: Floats, w0: Floats | float,
    lam_own: Any, lam_other: Any, loss: Loss, free_own: Free = None, free_other: Free = None,
) -> float:  # fmt: skip
    """sum_obs w phi(z; t) + w0 sum_unobserved z^2 + sum_i lam_i |u_i|^2 + sum_j lam_j |v_j|^2.

    U (m, d) own side, V (n, d) other side; rows, cols, targets, weights have one entry for each observed
    cell; w0 is one number or (m, n). Only free columns are penalised.
    """
    Z, unobserved = U @ V.T, np.ones((len(U), len(V)), dtype=bool)
    unobserved[rows, cols] = False
    value = weights @ loss.value(Z[rows, cols], targets) + np.sum((w0 * Z**2)[unobserved])
    for side, lam, free in ((U, lam_own, free_own), (V, lam_other, free_other)):
        value += np.sum(np.asarray(lam) * np.sum(side[:, slice(*(free or (None,)))].T ** 2, axis=0))
    return float(value)


def half_step(U: Floats, V: Floats, cells: Any, w0: float, lam: Any, loss: Loss, free: Free) -> Floats:
    """U with the free columns of every row solved, V fixed. `cells` is (rows, cols, targets, weights)."""
    solved, lam, gram = U.copy(), np.broadcast_to(lam, len(U)), V.T @ V
    for i, own in enumerate(U):
        cols, t, w = (np.asarray(part)[np.asarray(cells[0]) == i] for part in cells[1:])
        problem = RowProblem(V[cols], t, w, loss, float(lam[i]), w0=w0, gram=gram, free=free, own=own)
        solved[i, problem.columns] = solve_row(problem)
    return solved


def alternate(
    U: Floats, V: Floats, rows: Any, cols: Any, targets: Floats, weights: Floats, w0: float, lam_own: Any,
    lam_other: Any, loss: Loss, free_own: Free = None, free_other: Free = None, sweeps: int = 10,
) -> tuple[Floats, Floats, list[float]]:  # fmt: skip
    """`sweeps` times own side, then other side. Returns U, V and `objective` after each half-step."""
    U, V, history = np.array(U, dtype=np.float64), np.array(V, dtype=np.float64), []
    problem = (rows, cols, targets, weights, w0, lam_own, lam_other, loss, free_own, free_other)
    for _ in range(sweeps):
        U = half_step(U, V, (rows, cols, targets, weights), w0, lam_own, loss, free_own)
        history.append(objective(U, V, *problem))
        V = half_step(V, U, (cols, rows, targets, weights), w0, lam_other, loss, free_other)
        history.append(objective(U, V, *problem))
    return U, V, history
