"""From rows to fitted factors: where they start, the factorisation, and what labelled rows are without their labels.

Reads the parameters of the estimator it is mixed into. Must not know how rows were read, nor who predicts from factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.core.extrapolate import Extrapolation
from halfstep.core.initial import seed_from
from halfstep.engine.local import thread_count
from halfstep.ensemble.aggregators import DEFAULT_STRENGTH, WeightedAggregator
from halfstep.ensemble.columns import Columns
from halfstep.ensemble.combined import Factorisation, Labels
from halfstep.ensemble.factors import FusionFactors
from halfstep.ensemble.inputs import Rows, class_weights
from halfstep.ensemble.start import start_classifiers, start_rows
from halfstep.ensemble.table import Table, make_table, mean_weights, weights_of, without_labels

if TYPE_CHECKING:
    from halfstep.ensemble.spark.rows import SparkRows


class FittingMixin:
    """The factorisation of `CFEnsemble`."""

    _groups: NDArray[Any] | None

    def _factorise(
        self: Any,
        rows: Rows,
        start: NDArray[Any] | None,
        max_iter: int | None = None,
        rest: SparkRows | None = None,
        prepare: Callable[[Factorisation], Any] | None = None,
    ) -> None:
        """Minimise the combined loss from classifier factors `start`, or from where `init` says.

        rest : further rows, none of them labelled, that are on a cluster. prepare : called before the first sweep.
        """
        scale = self._scale()
        dtype = np.dtype(self.dtype).type
        columns = self._columns()
        confidence = self._confidence(*rows.P.shape)
        row_labels, channel = rows.row_labels, rows.channel
        table = make_table(rows.P, scale, confidence, row_labels, dtype)
        plain = without_labels(confidence)
        labelled = np.flatnonzero((row_labels >= 0) & ~np.isnan(rows.P).all(axis=1))
        label_free = None  # weights of labelled rows that have seen no label, where they differ
        if plain is not confidence:
            label_free = weights_of(labelled, rows.P, plain, row_labels, dtype, scale.weight)
        del rows
        seed = seed_from(self.random_state)
        if start is None:
            more = None if rest is None else rest.start
            V = start_classifiers(table, columns, channel, self.init, seed, dtype, more)
        else:
            V = start.astype(dtype)
        U = start_rows(columns, channel, self._row_features(), seed, self.init, dtype)
        session = Factorisation(
            table,
            columns,
            scale,
            self.reg,
            channel,
            U,
            V,
            groups=self._groups,
            n_threads=thread_count(self.n_threads),
            rest=rest,
        )
        total = table.total_weight() + (0.0 if rest is None else rest.total_weight)
        total = max(total, np.finfo(float).tiny)
        supervised = self.solver == "exact" and 0 < self.rho < 1 and len(labelled) > 0
        if self.init != "random" or start is not None or rest is not None:  # rows elsewhere have no numbers to start at
            session.solve_row_side()
        if supervised:
            session.labels = self._labels(session, labelled, row_labels, total)
            session.extrapolation = Extrapolation()
        if prepare is not None:
            prepare(session)
        outcome = session.run(
            rho=self.rho if supervised else 1.0,
            total_weight=total,
            max_iter=self.max_iter if max_iter is None else max_iter,
            tol=self.tol,
            max_seconds=self.max_seconds,
            callbacks=self.callbacks,
            verbose=self.verbose,
        )
        self.history_, self.converged_, self.n_iter_ = outcome.history, outcome.converged, len(outcome.history)
        table = Table(table.targets, table.weights)
        if label_free is not None and isinstance(table.weights, np.ndarray):
            table.weights[labelled] = label_free
        weights = table.mean_weights()
        if rest is not None and isinstance(table.weights, np.ndarray):
            sums, counts = table.weights_by_classifier()
            weights = mean_weights(sums + rest.weights, counts + rest.counts)
        self._factors = FusionFactors(
            columns, scale, self.reg, V, U, table, channel, plain, weights / scale.weight, session.n_threads
        )
        if supervised or label_free is not None:  # what labelled rows would be without their labels
            again = self._factors.take(labelled)
            again.solve_rows()
            U[labelled] = again.row_factors

    def _columns(self: Any) -> Columns:
        return Columns(self._n_channels, self._n_features, self._rank, self.biases)

    def _labels(self: Any, session: Factorisation, labelled: Any, row_labels: Any, total: float) -> Labels:
        mean = isinstance(self.aggregator, str) and self.aggregator == "mean"
        strength = DEFAULT_STRENGTH if self.shrinkage == "auto" else float(self.shrinkage)
        aggregator = WeightedAggregator(strength)
        aggregator.start(session.table.shape[1], self._n_channels)
        weights = self._row_weights(labelled)
        share = (1 - self.rho) / self.rho * total / weights.sum()
        labels = Labels(labelled, row_labels[labelled].astype(np.float64), weights, share, aggregator, fixed=mean)
        session.labels = labels
        if not mean:
            session.update_aggregator()
        return labels

    def _row_weights(self: Any, labelled: Any) -> Floats:
        """(r,) class weights of labelled rows, mean 1."""
        instances = labelled // self._n_channels
        return class_weights(self._y[instances], self.classes_, self.class_weight)
