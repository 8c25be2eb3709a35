"""MovieLens: every published layout, folder and zip."""

import shutil
from pathlib import Path

import pytest

from halfstep.data.datasets import DataWarning, load_movielens


def ml_100k(folder: Path) -> None:
    (folder / "u.data").write_text("1\t20\t5\t900\n2\t20\t3\t901\n2\t3\t1\t800\n")
    flags = "|".join(["0"] * 19)
    (folder / "u.item").write_text(
        f"3|Misérables, Les|01-Jan-1995||http://x|{flags}\n20|Angels|01-Jan-1995||http://x|{flags}\n", "latin-1"
    )


def ml_1m(folder: Path) -> None:
    (folder / "ratings.dat").write_text("1::20::5::900\n2::20::3::901\n2::3::1::800\n")
    (folder / "movies.dat").write_text("3::Misérables, Les::Drama\n20::Angels::Comedy|Drama\n", "latin-1")


def ml_10m(folder: Path) -> None:
    ml_1m(folder)
    (folder / "movies.dat").write_text("3::Misérables, Les::Drama\n20::Angels::Comedy|Drama\n", "utf-8")


def ml_latest(folder: Path) -> None:
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,20,5.0,900\n2,20,3.0,901\n2,3,1.0,800\n")
    (folder / "movies.csv").write_text('movieId,title,genres\n3,"Misérables, Les",Drama\n20,Angels,x\n', "utf-8")


@pytest.mark.parametrize("engine", ["python", "arrow"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layout", [ml_100k, ml_1m, ml_10m, ml_latest])
def test_layouts(layout: object, packed: bool, engine: str, tmp_path: Path) -> None:
    folder = tmp_path / "download" / "ml"
    folder.mkdir(parents=True)
    layout(folder)  # type: ignore[operator]
    path = shutil.make_archive(str(tmp_path / "ml"), "zip", folder.parent) if packed else folder
    data = load_movielens(path, engine=engine)
    assert data.user_ids.tolist() == [1, 2]
    assert data.item_ids.tolist() == [3, 20]
    assert data.item_labels is not None
    assert data.item_labels.tolist() == ["Misérables, Les", "Angels"]
    assert data.matrix.toarray().tolist() == [[0, 5], [1, 3]]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [900, 800, 901]
    assert data.report["movies_without_ratings"] == 0


def test_ratings_alone_have_no_titles(tmp_path: Path) -> None:
    ml_latest(tmp_path)
    (tmp_path / "movies.csv").unlink()
    assert load_movielens(tmp_path).item_labels is None


def test_a_movie_without_a_title_and_one_without_ratings(tmp_path: Path) -> None:
    ml_latest(tmp_path)
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n20,Angels,x\n99,Nobody saw it,x\n")
    with pytest.warns(DataWarning, match="1 .* has no title"):
        data = load_movielens(tmp_path)
    assert data.item_labels is not None
    assert data.item_labels.tolist() == ["3", "Angels"]
    assert data.report["movies_without_ratings"] == 1


def test_another_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(FileNotFoundError, match=r"has no ratings.csv, ratings.dat or u.data.*Found: other.txt"):
        load_movielens(tmp_path)
