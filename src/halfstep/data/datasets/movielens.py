"""MovieLens ratings in every layout GroupLens has published. Knows those files; must not know models."""

from __future__ import annotations

import os
import re
from typing import Any

from ._archive import Archive
from ._assemble import assemble
from ._columns import label_map, numbers_of
from ._delimited import Delimited, TextColumns
from .about import About
from .interactions import Interactions

LICENCE = "GroupLens, University of Minnesota: research use with citation, no redistribution without permission"
RATINGS = ("userId", "movieId", "rating", "timestamp")
GENRES = (  # flags of u.item, in its order
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
USERS = {  # file, delimiter and columns of what is known of users
    "u.user": ("|", ("userId", "age", "gender", "occupation", "zip")),
    "users.dat": ("\t", ("userId", "gender", "age", "occupation", "zip")),
}
NO_GENRES = ("(no genres listed)", "unknown")
_YEAR = re.compile(r"\((\d{4})\)\s*$")


def load_movielens(path: str | os.PathLike[str], *, engine: str | None = None) -> Interactions:
    """Users x movies of MovieLens, weights the ratings, with timestamps, movie titles and what is known of movies.

    Other data in these layouts, such as MovieTweetings, read as well.

    Parameters
    ----------
    path : the folder or zip as downloaded: ml-100k (`u.data`), ml-1m and ml-10m (`ratings.dat`), ml-20m, 25m,
        32m and latest (`ratings.csv`).
    engine : "arrow", "python" or None to choose; the result is the same.

    Returns
    -------
    Interactions with whole numbers as ids. A user who rated a movie twice keeps the later rating. Movies
    nobody rated are no columns; `report["movies_without_ratings"]` counts them. `about_items` has of movies the
    `genres` (a list), the `year`, the `era` (a list: "1980s", "1987") and the `title` without it; `about_users` has
    `gender`, `age` and `occupation` where `u.user` or `users.dat` is there. Features are made of these.
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
        columns = ("movieId", "title", "released", "on video", "address", *GENRES)
        movies = _read_movies(archive, "u.item", "|", columns)
    report = ratings.report()
    titles, about = None, None
    items = ratings["movieId"].with_whole_numbers()
    if movies is not None:
        report["broken_rows"] += movies.broken
        about = _about(movies)
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
        licence="see its LICENSE.txt" if archive.find(r"LICENSE\.txt") else LICENCE,
        report=report,
        item_labels=titles,
        about_users=_about_users(archive),
        about_items=about,
        nouns=("user", "film"),
    )


def _about_users(archive: Archive) -> About | None:
    for name, (delimiter, header) in USERS.items():
        found = archive.find(name.replace(".", r"\."))
        if found:
            data = archive.read(found[0]).replace(b"::", b"\t")
            users = Delimited(data, name, delimiter=delimiter, quoted=False, header=header)
            table = users.read({"userId": None, "gender": None, "age": numbers_of, "occupation": None})
            columns = {
                "gender": table["gender"].expand(),
                "age": table["age"],
                "occupation": table["occupation"].expand(),
            }
            return About.of(table["userId"].with_whole_numbers(), columns)
    return None


def _about(movies: TextColumns) -> About:
    titles = [title or "" for title in movies["title"].expand()]
    years = [_YEAR.search(title) for title in titles]
    if "genres" in movies.columns:
        genres = [(text or "").split("|") for text in movies["genres"].expand()]
    else:
        flags = [movies[genre].expand() for genre in GENRES]
        genres = [
            [name for name, flag in zip(GENRES, row, strict=True) if flag == "1"] for row in zip(*flags, strict=True)
        ]
    columns: dict[str, list[Any]] = {
        "genres": [[genre for genre in row if genre and genre not in NO_GENRES] for row in genres],
        "year": [float(year[1]) if year else None for year in years],
        "era": [[f"{year[1][:3]}0s", year[1]] if year else [] for year in years],
        "title": [_YEAR.sub("", title).strip() for title in titles],
    }
    return About.of(movies["movieId"].with_whole_numbers(), columns, [("title",)])


def _read(archive: Archive, name: str, engine: str | None, separator: bytes | None = None, **more: Any) -> TextColumns:
    data = archive.read(archive.need(name.replace(".", r"\."), name))
    if separator is not None:  # a delimiter of two characters is more than any fast reader takes
        data = data.replace(separator, b"\t")
    wanted = {"userId": None, "movieId": None, "rating": numbers_of, "timestamp": numbers_of}
    return Delimited(data, name, quoted=False, **more).read(wanted, engine)


def _read_movies(
    archive: Archive, name: str, delimiter: str, header: Any, *, quoted: bool = False
) -> TextColumns | None:
    """Titles and genres; None where their file was not kept beside the ratings."""
    found = archive.find(name.replace(".", r"\."))
    if not found:
        return None
    data = archive.read(found[0])
    if delimiter == "\t":
        data = data.replace(b"::", b"\t")
    text = Delimited(data, name, delimiter=delimiter, quoted=quoted, header=header, encoding=_encoding(data))
    genres = ["genres"] if "genres" in text.names else [genre for genre in GENRES if genre in text.names]
    return text.read(dict.fromkeys(["movieId", "title", *genres]))


def _encoding(data: bytes) -> str:
    """ml-100k and ml-1m are latin-1, the others UTF-8; only the bytes tell."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
