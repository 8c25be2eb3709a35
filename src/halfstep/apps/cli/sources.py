"""What the command reads: tables, standard input, published data sets in folders. Says what it took for what.

Knows files and columns. Must not know what is done with them.
"""

from __future__ import annotations

import io
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape

from halfstep.apps.cli import completion
from halfstep.apps.console import say, working
from halfstep.data import datasets
from halfstep.data.columns import choose_columns, plural
from halfstep.data.datasets._archive import most_unpacked, unpacked
from halfstep.data.datasets._assemble import DUPLICATES, DataWarning
from halfstep.data.datasets._sources import read_columns
from halfstep.data.datasets.interactions import Interactions
from halfstep.data.datasets.published import load_published
from halfstep.data.datasets.ratings import Ratings
from halfstep.errors import close_matches

SAMPLE, STDIN = "sample", "-"
DATA_ENDINGS = (
    *(".csv", ".tsv", ".tab", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".arrow", ".feather", ".ipc"),
    *(".npz", ".gz", ".bz2", ".xz", ".zst", ".zip", ".html", ".md"),
)
"""Endings that no model file has."""
LIKE_RATINGS = ("rating", "ratings", "stars", "score")

Data = Annotated[
    str,
    typer.Argument(
        help="A CSV, TSV, JSON lines, Parquet or Arrow file with a row for each pair, a sparse matrix (.npz), or - for "
        "standard input; an ESCO, O*NET or MovieLens folder; or the word 'sample' for the built-in occupations and "
        "skills. Text may be packed (.gz, .bz2, .xz, .zst, .zip)."
    ),
]
RatingData = Annotated[
    str,
    typer.Argument(
        help="A CSV, TSV, JSON lines, Parquet or Arrow file with a row for each rating, or - for standard input; a "
        "MovieLens folder; or the word 'sample'."
    ),
]
UserColumn = Annotated[
    str | None,
    typer.Option("--user", help="Column of users; detected when left out.", autocompletion=completion.columns),
]
ItemColumn = Annotated[
    str | None,
    typer.Option("--item", help="Column of items; detected when left out.", autocompletion=completion.columns),
]
WeightColumn = Annotated[
    str | None,
    typer.Option(
        "--weight",
        help="Column of weights; detected when left out, 'none' for weights of 1.",
        autocompletion=completion.columns,
    ),
]
RatingColumn = Annotated[
    str | None,
    typer.Option("--rating", help="Column of ratings; detected when left out.", autocompletion=completion.columns),
]
Duplicates = Annotated[
    str,
    typer.Option(
        help="What becomes of a pair that comes twice: sum, mean, max, last, count or error.",
        autocompletion=completion.words(*DUPLICATES),
    ),
]
OnetKind = Annotated[
    str,
    typer.Option(
        "--kind",
        help="Part of O*NET: activities, technology or tasks.",
        autocompletion=completion.words("activities", "technology", "tasks"),
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="Of text files, such as cp1252; UTF-8 when left out.",
        autocompletion=completion.words("utf-8", "cp1252", "latin-1", "utf-16"),
    ),
]


@dataclass
class PairTable:
    """A table of who has what, and which columns of it are meant."""

    data: Data
    user: UserColumn = None
    item: ItemColumn = None
    weight: WeightColumn = None
    duplicates: Duplicates = "sum"
    kind: OnetKind = "activities"
    encoding: Encoding = None

    def read(self) -> Interactions:
        """Interactions from whatever `data` names, with a note on standard error of what was read."""
        with working(f"reading {escape(self.data)}"):
            if self.data == SAMPLE:
                found = datasets.load_sample_skills()
            elif Path(self.data).is_dir():
                found = load_published(self.data, kind=self.kind)
            else:
                weight: Any = False if self.weight == "none" else self.weight
                with opened(self.data) as path:
                    found = datasets.read_interactions(
                        path, self.user, self.item, weight, duplicates=self.duplicates, encoding=self.encoding
                    )
        users, items = found.shape
        took = found.report.get("columns", {})
        tell_columns(took, found.report)
        if self.weight is None and str(took.get("weight", "")).casefold() in LIKE_RATINGS:
            warnings.warn(
                f"the ratings in {took['weight']!r} are taken as weights: a low one still counts for the pair. For "
                "ratings there are `halfstep fit plq` and `fit bayes`; --weight none counts every pair as 1",
                DataWarning,
                stacklevel=2,
            )
        names = [escape(plural(noun)) for noun in found.nouns]
        say(f"{escape(found.name)}: {users:,} {names[0]}, {items:,} {names[1]}, {len(found):,} pairs")
        return found


