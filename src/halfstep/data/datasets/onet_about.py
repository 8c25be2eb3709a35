"""What O*NET says of an occupation, a technology or an activity: families, zones, commodities, flags, texts.

Knows the columns of its files. Must not know who uses or does what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfstep.data.plain_ids import objects

from ._archive import Archive
from ._columns import Coded, label_map, numbers_of
from ._delimited import Delimited, TextColumns
from .about import About, levels, prefixes

CODE = "O*NET-SOC Code"


def onet_text(archive: Archive, name: str, *columns: str, optional: Sequence[str] = ()) -> TextColumns:
    """Columns of one of the text files; those that are `optional`, where it has them."""
    file = archive.need(name.replace(".", r"\."), name)
    text = Delimited(archive.read(file), file, delimiter="\t", quoted=False)
    return text.read(dict.fromkeys([*columns, *(name for name in optional if name in text.names)]))


def about_occupations(archive: Archive, *, tasks: bool = False, shorten: bool = False) -> About | None:
    """`group`, a list: the SOC codes above an occupation, from its job family ("11") to its detailed code.

    `zone`, the job zone, and `altTitles` where their files are there; `title` and `description`; and with `tasks` the
    texts of its tasks, for items that were not made of them. `shorten` drops the ".00" of codes.
    """
    if not archive.find(r"Occupation Data\.txt"):
        return None
    file = onet_text(archive, "Occupation Data.txt", CODE, "Title", optional=["Description"])
    codes = file[CODE].expand()
    columns: dict[str, Any] = {
        "group": [prefixes(code, (2, 4, 6, 7)) for code in codes],
        "title": file["Title"].expand(),
    }
    if "Description" in file.columns:
        columns["description"] = file["Description"].expand()
    if archive.find(r"Job Zones\.txt"):
        zones = onet_text(archive, "Job Zones.txt", CODE, "Job Zone")
        known = label_map(zones[CODE], zones["Job Zone"])
        columns["zone"] = numbers_of(objects([known.get(code) for code in codes]))
    more = {"altTitles": ("Alternate Titles.txt", "Alternate Title")}
    if tasks:
        more["tasks"] = ("Task Statements.txt", "Task")
    for called, (name, column) in more.items():
        if archive.find(name.replace(".", r"\.")):
            columns[called] = _collected(onet_text(archive, name, CODE, column), column, codes)
    ids = file[CODE]
    if shorten:
        ids = Coded(ids.codes, objects([code.removesuffix(".00") for code in ids.values]))
    return About.of(ids, columns, [("title", "altTitles"), ("description",), ("tasks",)])


def about_technologies(file: TextColumns) -> About:
    """Of the file of technology skills: `hot`, whether it is a hot technology, and its `title`; where the file has them
    `commodity`, a list of UNSPSC codes from the segment to the commodity, and `kind`, what these are called."""
    technologies = file["Example"].used_only()
    hot = file["Hot Technology"]
    known = technologies.codes >= 0
    is_hot = np.append(hot.values == "Y", False)[hot.codes][known]
    columns: dict[str, Any] = {
        "hot": (np.bincount(technologies.codes[known], is_hot, len(technologies.values)) > 0).tolist(),
        "title": technologies.values,
    }
    if "Commodity Code" in file.columns:
        several = _collected_by(technologies, file["Commodity Code"])
        groups = [[group for code in codes for group in prefixes(code, (2, 4, 6, 8))] for codes in several]
        columns["commodity"] = [list(dict.fromkeys(each)) for each in groups]
    if "Commodity Title" in file.columns:
        columns["kind"] = _collected_by(technologies, file["Commodity Title"])
    ids = Coded(np.arange(len(technologies.values)), technologies.values)
    return About.of(ids, columns, [("title",), ("kind",)])


def about_activities(archive: Archive, level: str) -> About | None:
    """`group`, a list: what an activity of this level, "DWA" or "IWA", is a part of; and its `title`."""
    name = f"{level} Reference.txt"
    if not archive.find(name.replace(".", r"\.")):
        return None
    file = onet_text(archive, name, f"{level} ID", f"{level} Title")
    groups = [levels(code, ".")[1:-1] for code in file[f"{level} ID"].expand()]
    return About.of(file[f"{level} ID"], {"group": groups, "title": file[f"{level} Title"].expand()}, [("title",)])


def _collected(file: TextColumns, column: str, codes: NDArray[Any]) -> list[list[str]]:
    """For each of the codes, the distinct values of a column of a file with several rows for each."""
    told = dict(zip(file[CODE].values, _collected_by(file[CODE], file[column]), strict=True))
    return [told.get(code, []) for code in codes]


def _collected_by(names: Coded, column: Coded) -> list[list[str]]:
    """For each distinct name, the distinct values of a column in its rows."""
    told: list[dict[str, None]] = [{} for _ in names.values]
    for code, value in zip(names.codes.tolist(), column.expand(), strict=True):
        if code >= 0 and value is not None:
            told[code][value] = None
    return [list(values) for values in told]
