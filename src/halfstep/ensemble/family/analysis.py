"""Factor analysis of scores with missing cells: a factorisation that finds its own regularisation.

    z_ij = means_j + loadings_j.u_i + e_ij,     u_i ~ N(0, I),     e_ij ~ N(0, noise_j)     on observed cells

The half-steps of an alternating factorisation, with two things more: each classifier has a noise of its own, and rows
enter the classifiers' step with their posterior covariance, not as if they were known. That is expectation
maximisation, and it leaves no penalty to tune: what a row is shrunk by is noise_j against the unit prior. Knows a
matrix and a mask; must not know probabilities, labels or estimators.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from halfstep.core.arrays import Floats, Mask

BLOCK_ROWS = 20_000
LOADING_CELLS = 1.0
NOISE_CELLS = 20.0
NOISE_SHARE = 0.3
"""The noise of a classifier counts NOISE_CELLS imagined cells of NOISE_SHARE of the variance of all cells: a
classifier with few cells cannot claim to be free of noise. Its loadings count LOADING_CELLS cells of zero."""
MEAN_CELLS = 1e-3


@dataclass(eq=False)
class FactorAnalysis:
    """means (m,), loadings (m, r), noise (m,). `history` has the log posterior by step, which never falls."""

    means: Floats
    loadings: Floats
    noise: Floats
    history: list[float] = field(default_factory=list)

    @classmethod
    def fit(cls, scores: Floats, observed: Mask, rank: int, *, max_iter: int = 15, tol: float = 1e-4) -> FactorAnalysis:
        """Maximise the log posterior by at most `max_iter` steps, until one gains less than `tol` for each row.

        scores (n, m), anything finite where not observed; the start are the leading eigenvectors of the covariance.
        """
        data = _Data.of(scores, observed)
        model = cls._start(data, rank)
        for _ in range(max_iter):
            value, sums = model._expect(data)
            model.history.append(value + data.log_prior(model))
            if len(model.history) > 1 and model.history[-1] - model.history[-2] <= tol * len(scores):
                break
            model._maximise(data, sums)
        return model

    @classmethod
    def _start(cls, data: _Data, rank: int) -> FactorAnalysis:
        means = (data.sums + MEAN_CELLS * data.mean) / (data.counts + MEAN_CELLS)
        left = data.z - data.mask * means
        values, vectors = np.linalg.eigh(left.T @ left / (len(left) * max(data.mask.mean(), 0.05)))
        top = np.argsort(values)[::-1][:rank]
        signs = np.where(vectors[:, top].sum(axis=0) < 0, -1.0, 1.0)  # eigenvectors come with any sign
        loadings = signs * vectors[:, top] * np.sqrt(np.maximum(values[top], 1e-3))
        return cls(means, loadings, np.full(len(means), data.variance / 2))

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

    def _expect(self, data: _Data) -> tuple[float, _Sums]:
        """The log likelihood of the observed cells and what the classifiers' step needs of the rows."""
        m, r = self.loadings.shape
        sums = _Sums(np.zeros((m, r + 1, r + 1)), np.zeros((m, r + 1)))
        value = 0.0
        for start in range(0, len(data.z), BLOCK_ROWS):
            z, mask = data.z[start : start + BLOCK_ROWS], data.mask[start : start + BLOCK_ROWS]
            precision, pull = self._evidence(z, mask)
            covariance = np.asarray(np.linalg.inv(precision), np.float64)
            factors = (covariance @ pull[:, :, None])[:, :, 0]
            sums.add(z, mask, factors, covariance)
            determinants = np.linalg.slogdet(precision)[1].sum() * (len(z) / len(precision))
            value += 0.5 * float((pull * factors).sum() - determinants)
        left = data.squares - 2 * self.means * data.sums + self.means**2 * data.counts
        value -= 0.5 * float((left / self.noise).sum() + data.counts @ np.log(2 * np.pi * self.noise))
        return value, sums

    # ------------------------------------------------------------------ classifiers

    def _maximise(self, data: _Data, sums: _Sums) -> None:
        """Each classifier's regression on the rows' factors, and the noise it leaves."""
        r = self.loadings.shape[1]
        penalty = np.full(r + 1, LOADING_CELLS)
        penalty[r] = MEAN_CELLS
        pulled = sums.products.copy()
        pulled[:, r] += MEAN_CELLS * data.mean
        solved = np.linalg.solve(sums.moments + np.diag(penalty), pulled[:, :, None])[:, :, 0]
        self.loadings, self.means = solved[:, :r], solved[:, r]
        fitted = np.einsum("ji,jik,jk->j", solved, sums.moments, solved)
        left = np.maximum(data.squares - 2 * np.einsum("jk,jk->j", solved, sums.products) + fitted, 0.0)
        self.noise = (left + data.pull(self)) / (data.counts + NOISE_CELLS)