@dataclass
class RatingTable:
    """A table of who gave what to what, and which columns of it are meant."""

    data: RatingData
    user: UserColumn = None
    item: ItemColumn = None
    rating: RatingColumn = None
    encoding: Encoding = None

    def read(self, time: str | None = None) -> Ratings:
        """Ratings of a table, where every row counts, or of a published folder; a note says what was taken."""
        with working(f"reading {escape(self.data)}"):
            if self.data == SAMPLE:
                found = Ratings.of(datasets.load_sample_skills())
            elif Path(self.data).is_dir():
                found = Ratings.of(load_published(self.data))
            else:
                with opened(self.data) as path:
                    found = datasets.read_ratings(path, self.user, self.item, self.rating, time, encoding=self.encoding)
        took = found.report.get("columns", {})
        tell_columns({"rating" if role == "weight" else role: name for role, name in took.items()}, found.report)
        users, items = found.shape
        say(f"{escape(found.name)}: {len(found):,} ratings, {users:,} users, {items:,} items")
        return found


def tell_columns(took: dict[str, Any], report: dict[str, Any]) -> None:
    """Which column was taken for what, and which was not used."""
    if not took:
        return
    text = "took " + ", ".join(f"{escape(repr(name))} as {role}" for role, name in took.items())
    unused = [escape(repr(name)) for name in report.get("columns_not_used", [])]
    say(text + (f"; {', '.join(unused)} not used" if unused else ""))


def read_pairs(data: str, user: str | None, item: str | None, encoding: str | None) -> NDArray[Any]:
    """Pairs (n, 2) of ids from a table; whole numbers are numbers."""
    with working(f"reading {escape(data)}"), opened(data) as path:
        columns, report, name = read_columns(
            path, lambda names: choose_columns({"user": user, "item": item}, names), encoding=encoding
        )
    users, items = columns["user"], columns["item"]
    lost = int(((users.codes < 0) | (items.codes < 0)).sum())
    if lost:
        raise ValueError(f"{name}: {lost:,} of {len(users.codes):,} rows lack an id; fill them in or drop them")
    if not len(users.codes):
        raise ValueError(f"{name} has no rows; there is nothing to predict")
    tell_columns(report["columns"], report)
    pairs = np.empty((len(users.codes), 2), object)
    for side, column in enumerate((users, items)):
        pairs[:, side] = column.values[column.codes].tolist()
    return pairs


@contextmanager
def opened(data: str | Path) -> Iterator[Path]:
    """A file that exists: the one named, or standard input for as long as it is read."""
    if str(data) != STDIN:
        yield _existing(str(data))
        return
    if sys.stdin.isatty():
        say("reading standard input; Ctrl-D ends it")
    content = sys.stdin.buffer.read()
    if not content:
        raise ValueError("standard input is empty; pipe a table into this command, or name a file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"standard input{_ending(content)}"
        path.write_bytes(content)
        yield path


def _ending(content: bytes) -> str:
    """What a table without a name is called by: its first bytes tell formats apart."""
    first = content[:64]
    if not first.startswith(b"PK"):
        first = unpacked(content, "standard input", most_unpacked(len(content)))[:64].lstrip()
    if first.startswith(b"PK"):
        inside = zipfile.ZipFile(io.BytesIO(content)).namelist()
        return ".npz" if all(name.endswith(".npy") for name in inside) else ".zip"
    known = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"{": ".jsonl"}
    return next((ending for mark, ending in known.items() if first.startswith(mark)), ".csv")


def _existing(data: str) -> Path:
    if not Path(data).exists():
        near = close_matches(data, [p.name for p in Path().iterdir()], 1) if "/" not in data else []
        hint = f"; did you mean {near[0]}?" if near else ""
        raise FileNotFoundError(f"there is no file or folder {data}{hint}")
    return Path(data)


def check_model_path(output: Path, *read: str | Path | None) -> None:
    """Refuse to write a model over what it is made from, or under the name of a table."""
    for source in read:
        if source is not None and output.exists() and Path(source).exists() and output.samefile(source):
            raise ValueError(f"--output {output} is the file that is read; the model would take its place")
    if output.suffix.lower() in DATA_ENDINGS:
        raise ValueError(
            f"--output {output}: a model is no {output.suffix} file; call it {output.with_suffix('.safetensors').name}"
        )
