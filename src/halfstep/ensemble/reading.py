"""What a fit is given, read once: arrays, or a frame of which labelled rows come here and the others stay elsewhere.

Knows classifiers, labels and their columns; an engine hands over the instances. Must not know how they are fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep.core.arrays import Floats
from halfstep.core.loop import Outcome
from halfstep.data.sweeps import SweepFile, digest_of
from halfstep.ensemble import confidence as cell_weights
from halfstep.ensemble.columns import LatentColumns
from halfstep.ensemble.combined import CombinedSession
from halfstep.ensemble.elsewhere import BlockRecipe, DistributedRows
from halfstep.ensemble.factors import EnsembleFactors
from halfstep.ensemble.fit import EnsembleFit, FittedInstances, factorise, learn
from halfstep.ensemble.framed import FramedInstances, refuse_wrong, warn_empty
from halfstep.ensemble.inputs import InstanceRows, SideFeatures, read_features, read_groups, read_tasks
from halfstep.ensemble.naming import read_named
from halfstep.ensemble.settings import EnsembleSettings, check_labels

if TYPE_CHECKING:
    from halfstep.engine.spark.instances import InstanceFrame

_UNMARKED = ("callbacks", "max_iter", "max_seconds", "n_threads", "tol", "verbose", "checkpoint", "every", "resume")
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

    def _run(self, settings: EnsembleSettings, file: SweepFile | None) -> tuple[EnsembleFactors, Outcome]:
        return factorise(
            settings, self.known, self.P, self.columns, elsewhere=self.elsewhere, prepare=self.prepare, file=file
        )

    def _sweep_file(self, settings: EnsembleSettings) -> SweepFile | None:
        """Where the fit keeps itself; None where it does not."""
        if settings.checkpoint is not None and self.elsewhere:
            raise ValueError(
                f"checkpoint={str(settings.checkpoint)!r} is a file of one machine; pass the folder to "
                "SparkEngine(checkpoint=...), which all executors reach."
            )
        told = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in _UNMARKED}
        told |= {name: getattr(settings, name) for name in ("max_iter", "tol")}
        known = self.known
        features = None if known.features is None else known.features.values
        data = digest_of(self.P, known.labels, known.groups, known.tasks, features)
        mark = {"parameters": digest_of(told), "data": data}
        return SweepFile.of(settings.checkpoint, settings.every, settings.resume, settings.random_state, mark)

    def _starts(self, settings: EnsembleSettings) -> Iterator[EnsembleSettings]:
        """The start that `init` says, then random ones."""
        if settings.n_init > 1 and self.elsewhere:
            raise ValueError(f"n_init={settings.n_init} is for fits on one machine; rows elsewhere have one start")
        yield settings
        for number in range(1, settings.n_init):
            yield replace(settings, init="random", random_state=settings.seed + number)

    def fit(self, settings: EnsembleSettings) -> EnsembleFit:
        try:
            file = self._sweep_file(settings)
            files = (None if file is None else file.beside(number) for number in range(settings.n_init))
            starts = zip(self._starts(settings), files, strict=True)
            factors, outcome = min((self._run(each, kept) for each, kept in starts), key=_lowest)
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
        """See `FramedInstances.read`."""
        settings = self.settings
        if self.tasks is not None:
            raise ValueError("tasks are for fits on one machine; with SparkEngine fit one model for each task")
        _check_confidence(settings)

        def check(m: int) -> None:
            settings.chosen_rank(m)
            read_groups(self.groups, m)

        given = FramedInstances.read(frame, self.y, self.features, self.ids, settings.positive, check)
        rows, predictions = given.rows, given.predictions
        check_labels(rows, _DEPTH - 1)
        m = len(predictions)
        columns = LatentColumns(1, len(given.features), settings.chosen_rank(m), settings.biases)
        groups = read_groups(self.groups, m)
        known = FittedInstances(
            rows.classes, rows.y, True, given.side, groups, frame_columns=given.names, naming=given.naming
        )
        elsewhere: tuple[DistributedRows, ...] = ()
        if given.labels.unlabelled:
            confidence = _unlabelled_weights(settings.weights_of_cells(rows.P.shape, 1), rows)
            recipe = BlockRecipe(m, settings.scale, confidence, given.moments, settings.number)
            V = columns.classifiers(m, settings.number)
            model = EnsembleFactors.without_rows(columns, settings.scale, settings.reg, V, confidence, 1)
            blocks = given.blocks(recipe)
            try:
                elsewhere = (DistributedRows(blocks, model),)
                refuse_wrong(elsewhere[0].wrong, predictions)
            except BaseException:
                blocks.unpersist()
                raise
        silent = [(part.weights[1], part.empty) for part in elsewhere]
        warn_empty(rows.P, silent, given.labels.labelled + given.labels.unlabelled, predictions)
        parameters = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in _UNMARKED}
        prepare = frame.checkpoints([*given.columns, self.y], None if groups is None else groups.tolist(), parameters)
        return GivenInstances(known, rows.P, columns, elsewhere, prepare)


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
