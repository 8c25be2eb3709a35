"""The combined loss of reconstruction and labels, and the half-steps that minimise it exactly.

    L =  rho [ sum_cells c (t - u_i.v_j)^2 + reg (sum |u_i|^2 + sum |v_j - mu_j|^2 + sum |mu_g|^2) ] / S
      +  (1 - rho) [ sum_labelled s_i CE(y_i, sigmoid(w'z_i + b)) + 1/2 sum penalty (theta - prior)^2 ] / W

S = sum of c over observed cells, W = sum of s over labelled rows: both terms are means, so rho means the same at any
size. z_i are the reconstructed log odds of all classifiers on row i, theta = (w, b) the aggregator. The Bernoulli loss
puts log(1 + e^z) - t z in place of the square. Inside, everything is multiplied by S / rho, the scale of the engine.

Every step lowers L: rows (each its own problem, one more logistic cell where there is a label), classifiers (jointly,
see `_joint_classifiers`), aggregator (a convex regression). Labelled rows are here; others may be elsewhere, known by
their sums alone (`parts`). Must not know predictions, names or classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from halfstep.core.arrays import Codes, Floats
from halfstep.core.extrapolate import Extrapolation
from halfstep.core.logistic import fit_logistic
from halfstep.core.loop import Callback, Record
from halfstep.core.problem import Problem
from halfstep.ensemble.columns import FactorArray
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.label_term import LabelTerm
from halfstep.ensemble.parts import PartSums, RowsElsewhere, best_classifiers, penalised

NEWTON_STEPS = 30
NEWTON_SETTLED = 1e-6  # of the largest classifier factor


@dataclass
class CombinedSession:
    """A fit under way: it solves the arrays of `factors` in place.

    It is a session of `core.loop`: side 0 are rows, side 1 classifiers, followed by groups and aggregator. `elsewhere`
    are further rows; `share` = rho / S takes what is summed inside to the scale of L, which its records have.
    """

    factors: EnsembleFactors
    groups: Codes | None = None
    elsewhere: Sequence[RowsElsewhere] = ()
    labels: LabelTerm | None = None
    share: float = 1.0
    group_means: Floats | None = None
    problem: Problem = field(init=False)
    past: Sequence[Record] = ()
    callbacks: Sequence[Callback] = ()
    extrapolation: Extrapolation | None = None
    """Proposes where classifiers and aggregator go next; None leaves them where a sweep put them."""
    lowest: float = np.inf
    """The objective after the last sweep, where sweeps are extrapolated."""
    reached: float | None = None
    """None: the loop leaves its sweeps alone."""
    _settled: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.problem = self.factors.problem
        if self.groups is not None and self.group_means is None:
            self.group_means = np.zeros((int(self.groups.max()) + 1, self._free_columns.shape[1]))

    @property
    def _free_columns(self) -> FactorArray:
        """(m, f) a view of what is solved of the classifiers."""
        start, stop = self.factors.columns.classifier_free
        return self.factors.classifier_factors[:, start:stop]

    # ------------------------------------------------------------------ half-steps

    epsilon: ClassVar[float] = 0.0
    stalled: ClassVar[Sequence[int]] = ()

    def begin(self, side: int) -> None:
        """Nothing is kept: every step of this loss is guarded by its own value."""

    def widen(self) -> bool:
        return False

    def leap(self, side: int) -> bool:
        return False  # classifiers are extrapolated within their half-step

    def retreat(self) -> None:
        """Nothing has moved."""

    def finish(self) -> None:
        """Every half-step is solved to the end."""

    def rounded(self) -> None:
        return None

    def half_step(self, side: int, evaluate: bool = False) -> dict[str, float]:
        if side == 0:
            return self.solve_row_side(evaluate) if self.extrapolation is None else self._guarded_row_side()
        if self.extrapolation is None:
            self._solve_classifiers_and_aggregator()
        else:
            before = self._free_values()
            self._solve_classifiers_and_aggregator()
            self._settled = self._free_values()
            self._set_free_values(self.extrapolation.propose(before, self._settled))
        return {}

    def _solve_classifiers_and_aggregator(self) -> None:
        if self.labels is not None and np.any(self.labels.score_weights(self.factors)):
            self._joint_classifiers(self.labels)
        else:
            self.solve_classifier_side()
        self._update_groups()
        if self.labels is not None:
            self.labels.update(self.factors)

    def _guarded_row_side(self) -> dict[str, float]:
        """Rows against what was proposed; against what the sweep itself found, where that leaves the loss higher."""
        total = self.solve_row_side(evaluate=True)
        value = self._value(total)
        if not value <= self.lowest:
            assert self.extrapolation is not None
            self.extrapolation.forget()
            self._set_free_values(self._settled)
            total = self.solve_row_side(evaluate=True)
            value = self._value(total)
        self.lowest = value
        return total

    def _free_values(self) -> Floats:
        """Classifiers and, unless it is fixed, the aggregator, as one vector."""
        values = self._free_columns.astype(np.float64).ravel()
        return values if self.labels is None else np.append(values, self.labels.free)

    def _set_free_values(self, values: Floats) -> None:
        V = self._free_columns
        V[:] = values[: V.size].reshape(V.shape)
        if self.labels is not None:
            self.labels.free = values[V.size :]
        self._update_groups()

    def solve_row_side(self, evaluate: bool = False) -> dict[str, float]:
        """Every row against the classifiers, in place; labelled rows with their label."""
        total = self.factors.solve_rows(evaluate, None if self.labels is None else self.labels.cell(self.factors))
        if evaluate and not self.factors.scale.loss.is_quadratic:
            total["data"] -= self._label_cost()  # there the label is one more cell of the same loss
        for part in self.elsewhere:
            more = part.solve(self.factors.classifier_factors)
            total = {name: value + more[name] for name, value in total.items()}
        return total

    def solve_classifier_side(self) -> None:
        """Every classifier against the rows, without labels, in place.

        Rows elsewhere have sums alone: the minimiser of the summed quadratics, or, where those are of Newton steps, as
        many as move something, shortened until the loss falls.
        """
        if not self.elsewhere:
            self.factors.solve_classifiers(self._prior())
            return
        V = self.factors.classifier_factors
        for _ in range(NEWTON_STEPS):
            before = V.copy()
            self._free_columns[:] = best_classifiers(*self.normal_equations(), self.factors.reg, self._prior())
            settled = np.abs(V - before).max() <= NEWTON_SETTLED * np.abs(before).max()
            if self.factors.scale.loss.is_quadratic or settled:
                break
            self._backtrack(before)

    def _joint_classifiers(self, labels: LabelTerm) -> None:
        """All classifiers at once, exactly, although the labels couple them.

        Labels see the classifiers only through g = sum_j a_j v_j. With 1/2 v'A_j v - r_j'v the quadratic of classifier
        j and v0_j = A_j^-1 r_j its own optimum, the best v for a given g is v_j = v0_j + a_j A_j^-1 mu, so that
        g = g0 + M mu with M = sum a_j^2 A_j^-1. What is left is a logistic regression for g under the Gaussian prior
        (g0, M), whitened by M = L L' to the unit one. The Bernoulli loss has the quadratic of its Newton step there,
        and the step is shortened until the loss falls.
        """
        V, before = self._free_columns, self.factors.classifier_factors.copy()
        start, stop = self.factors.columns.classifier_free
        a = labels.score_weights(self.factors)
        matrices, vectors = penalised(*self.normal_equations(), self.factors.reg, self._prior())
        inverse = np.linalg.inv(matrices)
        alone = np.einsum("jkl,jl->jk", inverse, vectors)
        root = scipy.linalg.cholesky(np.einsum("j,jkl->kl", a**2, inverse), lower=True)
        U = self.factors.row_factors[labels.rows].astype(np.float64)
        rest = labels.vector(self.factors)
        rest[start:stop] -= a @ V
        offset = U @ rest + U[:, start:stop] @ (a @ alone)
        unit, half = np.ones(V.shape[1]), 0.5 * labels.strength * labels.weights
        y = fit_logistic(U[:, start:stop] @ root, labels.targets, half, unit, 0 * unit, offset)
        mu = scipy.linalg.solve_triangular(root, y, lower=True, trans="T")
        V[:] = alone + a[:, None] * (inverse @ mu)
        if not self.factors.scale.loss.is_quadratic:
            self._backtrack(before)

    def normal_equations(self) -> tuple[Floats, Floats]:
        """(m, f, f) and (m, f): the quadratic of every classifier on its cells; of a Newton step for Bernoulli."""
        matrices, vectors = self.factors.normal_equations()
        for more in self._sums_elsewhere():
            matrices, vectors = matrices + more.matrices, vectors + more.vectors
        return matrices, vectors

    def _sums_elsewhere(self) -> list[PartSums]:
        return [part.sums(self.factors.classifier_factors) for part in self.elsewhere]

    def _backtrack(self, before: FactorArray) -> None:
        """Shorten the step of the classifiers until the loss does not rise."""
        after, value = self.factors.classifier_factors.copy(), self._evaluated(before)
        length = 1.0
        while self._evaluated(before + length * (after - before)) > value and length > 1e-6:
            length /= 2
        if length <= 1e-6:
            self.factors.classifier_factors[:] = before

    def _evaluated(self, classifiers: FactorArray) -> float:
        self.factors.classifier_factors[:] = classifiers
        return self.objective()

    # ------------------------------------------------------------------ groups

    def _prior(self) -> Floats | None:
        return None if self.groups is None or self.group_means is None else self.group_means[self.groups]

    def _update_groups(self) -> None:
        """mu_g = sum of its classifiers / (their number + 1), the minimiser of sum |v_j - mu_g|^2 + |mu_g|^2."""
        if self.groups is None or self.group_means is None:
            return
        sums = np.zeros_like(self.group_means)
        np.add.at(sums, self.groups, self._free_columns.astype(np.float64))
        self.group_means = sums / (np.bincount(self.groups, minlength=len(sums)) + 1)[:, None]

    # ------------------------------------------------------------------ the loss

    def penalty(self, side: int) -> float:
        """Side 1 holds everything that is not reconstruction or the rows' penalty: groups, labels, aggregator."""
        if side == 0:
            return self.factors.penalty() + sum(more.penalty for more in self._sums_elsewhere())
        cost = replace(self.problem.sides[1], prior=self._prior()).cost(self.factors.classifier_factors)
        if self.group_means is not None:
            cost += self.factors.reg * float((self.group_means**2).sum())
        return cost + self._label_cost() + (0.0 if self.labels is None else self.labels.aggregator_cost(self.factors))

    def _label_cost(self) -> float:
        return 0.0 if self.labels is None else self.labels.cost(self.factors)

    def overlap(self) -> float:
        return 0.0  # there is no background

    def objective(self) -> float:
        """L times S / rho, for the present factors."""
        data = self.factors.reconstruction() + sum(more.data for more in self._sums_elsewhere())
        return data + self.penalty(0) + self.penalty(1)

    def _value(self, sums: Mapping[str, float]) -> float:
        """The objective from the sums of rows just solved."""
        return sums["data"] + (self.penalty(0) + self.penalty(1))

    def measure(self, sums: Mapping[str, float]) -> Record:
        """L as `objective` and `total`, its parts, and how far the rows just solved went."""
        penalty, supervised = self.penalty(0) + self.penalty(1), self._label_cost()
        total = self.share * (sums["data"] + penalty)
        n_cells = self.factors.table.n_observed + sum(part.n_cells for part in self.elsewhere)
        return {
            "objective": total,
            "total": total,
            "reconstruction": self.share * sums["data"],
            "supervised": self.share * supervised,
            "penalty": self.share * (penalty - supervised),
            "rmse": float(np.sqrt(sums["squares"] / max(n_cells, 1))),
            "change": float(np.sqrt(sums["change"] / max(sums["size"], 1e-300))),
            **{name: sums[name] for name in ("gap", "steps", "repaired")},
        }

    # ------------------------------------------------------------------ checkpoints

    def state(self) -> dict[str, Any]:
        """What a fit needs to go on, by name: arrays or None. Rows elsewhere follow from the classifiers."""
        seen = self.extrapolation
        return {
            "classifiers": self.factors.classifier_factors,
            "rows": self.factors.row_factors,
            "groups": self.group_means,
            "aggregator": None if self.labels is None else self.labels.aggregator.coefficients,
            "sweeps": None if seen is None else np.array([seen.before, seen.after]),
            "lowest": np.array(self.lowest),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
        self.factors.classifier_factors[:] = state["classifiers"]
        self.factors.row_factors[:] = state["rows"]
        self.group_means = state["groups"]
        if self.labels is not None:
            self.labels.aggregator.coefficients = state["aggregator"]
        if self.extrapolation is not None:
            self.extrapolation.before, self.extrapolation.after = map(list, state["sweeps"])
            self.lowest = float(state["lowest"])
        for part in self.elsewhere:
            part.solve(self.factors.classifier_factors)
