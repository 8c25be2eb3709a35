"""Frames of instances on a cluster: which columns hold what, the labelled rows brought here, and what is refused.

Knows columns, classes and predictions; an engine hands over the frame. Must not know what is fitted to them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from halfstep.core.arrays import Floats
from halfstep.data.ids import Index
from halfstep.ensemble.inputs import InstanceRows, SideFeatures
from halfstep.ensemble.naming import Naming
from halfstep.ensemble.predictions import PredictionWarning, read_labels
from halfstep.errors import one_of

if TYPE_CHECKING:
    from halfstep.engine.spark.instances import InstanceBlocks, InstanceFrame

LABELLED_CELLS = 100_000_000
"""Cells of labelled instances that are brought to the driver: 0.8 GB of numbers, below what Spark lets a job return."""
_SHOWN_LABELS = 8
_DEPTH = 6  # of calls between a warning about labels and whoever called fit
Wrong = list[tuple[int, float, int]]
"""(column, example, count) of every column with a value outside [0, 1]."""
Block = TypeVar("Block")


@dataclass(frozen=True, eq=False)
class FramedInstances:
    """A frame whose columns have roles: rows, those with a label, are here; the others stay where they are.

    moments : mean and deviation of the features over all rows, or None.
    """

    frame: InstanceFrame
    label: str
    predictions: list[str]
    features: list[str]
    labels: FrameLabels
    rows: InstanceRows
    side: SideFeatures | None
    moments: tuple[Floats, Floats] | None

    @classmethod
    def read(
        cls,
        frame: InstanceFrame,
        y: Any,
        features: Any,
        ids: Any,
        positive: Any,
        check: Callable[[int], object],
    ) -> FramedInstances:
        """y names the column of labels; null, NaN and -1 mean unlabelled. features is a list of column names. All other
        numeric columns are the predictions of one classifier each, null or NaN where missing; columns of other kinds
        are passed by. check : is told the number of classifiers before any work.
        """
        if ids is not None:
            raise ValueError("ids name the rows of arrays; with SparkEngine the DataFrame keeps its columns of ids")
        predictions, named = _roles(frame, y, features)
        m, q = len(predictions), len(named)
        check(m)
        frame.engine.check_executors()
        labels = FrameLabels.read(frame, y)
        labels.check_positive(positive)
        if labels.labelled * (m + q) > LABELLED_CELLS:
            raise ValueError(
                f"{labels.labelled} labelled instances x {m} classifiers are more than the {LABELLED_CELLS:,} cells "
                "that the driver takes; labels of a sample teach the same: set the others to null"
            )
        moments = frame.moments(named) if named else None
        here = frame.rows_here([*predictions, *named], y, labels.codes)
        refuse_wrong(out_of_range(here[:, :m]), predictions)
        rows = InstanceRows(here[:, :m], here[:, -1].astype(np.int64), labels.classes, 1)
        side = SideFeatures.of(here[:, m:-1] if named else None, moments)
        return cls(frame, y, predictions, named, labels, rows, side, moments)

    @property
    def columns(self) -> list[str]:
        return [*self.predictions, *self.features]

    @property
    def names(self) -> dict[str, list[str]]:
        return {"predictions": self.predictions, "features": self.features}

    @property
    def naming(self) -> Naming:
        return Naming(Index.range(self.rows.n), self.predictions)

    def blocks(self, build: Callable[[Floats], Block]) -> InstanceBlocks[Block]:
        """What `build` makes of the numbers (n, m + q) of unlabelled rows, predictions first."""
        return self.frame.blocks(self.columns, self.label, self.labels.codes, build)


def answered_by(columns: dict[str, list[str]] | None) -> tuple[list[str], list[str], str]:
    """Predictions and features that a model fitted on a frame asks of another one, and words that name them."""
    if columns is None:
        raise ValueError(
            "this model was fitted on arrays and knows no column names; fit it with engine=SparkEngine(spark), or "
            "pass arrays"
        )
    predictions, features = columns["predictions"], columns["features"]
    return predictions, features, f"the model was fitted on the predictions {predictions} and the features {features}"


def out_of_range(P: Floats) -> Wrong:
    """What is no probability."""
    bad = ~(np.isnan(P) | ((P >= 0) & (P <= 1)))
    return [(int(j), float(P[bad[:, j], j][0]), int(bad[:, j].sum())) for j in np.flatnonzero(bad.any(axis=0))]


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


def refuse_wrong(wrong: Wrong, columns: list[str]) -> None:
    """Raise if there are predictions outside [0, 1]."""
    if wrong:
        j, example, _ = wrong[0]
        raise ValueError(
            f"{sum(count for *_, count in wrong)} values are outside [0, 1], such as {example:g} in column "
            f"{columns[j]!r}; every numeric column of P but the labels and features holds the probabilities of a "
            "classifier, null or NaN where it says nothing. Drop what is none, such as an id"
        )


def warn_empty(P: Floats, elsewhere: Iterable[tuple[Floats, int]], total: int, columns: list[str]) -> None:
    """Say which of `total` instances and which classifiers have no prediction at all, here and elsewhere.

    elsewhere : the cells of every classifier (m,), and instances without any.
    """
    seen = ~np.isnan(P)
    counts, empty = seen.sum(axis=0), int((~seen.any(axis=1)).sum())
    for cells, without in elsewhere:
        counts, empty = counts + cells, empty + without
    silent = [columns[j] for j in np.flatnonzero(counts == 0)]
    told = [f"{empty} of {total} instances"] if empty else []
    told += [f"classifiers {', '.join(silent[:5])}{', ...' if len(silent) > 5 else ''}"] if silent else []
    if told:
        warnings.warn(
            f"no prediction at all for {' and '.join(told)}; nothing can be said there beyond the average",
            PredictionWarning,
            stacklevel=_DEPTH - 1,
        )
