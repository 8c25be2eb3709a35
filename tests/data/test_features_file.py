"""Features from files: columns are read as what they hold, and ids as those of interactions."""

import numpy as np
import pytest

from halfstep.data.datasets import read_features

CSV = "movieId,genres,year,code,hot,title\n7,Crime|Drama,1972,007,true,The Tin Man\n9,Drama,,010,false,Tin\n"


def test_a_text_file_holds_numbers_flags_lists_and_words(tmp_path):
    (tmp_path / "films.csv").write_text(CSV)
    features = read_features(tmp_path / "films.csv", text=["title"], lists={"genres": "|"})
    assert features.ids.ids.tolist() == [7, 9]
    assert features.names == (
        *("genres=Crime", "genres=Drama", "year", "code=007", "code=010", "hot"), "title: tin",
    )  # fmt: skip
    assert features.matrix.toarray()[:, -2].tolist() == [1, 0]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_files_of_frames_give_the_features_of_the_frame(ending, tmp_path):
    pyarrow, parquet, feather = (pytest.importorskip(f"pyarrow{part}") for part in ("", ".parquet", ".feather"))
    table = pyarrow.table({"user": ["a", "b"], "towns": [["x"], ["x", "y"]], "age": [20, 40]})
    write = {"parquet": parquet.write_table, "arrow": feather.write_feather}[ending]
    write(table, tmp_path / f"people.{ending}")
    found, expected = (read_features(source, "user") for source in (tmp_path / f"people.{ending}", table))
    assert found.names == expected.names == ("towns=x", "towns=y", "age")
    np.testing.assert_array_equal(found.matrix.toarray(), expected.matrix.toarray())


def test_what_is_wrong_with_a_file_is_said(tmp_path):
    (tmp_path / "films.csv").write_text(CSV)
    (tmp_path / "nobody.csv").write_text("colour\nred\n")
    for call, error, text in [
        (lambda: read_features(tmp_path / "none.csv"), FileNotFoundError, "is not a file"),
        (lambda: read_features(tmp_path / "films.csv", id="movieid"), ValueError, "Did you mean 'movieId'"),
        (lambda: read_features(tmp_path / "nobody.csv"), ValueError, "no column of nobody.csv looks like the id"),
    ]:
        with pytest.raises(error, match=text):
            call()
