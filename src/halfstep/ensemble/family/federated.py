"""Many sites, one family: views, members, weights and calibration from sums over the instances of all sites.

A round asks every site the same question about its own rows, and the total takes the family one step further:

    views      what expectation maximisation needs of all rows, until every view has settled
    skills     squared errors of classifiers on labels, of all folds and without each
    middles    sums of the members' bases
    members    gradient and curvature of every member's regression, of all folds and without each, until they settle
    losses     what held-out labels say of each member, which weighs them
    average    gradient and curvature of the last calibration, until it settles

Each is what `fitting.fit_family` computes of all rows at once. Folds of labels are dealt at each site. Knows sums and
stages; must not know how a view or a member sees rows, nor who carries sums from place to place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from halfstep.core.arrays import Floats
from halfstep.core.initial import seed_from
from halfstep.core.logistic import cross_entropy
from halfstep.ensemble.family.fitting import CALIBRATION_PENALTY, Committee, FamilyFit
from halfstep.ensemble.family.members import Member, Scene, inverse
from halfstep.ensemble.family.roster import make_members, make_views
from halfstep.ensemble.family.settings import FamilySettings
from halfstep.ensemble.family.steps import ask_views, member_table, told_views, weigh
from halfstep.ensemble.family.views import PredictedRows, View
from halfstep.ensemble.federated import MOST_STEPS, limited, site_rows, total_of
from halfstep.ensemble.inputs import InstanceRows, deal_folds
from halfstep.ensemble.naming import Naming
from halfstep.ensemble.predictions import expit
from halfstep.ensemble.sealed import SealedSums, Site
from halfstep.ensemble.sums import SiteSums

SETTLED = 1e-8
"""Of a Newton step, relative to the coefficients: sealed sums have 32 bits after the point."""


@dataclass(frozen=True, eq=False)
class Pupil:
    """A member under way. bases : what its base is made of, of all folds and without each, or None; coefficients (B, d)
    of its regressions on all labels (the first) and on those without each fold."""

    member: Member
    bases: Floats | None = None
    middle: float = 0.0
    coefficients: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def base(self, seen: LabelledRows) -> Floats:
        """(r,) of labelled rows, none of which has helped to find its own."""
        if self.bases is None:
            return self.member.base_by(seen.scene, None)
        found = np.empty(len(seen.truth))
        for fold, bases in enumerate(self.bases[1:]):
            held = seen.folds == fold
            found[held] = self.member.base_by(seen.scene, bases)[held]
        return found

    def regression(self, seen: LabelledRows) -> tuple[Floats, Floats, Floats]:
        """(r,) bases, (r, d) design and (d,) penalty."""
        base = self.base(seen)
        return base, *replace_middle(self.member, self.middle).design(seen.scene, base)

    def held_out(self, seen: LabelledRows) -> Floats:
        """(r,) answers of the regression without each row's fold."""
        base, X, _ = self.regression(seen)
        return np.asarray(base + (X * self.coefficients[1:][seen.folds]).sum(axis=1))

    def taught(self) -> Member:
        member = replace_middle(self.member, self.middle)
        member.coefficients, member.covariance = self.coefficients[0], self.covariance
        if self.bases is not None:
            member.take_base(self.bases[0])
        return member


def replace_middle(member: Member, middle: float) -> Member:
    found = copy(member)
    found.middle = middle
    return found


