"""Factor analysis of scores with missing cells: a factorisation that finds its own regularisation.

    z_ij = means_j + loadings_j.u_i + e_ij,     u_i ~ N(0, I),     e_ij ~ N(0, noise_j)     on observed cells

The half-steps of an alternating factorisation, with two things more: each classifier has a noise of its own, and rows
enter the classifiers' step with their posterior covariance, not as if they were known. That is expectation
maximisation, and it leaves no penalty to tune: what a row is shrunk by is noise_j against the unit prior. All that is
asked of rows are sums over them, so rows may be here, on a cluster or at sites. Knows a matrix and a mask; must not
know probabilities, labels or estimators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from halfstep.core.arrays import Floats, Mask
from halfstep.ensemble.sums import SummedFields

BLOCK_ROWS = 20_000
LOADING_CELLS = 1.0
NOISE_CELLS = 20.0
NOISE_SHARE = 0.3
"""The noise of a classifier counts NOISE_CELLS imagined cells of NOISE_SHARE of the variance of all cells: a
classifier with few cells cannot claim to be free of noise. Its loadings count LOADING_CELLS cells of zero."""
MEAN_CELLS = 1e-3
STEPS = 15
TOL = 1e-4


@dataclass(frozen=True, eq=False)
class FactorAnalysis:
    """means (m,), loadings (m, r), noise (m,). `history` has the log posterior by step, which never falls."""

    means: Floats
    loadings: Floats
    noise: Floats
    history: tuple[float, ...] = ()

    @classmethod
    def fit(
        cls, scores: Floats, observed: Mask, rank: int, *, max_iter: int = STEPS, tol: float = TOL
    ) -> FactorAnalysis:
        """Maximise the log posterior by at most `max_iter` steps, until one gains less than `tol` for each row.

        scores (n, m), anything finite where not observed; the start are the leading eigenvectors of the covariance.
        """
        ascent = Ascent.begun(CellSums.of(scores, observed), rank, max_iter, tol)
        while not ascent.done:
            ascent = ascent.told(ascent.model.expect(scores, observed))
        return ascent.model

    # ------------------------------------------------------------------ rows

    def posterior(self, scores: Floats, observed: Mask) -> tuple[Floats, Floats]:
        """(n, r) means and (n, r, r) covariances of the rows' factors; (1, r, r) where no cell is missing.

        covariance_i = (I + sum_j loadings_j loadings_j' / noise_j)^-1,
        mean_i = covariance_i sum_j loadings_j (z_ij - means_j) / noise_j      over observed j
        """
        mask = observed.astype(np.float64)
        precision, pull = self._evidence(mask * scores, mask)
        covariance = np.asarray(np.linalg.inv(precision), np.float64)
        return (covariance @ pull[:, :, None])[:, :, 0], covariance

    def posterior_together(self, scores: Floats, observed: Mask) -> tuple[Floats, Floats]:
        """`posterior` of scores (n, K, m) whose K rows of an instance miss the same cells: observed (n, m).

        (n, K, r) means and (n, r, r) or (1, r, r) covariances, each found once for all K.
        """
        mask = observed.astype(np.float64)
        weighted = self.loadings / self.noise[:, None]
        precision, _ = self._evidence(np.zeros_like(mask), mask)
        covariance = np.asarray(np.linalg.inv(precision), np.float64)
        pull = (mask[:, None, :] * (scores - self.means)) @ weighted
        return pull @ covariance, covariance

    def _evidence(self, z: Floats, mask: Floats) -> tuple[Floats, Floats]:
        """(n or 1, r, r) posterior precisions and (n, r) the sums that they divide; z (n, m) is 0 where missing."""
        weighted = self.loadings / self.noise[:, None]
        shown = np.ones((1, mask.shape[1])) if mask.all() else mask
        precision = _unpack(shown @ _pairs(weighted, self.loadings), self.loadings.shape[1])
        precision += np.eye(self.loadings.shape[1])
        return precision, z @ weighted - mask @ (self.means[:, None] * weighted)

    def reconstruct(self, factors: Floats) -> Floats:
        """(n, m) expected scores of rows with these factors."""
        expected: Floats = self.means + factors @ self.loadings.T
        return expected

    def expect(self, scores: Floats, observed: Mask) -> StepSums:
        """What the classifiers' step needs of these rows."""
        m, r = self.loadings.shape
        sums = StepSums(np.zeros((m, r + 1, r + 1)), np.zeros((m, r + 1)), 0.0)
        for z, mask in _blocks(scores, observed):
            precision, pull = self._evidence(z, mask)
            covariance = np.asarray(np.linalg.inv(precision), np.float64)
            factors = (covariance @ pull[:, :, None])[:, :, 0]
            determinants = np.linalg.slogdet(precision)[1].sum() * (len(z) / len(precision))
            gained = 0.5 * float((pull * factors).sum() - determinants)
            sums += StepSums.of(z, mask, factors, covariance, gained)
        return sums

    # ------------------------------------------------------------------ classifiers

    def log_posterior(self, cells: CellSums, sums: StepSums) -> float:
        """Of the observed cells and the prior."""
        left = cells.squares - 2 * self.means * cells.totals + self.means**2 * cells.counts
        likelihood = (left / self.noise).sum() + cells.counts @ np.log(2 * np.pi * self.noise)
        return sums.gained - 0.5 * float(likelihood) + cells.log_prior(self)

    def maximised(self, cells: CellSums, sums: StepSums) -> FactorAnalysis:
        """Each classifier's regression on the rows' factors, and the noise it leaves."""
        r = self.loadings.shape[1]
        penalty = np.full(r + 1, LOADING_CELLS)
        penalty[r] = MEAN_CELLS
        pulled = sums.products.copy()
        pulled[:, r] += MEAN_CELLS * cells.mean
        solved = np.linalg.solve(sums.moments + np.diag(penalty), pulled[:, :, None])[:, :, 0]
        found = FactorAnalysis(solved[:, r], solved[:, :r], self.noise, self.history)
        fitted = np.einsum("ji,jik,jk->j", solved, sums.moments, solved)
        left = np.maximum(cells.squares - 2 * np.einsum("jk,jk->j", solved, sums.products) + fitted, 0.0)
        return replace(found, noise=(left + cells.pull(found)) / (cells.counts + NOISE_CELLS))


@dataclass(frozen=True, eq=False)
class Ascent:
    """A factor analysis under way, whoever adds up the rows: ask `model.expect` of all of them, and say the total."""

    cells: CellSums
    model: FactorAnalysis
    left: int = STEPS
    tol: float = TOL

    @classmethod
    def begun(cls, cells: CellSums, rank: int, max_iter: int = STEPS, tol: float = TOL) -> Ascent:
        return cls(cells, cells.start(rank), max_iter, tol)

    @property
    def done(self) -> bool:
        return self.left <= 0

    def told(self, sums: StepSums) -> Ascent:
        """One step further."""
        history = (*self.model.history, self.model.log_posterior(self.cells, sums))
        model = replace(self.model, history=history)
        if len(history) > 1 and history[-1] - history[-2] <= self.tol * self.cells.rows:
            return replace(self, model=model, left=0)
        return replace(self, model=model.maximised(self.cells, sums), left=self.left - 1)


@dataclass(frozen=True, eq=False)
class CellSums(SummedFields):
    """Sums over rows that stay the same from step to step, and the prior that is read off them.

    With z 0 where missing and mask 1 or 0: both (m, m) mask'mask, crossed (m, m) z'mask, gram (m, m) z'z; rows their
    number. With s = NOISE_SHARE variance,

        log p = - 1/2 sum_j [ (LOADING_CELLS |loadings_j|^2 + MEAN_CELLS (means_j - mean)^2 + NOISE_CELLS s) / noise_j
                              + NOISE_CELLS log noise_j ]
    """

    both: Floats
    crossed: Floats
    gram: Floats
    rows: float

    @classmethod
    def of(cls, scores: Floats, observed: Mask) -> CellSums:
        m = scores.shape[1]
        sums = cls(np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m)), 0.0)
        for z, mask in _blocks(scores, observed):
            sums += cls(mask.T @ mask, z.T @ mask, z.T @ z, float(len(z)))
        return sums

    @property
    def counts(self) -> Floats:
        return np.diag(self.both)

    @property
    def totals(self) -> Floats:
        """(m,) sums of the observed scores."""
        return np.diag(self.crossed)

    @property
    def squares(self) -> Floats:
        return np.diag(self.gram)

    @property
    def mean(self) -> float:
        """Of all observed scores."""
        return float(self.totals.sum()) / max(float(self.counts.sum()), 1.0)

    @property
    def variance(self) -> float:
        """Of all observed scores about the mean of their classifier."""
        left = self.squares - self.totals**2 / np.maximum(self.counts, 1)
        return max(float(left.sum()) / max(float(self.counts.sum()), 1.0), 1e-6)

    def start(self, rank: int) -> FactorAnalysis:
        """The leading eigenvectors of the covariance of observed cells; half of the variance is noise."""
        means = (self.totals + MEAN_CELLS * self.mean) / (self.counts + MEAN_CELLS)
        shifted = self.crossed * means
        left = self.gram - shifted - shifted.T + self.both * np.outer(means, means)
        share = float(self.counts.sum()) / max(self.rows * len(means), 1.0)
        values, vectors = np.linalg.eigh(left / (max(self.rows, 1.0) * max(share, 0.05)))
        top = np.argsort(values)[::-1][:rank]
        signs = np.where(vectors[:, top].sum(axis=0) < 0, -1.0, 1.0)  # eigenvectors come with any sign
        loadings = signs * vectors[:, top] * np.sqrt(np.maximum(values[top], 1e-3))
        return FactorAnalysis(means, loadings, np.full(len(means), self.variance / 2))

    def pull(self, model: FactorAnalysis) -> Floats:
        """(m,) squares that the prior adds to those a classifier leaves."""
        loadings = LOADING_CELLS * (model.loadings**2).sum(axis=1) + MEAN_CELLS * (model.means - self.mean) ** 2
        return np.asarray(loadings + NOISE_CELLS * NOISE_SHARE * self.variance)

    def log_prior(self, model: FactorAnalysis) -> float:
        return -0.5 * float((self.pull(model) / model.noise + NOISE_CELLS * np.log(model.noise)).sum())


