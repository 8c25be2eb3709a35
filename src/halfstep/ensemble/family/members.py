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
from halfstep.ensemble.family.confusion import VoteModel, VoteTable
from halfstep.ensemble.family.views import MEAN_CLIP, PredictedRows, Sight, View
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.learned import Learned
from halfstep.ensemble.predictions import expit, logit
from halfstep.ensemble.sums import SummedFields

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
    """truth (r,) 0 or 1 of labelled rows; folds (r,), or None where labels are too few to be held out.

    cells : all rows, and rows (r,) the place of the labelled ones among them, for members that learn from both.
    """

    truth: Floats
    folds: Codes | None
    cells: PredictedRows | None = None
    rows: Codes | None = None

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

    learned: tuple[str, ...] = ("coefficients", "middle", "covariance")
    name: str
    view: View | None = None
    strength = 1.0

    def learn(self, scene: Scene, labelled: FoldedLabels) -> Floats:
        """(r,)."""
        base = self._learn_base(scene, labelled)
        self.middle = float(base.mean()) if len(base) else 0.0
        X, penalty = self.design(scene, base)
        splits = labelled.splits()
        weights = np.array([np.ones(len(base)), *(kept.astype(np.float64) for kept, _ in splits)])
        found = fit_logistic(X, labelled.truth, weights, penalty, offset=base, tolerance=TOLERANCE)
        self.coefficients = found[0]
        p = expit(base + X @ found[0])
        self.covariance = inverse((X.T * (p * (1 - p))) @ X, penalty)
        answers: Floats = base + X @ found[0]
        for coefficients, (_, held) in zip(found[1:], splits, strict=True):
            answers[held] = base[held] + X[held] @ coefficients
        return answers

    def design(self, scene: Scene, base: Floats) -> tuple[Floats, Floats]:
        """(r, d) what is weighed beside the base (r,): intercepts, base - middle, deviations; and (d,) penalties."""
        X = np.column_stack([scene.intercepts, base - self.middle, self._deviations(scene)])
        return X, self.penalties(X.shape[1], scene.intercepts.shape[1])

    def penalties(self, size: int, n_channels: int) -> Floats:
        penalty = np.full(size, self.strength)
        penalty[:n_channels], penalty[n_channels] = INTERCEPT_PENALTY, SLOPE_PENALTY
        return penalty

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
        """(n,) of the log odds: few labels leave coefficients open, few predictions leave rows open.

        x'H^-1 x, H the information of the labels and the penalty at the fitted coefficients, and `_unseen`.
        """
        X, _ = self.design(scene, self._base(scene))
        of_labels = ((X @ self.covariance) * X).sum(axis=1)
        return np.asarray(of_labels + self._unseen(scene))

    def _unseen(self, scene: Scene) -> Floats:
        """(n,) variance for want of predictions; 0 where the member does not know what it was not shown."""
        return np.zeros(len(scene.intercepts))

    def _split(self, scene: Scene) -> tuple[float, Floats]:
        """What the base counts, and the weights of the deviations."""
        n_channels = scene.intercepts.shape[1]
        return 1 + float(self.coefficients[n_channels]), self.coefficients[n_channels + 1 :]

    def restore(self, state: dict[str, Floats]) -> None:
        """Files from before knew nothing of what labels leave open."""
        size = len(np.atleast_1d(state["coefficients"]))
        super().restore({"covariance": np.zeros((size, size))} | state)

    def _learn_base(self, scene: Scene, labelled: FoldedLabels) -> Floats:
        """(r,) the base of labelled rows, none of which has helped to find its own."""
        return self._base(scene)

    def _deviations(self, scene: Scene) -> Floats:
        """(n, k) what may be weighed beyond the base."""
        return np.zeros((len(scene.intercepts), 0))

    # What labels teach about a base, as sums over rows that may be at many sites; most bases need no labels.

    def base_sums(self, scene: Scene, truth: Floats, kept: Floats) -> SkillSums | None:
        """Of the rows that each of B masks (B, r) keeps."""
        return None

    def base_of(self, sums: SkillSums) -> Floats:
        """(B, m) what the base is made of, from sums over all rows."""
        raise TypeError(f"the base of {self.name!r} is not learned")

    def base_by(self, scene: Scene, made_of: Floats | None) -> Floats:
        """(n,) the base, made of these numbers (m,) where it is learned."""
        return self._base(scene)

    def take_base(self, made_of: Floats) -> None:
        """Keep them."""

    @abstractmethod
    def _base(self, scene: Scene) -> Floats:
        """(n,) log odds that the member is held to."""


