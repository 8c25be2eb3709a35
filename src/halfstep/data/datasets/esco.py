"""ESCO, the European classification of occupations and skills, from its official CSV download.

Knows the file layout of versions 1.1 and 1.2. Must not know models.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from ._archive import Archive
from ._assemble import assemble
from ._columns import label_map
from ._delimited import Delimited, TextColumns
from .about import About
from .esco_about import OPTIONAL, esco_about
from .interactions import Interactions

LICENCE = "free reuse with acknowledgement of ESCO (European Commission, Decision 2011/833/EU)"
RELATIONS = ("essential", "optional")
_LANGUAGE = r"(?:_(?P<language>[a-z]{2}(?:-[a-z]+)?))?"


def load_esco(
    path: str | os.PathLike[str],
    *,
    weights: Mapping[str, float] | None = None,
    language: str | None = None,
    engine: str | None = None,
) -> Interactions:
    """Occupations x skills of ESCO: one cell for each essential or optional relation.

    Parameters
    ----------
    path : the folder or zip as downloaded (CSV, version 1.1 or 1.2, any language).
    weights : weight of each relation type, {"essential": 1.0, "optional": 1.0} by default. A type left out of
        the mapping is not loaded, and the report counts it. A pair with both types takes the larger weight.
    language : two letters such as "en"; needed only where the folder holds several languages and no English.
    engine : "arrow", "python" or None to choose; the result is the same.

    Returns
    -------
    Interactions with concept URIs as ids and preferred labels as titles. An occupation or skill without a row
    in its own file keeps its relations; its title is the one the relations file gives, else its URI. What the files
    say of each is in `about_users` and `about_items`, and makes features (see `esco_about`).
    """
    chosen = _checked_weights(weights)
    archive = Archive(path, "ESCO")
    relations_file = _pick(archive, "occupationSkillRelations", language) or archive.need(
        r"occupationSkillRelations\.csv", "occupationSkillRelations.csv"
    )
    text = Delimited(archive.read(relations_file), relations_file, multiline=True)
    optional = [name for name in ("occupationLabel", "skillLabel") if name in text.names]
    table = text.read(dict.fromkeys(["occupationUri", "relationType", "skillUri", *optional]), engine)
    kinds = table["relationType"]
    report = table.report(repeated_labels=0, files=[PurePosixPath(relations_file).name])

    kind_names = [str(value) for value in kinds.values]
    counts = np.bincount(kinds.codes + 1, minlength=len(kind_names) + 1)
    for kind in RELATIONS:
        report[kind] = int(counts[1 + kind_names.index(kind)]) if kind in kind_names else 0
    report["unknown_relation_types"] = int(counts.sum()) - sum(report[kind] for kind in RELATIONS)
    report["not_loaded"] = sum(report[kind] for kind in RELATIONS if kind not in chosen)
    keep = np.append([kind in chosen for kind in kind_names], False)[kinds.codes]
    values = np.append([chosen.get(kind, 0.0) for kind in kind_names], 0.0)[kinds.codes][keep]

    labels: dict[str, dict[str, str]] = {}
    about: dict[str, About] = {}
    for name in ("occupation", "skill"):
        uris, label_column = table[f"{name}Uri"], f"{name}Label"
        file = _concepts(archive, f"{name}s", language, engine, report)
        own = {} if file is None else file.titles("conceptUri", "preferredLabel", report)
        if file is not None:
            about[name] = esco_about(archive, file)
        report[f"unknown_{name}s"] = sum(uri not in own for uri in uris.values)
        related = set(uris.values)
        report[f"{name}s_without_relations"] = sum(uri not in related for uri in own)
        labels[name] = (label_map(uris, table[label_column]) if label_column in optional else {}) | own

    return assemble(
        table["occupationUri"].rows(keep),
        table["skillUri"].rows(keep),
        values,
        duplicates="max",
        name="ESCO occupations x skills",
        source=f"ESCO, {archive.path.name}",
        licence=LICENCE,
        report=report,
        user_labels=labels["occupation"],
        item_labels=labels["skill"],
        about_users=about.get("occupation"),
        about_items=about.get("skill"),
        nouns=("occupation", "skill"),
    )


def _checked_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    if weights is None:
        return dict.fromkeys(RELATIONS, 1.0)
    unknown = sorted(set(weights) - set(RELATIONS))
    if unknown or not weights:
        raise ValueError(
            f"weights={dict(weights)!r} must map 'essential', 'optional' or both to numbers"
            + (f"; it has {unknown}" if unknown else "; it is empty")
        )
    for kind, value in weights.items():
        if not np.isfinite(value) or value <= 0:
            raise ValueError(
                f"weights[{kind!r}]={value!r} must be a positive number; leave {kind!r} out not to load it"
            )
    return {kind: float(value) for kind, value in weights.items()}


def esco_languages(path: str | os.PathLike[str]) -> list[str]:
    """Languages in which a folder has titles of occupations and of skills, such as ["de", "en"]."""
    archive = Archive(path, "ESCO")
    return sorted(set(_by_language(archive, "occupations")) & set(_by_language(archive, "skills")) - {""})


def _by_language(archive: Archive, stem: str) -> dict[str, str]:
    """Language, "" where the name has none, to the member `<stem>_<language>.csv`."""
    pattern = re.compile(stem + _LANGUAGE + r"\.csv", re.IGNORECASE)
    found: dict[str, str] = {}
    for member in archive.find(pattern.pattern):
        match = pattern.fullmatch(PurePosixPath(member).name)
        assert match is not None
        found.setdefault((match["language"] or "").lower(), member)
    return found


def _pick(archive: Archive, stem: str, language: str | None) -> str | None:
    """The member `<stem>.csv` or `<stem>_<language>.csv`; None where there is neither."""
    found = _by_language(archive, stem)
    if not found:
        return None
    wanted = [language.lower(), ""] if language else [*found] if len(found) == 1 else ["en", ""]
    for code in wanted:
        if code in found:
            return found[code]
    raise ValueError(
        f"language={language!r} is not among the {stem} files of {str(archive.path)!r}; "
        f"it must be one of {sorted(filter(None, found))}"
    )


def _concepts(
    archive: Archive, stem: str, language: str | None, engine: str | None, report: dict[str, Any]
) -> TextColumns | None:
    """The file of occupations or of skills, as far as it is used; its name goes into the report."""
    member = _pick(archive, stem, language)
    if member is None:
        return None
    text = Delimited(archive.read(member), member, multiline=True)
    known = [name for name in OPTIONAL if name in text.names]
    report["files"].append(PurePosixPath(member).name)
    return text.read(dict.fromkeys(["conceptUri", "preferredLabel", *known]), engine)