@dataclass(frozen=True, eq=False)
class StepSums(SummedFields):
    """Sums over the rows that have a cell of classifier j; x_i = (u_i, 1).

    moments (m, r + 1, r + 1) of E[x x'], products (m, r + 1) of z E[x]; gained : what the factors of the rows add to
    the log likelihood.
    """

    moments: Floats
    products: Floats
    gained: float

    @classmethod
    def of(cls, z: Floats, mask: Floats, factors: Floats, covariance: Floats, gained: float) -> StepSums:
        """z is 0 where missing; covariance (n, r, r), or (1, r, r) for all rows."""
        n, r = factors.shape
        x = np.column_stack([factors, np.ones(n)])
        spread = np.zeros((len(covariance), r + 1, r + 1))
        spread[:, :r, :r] = covariance
        low = np.tril_indices(r + 1)
        moments = _unpack(mask.T @ (_pairs(x, x) + spread[:, low[0], low[1]]), r + 1)
        return cls(moments, z.T @ x, gained)


def _blocks(scores: Floats, observed: Mask) -> Iterator[tuple[Floats, Floats]]:
    """Rows in blocks: scores, 0 where missing, and the mask as numbers."""
    for start in range(0, len(scores), BLOCK_ROWS):
        here = slice(start, start + BLOCK_ROWS)
        yield np.where(observed[here], scores[here], 0.0), observed[here].astype(np.float64)


def _pairs(x: Floats, y: Floats) -> Floats:
    """(n, r (r + 1) / 2) the lower triangles of x_i y_i', which are symmetric."""
    low = np.tril_indices(x.shape[1])
    return x[:, low[0]] * y[:, low[1]]


def _unpack(triangles: Floats, r: int) -> Floats:
    """(n, r, r) symmetric matrices from their lower triangles."""
    low = np.tril_indices(r)
    whole = np.empty((len(triangles), r, r))
    whole[:, low[0], low[1]] = triangles
    whole[:, low[1], low[0]] = triangles
    return whole