def inverse(information: Floats, penalty: Floats) -> Floats:
    """(d, d) the covariance of coefficients under a penalty (d,)."""
    return np.asarray(np.linalg.inv(information + np.diag(penalty)), np.float64)


class ViewMember(Member):
    """A member on a view, named after it."""

    view: View

    def __init__(self, view: View, what: str = "") -> None:
        self.view = view
        self.name = view.name + what

    def _sight(self, scene: Scene) -> Sight:
        return scene[self.view.name]

    def _of_filled(self, scene: Scene, weights: Floats) -> Floats:
        """(n,) variance of the log odds of filled scores under `weights` (m,), where scores are missing."""
        sight = self._sight(scene)
        if sight.unknown is None:
            return np.zeros(len(sight.centre))
        return self.view.steepness(sight.filled @ weights) ** 2 * sight.unknown.of_filled(weights)


class CentreMember(ViewMember):
    """The view's centre."""

    def _base(self, scene: Scene) -> Floats:
        return self._sight(scene).centre

    def _unseen(self, scene: Scene) -> Floats:
        unknown = self._sight(scene).unknown
        if unknown is None:
            return super()._unseen(scene)
        slope, weights = self._split(scene)
        latent = weights[: unknown.basis.shape[1]]
        return unknown.of_factors(slope, latent if len(latent) else np.zeros(unknown.basis.shape[1]))


class LatentMember(CentreMember):
    """The centre, and the latent factors under penalty strength/2 |w|^2."""

    def __init__(self, view: View, strength: float) -> None:
        super().__init__(view, f", latent {strength:g}")
        self.strength = strength

    def _deviations(self, scene: Scene) -> Floats:
        return self._sight(scene).latent


class FeatureMember(CentreMember):
    """The centre, latent factors, and features of the instances, under penalty strength/2 |w|^2."""

    def __init__(self, view: View, strength: float) -> None:
        super().__init__(view, f", features {strength:g}")
        self.strength = strength

    def _deviations(self, scene: Scene) -> Floats:
        features = scene.cells.features
        if features is None:
            raise ValueError("the model was fitted with features of instances; pass features= with those of these")
        return np.column_stack([self._sight(scene).latent, features])


class GroupMember(ViewMember):
    """The mean of the means of groups, so that a group counts once however many classifiers it has, and what each
    group differs from it, under penalty strength/2 |w|^2. codes (m,) : the group of each classifier."""

    def __init__(self, view: View, codes: Codes, strength: float) -> None:
        super().__init__(view, f", groups {strength:g}")
        self.strength = strength
        self._share = group_shares(codes)

    def _means(self, scene: Scene) -> Floats:
        return np.asarray(self.view.log_odds(self._sight(scene).filled) @ self._share)

    def _base(self, scene: Scene) -> Floats:
        return np.asarray(self._means(scene).mean(axis=1))

    def _deviations(self, scene: Scene) -> Floats:
        means = self._means(scene)
        return np.asarray(means - means.mean(axis=1, keepdims=True))

    def _unseen(self, scene: Scene) -> Floats:
        slope, weights = self._split(scene)
        return self._of_filled(scene, self._share @ (slope / len(weights) + weights - weights.mean()))


def group_shares(codes: Codes) -> Floats:
    """(m, groups) what a classifier counts in the mean of each group."""
    one_hot = np.eye(int(codes.max()) + 1)[codes]
    return np.asarray(one_hot / one_hot.sum(axis=0))


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

    def _unseen(self, scene: Scene) -> Floats:
        slope, weights = self._split(scene)
        return self._of_filled(scene, slope / len(weights) + weights - weights.mean())


