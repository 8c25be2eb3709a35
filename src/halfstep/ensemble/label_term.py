"""What labels add to the combined loss: labelled rows and the linear aggregator that is held against them.

    strength [ sum_labelled s_i CE(y_i, w'z_i + b) + 1/2 sum penalty (theta - prior)^2 ],   z_i the log odds of row i

Knows factors; must not know how they are solved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.core.logistic import cross_entropy
from halfstep.engine.local import LabelCell
from halfstep.ensemble.aggregators import WeightedAggregator
from halfstep.ensemble.factors import EnsembleFactors


@dataclass
class LabelTerm:
    """rows (r,), targets (r,) 0 or 1, weights (r,) class weights s; theta = (w, b) are those of `aggregator`.

    strength = (1 - rho) S / (rho W), so that row i has a logistic cell of weight strength * weights_i. `fixed`: the
    aggregator is the mean and stays it.
    """

    rows: Codes
    targets: Floats
    weights: Floats
    strength: float
    aggregator: WeightedAggregator
    fixed: bool = False

    @property
    def free(self) -> Floats:
        """Coefficients of the aggregator that are solved for: all of them, or none."""
        return np.zeros(0) if self.fixed else self.aggregator.coefficients

    @free.setter
    def free(self, values: Floats) -> None:
        if not self.fixed:
            self.aggregator.coefficients = values.copy()

    def score_weights(self, factors: EnsembleFactors) -> Floats:
        """(m,) weights of the scores z in the aggregated log odds."""
        return factors.scale.slope * self.aggregator.on_scores(factors.columns.n_channels)[0]

    def vector(self, factors: EnsembleFactors) -> Floats:
        """(d,) v with u.v the aggregated log odds of a row with factors u."""
        k, scale = factors.columns.n_channels, factors.scale
        w, intercepts = self.aggregator.on_scores(k)
        vector: Floats = scale.slope * (w @ factors.classifier_factors.astype(np.float64))
        vector[:k] += intercepts + scale.shift * w.sum()
        return vector

    def cell(self, factors: EnsembleFactors) -> LabelCell:
        """One more cell of every row; without weight where there is no label."""
        targets, weights = np.zeros(len(factors.row_factors)), np.zeros(len(factors.row_factors))
        targets[self.rows], weights[self.rows] = self.targets, self.strength * self.weights
        return LabelCell(self.vector(factors), targets, weights)

    def update(self, factors: EnsembleFactors) -> None:
        """Solve the aggregator to optimality on the present factors, unless it is fixed."""
        if not self.fixed:
            design = factors.design(self.rows)
            self.aggregator.fit(design, self.targets, self.weights, start=self.aggregator.coefficients)

    def cost(self, factors: EnsembleFactors) -> float:
        """Of the labels."""
        score = factors.row_factors[self.rows].astype(np.float64) @ self.vector(factors)
        return self.strength * float(self.weights @ cross_entropy(score, self.targets))

    def aggregator_cost(self, factors: EnsembleFactors) -> float:
        return 0.0 if self.fixed else self.strength * self.aggregator.cost(factors.columns.n_channels)
