"""The combined loss of reconstruction and labels, and the half-steps that minimise it exactly.

    L =  rho [ sum_cells c (t - u_i.v_j)^2 + reg (sum |u_i|^2 + sum |v_j - mu_j|^2 + sum |mu_g|^2) ] / S
      +  (1 - rho) [ sum_labelled s_i CE(y_i, sigmoid(w'z_i + b)) + 1/2 sum penalty (theta - prior)^2 ] / W

S = sum of c over observed cells, W = sum of s over labelled rows: both terms are means, so rho means the same at any
size. z_i are the reconstructed log odds of all classifiers on row i, theta = (w, b) the aggregator. The Bernoulli loss
puts log(1 + e^z) - t z in place of the square. Inside, everything is multiplied by S / rho, the scale of the engine.

Every step lowers L: rows (each its own problem, one more logistic cell where there is a label), classifiers (jointly,
see `_joint_classifiers`), aggregator (a convex regression). Must not know predictions, names or classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from halfstep.cfensemble.aggregators import Design, WeightedAggregator
from halfstep.cfensemble.logistic import cross_entropy, fit_logistic
from halfstep.cfensemble.table import Scale, Table
from halfstep.engine.alternate import Callback, Outcome, Record, alternate
from halfstep.engine.local import LabelCell, evaluate_cells, normal_equations, solve_rows
from halfstep.engine.problem import Problem, Side, Solver
from halfstep.losses import Bernoulli, Squared
from halfstep.observations import Observations
from halfstep.predictions import Codes, Floats, expit

Factors = NDArray[Any]
CURVATURE_FLOOR = 1e-3  # of the Bernoulli loss in a Newton step: a saturated cell must not make the step wild


@dataclass(frozen=True)
class Columns:
    """Which columns of rows and classifiers mean what, in the engine's layout.

    rows         [ class | features by class | shared rank | row bias ]
    classifiers  [ bias by class | coefficients of features | shared rank | 1 ]

    The first two groups are data on the side of the rows. Without biases they and the last column stay out of the fit.
    """

    n_channels: int
    n_features: int
    rank: int
    biases: bool

    @property
    def pinned(self) -> int:
        return self.n_channels * (1 + self.n_features)

    @property
    def width(self) -> int:
        return self.pinned + self.rank + 1

    @property
    def shared(self) -> slice:
        return slice(self.pinned, self.pinned + self.rank)

    @property
    def row_free(self) -> tuple[int, int]:
        return self.pinned, self.pinned + self.rank + int(self.biases)

    @property
    def classifier_free(self) -> tuple[int, int]:
        return (0 if self.biases else self.n_channels), self.pinned + self.rank

    def rows(self, channel: Codes, features: Floats | None, dtype: Any) -> Factors:
        """New rows with their pinned columns filled and the rest 0; features (N, q) are those of each row."""
        factors = np.zeros((len(channel), self.width), dtype)
        factors[np.arange(len(channel)), channel] = 1
        if features is not None and self.n_features:
            first = self.n_channels + channel * self.n_features
            factors[np.arange(len(channel))[:, None], first[:, None] + np.arange(self.n_features)] = features
        return factors

    def classifiers(self, n: int, dtype: Any) -> Factors:
        factors = np.zeros((n, self.width), dtype)
        factors[:, -1] = 1
        return factors


@dataclass
class Labels:
    """The labelled rows and the linear aggregator that the combined loss holds against them.

    rows (r,), targets (r,) 0 or 1, weights (r,) class weights; strength = (1 - rho) S / (rho W), so that row i has a
    logistic cell of weight strength * weights_i. `fixed`: the aggregator is the mean and stays it.
    """

    rows: Codes
    targets: Floats
    weights: Floats
    strength: float
    aggregator: WeightedAggregator
    fixed: bool = False


@dataclass
class Factorisation:
    """A fit under way: factors of rows (N, d) and classifiers (m, d), and what they are fitted to.

    It is a session of `engine.alternate`: side 0 are rows, side 1 classifiers, followed by groups and aggregator.
    `penalties` (m,) or a number overrides reg on the classifier side.
    """

    table: Table
    columns: Columns
    scale: Scale
    reg: float
    channel: Codes
    row_factors: Factors
    classifier_factors: Factors
    labels: Labels | None = None
    groups: Codes | None = None
    n_threads: int = 1
    group_means: Floats | None = None
    problem: Problem = field(init=False)
    past: Sequence[Record] = ()
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        n, m = self.table.shape
        rows = Side(self.reg, free=self.columns.row_free)
        classifiers = Side(self.reg, free=self.columns.classifier_free)
        loss = Bernoulli() if self.scale.bernoulli else Squared()
        nothing = Observations((n, m), np.zeros(n + 1, np.int64), np.zeros(0, np.int32))  # cells come block by block
        self.problem = Problem(nothing, (rows, classifiers), loss)
        if self.groups is not None and self.group_means is None:
            width = self.columns.classifier_free[1] - self.columns.classifier_free[0]
            self.group_means = np.zeros((int(self.groups.max()) + 1, width))

    # ------------------------------------------------------------------ half-steps

    def half_step(self, side: int, evaluate: bool = False) -> dict[str, float]:
        if side == 0:
            return self.solve_row_side(evaluate)
        if self.labels is not None and np.any(self.aggregator_weights):
            self._joint_classifiers()
        else:
            self.solve_classifier_side()
        self._update_groups()
        if self.labels is not None and not self.labels.fixed:
            self.update_aggregator()
        return {}

    def solve_row_side(self, evaluate: bool = False) -> dict[str, float]:
        """Every row against the classifiers, in place; labelled rows with their label."""
        n = self.table.shape[0]
        label, extra, other = None, None, self.classifier_factors
        if self.labels is not None:
            targets, weights = np.full(n, np.nan), np.zeros(n)
            targets[self.labels.rows] = self.labels.targets
            weights[self.labels.rows] = self.labels.strength * self.labels.weights
            if self.scale.bernoulli:  # the label is one more cell of the same loss
                other = np.vstack([other, self.label_vector().astype(other.dtype)])
                extra = (targets, weights)
            else:
                label = (self.label_vector(), np.nan_to_num(targets), weights)
        total = {"squares": 0.0, "data": 0.0, "scores": 0.0, "change": 0.0, "size": 0.0, "gap": 0.0, "steps": 0.0}
        total["repaired"] = 0.0
        for rows, cells in self.table.blocks(0, extra):
            here = None if label is None else LabelCell(label[0], label[1][rows], label[2][rows])
            sums = self._solve(0, self.row_factors[rows], other, cells, evaluate, label=here)
            for name in total:
                total[name] += sums[name]
        if evaluate and self.labels is not None and self.scale.bernoulli:
            total["data"] -= self._label_cost()
        return total

    def solve_classifier_side(self) -> None:
        """Every classifier against the rows, without labels, in place."""
        prior = self._prior()
        for rows, cells in self.table.blocks(1):
            side = replace(self.problem.sides[1], prior=None if prior is None else prior[rows])
            own = self.classifier_factors[rows]
            self._solve(1, own, self.row_factors, cells, False, side=side)

    def _solve(
        self,
        number: int,
        own: Factors,
        other: Factors,
        cells: Observations,
        evaluate: bool,
        label: LabelCell | None = None,
        side: Side | None = None,
    ) -> dict[str, float]:
        problem = self.problem
        if side is not None:
            problem = replace(problem, sides=(problem.sides[0], side))
        solver = Solver(tolerance=1e-7, max_steps=100)
        return solve_rows(
            problem,
            number,
            own,
            other,
            solver,
            gram=None,
            evaluate=evaluate,
            n_threads=self.n_threads,
            cells=cells,
            label=label,
        )

    def _joint_classifiers(self) -> None:
        """All classifiers at once, exactly, although the labels couple them.

        Labels see the classifiers only through g = sum_j a_j v_j. With 1/2 v'A_j v - r_j'v the quadratic of classifier
        j and v0_j = A_j^-1 r_j its own optimum, the best v for a given g is v_j = v0_j + a_j A_j^-1 mu, so that
        g = g0 + M mu with M = sum a_j^2 A_j^-1. What is left is a logistic regression for g under the Gaussian prior
        (g0, M), whitened by M = L L' to the unit one. The Bernoulli loss has the quadratic of its Newton step there,
        and the step is shortened until the loss falls.
        """
        assert self.labels is not None
        start, stop = self.columns.classifier_free
        V = self.classifier_factors
        before = V.copy()
        a = self.scale.slope * self.aggregator_weights
        matrices, vectors = self.normal_equations()
        matrices[:, np.arange(stop - start), np.arange(stop - start)] += self.reg
        prior = self._prior()
        if prior is not None:
            vectors = vectors + self.reg * prior
        inverse = np.linalg.inv(matrices)
        alone = np.einsum("jkl,jl->jk", inverse, vectors)
        root = scipy.linalg.cholesky(np.einsum("j,jkl->kl", a**2, inverse), lower=True)
        U = self.row_factors[self.labels.rows].astype(np.float64)
        rest = self.label_vector()
        rest[start:stop] -= a @ V[:, start:stop]
        offset = U @ rest + U[:, start:stop] @ (a @ alone)
        X = U[:, start:stop] @ root
        unit = np.ones(stop - start)
        half = 0.5 * self.labels.strength * self.labels.weights
        y = fit_logistic(X, self.labels.targets, half, unit, 0 * unit, offset)
        mu = scipy.linalg.solve_triangular(root, y, lower=True, trans="T")
        new = alone + a[:, None] * (inverse @ mu)
        V[:, start:stop] = new
        if self.scale.bernoulli:
            self._backtrack(before)

    def normal_equations(self) -> tuple[Floats, Floats]:
        """(m, f, f) and (m, f): the quadratic of every classifier on its cells; of a Newton step for Bernoulli."""
        free, V = self.columns.classifier_free, self.classifier_factors
        matrices, vectors = [], []
        for block, cells in self.table.blocks(1):
            if self.scale.bernoulli:
                cells = self._working_cells(cells, V[block])
            Q, q = normal_equations(cells, V[block], self.row_factors, free, self.n_threads)
            matrices.append(Q)
            vectors.append(q)
        return np.concatenate(matrices), np.concatenate(vectors)

    def _working_cells(self, cells: Observations, own: Factors) -> Observations:
        """Bernoulli cells as the squared ones of a Newton step: half the curvature as weight, at the working target."""
        row = np.repeat(np.arange(len(own)), cells.counts)
        z = np.einsum("kd,kd->k", own[row], self.row_factors[cells.indices], dtype=np.float64)
        p = expit(z)
        curvature = np.maximum(p * (1 - p), CURVATURE_FLOOR)
        targets = z - (p - cells.targets) / curvature
        return replace(cells, targets=targets, weights=0.5 * cells.weights * curvature, _transposed=[])

    def _backtrack(self, before: Factors) -> None:
        """Shorten the step of the classifiers until the loss does not rise."""
        after, value = self.classifier_factors.copy(), self._evaluated(before)
        length = 1.0
        while self._evaluated(before + length * (after - before)) > value and length > 1e-6:
            length /= 2
        if length <= 1e-6:
            self.classifier_factors[:] = before

    def _evaluated(self, classifiers: Factors) -> float:
        self.classifier_factors[:] = classifiers
        return self.objective()

    # ------------------------------------------------------------------ groups and aggregator

    def _prior(self) -> Floats | None:
        return None if self.groups is None or self.group_means is None else self.group_means[self.groups]

    def _update_groups(self) -> None:
        """mu_g = sum of its classifiers / (their number + 1), the minimiser of sum |v_j - mu_g|^2 + |mu_g|^2."""
        if self.groups is None or self.group_means is None:
            return
        start, stop = self.columns.classifier_free
        sums = np.zeros_like(self.group_means)
        np.add.at(sums, self.groups, self.classifier_factors[:, start:stop].astype(np.float64))
        self.group_means = sums / (np.bincount(self.groups, minlength=len(sums)) + 1)[:, None]

    @property
    def aggregator_weights(self) -> Floats:
        """(m,) weights of the log odds in the aggregator of the loss."""
        assert self.labels is not None
        return self.labels.aggregator.linear(self.columns.n_channels)[0]

    def label_vector(self) -> Floats:
        """(d,) v with u.v the aggregated log odds of a row with factors u."""
        assert self.labels is not None
        w, intercepts = self.labels.aggregator.linear(self.columns.n_channels)
        vector = self.scale.slope * (w @ self.classifier_factors.astype(np.float64))
        vector[: self.columns.n_channels] += intercepts + self.scale.shift * w.sum()
        return vector

    def update_aggregator(self) -> None:
        """Solve the aggregator of the loss to optimality on the present factors."""
        assert self.labels is not None
        known = self.labels.aggregator
        start = getattr(known, "coefficients", None)
        known.fit(self.design(self.labels.rows), self.labels.targets, self.labels.weights, start=start)

    def scores(self, rows: Any) -> Floats:
        """(r, m) reconstructed log odds."""
        z = self.row_factors[rows].astype(np.float64) @ self.classifier_factors.T.astype(np.float64)
        return np.asarray(self.scale.slope * z + self.scale.shift)

    def design(self, rows: Any) -> Design:
        """What the linear aggregator of the loss sees of some rows."""
        scores = self.scores(rows)
        shared = self.columns.shared
        return Design(
            scores,
            scores - scores.mean(axis=1, keepdims=True),
            self.channel[rows],
            self.columns.n_channels,
            self.row_factors[rows][:, shared].astype(np.float64),
            self.classifier_factors[:, shared].astype(np.float64),
        )

    # ------------------------------------------------------------------ the loss

    def penalty(self, side: int) -> float:
        """Side 1 holds everything that is not reconstruction or the rows' penalty: groups, labels, aggregator."""
        if side == 0:
            return self.problem.sides[0].cost(self.row_factors)
        prior = self._prior()
        cost = replace(self.problem.sides[1], prior=prior).cost(self.classifier_factors)
        if self.group_means is not None:
            cost += self.reg * float((self.group_means**2).sum())
        return cost + self._label_cost() + self._aggregator_cost()

    def _label_cost(self) -> float:
        if self.labels is None:
            return 0.0
        score = self.row_factors[self.labels.rows].astype(np.float64) @ self.label_vector()
        return self.labels.strength * float(self.labels.weights @ cross_entropy(score, self.labels.targets))

    def _aggregator_cost(self) -> float:
        if self.labels is None or self.labels.fixed:
            return 0.0
        return self.labels.strength * self.labels.aggregator.cost(self.columns.n_channels)

    def overlap(self) -> float:
        return 0.0  # there is no background

    def reconstruction(self) -> float:
        """sum c phi over all observed cells."""
        return sum(
            evaluate_cells(
                replace(self.problem, observations=cells),
                self.row_factors[rows],
                self.classifier_factors,
                self.n_threads,
            )["data"]
            for rows, cells in self.table.blocks(0)
        )

    def objective(self) -> float:
        """L times S / rho, for the present factors."""
        return self.reconstruction() + self.penalty(0) + self.penalty(1)

    def run(
        self,
        *,
        rho: float,
        total_weight: float,
        max_iter: int,
        tol: float,
        max_seconds: float | None = None,
        callbacks: Sequence[Callback] = (),
        verbose: int | bool = False,
    ) -> Outcome:
        """Sweeps of classifiers, groups, aggregator, rows. Records hold L as `total` and `objective`, and its parts."""
        scale = rho / total_weight
        n_cells = sum(len(cells) for _, cells in self.table.blocks(0))

        def describe(record: Record) -> None:
            supervised = self._label_cost()
            record["total"] = scale * record["objective"]
            record["reconstruction"] = scale * record.pop("data")
            record["supervised"] = scale * supervised
            record["penalty"] = scale * (record["penalty"] - supervised)
            record["rmse"] /= np.sqrt(max(n_cells, 1))
            del record["background"]

        outcome = alternate(
            self,
            order=(1, 0),
            max_iter=max_iter,
            tol=tol,
            max_seconds=max_seconds,
            callbacks=(describe, *callbacks),
            verbose=verbose,
            label="CFEnsemble",
        )
        for record in outcome.history:  # the loop itself compares objectives at the engine's scale
            record["objective"] = record["total"]
        return outcome
