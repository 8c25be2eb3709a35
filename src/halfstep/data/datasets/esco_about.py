"""What ESCO says of an occupation or a skill: groups, type, reuse level, other names, a description.

Knows the columns of its files and the files of its hierarchy. Must not know relations between the two.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from ._archive import Archive
from ._columns import Coded
from ._delimited import Delimited, TextColumns
from .about import About, levels, prefixes

PLAIN = {"skillType": "type", "reuseLevel": "reuse"}
TEXT = {"preferredLabel": "title", "altLabels": "altLabels", "description": "description"}
OPTIONAL = (*PLAIN, *list(TEXT)[1:], "iscoGroup", "code")
MAJOR = {
    "0": "Armed forces occupations",
    "1": "Managers",
    "2": "Professionals",
    "3": "Technicians and associate professionals",
    "4": "Clerical support workers",
    "5": "Service and sales workers",
    "6": "Skilled agricultural, forestry and fishery workers",
    "7": "Craft and related trades workers",
    "8": "Plant and machine operators and assemblers",
    "9": "Elementary occupations",
}
"""The major groups of ISCO-08."""
_BETWEEN_LABELS = re.compile(r"\s*[\n|]\s*")


def esco_about(archive: Archive, file: TextColumns) -> About:
    """Columns of a file of occupations or skills, as far as it has them.

    - `group`, a list: for occupations the ISCO group at one to four digits, and ESCO's own groups below it that at
      least two occupations share; for skills all that is broader, where `broaderRelationsSkillPillar.csv` is there.
    - `type` and `reuse`: the skill type and the reuse level of a skill.
    - `title`, `altLabels` (a list) and `description`, to be read word by word.
    """
    uris: Coded = file["conceptUri"]
    columns: dict[str, Any] = {}
    groups = _groups(archive, file)
    if any(groups):
        columns["group"] = groups
    columns |= {called: file[name].expand() for name, called in (PLAIN | TEXT).items() if name in file.columns}
    if "altLabels" in columns:
        columns["altLabels"] = [_labels(text.strip()) if text else [] for text in columns["altLabels"]]
    return About.of(uris, columns, [("title", "altLabels"), ("description",)], _titles_of_groups(archive, file))


def _titles_of_groups(archive: Archive, file: TextColumns) -> dict[str, str]:
    """What groups are called: by the files of groups where they are there, else the major groups of ISCO."""
    by_code = "iscoGroup" in file.columns
    named = dict(MAJOR) if by_code else {}
    for name in archive.find(("ISCOGroups" if by_code else "skillGroups") + r"(_[a-z-]+)?\.csv")[:1]:
        text = Delimited(archive.read(name), name, multiline=True)
        key = "code" if by_code else "conceptUri"
        if key in text.names and "preferredLabel" in text.names:
            table = text.read({key: None, "preferredLabel": None})
            rows = zip(table[key].expand(), table["preferredLabel"].expand(), strict=True)
            named |= {code: title for code, title in rows if code and title}
    return {code: f"{code} {title}" if by_code else title for code, title in named.items()}


def _labels(text: str) -> list[str]:
    if "|" in text:
        return _BETWEEN_LABELS.split(text)
    return [label for line in text.split("\n") if (label := line.strip())] or [""]  # the same, and quicker


def _groups(archive: Archive, file: TextColumns) -> list[list[str]]:
    if "iscoGroup" in file.columns:
        isco = [prefixes(code, (1, 2, 3, 4)) for code in file["iscoGroup"].expand()]
        own = [levels(code, ".")[1:] for code in file["code"].expand()] if "code" in file.columns else [[]] * len(isco)
        members = Counter(group for groups in own for group in groups)
        return [[*above, *(one for one in below if members[one] > 1)] for above, below in zip(isco, own, strict=True)]
    found = archive.find(r"broaderRelationsSkillPillar(_[a-z-]+)?\.csv")
    if not found:
        return [[]] * len(file["conceptUri"])
    relations = Delimited(archive.read(found[0]), found[0], multiline=True).read(
        {"conceptUri": None, "broaderUri": None}
    )
    broader: dict[str, list[str]] = defaultdict(list)
    for narrow, wide in zip(relations["conceptUri"].expand(), relations["broaderUri"].expand(), strict=True):
        if narrow is not None and wide is not None:
            broader[narrow].append(wide)
    return [_above(uri, broader) for uri in file["conceptUri"].expand()]


def _above(uri: str | None, broader: dict[str, list[str]]) -> list[str]:
    """All that is broader than a concept, each once, the nearest first."""
    found: dict[str, None] = {}
    ahead = list(broader.get(uri, ())) if uri is not None else []
    for one in ahead:  # grows while it is read
        if one not in found:
            found[one] = None
            ahead += broader.get(one, ())
    return list(found)
