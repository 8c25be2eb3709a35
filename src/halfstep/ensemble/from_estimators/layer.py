"""A layer of estimators: out-of-fold predictions of labelled rows, those of refitted estimators for all others.

Where a row lacks what an estimator needs, its prediction is missing. Knows X, codes and folds; must not know what is
done with the predictions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from tqdm.auto import tqdm

from halfstep.core.arrays import Codes, Floats, Mask
from halfstep.ensemble.from_estimators.features import Columns, FeatureTable
from halfstep.ensemble.from_estimators.scores import ScoreCalibration, method_of, raw_scores
from halfstep.ensemble.from_estimators.targets import TargetCodes
from halfstep.ensemble.inputs import deal_folds
from halfstep.ensemble.predictions import PredictionWarning
from halfstep.errors import check_number

Split = tuple[Codes, Codes]
DROPPED = "drop"


@dataclass(frozen=True, eq=False)
class Entry:
    """One of the estimators that the user lists. columns : those it sees, as ColumnTransformer takes them."""

    name: str
    estimator: Any
    columns: Columns = None


def read_entries(estimators: Any) -> list[Entry]:
    """(name, estimator) or (name, estimator, columns); "drop" leaves one out."""
    if isinstance(estimators, str) or not isinstance(estimators, Iterable):
        raise ValueError(f"estimators={estimators!r} must be a list of (name, estimator) or (name, estimator, columns)")
    entries = []
    for given in estimators:
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) not in (2, 3):
            raise ValueError(
                f"estimators has the entry {given!r}; each must be (name, estimator) or (name, estimator, columns)"
            )
        name, estimator, *columns = given
        if not isinstance(name, str) or "__" in name:
            raise ValueError(f"an estimator is named {name!r}; a name must be text without '__'")
        if isinstance(estimator, str) and estimator == DROPPED:
            continue
        entries.append(Entry(name, estimator, *columns))
    names = [entry.name for entry in entries]
    if not names:
        raise ValueError("estimators is empty; at least one (name, estimator) is needed")
    if len(set(names)) < len(names):
        raise ValueError(f"estimators have the names {names}; each must have its own")
    return entries


def takes_missing(estimator: Any) -> bool:
    """Whether it says that it accepts NaN; of a pipeline the first step says so."""
    steps = getattr(estimator, "steps", None)
    first = steps[0][1] if steps else estimator
    try:
        return bool(get_tags(first).input_tags.allow_nan)
    except AttributeError:  # no scikit-learn estimator: nothing is known of it
        return False


@dataclass(frozen=True, eq=False)
class FittedColumn:
    """A fitted estimator, the columns it sees and how its scores become probabilities; None: it could not be fitted."""

    name: str
    estimator: Any
    method: str
    columns: Codes | None
    codes: Codes
    shares: Floats
    calibration: ScoreCalibration | None

    def abstains(self, table: FeatureTable) -> Mask:
        return table.lacking(self.columns, takes_missing(self.estimator))

    def probabilities(self, table: FeatureTable) -> Floats:
        """(n, k), NaN where the row lacks what the estimator needs."""
        return _with_gaps(table, np.flatnonzero(~self.abstains(table)), self._of_rows, len(self.shares))

    def _of_rows(self, table: FeatureTable, rows: Codes) -> Floats:
        scores = raw_scores(self.estimator, self.method, table.rows(rows, self.columns), self.codes, self.shares)
        return scores if self.calibration is None else self.calibration.apply(scores)


@dataclass(frozen=True, eq=False)
class FittedLayer:
    """The estimators, in order; those that no labelled row could teach are None and always abstain."""

    names: tuple[str, ...]
    columns: tuple[FittedColumn | None, ...]
    n_classes: int

    def probabilities(self, table: FeatureTable) -> Floats:
        """(n, m, k)."""
        nothing = np.full((table.n, self.n_classes), np.nan)
        return np.stack([nothing if each is None else each.probabilities(table) for each in self.columns], axis=1)


def make_splits(cv: Any, y: Codes, seed: int) -> list[Split]:
    """(kept, held) positions among labelled rows. A number deals each class out over so many folds."""
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        check_number("cv", cv, at_least=2, whole=True)
        folds = deal_folds(y, min(int(cv), len(y)), seed)
        return [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(folds.max() + 1)]
    splits = [(np.asarray(kept), np.asarray(held)) for kept, held in check_cv(cv, y, classifier=True).split(y, y)]
    held = np.concatenate([held for _, held in splits])
    if len(held) != len(y) or len(np.unique(held)) != len(y):
        raise ValueError(f"cv={cv!r} must hold every labelled row out exactly once; KFold and its kin do")
    return splits


@dataclass(frozen=True, eq=False)
class Trainer:
    """Fits copies of one estimator to some labelled rows."""

    entry: Entry
    method: str
    columns: Codes | None
    table: FeatureTable
    y: Codes
    shares: Floats

    def fit(self, rows: Codes) -> tuple[Any, Codes] | None:
        """The estimator and the codes of its classes; None where the rows are of one class."""
        codes = np.unique(self.y[rows])
        if len(codes) < 2:
            return None
        fitted = clone(self.entry.estimator).fit(self.table.rows(rows, self.columns), self.y[rows])
        return fitted, codes

    def held_out(self, kept: Codes, held: Codes) -> Floats:
        """(h, k) raw scores of held rows, NaN where the kept ones cannot teach."""
        fitted = self.fit(kept)
        if fitted is None or not len(held):
            return np.full((len(held), len(self.shares)), np.nan)
        return raw_scores(fitted[0], self.method, self.table.rows(held, self.columns), fitted[1], self.shares)


def fit_layer(
    entries: Sequence[Entry],
    table: FeatureTable,
    targets: TargetCodes,
    splits: Sequence[Split],
    *,
    stack_method: str = "auto",
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[Floats, FittedLayer]:
    """(n, m, k) predictions, none of which has seen the label of its row, and the refitted estimators."""
    labelled, k = targets.labelled, len(targets.classes)
    y = targets.y[labelled]
    shares = np.bincount(y, minlength=k) / max(len(y), 1)
    trainers, jobs = [], []
    for entry in entries:
        columns = table.positions(entry.columns, entry.name)
        method = method_of(entry.name, entry.estimator, stack_method)
        trainer = Trainer(entry, method, columns, table, targets.y, shares)
        there = ~table.lacking(columns, takes_missing(entry.estimator))
        trainers.append((trainer, there))
        jobs += [delayed(trainer.held_out)(*(_there(labelled[part], there) for part in split)) for split in splits]
        jobs.append(delayed(trainer.fit)(_there(labelled, there)))
    answers = _run(jobs, n_jobs, verbose)
    P = np.full((table.n, len(entries), k), np.nan)
    fitted = []
    for j, (trainer, there) in enumerate(trainers):
        found = [next(answers) for _ in splits]
        column, P[:, j] = _column(trainer, there, next(answers), found, [labelled[held] for _, held in splits])
        fitted.append(column)
    return P, FittedLayer(tuple(entry.name for entry in entries), tuple(fitted), k)


def _run(jobs: list[Any], n_jobs: int | None, verbose: int) -> Any:
    """Answers in the order of the jobs, and a bar for whoever waits."""
    with tqdm(
        total=len(jobs), desc="estimators", unit="fit", delay=0 if verbose else 2, disable=None, leave=bool(verbose)
    ) as bar:
        answers = []
        for answer in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
            answers.append(answer)
            bar.update()
    return iter(answers)


def _column(
    trainer: Trainer, there: Mask, refitted: Any, found: Sequence[Floats], held: Sequence[Codes]
) -> tuple[FittedColumn | None, Floats]:
    """The fitted column and its (n, k) predictions for all rows."""
    n, k = trainer.table.n, len(trainer.shares)
    P = np.full((n, k), np.nan)
    parts = [_there(rows, there) for rows in held]
    for rows, scores in zip(parts, found, strict=True):
        P[rows] = scores
    if refitted is None:
        warnings.warn(
            f"estimator {trainer.entry.name!r} has labelled rows of fewer than two classes, so it is never asked",
            PredictionWarning,
            stacklevel=5,
        )
        return None, P
    calibration = None
    if trainer.method != "predict_proba":
        known = [rows[~np.isnan(P[rows, 0])] for rows in parts]
        calibration, P = _calibrated(P, trainer.y, known)
    estimator, codes = refitted
    column = FittedColumn(
        trainer.entry.name, estimator, trainer.method, trainer.columns, codes, trainer.shares, calibration
    )
    others = np.flatnonzero((trainer.y < 0) & there)
    if len(others):
        P[others] = column._of_rows(trainer.table, others)
    return column, P


def _calibrated(P: Floats, y: Codes, parts: Sequence[Codes]) -> tuple[ScoreCalibration, Floats]:
    """What all held-out scores teach, and each fold's probabilities from what the other folds teach."""
    found = np.full_like(P, np.nan)
    for number, rows in enumerate(parts):
        others = np.concatenate([part for k, part in enumerate(parts) if k != number])
        found[rows] = ScoreCalibration.fit(P[others], y[others]).apply(P[rows])
    every = np.concatenate(parts)
    return ScoreCalibration.fit(P[every], y[every]), found


