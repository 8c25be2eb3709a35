"""What CFEnsemble gains from `SparkEngine`: fits and answers for DataFrames. Loads nothing of Spark until it is used.

Labelled instances come to the driver, where everything that looks at labels runs as it does on one machine. Unlabelled
ones stay on the cluster; classifiers know them by their sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.columns import LatentColumns
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.fit import EnsembleFit, FittedInstances, factorise, learn
from halfstep.ensemble.inputs import InstanceRows, SideFeatures, read_groups
from halfstep.ensemble.settings import EnsembleSettings, check_labels

if TYPE_CHECKING:
    from halfstep.ensemble.spark.frame import Instances
    from halfstep.ensemble.spark.rows import SparkRows

_PLAIN = ("probability", "prediction", "novelty")
_UNMARKED = ("callbacks", "engine", "max_iter", "max_seconds", "n_threads", "tol", "verbose")


def is_spark_frame(value: Any) -> bool:
    """Whether this is a Spark DataFrame; loads nothing of Spark."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql")


def fit_frame(
    settings: EnsembleSettings,
    parameters: Mapping[str, Any],
    engine: Any,
    P: Any,
    y: Any,
    features: Any,
    groups: ArrayLike | None,
    tasks: Any,
) -> EnsembleFit:
    """Fit on a DataFrame with one row for each instance.

    y names the column of labels; null, NaN and -1 mean unlabelled. features is a list of column names. All other
    numeric columns are the predictions of one classifier each, null or NaN where missing; columns of other kinds
    are passed by.
    """
    from halfstep.ensemble.spark.frame import Instances, Roles

    if tasks is not None:
        raise ValueError("tasks are for fits on one machine; with SparkEngine fit one model for each task")
    roles = Roles.read(P, y, features)
    _check_confidence(settings)
    m = len(roles.predictions)
    columns = LatentColumns(1, len(roles.features), settings.chosen_rank(m), settings.biases)
    by_group = read_groups(groups, m)
    engine.check_executors()
    given = Instances.read(P, roles)
    check_labels(given.rows)
    known = FittedInstances(
        given.rows.classes,
        given.rows.y,
        True,
        SideFeatures.of(given.features, given.moments),
        by_group,
        frame_columns={"predictions": roles.predictions, "features": roles.features},
    )
    elsewhere = [_rows_elsewhere(settings, engine, given, columns)] if given.labels.unlabelled else []
    given.warn_empty(elsewhere)
    try:
        prepare = _checkpointing(engine, parameters, given, known, elsewhere)
        factors, outcome = factorise(settings, known, given.rows.P, columns, elsewhere=elsewhere, prepare=prepare)
        return learn(settings, known, factors, outcome, elsewhere)
    finally:
        for part in elsewhere:
            part.unpersist()


def answer_frame(fit: EnsembleFit, P: Any, column: str | None = None) -> Any:
    """The DataFrame with all answers; or one of them beside what is neither prediction nor feature, such as an id."""
    from halfstep.ensemble.spark.scoring import score_frame

    names = fit.frame_columns
    if names is None:
        raise ValueError(
            "this model was fitted on arrays and knows no column names; fit it with engine=SparkEngine(spark), or "
            "pass arrays"
        )
    answered = score_frame(fit, P, names)
    if column is None:
        return answered
    return answered.drop(*names["predictions"], *names["features"], *(name for name in _PLAIN if name != column))


def _rows_elsewhere(settings: EnsembleSettings, engine: Any, known: Instances, columns: LatentColumns) -> SparkRows:
    from halfstep.ensemble.spark.frame import BlockRecipe, refuse_wrong
    from halfstep.ensemble.spark.rows import SparkRows

    m, dtype, scale = known.rows.P.shape[1], settings.number, settings.scale
    confidence = _unlabelled_weights(settings.weights_of_cells(known.rows.P.shape, 1), known.rows)
    recipe = BlockRecipe(m, scale, confidence, known.moments, dtype)
    V = columns.classifiers(m, dtype)
    model = EnsembleFactors.without_rows(columns, scale, settings.reg, V, confidence, 1)
    blocks = known.blocks(engine.n_blocks, recipe)
    try:
        rest = SparkRows(blocks, engine.n_blocks, model)
        refuse_wrong(rest.wrong, known.roles.predictions)
    except BaseException:
        blocks.unpersist()
        raise
    return rest


def _checkpointing(
    engine: Any, parameters: Mapping[str, Any], given: Instances, known: FittedInstances, elsewhere: list[SparkRows]
) -> Any:
    """What lets a factorisation write checkpoints and go on from them; None where nobody asks."""
    if engine.checkpoint is None:
        return None
    from halfstep.engine.spark.checkpoint import digest
    from halfstep.ensemble.spark.checkpoint import EnsembleCheckpoints

    params = {k: v for k, v in parameters.items() if k not in _UNMARKED}
    data = [given.rows.P, given.rows.y, given.features, *(part.mark for part in elsewhere), known.groups]
    mark = {
        "data": digest(b"".join(np.asarray([] if part is None else part).tobytes() for part in data)),
        "parameters": digest(repr(sorted(params.items())).encode()),
    }
    checkpoints = EnsembleCheckpoints(engine.spark, engine.checkpoint, engine.every, mark)
    return lambda session: checkpoints.attach(session, engine.resume)


def _check_confidence(settings: EnsembleSettings) -> None:
    plain = cell_weights.get(settings.confidence).without_labels()
    if not (plain.row_local or plain.by_classifier):
        shown = "an array" if isinstance(plain, cell_weights.Given) else repr(settings.confidence)
        raise ValueError(
            f"confidence={shown} looks at many instances at once, which SparkEngine does not bring together; use "
            "'uniform', 'certainty', 'agreement', 'calibration', 'label_aware', 'label_match' or an array of one "
            "weight for each classifier"
        )


def _unlabelled_weights(confidence: cell_weights.CellWeights, labelled: InstanceRows) -> cell_weights.CellWeights:
    """What weighs the cells of unlabelled instances, without looking at other instances."""
    plain = confidence.without_labels()
    if plain.row_local:
        return plain
    # What depends on labelled instances alone is the same for all others: that of one more, which has every cell.
    P = np.vstack([labelled.P, np.full(labelled.P.shape[1], 0.5)])
    return cell_weights.Given(plain.compute(P, ~np.isnan(P), np.append(labelled.y, -1))[-1])
