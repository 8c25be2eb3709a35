"""Members of a committee over many classes: each gives an instance a score for every class.

A member's answer is  (1 + slope) base + deviations.w + intercepts,  everything but the base penalised and the slope
and w shared by all classes, so that no label means the base itself, and a class without labels has its place. Knows
views and labels; must not know how members are weighed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfstep.core.arrays import Codes, Floats
from halfstep.core.softmax import fit_softmax, softmax_loss, softmax_of
from halfstep.ensemble.family.classes.cells import ClassCells
from halfstep.ensemble.family.classes.views import ClassSight, ClassView, pool, pooled_logs
from halfstep.ensemble.family.confusion import VoteModel, VoteTable
from halfstep.ensemble.family.members import group_shares
from halfstep.ensemble.learned import Learned

INTERCEPT_PENALTY = 8.0
SLOPE_PENALTY = 0.5
SKILL_FLOOR = 0.01
SKILL_CELLS = 5.0
SLOPE_STEPS = 15
TOLERANCE = 1e-9


class ClassScene:
    """Some instances, and what views see of them, looked at once."""

    def __init__(self, cells: ClassCells, views: dict[str, ClassView]) -> None:
        self.cells = cells
        self._views = views
        self._sights: dict[str, ClassSight] = {}

    def __getitem__(self, view: str) -> ClassSight:
        if view not in self._sights:
            self._sights[view] = self._views[view].look(self.cells)
        return self._sights[view]


@dataclass(frozen=True, eq=False)
class ClassLabels:
    """truth (r,) classes of labelled instances; folds (r,) or None; rows (r,) their place among all instances.

    cells : all instances (or a sample that has the labelled ones), for members that learn from unlabelled votes.
    """

    truth: Codes
    folds: Codes | None
    rows: Codes
    cells: ClassCells

    def splits(self) -> list[tuple[Any, Any]]:
        if self.folds is None:
            return []
        return [(self.folds != fold, self.folds == fold) for fold in np.unique(self.folds)]


class ClassMember(Learned, ABC):
    """`learn` from the scene of labelled instances gives their out-of-fold scores; `scores` answers for any scene."""

    learned: tuple[str, ...] = ("coefficients",)
    name: str
    view: ClassView | None = None
    strength = 1.0

    def learn(self, scene: ClassScene, labels: ClassLabels) -> Floats:
        """(r, K)."""
        base = self._learn_base(scene, labels)
        X = np.concatenate([base[:, :, None], self._deviations(scene)], axis=2)
        penalty = np.full(X.shape[2], self.strength)
        penalty[0] = SLOPE_PENALTY

        def fit(rows: Any, start: Floats | None = None) -> Floats:
            return fit_softmax(X[rows], labels.truth[rows], base[rows], penalty, INTERCEPT_PENALTY, start, TOLERANCE)

        self.coefficients = fit(slice(None))
        answers = _answer(base, X, self.coefficients)
        for kept, held in labels.splits():
            answers[held] = _answer(base[held], X[held], fit(kept, self.coefficients))
        return answers

    def scores(self, scene: ClassScene) -> Floats:
        """(n, K)."""
        base = self._base(scene)
        answer: Floats = (1 + self.coefficients[0]) * base + self.coefficients[-base.shape[1] :]
        inner = self.coefficients[1 : -base.shape[1]]
        return answer + self._deviations(scene) @ inner if len(inner) else answer

    def variance(self, scene: ClassScene) -> Floats:
        """(n,) of a score, as far as the member knows how little it was shown."""
        return np.zeros(len(scene.cells.P))

    def _learn_base(self, scene: ClassScene, labels: ClassLabels) -> Floats:
        """(r, K) the base of labelled instances, none of which has helped to find its own."""
        return self._base(scene)

    def _deviations(self, scene: ClassScene) -> Floats:
        """(n, K, k) what may be weighed beyond the base."""
        return np.zeros((*scene.cells.P.shape[:2], 0))

    @abstractmethod
    def _base(self, scene: ClassScene) -> Floats:
        """(n, K) scores that the member is held to."""


def _answer(base: Floats, X: Floats, b: Floats) -> Floats:
    return np.asarray(base + X @ b[: X.shape[2]] + b[X.shape[2] :])


class ClassCentre(ClassMember):
    """The view's centre."""

    view: ClassView

    def __init__(self, view: ClassView, what: str = "") -> None:
        self.view = view
        self.name = view.name + what

    def _sight(self, scene: ClassScene) -> ClassSight:
        return scene[self.view.name]

    def _base(self, scene: ClassScene) -> Floats:
        return self._sight(scene).centre

    def variance(self, scene: ClassScene) -> Floats:
        variance: Floats = (1 + self.coefficients[0]) ** 2 * self._sight(scene).variance
        return variance


