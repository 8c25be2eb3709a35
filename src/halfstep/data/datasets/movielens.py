"""MovieLens ratings in every layout GroupLens has published. Knows those files; must not know models."""

from __future__ import annotations

import os
from typing import Any

from ._archive import Archive
from ._assemble import assemble
from ._columns import label_map, numbers_of
from ._delimited import Delimited, TextColumns
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
    report = ratings.report()
    titles = None
    items = ratings["movieId"].with_whole_numbers()
    if movies is not None:
        report["broken_rows"] += movies.broken
        titles = label_map(movies["movieId"].with_whole_numbers(), movies["title"])
        rated = set(items.values.tolist())
        report["movies_without_ratings"] = sum(one not in rated for one in titles)
    return assemble(
        ratings["userId"].with_whole_numbers(),
        items,
        ratings["rating"],
        ratings["timestamp"],
        duplicates="last",
        name=f"MovieLens {archive.path.stem}",
        source=f"MovieLens, {archive.path.name}",
        licence=LICENCE,
        report=report,
        item_labels=titles,
    )


def _read(archive: Archive, name: str, engine: str | None, separator: bytes | None = None, **more: Any) -> TextColumns:
    data = archive.read(archive.need(name.replace(".", r"\."), name))
    if separator is not None:  # a delimiter of two characters is more than any fast reader takes
        data = data.replace(separator, b"\t")
    wanted = {"userId": None, "movieId": None, "rating": numbers_of, "timestamp": numbers_of}
    return Delimited(data, name, quoted=False, **more).read(wanted, engine)


def _read_movies(
    archive: Archive, name: str, delimiter: str, header: Any, *, quoted: bool = False
) -> TextColumns | None:
    """The titles; None where their file was not kept beside the ratings."""
    found = archive.find(name.replace(".", r"\."))
    if not found:
        return None
    data = archive.read(found[0])
    if delimiter == "\t":
        data = data.replace(b"::", b"\t")
    text = Delimited(data, name, delimiter=delimiter, quoted=quoted, header=header, encoding=_encoding(data))
    return text.read({"movieId": None, "title": None})


def _encoding(data: bytes) -> str:
    """ml-100k and ml-1m are latin-1, the others UTF-8; only the bytes tell."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
