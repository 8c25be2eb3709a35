"""Shift: a fusion with eyes. How unlike the fitted instances new ones are, what has changed, and who should answer.

The front door of this folder. Composes a fusion; must not know how it works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from halfstep.core.arrays import Codes, Floats
from halfstep.core.fitted import FromFit, fit_of
from halfstep.core.initial import seed_from
from halfstep.core.scikit import BaseEstimator, ClassifierMixin
from halfstep.ensemble.baselines.base import row_mean
from halfstep.ensemble.baselines.stacking import ShrunkenStacking
from halfstep.ensemble.family.estimator import CFEnsembleCV
from halfstep.ensemble.family.views import PredictedRows
from halfstep.ensemble.inputs import InstanceRows, make_folds
from halfstep.ensemble.naming import Naming, read_named
from halfstep.ensemble.shift import batch, prevalence
from halfstep.ensemble.shift.novelty import NoveltyAnswer, Reference
from halfstep.ensemble.shift.routing import FUSION, MEAN, STACKER, Difficulty, Routes, losses_of
from halfstep.errors import check_number, one_of

ROUTES = (None, "auto")
KEPT = 5000  # fitted instances whose answers stand for labels where there are none


@dataclass(frozen=True, eq=False)
class Candidates:
    """Fitted answers to choose between; the stacker serves two classes with labels."""

    fusion: Any
    stacker: Any
    average: Floats

    @classmethod
    def fit(cls, model: Any, rows: InstanceRows, y: Codes) -> Candidates:
        """y (n,) codes, -1 where hidden or unlabelled."""
        stacker = None
        if rows.n_channels == 1 and len(np.unique(y[y >= 0])) == 2:
            stacker = ShrunkenStacking().fit(rows.P, y)
        known = y[y >= 0]
        average = np.bincount(known, minlength=len(rows.classes)) + 1.0
        return cls(clone(model).fit(for_fusion(rows), y), stacker, average / average.sum())

    def answer(self, name: str, rows: InstanceRows) -> Floats:
        """(n, k)."""
        if name == FUSION:
            return np.asarray(self.fusion.predict_proba(for_fusion(rows)))
        if name == STACKER:
            return np.asarray(self.stacker.predict_proba(rows.P))
        k = len(self.average)
        seen = ~np.isnan(rows.P)
        by_row = row_mean(np.nan_to_num(rows.P), seen, np.nan)
        table = np.column_stack([1 - by_row, by_row]) if rows.n_channels == 1 else by_row.reshape(-1, k)
        table = np.where(np.isnan(table).any(axis=1, keepdims=True), self.average, table)
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    @property
    def names(self) -> list[str]:
        return [FUSION, *([] if self.stacker is None else [STACKER]), MEAN]


@dataclass(frozen=True, eq=False)
class ShiftFit:
    """What a fit leaves behind. known : out-of-fold answers and labels; without labels, answers alone."""

    classes: NDArray[Any]
    naming: Naming
    n_classifiers: int
    n_channels: int
    n_features_in: int
    candidates: Candidates
    reference: Reference
    known: prevalence.Answered
    routes: Routes
    difficulty: Difficulty


@dataclass(eq=False, repr=False)
class Shift(ClassifierMixin, BaseEstimator):
    """A fusion that knows which instances it was made for.

    `novelty` is the Mahalanobis distance of an instance's logits under factor analyses of the fitted ones, in noise and
    in factors, missing cells integrated out; its p-value comes from instances that their analysis had not seen.

    Parameters
    ----------
    model : what fuses, fitted by `fit`; None is `CFEnsembleCV()`.
    route : None, or "auto": each kind of instance, by novelty, is answered by whichever of fusion, shrunken stacking
        and mean is best for it by out-of-fold log loss; the fusion, unless another is clearly ahead.
    rank : factors of the analyses, at most a third of the classifiers.
    folds : of the labels, for routes and difficulty: the fusion is fitted once more for each. 0: no such evidence.
    clip : probabilities are held inside [clip, 1 - clip] before the logits of novelty.
    positive : the class whose probability P is; that of `model` if None. See `CFEnsembleCV`.

    Attributes
    ----------
    classes_, n_features_in_
    model_ : the fitted fusion.
    routes_ : see `routing.Routes`; `difficulty_correlation_` : see `routing.Difficulty`.
    """

    model: Any = None
    route: str | None = None
    rank: int = 8
    folds: int = 3
    clip: float = 0.015
    positive: Any = None
    random_state: Any = 0

    classes_ = FromFit[NDArray[Any]]("classes")
    n_features_in_ = FromFit[int]("n_features_in")
    model_ = FromFit[Any]("candidates.fusion")
    routes_ = FromFit[Routes]("routes")
    difficulty_correlation_ = FromFit[dict[str, float] | None]("difficulty.correlation")

    def fit(self, P: Any, y: Any = None) -> Self:
        """P, y : predictions and labels, as `CFEnsembleCV.fit` takes them."""
        one_of("route", self.route, ROUTES)
        check_number("rank", self.rank, at_least=1, whole=True)
        check_number("folds", self.folds, at_least=0, whole=True)
        model = CFEnsembleCV(random_state=self.random_state) if self.model is None else self.model
        told = model.get_params(deep=False)
        positive = told.get("positive") if self.positive is None else self.positive
        rows, naming = read_named(P, y, None, positive, classes=told.get("classes"), votes=told.get("votes", False))
        plain = {name: None for name in ("positive", "classes", "votes") if name in told}  # it sees codes, put right
        model = clone(model).set_params(**plain)
        seed = seed_from(self.random_state)
        cells = self._cells(rows)
        reference = Reference.fit(cells, rows.n_channels, self.rank, seed)
        candidates = Candidates.fit(model, rows, rows.y)
        routes, difficulty, known = _evidence(model, rows, reference.novelty(cells).score, self.folds, seed)
        if known is None:
            answers = candidates.answer(FUSION, take(rows, np.random.default_rng(seed).permutation(rows.n)[:KEPT]))
            known = prevalence.Answered(answers, answers)
        width = int(np.shape(P)[1]) if np.ndim(P) == 2 else rows.P.shape[1]
        self.fitted_ = ShiftFit(
            rows.classes,
            naming,
            rows.P.shape[1],
            rows.n_channels,
            width,
            candidates,
            reference,
            known,
            routes,
            difficulty,
        )
        return self

    # ------------------------------------------------------------------ instances

    def novelty(self, P: Any) -> NoveltyAnswer:
        """score (n,) and p (n,): how unlike the fitted instances each is."""
        return self._fit().reference.novelty(self._cells(self._rows(P)))

    def difficulty(self, P: Any) -> Floats:
        """(n,) the probability that the fusion's answer is wrong."""
        fit, rows = self._fit(), self._rows(P)
        novelty = fit.reference.novelty(self._cells(rows)).score
        return fit.difficulty.of(fit.candidates.answer(FUSION, rows), spread(rows), novelty)

    def routed(self, P: Any) -> NDArray[Any]:
        """(n,) who answers for each instance: "fusion", "stacker" or "mean"."""
        if self.route is None:
            return np.full(self._rows(P).n, FUSION, dtype=object)
        return np.array(self._fit().routes.who(self.novelty(P).score), dtype=object)

    def predict_proba(self, P: Any) -> Floats:
        """(n, classes) probabilities in the order of `classes_`, from whoever answers for each instance."""
        fit, rows = self._fit(), self._rows(P)
        who = self.routed(P)
        found = fit.candidates.answer(FUSION, rows).copy()
        for name in set(who.tolist()) - {FUSION}:
            found[who == name] = fit.candidates.answer(name, rows)[who == name]
        return found

    def predict(self, P: Any) -> NDArray[Any]:
        """(n,) the most probable label of each instance."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(P).argmax(axis=1)]
        return labels

    # ------------------------------------------------------------------ batches

    def test(self, P: Any) -> batch.BatchTest:
        """Whether a batch is unlike the fitted instances: maximum mean discrepancy by permutation.

        Compared are the mean reconstructed score of an instance and its distance, whole and in factors.
        """
        fit = self._fit()
        return batch.compare(fit.reference.parts, fit.reference.seen(self._cells(self._rows(P))), self._seed())

    def prevalence(self, P: Any, level: float = 0.95) -> prevalence.Prevalence:
        """Shares of the classes in a batch, where only these have changed; see `prevalence.Prevalence`."""
        if not 0 < level < 1:
            raise ValueError(f"level={level!r} must lie strictly between 0 and 1; 0.95 is the default")
        fit = self._fit()
        answers = fit.candidates.answer(FUSION, self._rows(P))
        return prevalence.estimate(fit.classes, answers, fit.known, level, self._seed())

    def corrected(self, P: Any) -> Floats:
        """(n, classes) the fusion's probabilities under the shares that `prevalence` finds, where they have shifted."""
        fit, found = self._fit(), self.prevalence(P)
        answers = fit.candidates.answer(FUSION, self._rows(P))
        return fit.known.corrected(answers, found.now) if found.shifted else answers

    # ------------------------------------------------------------------ inside

    def _fit(self) -> ShiftFit:
        fit: ShiftFit = fit_of(self)
        return fit

    def _rows(self, P: Any) -> InstanceRows:
        fit = self._fit()
        return fit.naming.rows(P, fit.n_classifiers, fit.n_channels)[0]

    def _cells(self, rows: InstanceRows) -> PredictedRows:
        return PredictedRows.of(rows, self.clip)

    def _seed(self) -> int:
        return seed_from(self.random_state)


