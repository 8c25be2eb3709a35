"""Many sites, one model; no prediction, label or instance factor leaves its site.

A round: every site calls `accumulate` on a copy of the model with its own data and sends back sums; `merge` adds them
up and takes the model one sweep further. What travels is a d x d matrix for each classifier, and the gradient and
curvature of the aggregator. Sums over sites are sums over all instances, so the result is that of `fit` on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep.core.arrays import Floats
from halfstep.engine.local import thread_count
from halfstep.ensemble.aggregators import WeightedAggregator, make_aggregator
from halfstep.ensemble.columns import Columns
from halfstep.ensemble.factors import FusionFactors
from halfstep.ensemble.fusion import Fusion
from halfstep.ensemble.inputs import Rows, read_rows
from halfstep.ensemble.parts import SiteSums, best_classifiers
from halfstep.ensemble.predictions import expit
from halfstep.ensemble.start import StartSums
from halfstep.ensemble.table import Table, is_row_local, make_table, make_weights, without_labels

LONGEST_STEP = 2.0  # of an aggregator coefficient in one round: far from the optimum Newton may overshoot
SETTLED = 1e-9


class FederatedMixin:
    """`accumulate` at the sites, `merge` at the centre, again and again until `merge` answers True."""

    def accumulate(self: Any, P: Any, y: ArrayLike) -> SiteSums:
        """Sums over this site's instances for the present round.

        P : (n, m) predictions, NaN where missing; y : (n,) 0 or 1, NaN where unlabelled. Needs solver="als" or rho=1, a
        number as shrinkage, aggregator="weighted" or "mean", calibrate=False, and confidences that look at one instance
        at a time.
        """
        self._check_federated()
        rows = read_rows(P, y)
        if rows.n_channels != 1 or rows.classes.tolist() != [0, 1]:
            raise ValueError("a federated fit has the classes 0 and 1, so that every site names them alike")
        self._n_channels = 1
        scale, dtype = self._scale(), np.dtype(self.dtype).type
        table = make_table(rows.P, scale, self._confidence(*rows.P.shape), rows.y, dtype)
        state = self.__dict__.get("_federated")
        if state is None:
            columns = Columns(1, 0, self._chosen_rank(table.shape[1]), self.biases)
            start = StartSums.of(table, columns, rows.channel)
            labels = np.bincount(rows.y[rows.y >= 0], minlength=2).astype(np.float64)
            return SiteSums("start", {"start": start, "labels": labels, "total": table.total_weight()})
        factors = self._factors.with_rows(table, rows.channel, None)
        factors.solve_rows()
        return SiteSums("sweep", {"rows": factors.sums(), **self._aggregator_sums(factors, rows, state)})

    def merge(self: Any, sites: Sequence[SiteSums]) -> bool:
        """Take the sums of all sites one round further; True when the model is finished and can predict."""
        self._check_federated()
        total = sites[0]
        for more in sites[1:]:
            total = total + more
        wanted = "sweep" if "_federated" in self.__dict__ else "start"
        if total.stage != wanted:
            raise ValueError(
                f"the sites answered {total.stage!r}, but this round is {wanted!r}; send them the new model"
            )
        return bool(self._begin(total.sums) if wanted == "start" else self._advance(total.sums))

    def _begin(self: Any, sums: dict[str, Any]) -> bool:
        if sums["labels"].min() == 0:
            raise ValueError(f"the sites have {sums['labels'].tolist()} labels of the classes 0 and 1; both are needed")
        m = len(sums["start"].centred)
        self._rank, self._n_channels, self._n_features, self._features = self._chosen_rank(m), 1, 0, None
        columns, dtype = self._columns(), np.dtype(self.dtype).type
        aggregator = make_aggregator(self.aggregator, self.shrinkage, self._scale().shift != 0)
        if isinstance(aggregator, WeightedAggregator):
            aggregator.start(columns.rank if self.on == "latent" else m, 1)
        self._factors = FusionFactors.without_rows(
            columns,
            self._scale(),
            self.reg,
            sums["start"].classifiers(columns, dtype),
            without_labels(self._confidence(0, m)),
            thread_count(self.n_threads),
        )
        self._fusion = Fusion(self._form(), 1, aggregator, np.zeros(1))
        self._federated = {"labels": sums["labels"], "total": sums["total"], "sweep": 0, "swept": False}
        self.history_: list[dict[str, float]] = []
        return False

    def _advance(self: Any, sums: dict[str, Any]) -> bool:
        state, factors = self._federated, self._factors
        start, stop = factors.columns.classifier_free
        V = factors.classifier_factors
        if not state["swept"]:
            penalty = sums["rows"].penalty + self.reg * float((V[:, start:stop].astype(np.float64) ** 2).sum())
            objective = (sums["rows"].data + penalty) / state["total"]
            if state["sweep"]:  # the first round only solves rows, as the start of `fit` does
                self.history_.append({"iteration": state["sweep"], "total": objective, "objective": objective})
            last = [record["total"] for record in self.history_[-2:]]
            settled = len(last) == 2 and abs(last[0] - last[1]) <= self.tol * abs(last[1])
            state["swept"] = settled or state["sweep"] >= self.max_iter
        if state["swept"]:
            step = self._aggregator_step(sums)
            if step <= SETTLED:
                self._finish(sums)
            return bool(step <= SETTLED)
        V[:, start:stop] = best_classifiers(sums["rows"].matrices, sums["rows"].vectors, self.reg)
        state["sweep"] += 1
        return False

    def _finish(self: Any, sums: dict[str, Any]) -> None:
        self.classes_, self.n_features_in_ = np.array([0, 1]), len(self._factors.classifier_factors)
        self.n_iter_, self.converged_ = len(self.history_), len(self.history_) < self.max_iter
        self._fusion.noise = float(sums["left"] / max(sums["weight"], np.finfo(float).tiny))
        self._y, self._tasks, self._groups, self._flat = np.zeros(0, np.int64), None, None, True
        self._proba, self.novelty_, self._novelty_threshold = np.zeros((0, 2)), np.zeros(0), np.inf
        self._fit_stacker()
        del self._federated

    # ------------------------------------------------------------------ pieces

    def _aggregator_sums(self: Any, factors: FusionFactors, rows: Rows, state: dict[str, Any]) -> dict[str, Any]:
        """Gradient and curvature of the aggregator's loss on rows solved without labels, and what noise is made of."""
        dtype, weigh = factors.classifier_factors.dtype.type, factors.scale.weight
        plain = make_weights(rows.P, factors.confidence, np.full(rows.n, -1), dtype, weigh)
        free = factors.with_rows(Table(factors.table.targets, plain), rows.channel, None)
        free.solve_rows()
        residuals = free.residuals()
        sums = {"left": residuals.left.sum(), "weight": residuals.weight.sum()}
        if not isinstance(self._fusion.aggregator, WeightedAggregator):
            return sums
        labelled = np.flatnonzero((rows.y >= 0) & ~np.isnan(rows.P).all(axis=1))
        X = self._fusion.aggregator.features(free.design(labelled, self._form()))
        truth = rows.y[labelled].astype(np.float64)
        counts = state["labels"]
        by_class = counts.sum() / (2 * counts) if self.class_weight == "balanced" else np.ones(2)
        s = by_class[rows.y[labelled]]
        p = expit(X @ self._fusion.aggregator.coefficients)
        return sums | {"gradient": X.T @ (s * (p - truth)), "hessian": (X * (s * p * (1 - p))[:, None]).T @ X}

    def _aggregator_step(self: Any, sums: dict[str, Any]) -> float:
        """One Newton step of the aggregator; how far it went, relative to the coefficients."""
        aggregator = self._fusion.aggregator
        if not isinstance(aggregator, WeightedAggregator):
            return 0.0
        penalty, prior = aggregator.penalty(1)
        gradient: Floats = sums["gradient"] + penalty * (aggregator.coefficients - prior)
        step = np.linalg.solve(sums["hessian"] + np.diag(penalty), gradient)
        step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
        aggregator.coefficients = aggregator.coefficients - step
        return float(np.abs(step).max() / (1 + np.abs(aggregator.coefficients).max()))

    def _check_federated(self: Any) -> None:
        self._check_parameters()
        self._n_channels = 1
        reasons = {
            "solver='als' or rho=1: the exact solver's labels tie the sites together": self.solver == "als"
            or self.rho == 1,
            "shrinkage as a finite number: 'auto' would need folds across sites": not isinstance(self.shrinkage, str)
            and np.isfinite(self.shrinkage),
            "aggregator='weighted' or 'mean'": self.aggregator in ("weighted", "mean"),
            "calibrate=False or class_weight=None": not self.calibrate or self.class_weight is None,
            "class_weight='balanced' or None": self.class_weight in ("balanced", None),
            "init='svd'": self.init == "svd",
            "loss='squared'": self.loss == "squared",
            "a confidence that looks at one instance at a time": is_row_local(self._confidence(1, 1)),
        }
        for needed, holds in reasons.items():
            if not holds:
                raise ValueError(f"a federated fit needs {needed}")
