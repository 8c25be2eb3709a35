"""Random half-steps, solved by the core and row by row by the oracle. Knows no estimator and no engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from halfstep import _core, losses
from halfstep.core.oracle import RowProblem, row_objective, solve_row

# Every loss here is held to the whole contract; a new finish of the core joins by its name.
LOSSES = [losses.Squared(), losses.Huber(0.5), losses.Hinge(), losses.Logistic()]

# How far above the least value a row may end, as a share of the value without any row (b = 0).
EXCESS = {np.float32: 1e-5, np.float64: 1e-11}


@dataclass(frozen=True)
class HalfStepCase:
    """One side to solve. Arrays are float64 and cast on the way into the core, so that both see the same problem."""

    own: Any  # (n_own, d)
    other: Any  # (n_other, d)
    indptr: Any
    indices: Any
    targets: Any  # (cells,)
    weights: Any  # (cells,)
    lam: Any  # (n_own,)
    loss: losses.Loss
    offsets: Any = None  # (cells,) or None
    mu: Any = None  # (1, f) or (n_own, f) or None
    w0: float = 0.0
    free: tuple[int, int] | None = None
    spectrum: Any = None  # (f,) where `other` was rotated

    @property
    def columns(self) -> tuple[int, int]:
        return self.free or (0, self.own.shape[1])

    @cached_property
    def gram(self) -> Any:
        return self.other.T @ self.other

    def bind(
        self,
        dtype: Any,
        method: str = "exact",
        *,
        tolerance: float | None = None,
        max_steps: int = 5000,
        block: int = 64,
    ) -> tuple[Any, Any]:
        """The rows that will be solved, and the half-step of the core that solves them."""
        own = np.ascontiguousarray(self.own, dtype).copy()
        rows = _core.half_step(own, np.ascontiguousarray(self.other, dtype))
        rows.cells(
            self.indptr,
            self.indices,
            self.targets.astype(dtype),
            self.weights.astype(dtype),
            None if self.offsets is None else self.offsets.astype(dtype),
        )
        self.loss.bind(rows)
        rows.columns(*self.columns)
        rows.penalty(self.lam.astype(dtype))
        if self.mu is not None:
            rows.prior(np.ascontiguousarray(self.mu, dtype))
        if self.w0 > 0:
            spectrum = None if self.spectrum is None else self.spectrum.astype(dtype)
            rows.background(self.w0, self.gram.astype(dtype), spectrum)
        if self.loss.keeps_duals:
            rows.duals(np.zeros(len(self.indices), dtype))
        exact = 1e-7 if dtype == np.float32 else 1e-13
        rows.method(_core.Method[method], exact if tolerance is None else tolerance, max_steps, block)
        return own, rows

    def solve(
        self, dtype: Any, method: str = "exact", n_threads: int = 1, **options: Any
    ) -> tuple[Any, dict[str, float]]:
        """The core's new rows and its sums."""
        own, rows = self.bind(dtype, method, **options)
        return own, rows.solve(True, n_threads)

    def row(self, i: int) -> RowProblem:
        """Row i as the oracle sees it."""
        cells = slice(self.indptr[i], self.indptr[i + 1])
        mu = 0.0 if self.mu is None else self.mu[0 if len(self.mu) == 1 else i]
        return RowProblem(
            x=self.other[self.indices[cells]],
            targets=self.targets[cells],
            weights=self.weights[cells],
            loss=self.loss,
            lam=float(self.lam[i]),
            offsets=0.0 if self.offsets is None else self.offsets[cells],
            mu=mu,
            w0=self.w0,
            gram=self.gram,
            free=self.columns,
            own=self.own[i],
        )

    def excess(self, solved: Any) -> Any:
        """(n_own,) how far each row is above its least value, as a share of its value at b = 0."""
        start, stop = self.columns
        out = np.empty(len(solved))
        for i, row in enumerate(np.asarray(solved, np.float64)):
            problem, least, scale = self.optima[i]
            out[i] = (row_objective(row[start:stop], problem) - least) / scale
        return out

    @cached_property
    def optima(self) -> list[tuple[RowProblem, float, float]]:
        """Of each row what the oracle makes of it: its problem, its least value, and its scale."""
        start, stop = self.columns
        problems = [self.row(i) for i in range(len(self.own))]
        least = [row_objective(solve_row(problem), problem) for problem in problems]
        zero = [row_objective(np.zeros(stop - start), problem) for problem in problems]
        return [(p, best, max(at_zero, best, 1e-3)) for p, best, at_zero in zip(problems, least, zero, strict=True)]

    def rotated(self) -> HalfStepCase:
        """The same problem with the free columns turned so that the Gram matrix is diagonal on them.

        The own row and the prior turn along; nobody's scores change.
        """
        start, stop = self.columns
        values, basis = np.linalg.eigh(self.gram[start:stop, start:stop])
        own, other = self.own.copy(), self.other.copy()
        own[:, start:stop] = own[:, start:stop] @ basis
        other[:, start:stop] = other[:, start:stop] @ basis
        mu = None if self.mu is None else self.mu @ basis
        return replace(self, own=own, other=other, mu=mu, spectrum=np.maximum(values, 0.0))