class SkillMember(ViewMember):
    """The mean of the filled scores weighed by skill^power on labelled rows."""

    learned = ("coefficients", "middle", "covariance", "weights")

    def __init__(self, view: View, power: float) -> None:
        super().__init__(view, f", skill^{power:g}")
        self.power = power

    def base_sums(self, scene: Scene, truth: Floats, kept: Floats) -> SkillSums:
        return SkillSums.of(self.view.probabilities(self._sight(scene).filled), truth, kept)

    def base_of(self, sums: SkillSums) -> Floats:
        return sums.weights(self.power)

    def base_by(self, scene: Scene, made_of: Floats | None) -> Floats:
        return self._pool(self._sight(scene).filled, self.weights if made_of is None else made_of)

    def take_base(self, made_of: Floats) -> None:
        self.weights = made_of

    def _learn_base(self, scene: Scene, labelled: FoldedLabels) -> Floats:
        splits = labelled.splits()
        kept = np.array([np.ones(len(labelled.truth)), *(mask for mask, _ in splits)], np.float64)
        self.weights, *without = self.base_of(self.base_sums(scene, labelled.truth, kept))
        base = self._base(scene)
        for weights, (_, held) in zip(without, splits, strict=True):
            base[held] = self._pool(self._sight(scene).filled[held], weights)
        return base

    def _base(self, scene: Scene) -> Floats:
        return self._pool(self._sight(scene).filled, self.weights)

    def _pool(self, filled: Floats, weights: Floats) -> Floats:
        return self.view.log_odds(filled @ weights)

    def _unseen(self, scene: Scene) -> Floats:
        slope, _ = self._split(scene)
        return slope**2 * self._of_filled(scene, self.weights)


class VotingMember(Member):
    """Dawid and Skene's posterior from votes for two classes, its log odds divided by the root of their number."""

    learned = ("coefficients", "middle", "covariance", "logs", "prior")

    def __init__(self, coin: bool) -> None:
        self.coin = coin
        self.name = "Dawid-Skene, one coin" if coin else "Dawid-Skene, confusion"

    def _learn_base(self, scene: Scene, labelled: FoldedLabels) -> Floats:
        if labelled.cells is None or labelled.rows is None:
            raise TypeError("votes are learned from all rows")
        table, rows = _vote_table(labelled.cells), labelled.rows
        gold = np.full(len(labelled.cells.P), -1)
        gold[rows] = labelled.truth
        model = VoteModel.learn(table, gold, self.coin)
        self.logs, self.prior = model.logs, model.prior

        def learn(kept: Any) -> Callable[[Any], Floats]:
            known = np.full(len(gold), -1)
            known[rows[kept]] = labelled.truth[kept]
            found = VoteModel.learn(table, known, self.coin)
            return lambda held: self._joint(found, scene.cells.take(held))

        return out_of_fold(labelled, learn, self._base(scene))

    def _joint(self, model: VoteModel, cells: PredictedRows) -> Floats:
        joint = model.joint(_vote_table(cells))
        number = np.sqrt(np.maximum(cells.observed.sum(axis=1), 1))
        return np.asarray((joint[:, 1] - joint[:, 0]) / number)

    def _base(self, scene: Scene) -> Floats:
        return self._joint(VoteModel(self.logs, self.prior), scene.cells)


def _vote_table(cells: PredictedRows) -> VoteTable:
    return VoteTable.of(np.where(cells.observed, np.nan_to_num(cells.P) >= 0.5, -1).astype(np.int64), 2)


@dataclass(frozen=True, eq=False)
class SkillSums(SummedFields):
    """Sums over labelled rows, for B sets of them: squares (B, m) of p - truth, rows (B,), positives (B,)."""

    squares: Floats
    rows: Floats
    positives: Floats

    @classmethod
    def of(cls, P: Floats, truth: Floats, kept: Floats) -> SkillSums:
        return cls(kept @ (P - truth[:, None]) ** 2, kept.sum(axis=1), kept @ truth)

    def weights(self, power: float) -> Floats:
        """(B, m) weights that sum to 1, proportional to max(1 - Brier_j / Brier_0, SKILL_FLOOR)^power.

        Brier_0 is that of the share of positives, held away from 0 and 1 by one label among two more than there are;
        Brier_j counts SKILL_CELLS cells of Brier_0 beside the rows. Without rows all weights are equal.
        """
        rows = self.rows[:, None]
        edge = 1 / (rows + 2)
        share = np.clip(self.positives[:, None] / np.maximum(rows, 1), edge, 1 - edge)
        constant = share * (1 - share)
        brier = (self.squares + SKILL_CELLS * constant) / (rows + SKILL_CELLS)
        skill = np.maximum(1 - brier / constant, SKILL_FLOOR) ** power
        return np.asarray(skill / skill.sum(axis=1, keepdims=True))


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
