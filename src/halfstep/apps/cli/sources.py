"""What the command reads: tables, published data sets in folders, models. Says what it took for what.

Knows files and columns. Must not know what is done with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape

from halfstep.apps.console import say, working
from halfstep.data import datasets
from halfstep.data import files as persistence
from halfstep.data.columns import choose_columns
from halfstep.data.datasets._sources import read_columns
from halfstep.data.datasets.interactions import Interactions
from halfstep.data.datasets.ratings import Ratings
from halfstep.data.names import Names
from halfstep.errors import UnknownIdError, close_matches, did_you_mean
from halfstep.kinds import load

SAMPLE = "sample"

Data = Annotated[
    str,
    typer.Argument(
        help="A CSV, TSV, Parquet or Arrow file with a row for each pair; an ESCO, O*NET or MovieLens folder; "
        "or the word 'sample' for the built-in occupations and skills."
    ),
]
ModelFile = Annotated[Path, typer.Argument(help="A model written by `halfstep fit` or `model.save`.")]
UserColumn = Annotated[str | None, typer.Option("--user", help="Column of users; detected when left out.")]
ItemColumn = Annotated[str | None, typer.Option("--item", help="Column of items; detected when left out.")]
WeightColumn = Annotated[
    str | None, typer.Option("--weight", help="Column of weights; detected when left out, 'none' for weights of 1.")
]
RatingData = Annotated[
    str,
    typer.Argument(
        help="A CSV, TSV, Parquet or Arrow file with a row for each rating, a MovieLens folder, or the word 'sample'."
    ),
]
RatingColumn = Annotated[str | None, typer.Option("--rating", help="Column of ratings; detected when left out.")]
OF_RATINGS = ("PLQMF", "BayesMF", "Biases", "Constant")
"""Kinds of models that predict ratings."""
Duplicates = Annotated[
    str, typer.Option(help="What becomes of a pair that comes twice: sum, mean, max, last, count or error.")
]
OnetKind = Annotated[str, typer.Option("--kind", help="Part of O*NET: activities, technology or tasks.")]

# A file that gives a published folder away, and its loader.
_FOLDERS = {
    "occupationSkillRelations*.csv": "load_esco",
    "Technology Skills.txt": "load_onet",
    "ratings.csv": "load_movielens",
    "ratings.dat": "load_movielens",
    "u.data": "load_movielens",
}


def read_interactions(
    data: str,
    user: str | None = None,
    item: str | None = None,
    weight: str | None = None,
    duplicates: str = "sum",
    kind: str = "activities",
) -> Interactions:
    """Interactions from whatever `data` names, with a note on standard error of what was read."""
    with working(f"reading {escape(data)}"):
        if data == SAMPLE:
            found = datasets.load_sample_skills()
        elif Path(data).is_dir():
            found = _read_folder(Path(data), kind)
        else:
            no_weight: Any = False if weight == "none" else weight
            found = datasets.read_interactions(_existing(data), user, item, no_weight, duplicates=duplicates)
    users, items = found.shape
    columns = found.report.get("columns")
    if columns:
        say("took " + ", ".join(f"{escape(repr(name))} as {role}" for role, name in columns.items()))
    say(f"{escape(found.name)}: {users:,} users, {items:,} items, {len(found):,} pairs")
    return found


def _existing(data: str) -> str:
    if not Path(data).exists():
        near = close_matches(data, [p.name for p in Path().iterdir()], 1) if "/" not in data else []
        hint = f"; did you mean {near[0]}?" if near else ""
        raise FileNotFoundError(f"there is no file or folder {data}{hint}")
    return data


def _read_folder(folder: Path, kind: str) -> Interactions:
    for pattern, loader in _FOLDERS.items():
        if any(folder.glob(f"**/{pattern}")):
            options = {"kind": kind} if loader == "load_onet" else {}
            found: Interactions = getattr(datasets, loader)(folder, **options)
            return found
    names = sorted(p.name for p in folder.iterdir())[:8]
    raise ValueError(
        f"{folder} is a folder, but not one of ESCO, O*NET or MovieLens (it holds {names}); give the file to read"
    )


def read_ratings(
    data: str, user: str | None = None, item: str | None = None, rating: str | None = None, time: str | None = None
) -> Ratings:
    """Ratings of a table, where every row counts, or of a published folder; a note says what was taken for what."""
    with working(f"reading {escape(data)}"):
        if data == SAMPLE:
            found = Ratings.of(datasets.load_sample_skills())
        elif Path(data).is_dir():
            found = Ratings.of(_read_folder(Path(data), "activities"))
        else:
            found = datasets.read_ratings(_existing(data), user, item, rating, time)
    took = {"rating" if role == "weight" else role: name for role, name in found.report.get("columns", {}).items()}
    if took:
        say("took " + ", ".join(f"{escape(repr(column))} as {role}" for role, column in took.items()))
    users, items = found.shape
    say(f"{escape(found.name)}: {len(found):,} ratings, {users:,} users, {items:,} items")
    return found


def read_pairs(data: str, user: str | None = None, item: str | None = None) -> NDArray[Any]:
    """Pairs (n, 2) of ids from a table; whole numbers are numbers."""
    with working(f"reading {escape(data)}"):
        columns, report, name = read_columns(
            _existing(data),
            lambda names: choose_columns({"user": user, "item": item}, names),
            delimiter=None,
            engine=None,
        )
    users, items = columns["user"], columns["item"]
    lost = int(((users.codes < 0) | (items.codes < 0)).sum())
    if lost:
        raise ValueError(f"{name}: {lost:,} of {len(users.codes):,} rows lack an id; fill them in or drop them")
    if not len(users.codes):
        raise ValueError(f"{name} has no rows; there is nothing to predict")
    say("took " + ", ".join(f"{escape(repr(column))} as {role}" for role, column in report["columns"].items()))
    pairs = np.empty((len(users.codes), 2), object)
    for side, column in enumerate((users, items)):
        pairs[:, side] = column.values[column.codes].tolist()
    return pairs


def load_model(path: Path, *kinds: str) -> Any:
    """A saved model; where `kinds` are given it must be one of them."""
    if kinds:
        kind = persistence.read(path, mmap=True).kind
        if kind not in kinds:
            raise ValueError(f"{path} holds a {kind}; this command needs {' or '.join(kinds)}")
    return load(path)


def find_id(fitted: Any, side: str, text: str) -> tuple[Any, str]:
    """The id that people mean by `text`, and its title: an id as written, or a title, case ignored."""
    names: Names = fitted.fitted_.names[side == "item"]
    row = int(names.find([text], text=True)[0])
    if row < 0:
        near = names.near(text)
        raise UnknownIdError(f"{side} {text!r} is not in this model.{did_you_mean(near)}", near)
    return names.index.take([row]).tolist()[0], names.label(row)