@dataclass(frozen=True, eq=False)
class FamilyRound:
    """A federated fit under way: what the centre sends to its sites. labels (2,) : how many there are of each class."""

    stage: str
    views: dict[str, View]
    pupils: tuple[Pupil, ...] = ()
    labels: Floats = field(default_factory=lambda: np.zeros(2))
    losses: Floats = field(default_factory=lambda: np.zeros(0))
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    average: float = 0.0
    calibration: Floats = field(default_factory=lambda: np.zeros(2))
    steps: int = 0


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Labelled rows of a site: truth and folds (r,), and kept (B, r) with 1 where a regression has the row."""

    scene: Scene
    truth: Floats
    folds: Any
    kept: Floats

    @classmethod
    def of(cls, settings: FamilySettings, rows: InstanceRows, views: dict[str, View]) -> LabelledRows:
        here = np.flatnonzero(rows.y >= 0)
        y = rows.y[here]
        folds = deal_folds(y, settings.folds, seed_from(settings.random_state))
        kept = np.vstack([np.ones(len(y)), *(folds != fold for fold in range(settings.folds))])
        cells = PredictedRows.of(rows, settings.clip).take(here)
        return cls(Scene(cells, 1, views), y.astype(np.float64), folds, kept)


# ---------------------------------------------------------------------- at a site


def family_sums(
    settings: FamilySettings, state: FamilyRound | None, P: Any, y: Any, least: int, site: Site | None
) -> SiteSums | SealedSums:
    """See `CFEnsembleCV.accumulate`; state : None in the first round."""
    _check(settings)
    rows = site_rows(P, y, least)
    labels = int((rows.y >= 0).sum())
    if site is None and 0 < labels < settings.folds * least / 2:
        raise ValueError(
            f"the site has {labels} labels in {settings.folds} folds, and plain sums with and without a fold tell of "
            f"its labels; pass site= (sealed sums), leave the labels out, or lower least={least} knowing what "
            "docs/federated.md says of it"
        )
    if site is not None and site.noise is not None:
        raise ValueError("noise would drown the many small sums of a family; use CFEnsemble, or Site(noise=None)")
    begun = _begun(settings, rows.P.shape[1]) if state is None else state
    sums = STAGES[begun.stage][0](settings, begun, rows)
    return sums if site is None else site.seal(sums, list)


def _begun(settings: FamilySettings, m: int) -> FamilyRound:
    return FamilyRound("views", {view.name: view for view in make_views(settings.ranks, settings.links, m)})


def _ask_views(settings: FamilySettings, state: FamilyRound, rows: InstanceRows) -> SiteSums:
    labels = np.bincount(rows.y[rows.y >= 0], minlength=2).astype(np.float64)
    asked = ask_views(state.views, PredictedRows.of(rows, settings.clip))
    return SiteSums("views", {**asked.sums, "labels": labels})


def _ask_labelled(ask: Callable[[FamilyRound, LabelledRows], dict[str, Any]]) -> Any:
    """A question about labelled rows alone."""

    def asked(settings: FamilySettings, state: FamilyRound, rows: InstanceRows) -> SiteSums:
        return SiteSums(state.stage, ask(state, LabelledRows.of(settings, rows, state.views)))

    return asked


def _ask_skills(state: FamilyRound, seen: LabelledRows) -> dict[str, Any]:
    found = {str(k): pupil.member.base_sums(seen.scene, seen.truth, seen.kept) for k, pupil in enumerate(state.pupils)}
    return {name: sums for name, sums in found.items() if sums is not None}


def _ask_middles(state: FamilyRound, seen: LabelledRows) -> dict[str, Any]:
    return {"bases": np.array([pupil.base(seen).sum() for pupil in state.pupils])}


def _ask_members(state: FamilyRound, seen: LabelledRows) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for k, pupil in enumerate(state.pupils):
        base, X, _ = pupil.regression(seen)
        b = pupil.coefficients if len(pupil.coefficients) else np.zeros((len(seen.kept), X.shape[1]))
        found[f"gradient {k}"], found[f"hessian {k}"] = _slopes(X, seen.truth, seen.kept, base + b @ X.T)
    return found


def _ask_losses(state: FamilyRound, seen: LabelledRows) -> dict[str, Any]:
    held = np.array([pupil.held_out(seen) for pupil in state.pupils])
    return {"losses": cross_entropy(held, seen.truth).sum(axis=1)}


def _ask_average(state: FamilyRound, seen: LabelledRows) -> dict[str, Any]:
    average = state.weights @ np.array([pupil.held_out(seen) for pupil in state.pupils])
    X = np.column_stack([np.ones(len(average)), average])
    score = average + X @ state.calibration
    gradient, hessian = _slopes(X, seen.truth, np.ones((1, len(X))), score[None])
    return {"gradient": gradient, "hessian": hessian, "loss": float(cross_entropy(average, seen.truth).sum())}


def _slopes(X: Floats, truth: Floats, weights: Floats, scores: Floats) -> tuple[Floats, Floats]:
    """(B, d) and (B, d, d) of  sum_i weights_bi CE(truth_i, scores_bi)."""
    p = expit(scores)
    return (weights * (p - truth)) @ X, (X.T * (weights * p * (1 - p))[:, None, :]) @ X


# ---------------------------------------------------------------------- at the centre


def next_family_round(
    settings: FamilySettings, state: FamilyRound | None, sites: Sequence[SiteSums | SealedSums]
) -> FamilyRound | FamilyFit:
    """The next round from the sums of all sites, or the finished fit; see `CFEnsembleCV.merge`."""
    _check(settings)
    stage = "views" if state is None else state.stage
    sums = total_of(sites, stage)
    if state is None:
        state = _begun(settings, len(sums["bias-adjusted mean"].counts))
    return STAGES[stage][1](settings, state, sums)


def _tell_views(settings: FamilySettings, state: FamilyRound, sums: dict[str, Any]) -> FamilyRound:
    labels = sums["labels"]
    if labels.min() < settings.folds:
        raise ValueError(
            f"the sites have {labels.tolist()} labels of the classes 0 and 1; {settings.folds} folds need as many of "
            "each"
        )
    views = told_views(state.views, SiteSums("views", sums))
    if not all(view.settled for view in views.values()):
        return replace(state, views=views, labels=labels)
    members = make_members(list(views.values()), int(labels.sum()))
    return FamilyRound("skills", views, tuple(map(Pupil, members)), labels)


def _tell_skills(settings: FamilySettings, state: FamilyRound, sums: dict[str, Any]) -> FamilyRound:
    pupils = [
        replace(pupil, bases=pupil.member.base_of(sums[str(k)])) if str(k) in sums else pupil
        for k, pupil in enumerate(state.pupils)
    ]
    return replace(state, stage="middles", pupils=tuple(pupils))


def _tell_middles(settings: FamilySettings, state: FamilyRound, sums: dict[str, Any]) -> FamilyRound:
    middles = sums["bases"] / state.labels.sum()
    pupils = tuple(replace(each, middle=float(m)) for each, m in zip(state.pupils, middles, strict=True))
    return replace(state, stage="members", pupils=pupils)


def _tell_members(settings: FamilySettings, state: FamilyRound, sums: dict[str, Any]) -> FamilyRound:
    pupils, longest = [], 0.0
    for k, pupil in enumerate(state.pupils):
        gradient, hessian = sums[f"gradient {k}"], sums[f"hessian {k}"]
        b = pupil.coefficients if len(pupil.coefficients) else np.zeros_like(gradient)
        penalty = pupil.member.penalties(b.shape[1], 1)
        b, length = _stepped(b, gradient, hessian, penalty)
        pupils.append(replace(pupil, coefficients=b, covariance=inverse(hessian[0], penalty)))
        longest = max(longest, length)
    if longest > SETTLED and state.steps < MOST_STEPS:
        return replace(state, pupils=tuple(pupils), steps=state.steps + 1)
    return replace(state, stage="losses", pupils=tuple(pupils), steps=0)


def _tell_losses(settings: FamilySettings, state: FamilyRound, sums: dict[str, Any]) -> FamilyRound:
    count = float(state.labels.sum())
    losses = sums["losses"] / count
    return replace(state, stage="average", losses=losses, weights=weigh(losses, count / settings.temperature))


def _tell_average(settings: FamilySettings, state: FamilyRound, sums: dict[str, Any]) -> FamilyRound | FamilyFit:
    loss = sums["loss"] / float(state.labels.sum())
    if not settings.calibrate:
        return _finished(settings, replace(state, average=loss))
    penalty = np.full(2, CALIBRATION_PENALTY)
    b, length = _stepped(state.calibration[None], sums["gradient"], sums["hessian"], penalty)
    state = replace(state, calibration=b[0], average=loss, steps=state.steps + 1)
    return state if length > SETTLED and state.steps < MOST_STEPS else _finished(settings, state)


def _stepped(b: Floats, gradient: Floats, hessian: Floats, penalty: Floats) -> tuple[Floats, float]:
    """One Newton step of each of B penalised regressions, and the length of the longest beside its coefficients."""
    pulled = np.linalg.solve(hessian + np.diag(penalty), (gradient + penalty * b)[:, :, None])[:, :, 0]
    moved = b - np.array([limited(step) for step in pulled])
    return moved, float((np.abs(moved - b).max(axis=1) / (1 + np.abs(moved).max(axis=1))).max())


def _finished(settings: FamilySettings, state: FamilyRound) -> FamilyFit:
    members = [pupil.taught() for pupil in state.pupils]
    committee = Committee(state.views, members, state.weights, state.calibration)
    spent = dict.fromkeys(state.views, 0.0)
    table = member_table(members, state.weights, state.losses, [0.0] * len(members), spent)
    m = len(state.views["bias-adjusted mean"].state()["bias"])
    return FamilyFit(
        np.array([0, 1]),
        np.zeros(0, np.int64),
        int(state.labels.sum()),
        1,
        m,
        m,
        settings.clip,
        committee,
        table,
        state.average,
        np.zeros((0, 2)),
        np.zeros(0),
        Naming(),
    )


STAGES: dict[str, tuple[Callable[..., SiteSums], Callable[..., FamilyRound | FamilyFit]]] = {
    "views": (_ask_views, _tell_views),
    "skills": (_ask_labelled(_ask_skills), _tell_skills),
    "middles": (_ask_labelled(_ask_middles), _tell_middles),
    "members": (_ask_labelled(_ask_members), _tell_members),
    "losses": (_ask_labelled(_ask_losses), _tell_losses),
    "average": (_ask_labelled(_ask_average), _tell_average),
}
"""What is asked of a site in each stage, and what the centre makes of the total."""


def _check(settings: FamilySettings) -> None:
    refused = {"estimators": settings.estimators, "max_seconds": settings.max_seconds, "classes": settings.classes}
    for name, value in (refused | {"votes": settings.votes, "engine": settings.engine}).items():
        if value not in (None, (), [], False):
            raise ValueError(f"{name}={value!r} has no place in a federated fit of two classes; leave it out")
    if settings.positive not in (None, 1):
        raise ValueError(f"positive={settings.positive!r}: a federated fit has the classes 0 and 1; pass 1 - P instead")