def for_fusion(rows: InstanceRows) -> Floats:
    """(n, m) of two classes, (n, m, k) of more."""
    if rows.n_channels == 1:
        return rows.P
    return rows.P.reshape(rows.n, rows.n_channels, -1).transpose(0, 2, 1)


def spread(rows: InstanceRows) -> Floats:
    """(n,) the standard deviation of an instance's predictions, the mean over classes; 0 without any."""
    seen = ~np.isnan(rows.P)
    filled = np.nan_to_num(rows.P)
    mean = row_mean(filled, seen, 0.0)
    deviation = np.sqrt(row_mean((filled - mean[:, None]) ** 2, seen, 0.0))
    found: Floats = deviation.reshape(-1, rows.n_channels).mean(axis=1)
    return found


def _evidence(
    model: Any, rows: InstanceRows, novelty: Floats, n_folds: int, seed: int
) -> tuple[Routes, Difficulty, prevalence.Answered | None]:
    """What answers of models that had not seen an instance's label say of routes, difficulty and shares of classes."""
    labelled = np.flatnonzero(rows.y >= 0)
    y, k = rows.y[labelled], len(rows.classes)
    folds = make_folds(y, k, n_folds, seed) if len(y) and n_folds else None
    if folds is None:
        nobody = np.zeros(0)
        return Routes.learn(nobody, {FUSION: nobody}), Difficulty(np.zeros(3), np.zeros(2), np.ones(2), None), None
    answers: dict[str, Floats] = {}
    for fold in np.unique(folds):
        held = labelled[folds == fold]
        hidden = rows.y.copy()
        hidden[held] = -1
        fitted = Candidates.fit(model, rows, hidden)
        part = take(rows, held)
        for name in fitted.names:
            answers.setdefault(name, np.zeros((len(y), k)))[folds == fold] = fitted.answer(name, part)
    routes = Routes.learn(novelty[labelled], {name: losses_of(P, y) for name, P in answers.items()})
    part = take(rows, labelled)
    difficulty = Difficulty.learn(answers[FUSION], y, spread(part), novelty[labelled], folds)
    return routes, difficulty, prevalence.Answered(answers[FUSION], np.eye(k)[y])


def take(rows: InstanceRows, instances: Codes) -> InstanceRows:
    """Some of the instances."""
    k = rows.n_channels
    here = (instances[:, None] * k + np.arange(k)).ravel()
    return InstanceRows(rows.P[here], rows.y[instances], rows.classes, k)
