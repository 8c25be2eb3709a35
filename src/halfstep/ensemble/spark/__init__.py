"""What CFEnsemble gains from `SparkEngine`: fits and answers for DataFrames. Loads nothing of Spark until it is used.

Labelled instances come to the driver, where everything that looks at labels runs as it does on one machine. Unlabelled
ones stay on the cluster; classifiers know them by their sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.factors import FusionFactors
from halfstep.ensemble.inputs import Rows, read_groups
from halfstep.ensemble.table import is_row_local, without_labels

if TYPE_CHECKING:
    from halfstep.ensemble.spark.frame import Instances
    from halfstep.ensemble.spark.rows import SparkRows

_PLAIN = ("probability", "prediction", "novelty")
_UNMARKED = ("callbacks", "engine", "max_iter", "max_seconds", "n_threads", "tol", "verbose")


def is_spark_frame(value: Any) -> bool:
    """Whether this is a Spark DataFrame; loads nothing of Spark."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql")


def _meets_frames(model: Any) -> bool:
    return model.engine is not None or hasattr(model, "frame_columns_")


class OnSparkMixin:
    """Methods of `CFEnsemble` for Spark DataFrames."""

    frame_columns_: dict[str, list[str]]
    _tasks: NDArray[Any] | None

    def _fit_frame(self: Any, P: Any, y: Any, features: Any, groups: ArrayLike | None, tasks: Any) -> Any:
        """Fit on a DataFrame with one row for each instance.

        y names the column of labels; null, NaN and -1 mean unlabelled. features is a list of column names. All other
        numeric columns are the predictions of one classifier each, null or NaN where missing; columns of other kinds
        are passed by.
        """
        from halfstep.ensemble.spark.frame import Instances, Roles

        if tasks is not None:
            raise ValueError("tasks are for fits on one machine; with SparkEngine fit one model for each task")
        roles = Roles.read(P, y, features)
        self._check_frame_confidence()
        m = len(roles.predictions)
        self._rank, self._groups = self._chosen_rank(m), read_groups(groups, m)
        self.engine.check_executors()
        known = Instances.read(P, roles)
        self._check_labels(known.rows)
        self.classes_, self.n_features_in_ = known.rows.classes, m
        self._n_channels, self._y, self._flat, self._tasks = 1, known.rows.y, True, None
        self._standardise(known.features, known.moments)
        rest = self._rows_elsewhere(known) if known.labels.unlabelled else None
        known.warn_empty(rest)
        try:
            self._factorise(known.rows, None, rest=rest, prepare=self._checkpointing(known, rest))
            self._learn(rest)
        finally:
            if rest is not None:
                rest.unpersist()
        self.frame_columns_ = {"predictions": roles.predictions, "features": roles.features}
        return self

    @available_if(_meets_frames)  # type: ignore[untyped-decorator]  # scikit-learn is untyped
    def transform(self: Any, P: Any) -> Any:
        """A Spark DataFrame with three more columns, one answer for each row, folded in where the row is.

        probability : array<double>, in the order of `classes_`; prediction : the most probable label; novelty : double.
        P needs the prediction and feature columns of the fit; all its columns are kept.
        """
        from halfstep.ensemble.spark.scoring import score_frame

        check_is_fitted(self, "classes_")
        return score_frame(self, P, self._frame_columns())

    def _answer_frame(self: Any, P: Any, column: str) -> Any:
        """DataFrame with one column of `transform` beside what is neither prediction nor feature, such as an id."""
        names = self._frame_columns()
        others = [name for name in _PLAIN if name != column]
        return self.transform(P).drop(*names["predictions"], *names["features"], *others)

    def _frame_columns(self: Any) -> dict[str, list[str]]:
        if not hasattr(self, "frame_columns_"):
            raise ValueError(
                "this model was fitted on arrays and knows no column names; fit it with engine=SparkEngine(spark), or "
                "pass arrays"
            )
        columns: dict[str, list[str]] = self.frame_columns_
        return columns

    def _need_here(self: Any, method: str) -> None:
        """Refuse questions about fitted instances, of which the unlabelled ones are not here."""
        if hasattr(self, "frame_columns_"):
            raise ValueError(
                f"{method}() without P answers for the fitted instances, which a model fitted by SparkEngine leaves on "
                f"the cluster; pass the DataFrame, {method}(df), or use transform(df)"
            )

    # ------------------------------------------------------------------ pieces of the fit

    def _rows_elsewhere(self: Any, known: Instances) -> SparkRows:
        from halfstep.ensemble.spark.frame import BlockRecipe, refuse_wrong
        from halfstep.ensemble.spark.rows import SparkRows

        m = known.rows.P.shape[1]
        dtype, columns, scale = np.dtype(self.dtype).type, self._columns(), self._scale()
        confidence = _unlabelled_weights(self._confidence(*known.rows.P.shape), known.rows)
        recipe = BlockRecipe(m, scale, confidence, known.moments, dtype)
        model = FusionFactors.without_rows(columns, scale, self.reg, columns.classifiers(m, dtype), confidence, 1)
        n_blocks = self.engine.n_blocks
        blocks = known.blocks(n_blocks, recipe)
        try:
            rest = SparkRows(blocks, n_blocks, model)
            refuse_wrong(rest.wrong, known.roles.predictions)
        except BaseException:
            blocks.unpersist()
            raise
        return rest

    def _checkpointing(self: Any, known: Instances, rest: SparkRows | None) -> Any:
        """What lets a factorisation write checkpoints and go on from them; None where nobody asks."""
        engine = self.engine
        if engine.checkpoint is None:
            return None
        from halfstep.engine.spark.checkpoint import digest
        from halfstep.ensemble.spark.checkpoint import EnsembleCheckpoints

        params = {k: v for k, v in self.get_params(deep=False).items() if k not in _UNMARKED}
        data = [known.rows.P, known.rows.y, known.features, [] if rest is None else rest.mark, self._groups]
        mark = {
            "data": digest(b"".join(np.asarray([] if part is None else part).tobytes() for part in data)),
            "parameters": digest(repr(sorted(params.items())).encode()),
        }
        checkpoints = EnsembleCheckpoints(engine.spark, engine.checkpoint, engine.every, mark)
        return lambda session: checkpoints.attach(session, engine.resume)

    def _check_frame_confidence(self: Any) -> None:
        given = cell_weights.get(self.confidence)
        plain = without_labels(given)
        by_classifier = isinstance(plain, cell_weights.Given) and np.ndim(plain.array) <= 1
        if not (is_row_local(plain) or isinstance(plain, cell_weights.Calibration) or by_classifier):
            shown = "an array" if isinstance(plain, cell_weights.Given) else repr(self.confidence)
            raise ValueError(
                f"confidence={shown} looks at many instances at once, which SparkEngine does not bring together; use "
                "'uniform', 'certainty', 'agreement', 'calibration', 'label_aware', 'label_match' or an array of one "
                "weight for each classifier"
            )


def _unlabelled_weights(confidence: cell_weights.CellWeights, labelled: Rows) -> cell_weights.CellWeights:
    """What weighs the cells of unlabelled instances, without looking at other instances."""
    plain = without_labels(confidence)
    if is_row_local(plain):
        return plain
    # What depends on labelled instances alone is the same for all others: that of one more, which has every cell.
    P = np.vstack([labelled.P, np.full(labelled.P.shape[1], 0.5)])
    return cell_weights.Given(plain.compute(P, ~np.isnan(P), np.append(labelled.y, -1))[-1])
