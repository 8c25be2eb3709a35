"""The family over many classes: which views, which members on each, in the order in which they are made.

Must not know data.
"""

from __future__ import annotations

from collections.abc import Sequence

from halfstep.ensemble.family.beside import Beside
from halfstep.ensemble.family.classes.members import (
    ClassCentre,
    ClassFeatures,
    ClassGroups,
    ClassLatent,
    ClassMember,
    ClassStacked,
    SingleMember,
    SkilledArithmetic,
    SkilledGeometric,
    Voting,
)
from halfstep.ensemble.family.classes.views import ArithmeticView, ClassView, GeometricView, RatioFactorView
from halfstep.ensemble.family.roster import FEATURE_STRENGTHS, GROUP_STRENGTHS

LATENT_STRENGTHS = (1.0, 3.0)
SKILL_POWERS = (1.0, 2.0, 4.0)
STACKED_STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STACKED_LABELS = 300.0
"""A stacked member of strength s joins from STACKED_LABELS / s labels on: a weak penalty needs many of them."""
CLASSIFIERS_FOR_A_FACTOR = 3
MOST_FACTORS = 4


def make_class_views(ranks: Sequence[int], m: int) -> list[ClassView]:
    """Means, then factor analyses from low to high rank; a factor needs three classifiers, the first one only one."""
    most = min(MOST_FACTORS, max(1, m // CLASSIFIERS_FOR_A_FACTOR))
    factors = [RatioFactorView(rank) for rank in sorted({min(rank, most) for rank in ranks})]
    return [ArithmeticView(), GeometricView(), *factors]


def make_class_members(views: Sequence[ClassView], labels: int, beside: Beside | None = None) -> list[ClassMember]:
    """The centre of every view; on factors latent and skill-weighed members; on the last of them stacked ones, too.

    And those of features and groups, where there are any.
    """
    factors = [view for view in views if isinstance(view, RatioFactorView)]
    strengths = [s for s in STACKED_STRENGTHS if s * labels >= STACKED_LABELS or s == STACKED_STRENGTHS[-1]]
    members: list[ClassMember] = [ClassCentre(view) for view in views]
    members += [ClassLatent(view, strength) for view in factors if view.rank > 1 for strength in LATENT_STRENGTHS]
    members += [SkilledArithmetic(power) for power in SKILL_POWERS]
    members += [SkilledGeometric(factors[-1], power) for power in SKILL_POWERS]
    members += [ClassStacked(factors[-1], strength) for strength in strengths]
    if beside is not None and beside.features is not None:
        members += [ClassFeatures(factors[-1], strength) for strength in FEATURE_STRENGTHS]
    if beside is not None and beside.codes is not None:
        members += [ClassGroups(factors[-1], beside.codes, strength) for strength in GROUP_STRENGTHS]
    return [*members, SingleMember(factors[-1]), Voting(coin=True), Voting(coin=False)]