def prefit_layer(
    entries: Sequence[Entry], table: FeatureTable, targets: TargetCodes, stack_method: str = "auto"
) -> tuple[Floats, FittedLayer]:
    """Estimators that were fitted elsewhere, on other rows: (n, m, k) what they say of all rows."""
    k, labelled = len(targets.classes), targets.labelled
    shares = np.full(k, 1 / k)
    columns: list[FittedColumn | None] = []
    for entry in entries:
        method = method_of(entry.name, entry.estimator, stack_method)
        codes = np.searchsorted(targets.classes, np.asarray(entry.estimator.classes_))
        column = FittedColumn(
            entry.name, entry.estimator, method, table.positions(entry.columns, entry.name), codes, shares, None
        )
        if method != "predict_proba":
            rows = _there(labelled, ~column.abstains(table))
            scores = column._of_rows(table, rows) if len(rows) else np.zeros((0, k))
            column = FittedColumn(
                entry.name,
                entry.estimator,
                method,
                column.columns,
                codes,
                shares,
                ScoreCalibration.fit(scores, targets.y[rows]),
            )
        columns.append(column)
    layer = FittedLayer(tuple(entry.name for entry in entries), tuple(columns), k)
    return layer.probabilities(table), layer


def known_classes(entries: Sequence[Entry]) -> Any:
    """Classes of fitted estimators together."""
    for entry in entries:
        if not hasattr(entry.estimator, "classes_"):
            raise ValueError(
                f"cv='prefit' takes fitted estimators, but {entry.name!r}, a {type(entry.estimator).__name__}, has no "
                "classes_; fit it first, or give cv a number of folds"
            )
    return np.unique(np.concatenate([np.asarray(entry.estimator.classes_) for entry in entries]))


def _there(rows: Codes, there: Mask) -> Codes:
    return rows[there[rows]]


def _with_gaps(table: FeatureTable, rows: Codes, answer: Any, k: int) -> Floats:
    found = np.full((table.n, k), np.nan)
    if len(rows):
        found[rows] = answer(table, rows)
    return found
