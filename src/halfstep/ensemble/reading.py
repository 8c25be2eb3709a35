"""What a fit is given, read once: arrays, or a frame of which labelled rows come here and the others stay elsewhere.

Knows classifiers, labels and their columns; an engine hands over the instances. Must not know how they are fitted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.core.loop import Outcome
from halfstep.data.ids import Index
from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.columns import LatentColumns
from halfstep.ensemble.combined import CombinedSession
from halfstep.ensemble.elsewhere import BlockRecipe, DistributedRows, Wrong, out_of_range
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.fit import EnsembleFit, FittedInstances, factorise, learn
from halfstep.ensemble.inputs import InstanceRows, SideFeatures, read_features, read_groups, read_tasks
from halfstep.ensemble.naming import Naming, read_named
from halfstep.ensemble.predictions import PredictionWarning, read_labels
from halfstep.ensemble.settings import EnsembleSettings, check_labels
from halfstep.errors import one_of

if TYPE_CHECKING:
    from halfstep.engine.spark.instances import InstanceFrame

LABELLED_CELLS = 100_000_000
"""Cells of labelled instances that are brought to the driver: 0.8 GB of numbers, below what Spark lets a job return."""
_SHOWN_LABELS = 8
_UNMARKED = ("callbacks", "max_iter", "max_seconds", "n_threads", "tol", "verbose")
_DEPTH = 6  # of calls between a warning about labels and whoever called fit


@dataclass(frozen=True, eq=False)
class GivenInstances:
    """P (N, m) of the rows that are here, what is known about them, and the rows that are elsewhere.

    prepare : called with the session before its first sweep.
    """

    known: FittedInstances
    P: Floats
    columns: LatentColumns
    elsewhere: tuple[DistributedRows, ...] = ()
    prepare: Callable[[CombinedSession], object] | None = None

    def _run(self, settings: EnsembleSettings) -> tuple[EnsembleFactors, Outcome]:
        return factorise(settings, self.known, self.P, self.columns, elsewhere=self.elsewhere, prepare=self.prepare)

    def _starts(self, settings: EnsembleSettings) -> Iterator[EnsembleSettings]:
        """The start that `init` says, then random ones."""
        if settings.n_init > 1 and self.elsewhere:
            raise ValueError(f"n_init={settings.n_init} is for fits on one machine; rows elsewhere have one start")
        yield settings
        for number in range(1, settings.n_init):
            yield replace(settings, init="random", random_state=settings.seed + number)

    def fit(self, settings: EnsembleSettings) -> EnsembleFit:
        try:
            factors, outcome = min((self._run(each) for each in self._starts(settings)), key=_lowest)
            return learn(settings, self.known, factors, outcome, self.elsewhere)
        finally:
            for part in self.elsewhere:
                part.close()


def _lowest(found: tuple[EnsembleFactors, Outcome]) -> float:
    return found[1].objective


@dataclass(frozen=True, eq=False)
class EnsembleReader:
    """The arguments of `CFEnsemble.fit` beside P."""

    settings: EnsembleSettings
    y: Any
    features: Any
    groups: ArrayLike | None
    tasks: ArrayLike | None
    ids: Any = None

    def arrays(self, P: Any) -> GivenInstances:
        rows, naming = read_named(P, self.y, self.ids, self.settings.positive, _DEPTH)
        check_labels(rows, _DEPTH)
        m = rows.P.shape[1]
        rank = self.settings.chosen_rank(m)
        known = FittedInstances(
            rows.classes,
            rows.y,
            np.ndim(P) == 2 and naming.classes is None,
            groups=read_groups(self.groups, m),
            tasks=read_tasks(self.tasks, rows.n),
            features=SideFeatures.of(read_features(self.features, rows.n)),
            naming=naming,
        )
        q = 0 if known.features is None else len(known.features.mean)
        return GivenInstances(known, rows.P, LatentColumns(rows.n_channels, q, rank, self.settings.biases))

    def frame(self, frame: InstanceFrame) -> GivenInstances:
        """y names the column of labels; null, NaN and -1 mean unlabelled. features is a list of column names. All other
        numeric columns are the predictions of one classifier each, null or NaN where missing; columns of other kinds
        are passed by.
        """
        settings = self.settings
        if self.ids is not None:
            raise ValueError("ids name the rows of arrays; with SparkEngine the DataFrame keeps its columns of ids")
        if self.tasks is not None:
            raise ValueError("tasks are for fits on one machine; with SparkEngine fit one model for each task")
        predictions, features = _roles(frame, self.y, self.features)
        _check_confidence(settings)
        m, q = len(predictions), len(features)
        columns = LatentColumns(1, q, settings.chosen_rank(m), settings.biases)
        groups = read_groups(self.groups, m)
        frame.engine.check_executors()
        labels = FrameLabels.read(frame, self.y)
        labels.check_positive(settings.positive)
        if labels.labelled * (m + q) > LABELLED_CELLS:
            raise ValueError(
                f"{labels.labelled} labelled instances x {m} classifiers are more than the {LABELLED_CELLS:,} cells "
                "that the driver takes; labels of a sample teach the same: set the others to null"
            )
        moments = frame.moments(features) if features else None
        here = frame.rows_here([*predictions, *features], self.y, labels.codes)
        _refuse(out_of_range(here[:, :m]), predictions)
        rows = InstanceRows(here[:, :m], here[:, -1].astype(np.int64), labels.classes, 1)
        check_labels(rows, _DEPTH - 1)
        side = here[:, m:-1] if features else None
        names = {"predictions": predictions, "features": features}
        known = FittedInstances(
            labels.classes,
            rows.y,
            True,
            SideFeatures.of(side, moments),
            groups,
            frame_columns=names,
            naming=Naming(Index.range(rows.n), predictions),
        )
        elsewhere: tuple[DistributedRows, ...] = ()
        if labels.unlabelled:
            confidence = _unlabelled_weights(settings.weights_of_cells(rows.P.shape, 1), rows)
            recipe = BlockRecipe(m, settings.scale, confidence, moments, settings.number)
            V = columns.classifiers(m, settings.number)
            model = EnsembleFactors.without_rows(columns, settings.scale, settings.reg, V, confidence, 1)
            blocks = frame.blocks([*predictions, *features], self.y, labels.codes, recipe)
            try:
                elsewhere = (DistributedRows(blocks, model),)
                _refuse(elsewhere[0].wrong, predictions)
            except BaseException:
                blocks.unpersist()
                raise
        _warn_empty(rows.P, labels, predictions, elsewhere)
        parameters = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in _UNMARKED}
        prepare = frame.checkpoints(
            [*predictions, *features, self.y], None if groups is None else groups.tolist(), parameters
        )
        return GivenInstances(known, rows.P, columns, elsewhere, prepare)


# ---------------------------------------------------------------------- columns of a frame


def _roles(frame: InstanceFrame, y: Any, features: Any) -> tuple[list[str], list[str]]:
    """Columns with predictions, which are all numeric ones that are nothing else, and with features."""
    if not isinstance(y, str) or y not in frame.names:
        raise ValueError(
            f"y={y!r} must name the column with the labels, null where unknown, because the engine is SparkEngine; "
            f"P has {frame.names}"
        )
    named = [] if features is None else [features] if isinstance(features, str) else list(features)
    strange = [name for name in named if not isinstance(name, str) or name not in frame.names or name == y]
    if strange:
        raise ValueError(
            f"features names {strange[0]!r}, which is not a column of P beside the labels; with SparkEngine "
            f"features are names of numeric columns, and P has {frame.names}"
        )
    kinds = frame.kinds
    rest = {name: kind for name, kind in kinds.items() if name not in (y, *named)}
    lists = [name for name, kind in rest.items() if kind == "lists"]
    if lists:
        raise ValueError(
            f"column {lists[0]!r} holds a list of numbers for each instance; SparkEngine fuses two classes, with "
            "one column for each classifier that holds its probability of the second class"
        )
    found = [name for name, kind in rest.items() if kind == "numbers"]
    if not found:
        raise ValueError(f"P has no numeric column beside y={y!r}; each classifier needs one with probabilities")
    for name in named:
        if kinds[name] != "numbers":
            raise TypeError(f"the feature {name!r} holds {kinds[name]}, not numbers; encode it first")
    return found, named


@dataclass(frozen=True, eq=False)
class FrameLabels:
    """The classes of a label column, the codes of its values, and how many rows have a label and how many none."""

    classes: NDArray[Any]
    codes: dict[Any, int]
    labelled: int
    unlabelled: int

    @classmethod
    def read(cls, frame: InstanceFrame, name: str) -> FrameLabels:
        """Null, NaN and -1 mean unlabelled, as on one machine."""
        counts = frame.counts(name, _SHOWN_LABELS)
        if not counts:
            raise ValueError("P has no rows; a fit needs labelled instances")
        values = [value for value, _ in counts]
        if all(value is None or value != value or value == -1 for value in values):
            raise ValueError(
                f"column {name!r} has no label at all; a fit on a cluster learns from labelled instances of both "
                "classes. Without labels use fit(P) on one machine, whose answer is the mean of reconstructed scores"
            )
        read, classes = read_labels(values, len(values), max_classes=_SHOWN_LABELS)
        if len(classes) > 2:
            raise ValueError(
                f"column {name!r} has more than two classes, such as {classes[:3].tolist()}; SparkEngine fuses "
                "two: fuse each class against the rest"
            )
        codes = {value: code for value, code in zip(values, read.tolist(), strict=True) if code >= 0}
        labelled = sum(count for value, count in counts if value in codes)
        return cls(classes, codes, labelled, sum(count for _, count in counts) - labelled)

    def check_positive(self, positive: Any) -> None:
        """Refuse text labels of which nobody says which one P is about, and those that P is not about."""
        first, second = self.classes.tolist()
        if positive is not None:
            one_of("positive", positive, [first, second], "is not a label; the labels are")
        if positive == first or (positive is None and isinstance(second, str)):
            raise ValueError(
                f"the labels are {first!r} and {second!r}; on a cluster the predictions are those of the second: pass "
                f"positive={second!r}, with 1 - p in place of the columns where they are probabilities of {first!r}"
            )


# ---------------------------------------------------------------------- what is refused, and said


def _refuse(wrong: Wrong, columns: list[str]) -> None:
    """Raise if there are predictions outside [0, 1]."""
    if wrong:
        j, example, _ = wrong[0]
        raise ValueError(
            f"{sum(count for *_, count in wrong)} values are outside [0, 1], such as {example:g} in column "
            f"{columns[j]!r}; every numeric column of P but the labels and features holds the probabilities of a "
            "classifier, null or NaN where it says nothing. Drop what is none, such as an id"
        )


def _warn_empty(P: Floats, labels: FrameLabels, columns: list[str], elsewhere: Iterable[DistributedRows]) -> None:
    """Say which instances and classifiers have no prediction at all, here and elsewhere."""
    seen = ~np.isnan(P)
    counts, empty = seen.sum(axis=0), int((~seen.any(axis=1)).sum())
    for part in elsewhere:
        counts, empty = counts + part.weights[1], empty + part.empty
    silent = [columns[j] for j in np.flatnonzero(counts == 0)]
    told = [f"{empty} of {labels.labelled + labels.unlabelled} instances"] if empty else []
    told += [f"classifiers {', '.join(silent[:5])}{', ...' if len(silent) > 5 else ''}"] if silent else []
    if told:
        warnings.warn(
            f"no prediction at all for {' and '.join(told)}; nothing can be said there beyond the average",
            PredictionWarning,
            stacklevel=_DEPTH - 1,
        )


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
