"""Members of a committee: each turns rows seen through a view into log odds, by a few numbers learned from labels.

A member's answer is  base + intercept + slope (base - middle) + deviations.w,  everything but the base penalised, so
that no label means the base itself. Knows views and labels; must not know how members are weighed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from halfstep.core.arrays import Codes, Floats
from halfstep.core.logistic import fit_logistic
from halfstep.ensemble.family.views import MEAN_CLIP, PredictedRows, Sight, View
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.learned import Learned
from halfstep.ensemble.predictions import logit

INTERCEPT_PENALTY = 8.0
SLOPE_PENALTY = 4.0
"""How strongly a member is held to its base, in units of summed log loss. Twenty labels often carry the wrong share of
a rare class, and a slope fitted freely to them may even turn negative."""
TOLERANCE = 1e-12
"""Of the few numbers a member learns: they are averaged, so a lower decrement would change nothing that counts."""
SKILL_FLOOR = 0.01
SKILL_CELLS = 5.0


class Scene:
    """Some rows, and what views see of them, looked at once."""

    def __init__(self, cells: PredictedRows, n_channels: int, views: dict[str, View]) -> None:
        self.cells = cells
        self.intercepts = np.eye(n_channels)[cells.channel]
        self._views = views
        self._sights: dict[str, Sight] = {}

    def __getitem__(self, view: str) -> Sight:
        if view not in self._sights:
            self._sights[view] = self._views[view].look(self.cells)
        return self._sights[view]


@dataclass(frozen=True, eq=False)
class FoldedLabels:
    """truth (r,) 0 or 1 of labelled rows; folds (r,), or None where labels are too few to be held out."""

    truth: Floats
    folds: Codes | None

    def splits(self) -> list[tuple[Any, Any]]:
        """(kept, held) rows of each fold."""
        if self.folds is None:
            return []
        return [(self.folds != fold, self.folds == fold) for fold in np.unique(self.folds)]


def out_of_fold(labelled: FoldedLabels, learn: Callable[[Any], Callable[[Any], Floats]], known: Floats) -> Floats:
    """(r,) each row's answer from a rule learned on the other folds; `known` where there are no folds."""
    answers = known.copy()
    for kept, held in labelled.splits():
        answers[held] = learn(kept)(held)
    return answers


class Member(Learned, ABC):
    """`learn` from the scene of labelled rows gives their out-of-fold log odds; `log_odds` answers for any scene."""

    learned: tuple[str, ...] = ("coefficients", "middle")
    name: str
    view: View | None = None
    strength = 1.0

    def learn(self, scene: Scene, labelled: FoldedLabels) -> Floats:
        """(r,)."""
        base = self._learn_base(scene, labelled)
        deviations = self._deviations(scene)
        self.middle = float(base.mean()) if len(base) else 0.0
        n_channels = scene.intercepts.shape[1]
        X = np.column_stack([scene.intercepts, base - self.middle, deviations])
        penalty = np.full(X.shape[1], self.strength)
        penalty[:n_channels], penalty[n_channels] = INTERCEPT_PENALTY, SLOPE_PENALTY
        splits = labelled.splits()
        weights = np.array([np.ones(len(base)), *(kept.astype(np.float64) for kept, _ in splits)])
        found = fit_logistic(X, labelled.truth, weights, penalty, offset=base, tolerance=TOLERANCE)
        self.coefficients = found[0]
        answers: Floats = base + X @ found[0]
        for coefficients, (_, held) in zip(found[1:], splits, strict=True):
            answers[held] = base[held] + X[held] @ coefficients
        return answers

    def log_odds(self, scene: Scene) -> Floats:
        """(n,)."""
        base = self._base(scene)
        n_channels = scene.intercepts.shape[1]
        b = self.coefficients
        answer: Floats = base + scene.intercepts @ b[:n_channels] + b[n_channels] * (base - self.middle)
        if len(b) > n_channels + 1:
            answer = answer + self._deviations(scene) @ b[n_channels + 1 :]
        return answer

    def variance(self, scene: Scene) -> Floats:
        """(n,) of the log odds, as far as the member knows how little it was shown."""
        return np.zeros(len(scene.intercepts))

    def _learn_base(self, scene: Scene, labelled: FoldedLabels) -> Floats:
        """(r,) the base of labelled rows, none of which has helped to find its own."""
        return self._base(scene)

    def _deviations(self, scene: Scene) -> Floats:
        """(n, k) what may be weighed beyond the base."""
        return np.zeros((len(scene.intercepts), 0))

    @abstractmethod
    def _base(self, scene: Scene) -> Floats:
        """(n,) log odds that the member is held to."""


class ViewMember(Member):
    """A member on a view, named after it."""

    view: View

    def __init__(self, view: View, what: str = "") -> None:
        self.view = view
        self.name = view.name + what

    def _sight(self, scene: Scene) -> Sight:
        return scene[self.view.name]


