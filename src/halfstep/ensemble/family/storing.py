"""A fitted family as arrays and figures of one model file, and back. Learns nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from halfstep.core.loop import timeless
from halfstep.data.files import ModelFileError, Saved
from halfstep.data.tensors import CODES, FACTORS, HOLES, POSITIVE, SHARES, WEIGHTS, Tensor, kept_classes
from halfstep.ensemble.family.beside import Beside
from halfstep.ensemble.family.classes.fitting import ClassCommittee
from halfstep.ensemble.family.classes.roster import make_class_members, make_class_views
from halfstep.ensemble.family.fitting import Committee, FamilyFit
from halfstep.ensemble.family.roster import make_members, make_views
from halfstep.ensemble.family.views import PredictedRows
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.naming import Naming

VIEW = "view."
MEMBER = "member."
ANSWERS = {
    "uncertainty": Tensor("instances", WEIGHTS),
    "probabilities": Tensor("instances classes", SHARES),
    "weights": Tensor("members", SHARES),
    "calibration": Tensor("calibration"),
}
BESIDE = {
    "features.values": Tensor("instances features", FACTORS, optional=True),
    "features.mean": Tensor("features", FACTORS, optional=True),
    "features.scale": Tensor("features", POSITIVE, optional=True),
}
TOLD = {
    "labels": Tensor("instances", CODES, of="classes", optional=True),
    "predictions": Tensor("rows classifiers", HOLES, optional=True),
    "held": Tensor("held classes", SHARES, optional=True),
}
UNSAVED = ("random_state", "estimators", "engine", "checkpoint", "every", "resume")


def kept_params(params: dict[str, Any]) -> dict[str, Any]:
    """What a file keeps of the parameters: no code, no engine, and no state of a random generator."""
    kept = {name: value for name, value in params.items() if name not in UNSAVED}
    kept |= {"ranks": [int(rank) for rank in params["ranks"]], "links": list(params["links"])}
    if params["classes"] is not None:
        kept["classes"] = np.asarray(params["classes"]).tolist()
    if isinstance(params["random_state"], int | np.integer):
        kept["random_state"] = int(params["random_state"])
    return kept


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
    side, more = fit.beside.to_file()
    arrays |= side
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
        "fitted_with": _fitted_with(fit),
        "members": timeless(fit.table),
        "log_loss": fit.log_loss,
        **fit.naming.to_meta(),
        "jointly": isinstance(committee, ClassCommittee),
        "frame_columns": fit.frame_columns,
        **more,
    }
    return arrays, meta


def from_file(saved: Saved, ranks: Sequence[int], links: Sequence[str], clip: float) -> FamilyFit:
    """The fit that a file holds. ranks, links, clip : of the parameters, for files that do not say what was fitted."""
    meta = saved.meta
    jointly = bool(meta.get("jointly", False))  # files from before took each class against the rest
    m, K, classes = int(meta["n_classifiers"]), int(meta["n_channels"]), kept_classes(meta["classes"])
    if classes.ndim != 1 or (1 if len(classes) == 2 else len(classes)) != K:
        raise ModelFileError(f"{saved.path}: it has {K} rows of an instance for {len(classes)} classes")
    ranks, links, clip = meta.get("fitted_with", (ranks, links, clip))
    planned: Sequence[Any] = make_class_views(ranks, m) if jointly else make_views(ranks, links, m)
    known = {view.name: view for view in planned}
    unknown = set(meta["views"]) - set(known)
    if unknown:
        raise ModelFileError(f"{saved.path}: the views {sorted(unknown)} are not known")
    views = {name: known[name] for name in meta["views"]}
    roster: Any = make_class_members if jointly else make_members
    beside = Beside.from_file(saved.tensors(BESIDE), meta)
    members = roster(list(views.values()), meta["n_labels"], beside)
    for k, view in enumerate(views.values()):
        view.restore(saved.learned(f"{VIEW}{k}."))
    for k, member in enumerate(members):
        member.restore(saved.learned(f"{MEMBER}{k}."))
    n = len(saved.tensors(ANSWERS, classes=len(classes), members=len(members))["uncertainty"])
    sizes = {"instances": n, "rows": n * K, "classifiers": m, "classes": len(classes), "members": len(members)}
    kept = saved.tensors(ANSWERS | TOLD, calibration=1 if jointly else K + 1, **sizes)
    labels, rows = kept.get("labels"), None
    if "held" in kept and labels is not None and len(kept["held"]) != np.count_nonzero(labels >= 0):
        raise ModelFileError(f"{saved.path}: what was held out does not fit its labels")
    if labels is not None and "predictions" in kept:
        rows = InstanceRows(kept["predictions"], labels, classes, K)
    beside.check(n, m)
    fit = FamilyFit(
        classes,
        labels,
        int(meta["n_labels"]),
        K,
        m,
        int(meta["n_features_in"]),
        float(clip),
        (partial(ClassCommittee, K) if jointly else Committee)(views, members, kept["weights"], kept["calibration"]),
        list(meta["members"]),
        None if meta["log_loss"] is None else float(meta["log_loss"]),
        kept["probabilities"],
        kept["uncertainty"],
        Naming.from_saved(saved, n),
        rows,
        kept.get("held"),
        beside,
        meta.get("frame_columns"),
    )
    if len(fit.table) != len(members) or fit.n_features_in not in (m, m * len(classes)):
        raise ModelFileError(f"{saved.path}: its members or columns are not those of its {m} classifiers")
    _rehearse(fit)
    return fit


def _rehearse(fit: FamilyFit) -> None:
    """Two new instances are answered, whatever was learned: arrays that do not fit each other show themselves here."""
    told = np.full((2 * fit.n_channels, fit.n_classifiers), 1 / len(fit.classes))
    q = fit.beside.n_features
    side = np.zeros((len(told), q)) if q else None
    answers = fit.committee.answer(PredictedRows(told, np.tile(np.arange(fit.n_channels), 2), fit.clip, side))
    if not all(np.isfinite(answer).all() for answer in answers):
        raise ValueError("it answers with numbers that are not finite")


def _fitted_with(fit: FamilyFit) -> list[Any]:
    """Ranks, links and clip, whatever the estimator says since."""
    factors = [view for view in fit.committee.views.values() if "rank" in vars(view)]
    links = {getattr(view, "link", "logit") for view in factors}
    return [sorted({view.rank for view in factors}), sorted(links), fit.clip]


def _flat(prefix: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{prefix}{k}.{name}": array for k, part in enumerate(parts) for name, array in part.items()}
