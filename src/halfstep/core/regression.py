"""Where rows are expected from what is known about them, at F W, with W one more unknown that is solved exactly.

    sum_i lam_i (|b_i - W'f_i|^2 + |b_i|^2) / 2  +  eta |W|^2,    so    (F'DF + eta I) W = F'D B,   D = diag(lam) / 2

Half of what holds a row holds it where its features say, and half at zero as without features: a row with few cells
whose features promise much is then not taken at their word. Rows are held at F W / 2 all in all. Other shares may be
asked for; where no cell counts as unobserved, all of the penalty is about F W.

D and F stay as they are during a fit, so that system is factored once where columns are few, or, written the other way
round as W = F'(FF' + eta D^-1)^-1 B, where rows are. Where both are many, conjugate gradients go on from the weights
of the sweep before: every step of theirs lowers the objective. Knows rows of one side and their features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep import _core
from halfstep.core.arrays import Floats
from halfstep.core.blas import one_blas_thread

Array = NDArray[Any]

ALWAYS, FACTORED, WORTH = 512, 4096, 8
"""Of min(n, p): up to where the system is factored, and up to where it may be, if WORTH stored features pay for it."""
HALF = 0.5
LEARNED = ("solved", "fitted", "turn", "step", "moved")
"""What changes of a regression from sweep to sweep."""
STEPS, TOLERANCE = 1, 1e-4
"""Of conjugate gradients in one sweep: at most so many, and the last gains no more than this share of sum lam |b|^2."""


@dataclass(frozen=True, eq=False)
class Regression:
    """Features of the rows of a side, and the weights that say where rows are expected.

    matrix : F, CSR (n, p). eta : how strongly weights are held at zero, > 0. lam : (n,) how strongly rows are held at
    F W: half of their penalty. solved, fitted : W (p, f) over the free columns of the side and F W (n, f), as they were
    when they were solved; turn : (f, f), by what rows have been turned since. None before weights were first solved.
    """

    matrix: sp.csr_array
    eta: float
    lam: Floats
    solved: Array | None = None
    fitted: Array | None = None
    turn: Array | None = None
    step: Array | None = None
    moved: Array | None = None
    """What conjugate gradients did last to `solved` and `fitted`, from where they go on."""
    share: float = HALF
    """Of the penalty of rows, that about F W; the rest is about zero."""

    @classmethod
    def of(cls, matrix: sp.csr_array, eta: float, penalty: Floats, share: float = HALF) -> Regression:
        """Of rows with these penalties."""
        return cls(matrix, eta, share * penalty, share=share)

    @cached_property
    @one_blas_thread
    def weights(self) -> Array | None:
        """W, (p, f)."""
        return self.solved if self.solved is None or self.turn is None else self.solved @ self.turn

    @cached_property
    @one_blas_thread
    def means(self) -> Array | None:
        """Where rows are held by their whole penalty, F W / 2 (or another share of it), (n, f)."""
        if self.fitted is None:
            return None
        found = self.share * self.fitted if self.turn is None else self.fitted @ (self.share * self.turn)
        return np.asarray(found, self.fitted.dtype)

    def learned(self, rows: Array, n_threads: int, steps: int | None = None) -> Regression:
        """The same with the best weights for these rows (n, f). steps : of conjugate gradients, at most."""
        small = min(self.matrix.shape)
        factored = small <= ALWAYS or (small <= FACTORED and small**2 <= WORTH * self.matrix.nnz)
        return self._factored(rows) if factored else self._descended(rows, n_threads, STEPS if steps is None else steps)

    def held(self, eta: float) -> Regression:
        """The same with weights held by another eta, from where they were."""
        after = replace(self, eta=eta)
        vars(after).update({name: vars(self)[name] for name in ("_parts",) if name in vars(self)})
        return after

    @one_blas_thread
    def turned(self, basis: Array) -> Regression:
        """The same where rows b have become b' basis."""
        return self._with(turn=basis if self.turn is None else self.turn @ basis)

    def cost(self) -> float:
        """What is paid beside the whole penalty about `means`: lam |F W|^2 / 2 and eta |W|^2, which no turn changes."""
        if self.solved is None or self.fitted is None:
            return 0.0
        fitted, weights = (np.einsum("ij,ij->i", each, each) for each in (self.fitted, self.solved))
        return (1 - self.share) * float(self.lam @ fitted) + self.eta * float(np.sum(weights, dtype=np.float64))

    def restored(self, state: Mapping[str, Array | None]) -> Regression:
        """The same with what was learned before, by the names of LEARNED."""
        return self._with(**{name: None if state[name] is None else np.array(state[name]) for name in LEARNED})

    def _with(self, **changes: Any) -> Regression:
        """The same but for what is learned; what was made of F and lam alone goes along."""
        after = replace(self, **changes)
        vars(after).update({name: vars(self)[name] for name in ("_factor", "_parts") if name in vars(self)})
        return after

    @one_blas_thread
    def _factored(self, rows: Array) -> Regression:
        from scipy.linalg import cho_solve  # takes a while to import, and fits without features go without

        F, B = self.matrix, rows.astype(np.float64)
        if F.shape[0] < F.shape[1]:
            weights = F.T @ cho_solve(self._factor, B, check_finite=False)
        else:
            weights = cho_solve(self._factor, F.T @ (self.lam[:, None] * B), check_finite=False)
        solved, fitted = (np.ascontiguousarray(each, rows.dtype) for each in (weights, F @ weights))
        return self._with(solved=solved, fitted=fitted, turn=None)

    @cached_property
    def _factor(self) -> tuple[Floats, bool]:
        """The Cholesky factor of FF' + eta D^-1, or of F'DF + eta I, whichever is smaller."""
        from scipy.linalg import cho_factor

        F = self.matrix
        if F.shape[0] < F.shape[1]:
            system = (F @ F.T).toarray()
            np.fill_diagonal(system, system.diagonal() + self.eta / self.lam)
        else:
            system = (F.T @ sp.diags_array(self.lam) @ F).toarray()
            np.fill_diagonal(system, system.diagonal() + self.eta)
        factor: tuple[Floats, bool] = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        return factor

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array, Array]:
        """indptr, indices and values of F as the core takes them, and the diagonal of F'DF."""
        F = self.matrix
        squares = np.bincount(F.indices, np.repeat(self.lam, np.diff(F.indptr)) * F.data**2, F.shape[1])
        return F.indptr.astype(np.int64), F.indices.astype(np.int32), F.data, squares

    @one_blas_thread
    def _descended(self, rows: Array, n_threads: int, steps: int) -> Regression:
        """Weights go on from where they were, in the basis they were in: rows are fewer to be turned back."""
        indptr, indices, values, squares = self._parts
        dtype, (n, p), f = rows.dtype, self.matrix.shape, rows.shape[1]
        if self.turn is not None:
            rows = rows @ self.turn.T
        weights, fitted, step, moved = (
            np.zeros((size, f), dtype) if old is None else old.astype(dtype)
            for size, old in ((p, self.solved), (n, self.fitted), (p, self.step), (n, self.moved))
        )
        given = (values, rows, self.lam, squares + self.eta)
        values, rows, lam, diagonal = (np.ascontiguousarray(each, dtype) for each in given)
        going = (weights, fitted, step, moved)
        _core.regress(indptr, indices, values, rows, lam, diagonal, self.eta, *going, TOLERANCE, steps, n_threads)
        return self._with(solved=weights, fitted=fitted, step=step, moved=moved)


def best_step(gain: Floats, last: Floats, one: Floats, cross: Floats, other: Floats) -> tuple[Floats, Floats]:
    """How far to go along the gradient and along the last step, column by column; as cpp/regression.hpp says it.

    gain, last : products of the residual with both directions. one, cross, other : theirs under the system.
    """
    apart = one * other - cross**2
    both = apart > 1e-6 * one * other
    safe, alone = np.where(both, apart, 1.0), np.where(one > 0, one, 1.0)
    by = np.where(both, (gain * other - last * cross) / safe, np.where(one > 0, gain / alone, 0.0))
    return by, np.where(both, (last * one - gain * cross) / safe, 0.0)