class CentreMember(ViewMember):
    """The view's centre."""

    def _base(self, scene: Scene) -> Floats:
        return self._sight(scene).centre

    def variance(self, scene: Scene) -> Floats:
        slope = 1 + self.coefficients[scene.intercepts.shape[1]]
        variance: Floats = slope**2 * self._sight(scene).variance
        return variance


class LatentMember(CentreMember):
    """The centre, and the latent factors under penalty strength/2 |w|^2."""

    def __init__(self, view: View, strength: float) -> None:
        super().__init__(view, f", latent {strength:g}")
        self.strength = strength

    def _deviations(self, scene: Scene) -> Floats:
        return self._sight(scene).latent


class StackedMember(ViewMember):
    """The mean of the filled scores, and what each classifier differs from it, under penalty strength/2 |w|^2."""

    def __init__(self, view: View, strength: float) -> None:
        super().__init__(view, f", stacked {strength:g}")
        self.strength = strength

    def _scores(self, scene: Scene) -> Floats:
        return self.view.log_odds(self._sight(scene).filled)

    def _base(self, scene: Scene) -> Floats:
        mean: Floats = self._scores(scene).mean(axis=1)
        return mean

    def _deviations(self, scene: Scene) -> Floats:
        scores = self._scores(scene)
        deviations: Floats = scores - scores.mean(axis=1, keepdims=True)
        return deviations


class SkillMember(ViewMember):
    """The mean of the filled scores weighed by skill^power on labelled rows."""

    learned = ("coefficients", "middle", "weights")

    def __init__(self, view: View, power: float) -> None:
        super().__init__(view, f", skill^{power:g}")
        self.power = power

    def _learn_base(self, scene: Scene, labelled: FoldedLabels) -> Floats:
        filled = self._sight(scene).filled
        P = self.view.probabilities(filled)

        def learn(kept: Any) -> Callable[[Any], Floats]:
            weights = skill_weights(P[kept], labelled.truth[kept], self.power)
            return lambda held: self._pool(filled[held], weights)

        self.weights = skill_weights(P, labelled.truth, self.power)
        return out_of_fold(labelled, learn, self._pool(filled, self.weights))

    def _base(self, scene: Scene) -> Floats:
        return self._pool(self._sight(scene).filled, self.weights)

    def _pool(self, filled: Floats, weights: Floats) -> Floats:
        return self.view.log_odds(filled @ weights)


def skill_weights(P: Floats, truth: Floats, power: float) -> Floats:
    """(m,) weights that sum to 1, proportional to max(1 - Brier_j / Brier_0, SKILL_FLOOR)^power.

    Brier_0 is that of the share of positives, held away from 0 and 1 by one label among two more than there are;
    Brier_j counts SKILL_CELLS cells of Brier_0 beside the rows of P (r, m). Without rows all weights are equal.
    """
    r, m = P.shape
    if r == 0:
        return np.full(m, 1 / m)
    edge = 1 / (r + 2)
    share = float(np.clip(truth.mean(), edge, 1 - edge))
    constant = share * (1 - share)
    brier = (((P - truth[:, None]) ** 2).sum(axis=0) + SKILL_CELLS * constant) / (r + SKILL_CELLS)
    skill = np.maximum(1 - brier / constant, SKILL_FLOOR) ** power
    weights: Floats = skill / skill.sum()
    return weights


@dataclass(frozen=True, eq=False)
class Refit:
    """A copy of `estimator` fitted to all rows with labels of some: `kept` is a mask of the labelled `instances`."""

    estimator: Any
    rows: InstanceRows
    instances: Codes

    def __call__(self, kept: Any) -> Any:
        y = np.full(self.rows.n, -1)
        y[self.instances[kept]] = self.rows.y[self.instances[kept]]
        return clone(self.estimator).fit(self.rows.P, y)


class EstimatorMember(Member):
    """Any estimator with `fit(P, y)` and `predict_proba(P)`, refitted for each fold with all rows kept."""

    def __init__(self, name: str, refit: Refit) -> None:
        self.name = name
        self._refit = refit

    def _learn_base(self, scene: Scene, labelled: FoldedLabels) -> Floats:
        refit = self.__dict__.pop("_refit")  # what was learned does not hold the rows it was learned from

        def learn(kept: Any) -> Callable[[Any], Floats]:
            model = refit(kept)
            return lambda held: _log_odds(model, scene.cells.P[held])

        self.fitted = refit(np.ones(len(labelled.truth), dtype=bool))
        return out_of_fold(labelled, learn, self._base(scene))

    def _base(self, scene: Scene) -> Floats:
        return _log_odds(self.fitted, scene.cells.P)


def _log_odds(model: Any, P: Floats) -> Floats:
    return logit(model.predict_proba(P)[:, 1], MEAN_CLIP) if len(P) else np.zeros(0)
