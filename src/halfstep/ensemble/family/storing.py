"""A fitted family as arrays and figures of one model file, and back. Learns nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from halfstep.data.files import ModelFileError, Saved
from halfstep.ensemble.family.classes.fitting import ClassCommittee
from halfstep.ensemble.family.classes.roster import make_class_members, make_class_views
from halfstep.ensemble.family.fitting import Committee, FamilyFit
from halfstep.ensemble.family.roster import make_members, make_views
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.naming import Naming

VIEW = "view."
MEMBER = "member."


def to_file(fit: FamilyFit) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and everything else."""
    committee = fit.committee
    arrays = {
        "weights": committee.weights,
        "calibration": committee.calibration,
        "probabilities": fit.probabilities,
        "uncertainty": fit.uncertainty,
        **_flat(VIEW, [view.state() for view in committee.views.values()]),
        **_flat(MEMBER, [member.state() for member in committee.members]),
    }
    if fit.labels is not None:
        arrays["labels"] = fit.labels
    if fit.rows is not None:
        arrays["predictions"] = fit.rows.P
    if fit.held is not None:
        arrays["held"] = fit.held
    meta = {
        "classes": fit.classes,
        "n_features_in": fit.n_features_in,
        "n_classifiers": fit.n_classifiers,
        "n_channels": fit.n_channels,
        "n_labels": fit.n_labels,
        "views": list(committee.views),
        "members": fit.table,
        "log_loss": fit.log_loss,
        **fit.naming.to_meta(),
        "jointly": isinstance(committee, ClassCommittee),
    }
    return arrays, meta


def from_file(saved: Saved, ranks: Sequence[int], links: Sequence[str], clip: float) -> FamilyFit:
    """The fit of a family of these ranks and links."""
    meta = saved.meta
    jointly = meta.get("jointly", False)  # files from before took each class against the rest
    m, K = meta["n_classifiers"], meta["n_channels"]
    planned: Sequence[Any] = make_class_views(ranks, m) if jointly else make_views(ranks, links, m)
    known = {view.name: view for view in planned}
    unknown = set(meta["views"]) - set(known)
    if unknown:
        raise ModelFileError(f"{saved.path}: the views {sorted(unknown)} are not known")
    views = {name: known[name] for name in meta["views"]}
    roster: Any = make_class_members if jointly else make_members
    members = roster(list(views.values()), meta["n_labels"])
    for k, view in enumerate(views.values()):
        view.restore(_nested(f"{VIEW}{k}.", saved))
    for k, member in enumerate(members):
        member.restore(_nested(f"{MEMBER}{k}.", saved))
    probabilities = saved.array("probabilities", (None, len(meta["classes"])))
    n, k = len(probabilities), meta["n_channels"]
    labels = saved.array("labels", (n,)) if "labels" in saved.arrays else None
    rows = None
    if labels is not None and "predictions" in saved.arrays:
        rows = InstanceRows(saved.array("predictions", (n * k, meta["n_classifiers"])), labels, meta["classes"], k)
    return FamilyFit(
        meta["classes"],
        labels,
        meta["n_labels"],
        meta["n_channels"],
        meta["n_classifiers"],
        meta["n_features_in"],
        clip,
        (partial(ClassCommittee, K) if jointly else Committee)(
            views,
            members,
            saved.array("weights", (len(members),)),
            saved.array("calibration", (1 if jointly else K + 1,)),
        ),
        meta["members"],
        meta["log_loss"],
        probabilities,
        saved.array("uncertainty", (n,)),
        Naming.from_saved(saved, n),
        rows,
        saved.arrays.get("held"),
    )


def _flat(prefix: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{prefix}{k}.{name}": array for k, part in enumerate(parts) for name, array in part.items()}


def _nested(prefix: str, saved: Saved) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in saved.arrays.items() if name.startswith(prefix)}
