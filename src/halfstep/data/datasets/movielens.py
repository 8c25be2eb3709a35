"""MovieLens ratings in every layout GroupLens has published. Knows those files; must not know models."""

from __future__ import annotations

import os
from typing import Any

from ._archive import Archive
from ._assemble import assemble
from ._columns import label_map
from ._delimited import Table, read_delimited
from .interactions import Interactions

LICENCE = "GroupLens, University of Minnesota: research use with citation, no redistribution without permission"
RATINGS = ("userId", "movieId", "rating", "timestamp")


def load_movielens(path: str | os.PathLike[str], *, engine: str | None = None) -> Interactions:
    """Users x movies of MovieLens, weights the ratings, with timestamps and movie titles.

    Parameters
    ----------
    path : the folder or zip as downloaded: ml-100k (`u.data`), ml-1m and ml-10m (`ratings.dat`), ml-20m, 25m,
        32m and latest (`ratings.csv`).
    engine : "arrow", "python" or None to choose; the result is the same.

    Returns
    -------
    Interactions with whole numbers as ids. A user who rated a movie twice keeps the later rating. Movies
    nobody rated are no columns; `report["movies_without_ratings"]` counts them.
    """
    archive = Archive(path, "MovieLens")
    if archive.find(r"ratings\.csv"):
        ratings = _read(archive, "ratings.csv", engine)
        movies = _read_movies(archive, "movies.csv", ",", None, quoted=True)
    elif archive.find(r"ratings\.dat"):
        ratings = _read(archive, "ratings.dat", engine, separator=b"::", delimiter="\t", header=RATINGS)
        movies = _read_movies(archive, "movies.dat", "\t", ("movieId", "title", "genres"))
    else:
        archive.need(r"u\.data", "ratings.csv, ratings.dat or u.data")
        ratings = _read(archive, "u.data", engine, delimiter="\t", header=RATINGS)
        columns = ("movieId", "title", *(f"field{i}" for i in range(22)))
        movies = _read_movies(archive, "u.item", "|", columns)
    report: dict[str, Any] = {"rows": ratings.rows, "broken_rows": ratings.broken}
    titles = None
    if movies is not None:
        report["broken_rows"] += movies.broken
        ids = movies.text["movieId"].with_whole_numbers()
        titles = label_map(ids, movies.text["title"])
    items = ratings.text["movieId"].with_whole_numbers()
    if titles is not None:
        rated = set(items.values.tolist())
        report["movies_without_ratings"] = sum(one not in rated for one in titles)
    return assemble(
        ratings.text["userId"].with_whole_numbers(),
        items,
        ratings.numbers["rating"],
        ratings.numbers["timestamp"],
        duplicates="last",
        name=f"MovieLens {archive.path.stem}",
        source=f"MovieLens, {archive.path.name}",
        licence=LICENCE,
        report=report,
        item_labels=titles,
    )


def _read(archive: Archive, name: str, engine: str | None, separator: bytes | None = None, **more: Any) -> Table:
    data = archive.read(archive.need(name.replace(".", r"\."), name))
    if separator is not None:  # a delimiter of two characters is more than any fast reader takes
        data = data.replace(separator, b"\t")
    numbers = ("rating", "timestamp")
    return read_delimited(
        data, file=name, text=("userId", "movieId"), numbers=numbers, quoted=False, engine=engine, **more
    )


def _read_movies(archive: Archive, name: str, delimiter: str, header: Any, *, quoted: bool = False) -> Table | None:
    """The titles; None where their file was not kept beside the ratings."""
    found = archive.find(name.replace(".", r"\."))
    if not found:
        return None
    data = archive.read(found[0])
    if delimiter == "\t":
        data = data.replace(b"::", b"\t")
    return read_delimited(
        data,
        file=name,
        text=("movieId", "title"),
        delimiter=delimiter,
        quoted=quoted,
        header=header,
        encoding=_encoding(data),
    )


def _encoding(data: bytes) -> str:
    """ml-100k and ml-1m are latin-1, the others UTF-8; only the bytes tell."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