@dataclass(frozen=True, eq=False)
class _Data:
    """What stays the same from step to step, and the prior that is read off it.

    z (n, m), 0 where missing; mask (n, m) 1 or 0; counts, sums, squares (m,) of the observed cells; mean and variance
    of all of them. With s = NOISE_SHARE variance,

        log p = - 1/2 sum_j [ (LOADING_CELLS |loadings_j|^2 + MEAN_CELLS (means_j - mean)^2 + NOISE_CELLS s) / noise_j
                              + NOISE_CELLS log noise_j ]
    """

    z: Floats
    mask: Floats
    counts: Floats
    sums: Floats
    squares: Floats
    mean: float
    variance: float

    @classmethod
    def of(cls, scores: Floats, observed: Mask) -> _Data:
        z, mask = np.where(observed, scores, 0.0), observed.astype(np.float64)
        counts, sums, squares = mask.sum(axis=0), z.sum(axis=0), (z**2).sum(axis=0)
        total = max(float(counts.sum()), 1.0)
        variance = float((squares - sums**2 / np.maximum(counts, 1)).sum()) / total
        return cls(z, mask, counts, sums, squares, float(sums.sum()) / total, max(variance, 1e-6))

    def pull(self, model: FactorAnalysis) -> Floats:
        """(m,) squares that the prior adds to those a classifier leaves."""
        loadings = LOADING_CELLS * (model.loadings**2).sum(axis=1) + MEAN_CELLS * (model.means - self.mean) ** 2
        return np.asarray(loadings + NOISE_CELLS * NOISE_SHARE * self.variance)

    def log_prior(self, model: FactorAnalysis) -> float:
        return -0.5 * float((self.pull(model) / model.noise + NOISE_CELLS * np.log(model.noise)).sum())


@dataclass(eq=False)
class _Sums:
    """Sums over the rows that have a cell of classifier j; x_i = (u_i, 1).

    moments (m, r + 1, r + 1) of E[x x'], products (m, r + 1) of z E[x].
    """

    moments: Floats
    products: Floats

    def add(self, z: Floats, mask: Floats, factors: Floats, covariance: Floats) -> None:
        """z is 0 where missing; covariance (n, r, r), or (1, r, r) for all rows."""
        n, r = factors.shape
        x = np.column_stack([factors, np.ones(n)])
        spread = np.zeros((len(covariance), r + 1, r + 1))
        spread[:, :r, :r] = covariance
        low = np.tril_indices(r + 1)
        self.moments += _unpack(mask.T @ (_pairs(x, x) + spread[:, low[0], low[1]]), r + 1)
        self.products += z.T @ x


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


def cube_root(squared: Floats, cells: Floats) -> Floats:
    """A chi square of so many cells as a standard normal (Wilson and Hilferty); 0 without cells."""
    k = np.maximum(cells, 1.0)
    normal = (np.cbrt(squared / k) - (1 - 2 / (9 * k))) / np.sqrt(2 / (9 * k))
    return np.where(cells > 0, normal, 0.0)
