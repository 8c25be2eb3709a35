"""What a family is given, read once and fitted: arrays, or a frame of which labelled rows come here.

Of a frame the views are learned from sums over its partitions, and the members on the driver. Must not know how a view
or a member is learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep.core.arrays import Floats
from halfstep.data.sweeps import SweepFile, digest_of
from halfstep.ensemble.family.beside import Beside
from halfstep.ensemble.family.classes.fitting import fit_classes
from halfstep.ensemble.family.fitting import FamilyFit, fit_family
from halfstep.ensemble.family.roster import make_views
from halfstep.ensemble.family.settings import FamilySettings
from halfstep.ensemble.family.steps import ask_views, steps_bar, told_views
from halfstep.ensemble.family.views import PredictedRows, View
from halfstep.ensemble.framed import FramedInstances, Wrong, out_of_range, refuse_wrong, warn_empty
from halfstep.ensemble.inputs import InstanceRows, read_groups
from halfstep.ensemble.naming import Naming, read_named
from halfstep.ensemble.sums import SiteSums, SummedFields

if TYPE_CHECKING:
    from halfstep.engine.spark.instances import InstanceBlocks, InstanceFrame

_UNMARKED = ("engine", "max_seconds", "n_threads", "verbose", "checkpoint", "every", "resume")
_DEPTH = 6  # of calls between a warning about labels and whoever called fit


def fit_rows(
    settings: FamilySettings,
    wide: int,
    rows: InstanceRows,
    naming: Naming,
    views: Any,
    beside: Beside,
    file: SweepFile | None = None,
) -> FamilyFit:
    """wide : columns of P for a classifier. views : of the same predictions, if any. file : keeps views."""
    learn: Any = fit_family if rows.n_channels == 1 else fit_classes
    fit: FamilyFit = learn(settings, rows, naming, wide * rows.P.shape[1], views=views, beside=beside, file=file)
    return fit


@dataclass(frozen=True, eq=False)
class FamilyReader:
    """The arguments of `CFEnsembleCV.fit` beside P."""

    settings: FamilySettings
    y: Any
    features: Any
    groups: ArrayLike | None
    ids: Any = None

    def arrays(self, P: Any) -> FamilyFit:
        settings = self.settings
        rows, naming = read_named(
            P, self.y, self.ids, settings.positive, _DEPTH, classes=settings.classes, votes=settings.votes
        )
        n, m = rows.n, rows.P.shape[1]
        width = int(np.shape(P)[1]) if np.ndim(P) == 2 and naming.classes is None else m
        beside = Beside.read(self.features, self.groups, n, m, naming.voted is not None)
        return fit_rows(settings, width // m, rows, naming, None, beside, self._sweep_file(rows))

    def _sweep_file(self, rows: InstanceRows) -> SweepFile | None:
        """Where the fit keeps itself; None where it does not."""
        settings = self.settings
        told = {name: value for name, value in vars(settings).items() if name not in _UNMARKED}
        features = None if self.features is None else np.asarray(self.features)
        mark = {"parameters": digest_of(told), "data": digest_of(rows.P, rows.y, features)}
        return SweepFile.of(settings.checkpoint, settings.every, settings.resume, settings.random_state, mark)

    def frame(self, frame: InstanceFrame) -> FamilyFit:
        """See `FramedInstances.read`. All rows take part in the views, labelled ones alone in the members."""
        settings = self.settings
        refused: dict[str, Any] = {"checkpoint": settings.checkpoint, "estimators": settings.estimators}
        refused |= {"max_seconds": settings.max_seconds, "votes": settings.votes}
        for name, value in refused.items():
            if value not in (None, (), [], False):
                raise ValueError(f"{name}={value!r} is for fits on one machine; leave it out with SparkEngine")
        given = FramedInstances.read(
            frame, self.y, self.features, self.ids, settings.positive, partial(read_groups, self.groups)
        )
        rows, m = given.rows, len(given.predictions)
        beside = Beside(given.side, None if self.groups is None else np.asarray(self.groups))
        here = PredictedRows.of(rows, settings.clip)
        if given.labels.unlabelled:
            blocks = given.blocks(FamilyRecipe(m, settings.clip))
            try:
                first: FirstSums = blocks.total(FirstSums.of)
                refuse_wrong(first.wrong, given.predictions)
                silent = [(first.counts, first.empty)]
                views = _learn_there(settings, here, blocks)
            finally:
                blocks.unpersist()
        else:
            silent, views = [], _learn_there(settings, here, None)
        warn_empty(rows.P, silent, given.labels.labelled + given.labels.unlabelled, given.predictions)
        fit = fit_rows(settings, 1, rows, given.naming, views, beside)
        return replace(fit, frame_columns=given.names)


@dataclass(frozen=True, eq=False)
class FamilyBlock:
    """Unlabelled rows in an executor, and what was wrong with their predictions."""

    cells: PredictedRows
    wrong: Wrong


@dataclass(frozen=True)
class FamilyRecipe:
    """How numbers (n, m + q) become a block: m predictions, then features, which views do not look at."""

    m: int
    clip: float

    def __call__(self, numbers: Floats) -> FamilyBlock:
        P = numbers[:, : self.m].copy()
        wrong = out_of_range(P)
        if wrong:
            P[:] = np.nan  # nobody will look at them
        return FamilyBlock(PredictedRows(P, np.zeros(len(P), np.int64), self.clip), wrong)


@dataclass(frozen=True, eq=False)
class FirstSums(SummedFields):
    """What is known of rows before anything is learned: what is wrong, cells of classifiers (m,), rows without any."""

    wrong: Wrong
    counts: Floats
    empty: int

    @classmethod
    def of(cls, block: FamilyBlock) -> FirstSums:
        seen = block.cells.observed
        return cls(block.wrong, seen.sum(axis=0).astype(np.float64), int((~seen.any(axis=1)).sum()))


def _learn_there(
    settings: FamilySettings, here: PredictedRows, blocks: InstanceBlocks[FamilyBlock] | None
) -> dict[str, View]:
    """All views side by side, a job for each step: what they ask of rows is summed where the rows are."""
    planned = make_views(settings.ranks, settings.links, here.P.shape[1])
    views = {view.name: view for view in planned}
    with steps_bar(0, settings.verbose) as bar:
        while not all(view.settled for view in views.values()):
            asking = {name: view for name, view in views.items() if not view.settled}

            def ask(block: FamilyBlock, asking: dict[str, View] = asking) -> SiteSums:
                return ask_views(asking, block.cells)

            total = ask_views(asking, here)
            if blocks is not None:
                total = total + blocks.total(ask)
            views |= told_views(asking, total)
            bar.update()
    return views
