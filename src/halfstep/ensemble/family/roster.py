"""The family of fits that are averaged: which views, which members on each, in the order in which they are made.

The cheap ones come first, so that a time budget cuts the family where it costs most. Must not know data.
"""

from __future__ import annotations

from collections.abc import Sequence

from halfstep.ensemble.family.beside import Beside
from halfstep.ensemble.family.members import (
    CentreMember,
    FeatureMember,
    GroupMember,
    LatentMember,
    Member,
    SkillMember,
    StackedMember,
    VotingMember,
)
from halfstep.ensemble.family.views import AdditiveView, FactorView, MeanView, View

LATENT_STRENGTHS = (1.0, 3.0)
SKILL_POWERS = (1.0, 2.0, 4.0)
STACKED_STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STACKED_LABELS = 500.0
"""A stacked member of strength s joins from STACKED_LABELS / s labels on: a weak penalty needs many of them."""
FEATURE_STRENGTHS = (1.0, 10.0, 100.0)
GROUP_STRENGTHS = (1.0, 10.0, 300.0)
IDENTITY_RANK = 3
CLASSIFIERS_FOR_A_FACTOR = 3
SURE_VIEWS = 3
"""Views that are fitted whatever the time budget: both means and the first factorisation."""


def make_views(ranks: Sequence[int], links: Sequence[str], m: int) -> list[View]:
    """Means, then factorisations from low to high rank. A factor needs three classifiers, the first one only one."""
    most = max(1, m // CLASSIFIERS_FOR_A_FACTOR)
    kept = sorted({min(rank, most) for rank in ranks})
    factors: list[View] = []
    if "logit" in links:
        factors += [FactorView(rank) for rank in kept]
    if "identity" in links:
        factors.insert(1, FactorView(min(IDENTITY_RANK, most), "identity"))
    return [MeanView(), AdditiveView(), *factors]


def make_members(views: Sequence[View], labels: int, beside: Beside | None = None) -> list[Member]:
    """Every member of every view: its centre; on factors also latent, skill-weighted and, on the last, stacked ones.

    Further ones are those of votes, features and groups, where there are any.
    """
    strengths = [s for s in STACKED_STRENGTHS if s * labels >= STACKED_LABELS or s == STACKED_STRENGTHS[-1]]
    members: list[Member] = []
    last = max((view for view in views if isinstance(view, FactorView)), key=_order)
    for view in views:
        members.append(CentreMember(view))
        if isinstance(view, FactorView):
            members += [LatentMember(view, strength) for strength in LATENT_STRENGTHS]
            members += [SkillMember(view, power) for power in SKILL_POWERS]
        if view is last:
            members += [StackedMember(view, strength) for strength in strengths]
            if beside is not None and beside.voted:
                members += [VotingMember(coin=True), VotingMember(coin=False)]
            if beside is not None and beside.features is not None:
                members += [FeatureMember(view, strength) for strength in FEATURE_STRENGTHS]
            if beside is not None and beside.codes is not None:
                members += [GroupMember(view, beside.codes, strength) for strength in GROUP_STRENGTHS]
    return members


def _order(view: FactorView) -> tuple[bool, int]:
    return view.link == "logit", view.rank