def lengths_for(d: int) -> list[int]:
    """Row lengths around everything a solver may branch on."""
    return [0, 1, max(d - 1, 0), d, d + 1, 4 * d + 3]


def random_case(
    seed: int,
    *,
    d: int = 5,
    loss: losses.Loss | None = None,
    weights: str = "mixed",
    offsets: bool = False,
    background: str = "none",
    prior: str = "none",
    pinned: tuple[int, int] = (0, 0),
    lengths: Sequence[int] | None = None,
) -> HalfStepCase:
    """A half-step with rows of every length.

    weights : "ones", "mixed" (zeros among them), "background" (all equal to w0) or "below" (w - w0 < 0).
    background : "none", "dense" (Gram matrix) or "rotated" (its spectrum).
    prior : "none", "shared" (one row) or "rows".
    pinned : how many columns are pinned left and right of the free ones.
    """
    rng = np.random.default_rng(seed)
    lengths = lengths_for(d) if lengths is None else lengths
    n_own, n_other = len(lengths), max(lengths) + 5
    free = (pinned[0], d + pinned[0])
    columns = d + sum(pinned)
    w0 = 0.0 if background == "none" else 0.3
    cells = sum(lengths)
    choices = {"ones": [1.0], "mixed": [0.0, 0.5, 1.0, 3.0], "background": [w0], "below": [0.0, w0 / 4, w0 / 2]}
    loss = losses.Squared() if loss is None else loss
    case = HalfStepCase(
        own=rng.normal(size=(n_own, columns)),
        other=rng.normal(size=(n_other, columns)) / np.sqrt(columns),
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        indices=np.concatenate([np.sort(rng.permutation(n_other)[:n]) for n in lengths]).astype(np.int32),
        targets=draw_targets(loss, rng, cells),
        weights=rng.choice(choices[weights], cells),
        lam=10 ** rng.uniform(-1.5, 1, n_own),
        loss=loss,
        offsets=rng.normal(size=cells) if offsets else None,
        mu={"none": None, "shared": rng.normal(size=(1, d)), "rows": rng.normal(size=(n_own, d))}[prior],
        w0=w0,
        free=free,
    )
    return case.rotated() if background == "rotated" else case


@cache
def known_case(seed: int, d: int, **options: Any) -> HalfStepCase:
    """The same, kept: the oracle looks at its rows once, whatever path through the core they are held against."""
    return random_case(seed, d=d, **options)


def draw_targets(loss: losses.Loss, rng: Any, n: int) -> Any:
    """Targets that the loss accepts."""
    if loss.form == "margin":
        return rng.choice([-1.0, 1.0], n)
    return rng.random(n) if loss.name == "bernoulli" else rng.integers(0, 5, n).astype(float)