class ClassLatent(ClassCentre):
    """The centre, and the latent factors under penalty strength/2 |w|^2."""

    def __init__(self, view: ClassView, strength: float) -> None:
        super().__init__(view, f", latent {strength:g}")
        self.strength = strength

    def _deviations(self, scene: ClassScene) -> Floats:
        return self._sight(scene).latent


class ClassFeatures(ClassCentre):
    """The centre, and features of the instances with weights for each class, under penalty strength/2 |w|^2."""

    def __init__(self, view: ClassView, strength: float) -> None:
        super().__init__(view, f", features {strength:g}")
        self.strength = strength

    def _deviations(self, scene: ClassScene) -> Floats:
        """(n, K, q K): those of class k are 0 for the other classes."""
        features, K = scene.cells.features, scene.cells.n_classes
        if features is None:
            raise ValueError("the model was fitted with features of instances; pass features= with those of these")
        apart = features[:, None, None, :] * np.eye(K)[None, :, :, None]
        return np.asarray(apart.reshape(len(features), K, -1))


class ClassGroups(ClassCentre):
    """The mean of the means of groups, so that a group counts once, and what each group differs from it."""

    def __init__(self, view: ClassView, codes: Codes, strength: float) -> None:
        super().__init__(view, f", groups {strength:g}")
        self.strength = strength
        self._share = group_shares(codes)

    def _means(self, scene: ClassScene) -> Floats:
        return np.asarray(self._sight(scene).filled @ self._share)

    def _base(self, scene: ClassScene) -> Floats:
        return np.asarray(self._means(scene).mean(axis=2))

    def _deviations(self, scene: ClassScene) -> Floats:
        means = self._means(scene)
        return np.asarray(means - means.mean(axis=2, keepdims=True))

    def variance(self, scene: ClassScene) -> Floats:
        return np.zeros(len(scene.cells.P))


class ClassStacked(ClassCentre):
    """The mean of the filled log ratios, and what each classifier differs from it: one weight for all classes."""

    def __init__(self, view: ClassView, strength: float) -> None:
        super().__init__(view, f", stacked {strength:g}")
        self.strength = strength

    def _base(self, scene: ClassScene) -> Floats:
        return np.asarray(self._sight(scene).filled.mean(axis=2))

    def _deviations(self, scene: ClassScene) -> Floats:
        filled = self._sight(scene).filled
        return np.asarray(filled - filled.mean(axis=2, keepdims=True))

    def variance(self, scene: ClassScene) -> Floats:
        return np.zeros(len(scene.cells.P))


class Weighed(ClassMember):
    """Classifiers weighed by numbers that labels teach; each fold finds its own."""

    learned = ("coefficients", "weights")

    def _learn_base(self, scene: ClassScene, labels: ClassLabels) -> Floats:
        self.weights = self._weigh(scene, labels.truth, slice(None))
        base = self._pool(scene, self.weights)
        for kept, held in labels.splits():
            base[held] = self._pool(scene, self._weigh(scene, labels.truth, kept))[held]
        return base

    def _base(self, scene: ClassScene) -> Floats:
        return self._pool(scene, self.weights)

    @abstractmethod
    def _weigh(self, scene: ClassScene, truth: Codes, kept: Any) -> Floats:
        """(m,)."""

    @abstractmethod
    def _pool(self, scene: ClassScene, weights: Floats) -> Floats:
        """(n, K)."""


class SkilledArithmetic(Weighed):
    """The mean observed probability, classifiers weighed by skill^power."""

    def __init__(self, power: float) -> None:
        self.power = power
        self.name = f"arithmetic mean, skill^{power:g}"

    def _weigh(self, scene: ClassScene, truth: Codes, kept: Any) -> Floats:
        cells = scene.cells
        return class_skill(cells.probabilities[kept], cells.observed[kept], truth[kept]) ** self.power

    def _pool(self, scene: ClassScene, weights: Floats) -> Floats:
        weight = scene.cells.observed * weights
        total = weight.sum(axis=1, keepdims=True)
        return pooled_logs(scene.cells.probabilities, weight / np.where(total > 0, total, 1))


class SkilledGeometric(Weighed):
    """The mean filled log ratio, classifiers weighed by skill^power."""

    view: ClassView

    def __init__(self, view: ClassView, power: float) -> None:
        self.view, self.power = view, power
        self.name = f"{view.name}, skill^{power:g}"

    def _weigh(self, scene: ClassScene, truth: Codes, kept: Any) -> Floats:
        filled = scene[self.view.name].filled[kept]
        everywhere = np.ones((len(filled), filled.shape[2]), dtype=bool)
        skill = class_skill(softmax_of(filled.transpose(0, 2, 1)).transpose(0, 2, 1), everywhere, truth[kept])
        return np.asarray(skill**self.power / (skill**self.power).sum())

    def _pool(self, scene: ClassScene, weights: Floats) -> Floats:
        return pool(scene[self.view.name].filled, weights)


