"""O*NET, the US database of occupations, from its official text files; and activity weights made from it.

Knows the file layout. Must not know models.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from halfstep.data.plain_ids import objects
from halfstep.errors import one_of

from ._archive import Archive
from ._assemble import assemble, warn
from ._columns import Coded, FloatArray, numbers_of
from ._delimited import Delimited, TextColumns
from .about import About
from .interactions import Interactions
from .onet_about import CODE, about_activities, about_occupations, about_technologies, onet_text

LICENCE = "CC BY 4.0, O*NET by the US Department of Labor, Employment and Training Administration"
KINDS = ("technology", "activities", "tasks", "iwa")
HOT, NOT_HOT = 5.0, 1.0
LEAST_IMPORTANT = 1.0  # the low end of the importance scale


def load_onet(
    path: str | os.PathLike[str],
    kind: str = "technology",
    *,
    combine: str = "mean",
    titles: str | os.PathLike[str] | None = None,
) -> Interactions:
    """Occupations x what they use or do, from O*NET.

    Parameters
    ----------
    path : the folder or zip of text files as downloaded. For kind="iwa" the folder or CSV of the occupation x
        intermediate work activity weights.
    kind : what the items are.

        - "technology": software and tools; weight 5.0 for a hot technology, 1.0 for any other.
        - "activities": detailed work activities, through the tasks linked to them. The weight is the mean
          importance (scale IM, 1 to 5) of the occupation's tasks linked to the activity, or the sum with
          combine="sum". Activities none of whose tasks is rated weigh 1.0. Without `Task Ratings.txt` the
          weight is the number of those tasks; a warning and `report["weight"]` say so.
        - "tasks": the tasks themselves, weight their importance; needs `Task Ratings.txt`. Every task id
          belongs to one occupation, so nothing is shared and nothing can be recommended: take "activities"
          for that.
        - "iwa": intermediate work activities, weights as in the file; zero means no cell.
    combine : "mean" or "sum", for kind="activities".
    titles : folder or zip of the O*NET text files to take titles from, for kind="iwa" where they lie
        elsewhere.

    Returns
    -------
    Interactions with O*NET-SOC codes (SOC codes for "iwa") as user ids. The report counts what was left out.
    `about_users` and `about_items` hold what else the files say (see `onet_about`); features are made of it.
    """
    one_of("kind", kind, KINDS)
    one_of("combine", combine, ["mean", "sum"])
    archive = Archive(path, "O*NET")
    if kind == "iwa":
        return _iwa(archive, archive if titles is None else Archive(titles, "O*NET"))
    if titles is not None:
        raise ValueError(f"titles={str(titles)!r} is for kind='iwa' only; kind={kind!r} finds them in path")
    return {"technology": _technology, "activities": _activities, "tasks": _tasks}[kind](archive, combine)


def _technology(archive: Archive, combine: str) -> Interactions:
    more = ("Commodity Code", "Commodity Title")
    table = onet_text(archive, "Technology Skills.txt", CODE, "Example", "Hot Technology", optional=more)
    hot = table["Hot Technology"]
    is_hot = np.append(hot.values == "Y", False)[hot.codes]
    report = table.report(hot=int(is_hot.sum()), weight=f"{HOT:g} hot technology, {NOT_HOT:g} other")
    examples = table["Example"]
    return _finish(
        archive,
        (table[CODE], examples),
        np.where(is_hot, HOT, NOT_HOT),
        report,
        duplicates="max",
        name="O*NET occupations x technologies",
        noun="technology",
        item_labels={name: name for name in examples.values},
        about=(about_occupations(archive, tasks=True), about_technologies(table)),
    )


def _activities(archive: Archive, combine: str) -> Interactions:
    links = onet_text(archive, "Tasks to DWAs.txt", CODE, "Task ID", "DWA ID")
    occupations, tasks, activities = (links[c] for c in (CODE, "Task ID", "DWA ID"))
    report = links.report()
    labels = _titles(archive, "DWA Reference.txt", "DWA ID", "DWA Title", report)
    weights: FloatArray | None = None
    if archive.find(r"Task Ratings\.txt"):
        importance, rated = _importance(archive, report)
        by_task = dict(zip(rated.values, range(len(rated.values)), strict=True))
        place = np.array([by_task.get(task, -1) for task in tasks.values] + [-1])[tasks.codes]
        weights = np.append(importance, np.nan)[place]
        report["links_without_rating"] = int(np.isnan(weights).sum())
        report["weight"] = f"{combine} importance of the linked tasks (Task Ratings.txt, scale IM)"
        # An unrated task says nothing beside a rated one, and the least beside none.
        occupations, activities, weights = _only_rated(occupations, activities, weights, report)
    else:
        report["weight"] = "number of linked tasks (no Task Ratings.txt)"
        warn(
            f"{archive.path.name} has no Task Ratings.txt, so an activity weighs the number of its tasks, "
            "not their importance"
        )
    return _finish(
        archive,
        (occupations, activities),
        weights,
        report,
        duplicates="count" if weights is None else combine,
        name="O*NET occupations x detailed work activities",
        noun="activity",
        item_labels=labels,
        about=(about_occupations(archive), about_activities(archive, "DWA")),
    )


def _only_rated(
    occupations: Coded, activities: Coded, weights: FloatArray, report: dict[str, Any]
) -> tuple[Coded, Coded, FloatArray]:
    """Drop unrated links of pairs that have a rated one; of other pairs keep one, at the least weight."""
    pair = occupations.codes.astype(np.int64) * (len(activities.values) + 1) + activities.codes
    rated = ~np.isnan(weights)
    unrated_pair = ~np.isin(pair, pair[rated])
    first = np.zeros(len(pair), np.bool_)
    first[np.unique(pair, return_index=True)[1]] = True
    stand_in = unrated_pair & first
    report["activities_without_rating"] = int(stand_in.sum())
    keep = rated | stand_in
    return occupations.rows(keep), activities.rows(keep), np.where(rated, weights, LEAST_IMPORTANT)[keep]


def _tasks(archive: Archive, combine: str) -> Interactions:
    archive.need(r"Task Ratings\.txt", "Task Ratings.txt, which holds the importance of each task")
    report: dict[str, Any] = {}
    labels = _titles(archive, "Task Statements.txt", "Task ID", "Task", report)
    ratings = _importance_rows(archive)
    report.update(ratings[3].report(weight="importance (Task Ratings.txt, scale IM)"))
    occupations, tasks, values, _ = ratings
    rated = set(tasks.values[np.unique(tasks.codes[tasks.codes >= 0])])
    report["tasks_without_rating"] = sum(task not in rated for task in labels)
    warn(
        "every O*NET task id belongs to one occupation, so an occupation x task matrix shares nothing and "
        "cannot recommend; kind='activities' is shared between occupations"
    )
    return _finish(
        archive,
        (occupations, tasks),
        values,
        report,
        duplicates="mean",
        name="O*NET occupations x tasks",
        noun="task",
        item_labels=labels,
        about=(about_occupations(archive), None),
    )


def _importance_rows(archive: Archive) -> tuple[Coded, Coded, FloatArray, TextColumns]:
    """Occupation, task and importance of every row of scale IM, and the whole table."""
    file = archive.need(r"Task Ratings\.txt", "Task Ratings.txt")
    text = Delimited(archive.read(file), file, delimiter="\t", quoted=False)
    table = text.read({CODE: None, "Task ID": None, "Scale ID": None, "Data Value": numbers_of})
    scale = table["Scale ID"]
    chosen = np.append(scale.values == "IM", False)[scale.codes]
    if not chosen.any():
        raise ValueError(f"{file} has no row of scale IM (importance); its scales are {sorted(map(str, scale.values))}")
    return table[CODE].rows(chosen), table["Task ID"].rows(chosen), table["Data Value"][chosen], table


def _importance(archive: Archive, report: dict[str, Any]) -> tuple[FloatArray, Coded]:
    """Mean importance of each task, NaN where unrated, in the order of `Coded.values`."""
    _, tasks, values, table = _importance_rows(archive)
    report["broken_rows"] += table.broken
    usable = (tasks.codes >= 0) & np.isfinite(values)
    size = len(tasks.values)
    counts = np.bincount(tasks.codes[usable], minlength=size)
    sums = np.bincount(tasks.codes[usable], values[usable], minlength=size)
    return np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0), tasks


def _iwa(archive: Archive, reference: Archive) -> Interactions:
    file = archive.need(r".*iwa.*\.csv", "soc_iwa_weights.csv")
    text = Delimited(archive.read(file), file, multiline=True)
    names = text.names
    if len(names) < 2:
        raise ValueError(f"{file} must be an occupation column and one column for each activity; it has {names}")
    table = text.read(dict.fromkeys(names[:1]) | dict.fromkeys(names[1:], numbers_of))
    grid = np.column_stack([table[name] for name in names[1:]])
    rows, columns = np.nonzero(grid)  # NaN counts as non-zero here, so an unreadable weight is reported
    report = table.report(weight="as in the file", zeros=int(grid.size - len(rows)))
    users = table[names[0]].rows(rows)
    items = Coded(columns, objects(names[1:]))
    item_labels = (
        _titles(reference, "IWA Reference.txt", "IWA ID", "IWA Title", report)
        if reference.find(r"IWA Reference\.txt")
        else None
    )
    occupations: dict[str, str] | None = None
    if reference.find(r"Occupation Data\.txt"):
        known = _titles(reference, "Occupation Data.txt", CODE, "Title", report)
        # SOC codes lack the ".00" of the O*NET-SOC occupation that stands for the whole of them.
        occupations = {code.removesuffix(".00"): title for code, title in known.items()} | known
    return assemble(
        users,
        items,
        grid[rows, columns],
        duplicates="error",
        name="O*NET occupations x intermediate work activities",
        source=f"O*NET, {archive.path.name}",
        licence=LICENCE,
        report=report,
        user_labels=occupations,
        item_labels=item_labels,
        about_users=about_occupations(reference, shorten=True),
        about_items=about_activities(reference, "IWA"),
        nouns=("occupation", "activity"),
    )


def _finish(
    archive: Archive,
    pairs: tuple[Coded, Coded],
    weights: FloatArray | None,
    report: dict[str, Any],
    *,
    duplicates: str,
    name: str,
    noun: str,
    item_labels: dict[str, str],
    about: tuple[About | None, About | None],
) -> Interactions:
    user_labels = _titles(archive, "Occupation Data.txt", CODE, "Title", report)
    used = set(pairs[0].values)
    report["occupations_without_rows"] = sum(code not in used for code in user_labels)
    return assemble(
        *pairs,
        weights,
        duplicates=duplicates,
        name=name,
        source=f"O*NET, {archive.path.name}",
        licence=LICENCE,
        report=report,
        user_labels=user_labels,
        item_labels=item_labels,
        about_users=about[0],
        about_items=about[1],
        nouns=("occupation", noun),
    )


def _titles(archive: Archive, name: str, id_column: str, title_column: str, report: dict[str, Any]) -> dict[str, str]:
    """Id to title from one of the reference files; its broken rows and repeated ids go into the report."""
    return onet_text(archive, name, id_column, title_column).titles(id_column, title_column, report)