class SingleMember(Weighed):
    """The one classifier with the lowest log loss, its slope found beside it; filled log ratios where it is missing."""

    view: ClassView

    def __init__(self, view: ClassView) -> None:
        self.view = view
        self.name = f"{view.name}, best single"

    def _weigh(self, scene: ClassScene, truth: Codes, kept: Any) -> Floats:
        filled = scene[self.view.name].filled[kept]
        m = filled.shape[2]
        if not len(filled):
            return np.full(m, 1 / m)
        return np.asarray(np.eye(m)[int(np.argmin(single_losses(filled, truth[kept])))])

    def _pool(self, scene: ClassScene, weights: Floats) -> Floats:
        return pool(scene[self.view.name].filled, weights)


def single_losses(scores: Floats, truth: Codes) -> Floats:
    """(m,) log losses of scores (r, K, m), each classifier under the slope that suits it, held to 1; all at once.

    min over s_j of  sum_i CE(truth_i, s_j z_ij) + SLOPE_PENALTY / 2 (s_j - 1)^2,  by Newton steps of at most 1/2.
    """
    rows = np.arange(len(truth))
    at_truth = scores[rows, truth]
    slopes = np.ones(scores.shape[2])
    for _ in range(SLOPE_STEPS):
        p = softmax_of((slopes * scores).transpose(0, 2, 1)).transpose(0, 2, 1)
        mean = (p * scores).sum(axis=1)
        gradient = (mean - at_truth).sum(axis=0) + SLOPE_PENALTY * (slopes - 1)
        curvature = (p * scores**2).sum(axis=(0, 1)) - (mean**2).sum(axis=0) + SLOPE_PENALTY
        slopes = slopes - np.clip(gradient / curvature, -0.5, 0.5)
    losses = [softmax_loss(slope * scores[:, :, j], truth).sum() for j, slope in enumerate(slopes)]
    return np.asarray(losses) + SLOPE_PENALTY / 2 * (slopes - 1) ** 2


def class_skill(p: Floats, observed: Any, truth: Codes) -> Floats:
    """(m,) max(1 - Brier_j / Brier_0, SKILL_FLOOR) of p (r, K, m) where observed.

    Brier_0 is that of the shares of the classes, one label added to each; Brier_j counts SKILL_CELLS cells of Brier_0.
    """
    r, K = p.shape[:2]
    said = np.eye(K)[truth]
    share = (said.sum(axis=0) + 1) / (r + K)
    constant = float(1 - (share**2).sum())
    brier = (((p - said[:, :, None]) ** 2).sum(axis=1) * observed).sum(axis=0)
    brier = (brier + SKILL_CELLS * constant) / (observed.sum(axis=0) + SKILL_CELLS)
    return np.asarray(np.maximum(1 - brier / constant, SKILL_FLOOR))


class Voting(ClassMember):
    """Dawid and Skene's posterior from the votes, its log divided by the root of their number: they go together."""

    learned = ("coefficients", "logs", "prior")

    def __init__(self, coin: bool) -> None:
        self.coin = coin
        self.name = "Dawid-Skene, one coin" if coin else "Dawid-Skene, confusion"

    def _learn_base(self, scene: ClassScene, labels: ClassLabels) -> Floats:
        table = VoteTable.of(labels.cells.votes, labels.cells.n_classes)
        gold = np.full(len(labels.cells.P), -1)
        gold[labels.rows] = labels.truth
        model = VoteModel.learn(table, gold, self.coin)
        self.logs, self.prior = model.logs, model.prior
        base = self._base(scene)
        for kept, held in labels.splits():
            known = np.full(len(gold), -1)
            known[labels.rows[kept]] = labels.truth[kept]
            base[held] = self._joint(VoteModel.learn(table, known, self.coin), scene)[held]
        return base

    def _joint(self, model: VoteModel, scene: ClassScene) -> Floats:
        table = VoteTable.of(scene.cells.votes, scene.cells.n_classes)
        number = np.sqrt(np.maximum(scene.cells.observed.sum(axis=1, keepdims=True), 1))
        joint = model.joint(table)
        return np.asarray((joint - joint.mean(axis=1, keepdims=True)) / number)

    def _base(self, scene: ClassScene) -> Floats:
        return self._joint(VoteModel(self.logs, self.prior), scene)
