"""O*NET: the real files to the digit, task ratings, and what is said when a file is missing."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from halfstep.data.datasets import DataWarning, load_onet

CODE = "O*NET-SOC Code"


def table(path: Path, *rows: str) -> None:
    path.write_text("".join(row.replace("|", "\t") + "\r\n" for row in rows), encoding="utf-8")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    table(tmp_path / "Occupation Data.txt", f"{CODE}|Title|Description", "1|Bakers|x", "2|Cooks|x", "3|Kings|x")
    table(
        tmp_path / "Task Statements.txt",
        f"{CODE}|Task ID|Task",
        '1|10|Say "bread|x"'.replace("|x", ""),
        "1|11|Mix",
        "2|20|Fry",
    )
    table(tmp_path / "DWA Reference.txt", "DWA ID|DWA Title", "d1|Prepare food", "d2|Talk")
    table(
        tmp_path / "Tasks to DWAs.txt",
        f"{CODE}|Task ID|DWA ID", "1|10|d1", "1|11|d1", "2|20|d1", "2|20|d2", "2|21|d1", "1|12|d2",
    )  # fmt: skip
    return tmp_path


@pytest.fixture
def rated(small: Path) -> Path:
    table(
        small / "Task Ratings.txt",
        f"{CODE}|Task ID|Scale ID|Category|Data Value",
        "1|10|IM|n/a|4.0", "1|10|RT|n/a|80", "1|11|IM|n/a|2.0", "2|20|IM|n/a|5.0",
    )  # fmt: skip
    return small


def test_real_technology(real_data: Path) -> None:
    data = load_onet(real_data / "onet-29.2")
    assert data.shape == (923, 8768)
    assert len(data) == data.report["rows"] == 32_627
    assert data.report["hot"] == (data.matrix.data == 5.0).sum() == 11_621
    assert (data.matrix.data == 1.0).sum() == 32_627 - 11_621
    assert data.user_labels is not None
    assert data.user_labels[data.user_ids.tolist().index("11-1011.00")] == "Chief Executives"


def test_real_activities(real_data: Path) -> None:
    with pytest.warns(DataWarning, match=r"no Task Ratings.txt, so an activity weighs the number of its tasks"):
        data = load_onet(real_data / "onet-29.2", "activities")
    assert data.shape == (923, 2082)
    assert len(data) == 17_806
    assert data.matrix.data.sum() == data.report["rows"] == 23_233
    assert data.report["weight"].startswith("number of linked tasks")


def test_real_intermediate_activities(real_data: Path) -> None:
    data = load_onet(real_data / "onet-iwa", "iwa")
    assert data.shape == (785, 332)
    assert len(data) == 13_538
    assert data.matrix.data.min() == pytest.approx(0.68, abs=0.01)
    assert data.matrix.data.max() == pytest.approx(382, abs=1)
    with pytest.warns(DataWarning, match="12 occupations have no title"):
        titled = load_onet(real_data / "onet-iwa" / "soc_iwa_weights.csv", "iwa", titles=real_data / "onet-29.2")
    assert titled.user_labels is not None
    assert titled.user_labels[0] == "Chief Executives"


def test_real_files_as_a_zip(real_data: Path, tmp_path: Path) -> None:
    packed = shutil.make_archive(str(tmp_path / "db"), "zip", real_data, "onet-29.2")
    assert load_onet(packed).shape == (923, 8768)


def test_activities_weigh_the_importance_of_their_tasks(rated: Path) -> None:
    data = load_onet(rated, "activities")
    assert data.user_ids.tolist() == ["1", "2"]
    assert data.item_labels is not None
    assert data.item_labels.tolist() == ["Prepare food", "Talk"]
    # (1, d1): mean of 4 and 2. (2, d1): 5, its unrated second task says nothing. (1, d2): no task rated, least.
    assert data.matrix.toarray().tolist() == [[3.0, 1.0], [5.0, 5.0]]
    assert data.report["links_without_rating"] == 2
    assert data.report["activities_without_rating"] == 1
    assert data.report["occupations_without_rows"] == 1
    summed = load_onet(rated, "activities", combine="sum")
    assert summed.matrix.toarray().tolist() == [[6.0, 1.0], [5.0, 5.0]]


def test_tasks_need_ratings_and_warn(rated: Path) -> None:
    with pytest.warns(DataWarning, match="every O\\*NET task id belongs to one occupation.*kind='activities'"):
        data = load_onet(rated, "tasks")
    assert data.item_ids.tolist() == ["10", "11", "20"]
    assert data.item_labels is not None
    assert data.item_labels[0] == 'Say "bread"'
    assert data.matrix.toarray().tolist() == [[4, 2, 0], [0, 0, 5]]
    assert (np.diff(data.T.matrix.indptr) == 1).all()
    (rated / "Task Ratings.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no Task Ratings.txt, which holds the importance of each task"):
        load_onet(rated, "tasks")


def test_ratings_without_importance(rated: Path) -> None:
    table(rated / "Task Ratings.txt", f"{CODE}|Task ID|Scale ID|Data Value", "1|10|RT|80")
    with pytest.raises(ValueError, match=r"no row of scale IM \(importance\); its scales are \['RT'\]"):
        load_onet(rated, "tasks")


def test_unreadable_ratings_are_counted(rated: Path) -> None:
    table(
        rated / "Task Ratings.txt",
        f"{CODE}|Task ID|Scale ID|Data Value",
        "1|10|IM|n/a",
        "1|11|IM|2",
        "2|20|IM",
    )
    text = "1 broken rows left out.*1 rows without a finite weight left out"
    with pytest.warns(DataWarning, match="every O"), pytest.warns(DataWarning, match=text):
        data = load_onet(rated, "tasks")
    assert data.matrix.toarray().tolist() == [[2]]
    assert data.report["tasks_without_rating"] == 1


def test_a_carriage_return_inside_a_field_is_no_row(small: Path) -> None:
    (small / "Technology Skills.txt").write_bytes(
        f"{CODE}\tExample\tHot Technology\r\n1\tOne\rTwo\tY\r\n2\tThree\tN\r\n".encode()
    )
    data = load_onet(small)
    assert data.report["rows"] == 2
    assert data.item_ids.tolist() == ["One\rTwo", "Three"]


def test_bad_arguments(small: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"kind='technologies' is not known.*Did you mean 'technology'"):
        load_onet(small, "technologies")
    with pytest.raises(ValueError, match="combine='max' is not known"):
        load_onet(small, "activities", combine="max")
    with pytest.raises(ValueError, match=r"titles=.* is for kind='iwa' only"):
        load_onet(small, "activities", titles=small)
    with pytest.raises(FileNotFoundError, match=r"has no Technology Skills.txt.*Found: DWA Reference.txt"):
        load_onet(small)
    table(small / "Tasks to DWAs.txt", f"{CODE}|Task|DWA ID", "1|10|d1")
    with pytest.raises(ValueError, match=r"Tasks to DWAs.txt lacks the column \['Task ID'\]; it has \["):
        load_onet(small, "activities")


def test_unreadable_iwa_weights_are_counted(tmp_path: Path) -> None:
    (tmp_path / "soc_iwa_weights.csv").write_text("SOC Code,i1,i2\n1,0.0,2.5\n2,oops,1\n")
    with pytest.warns(DataWarning, match="1 rows without a finite weight left out"):
        data = load_onet(tmp_path, "iwa")
    assert data.matrix.toarray().tolist() == [[2.5], [1.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (tmp_path / "soc_iwa_weights.csv").write_text("SOC Code,i1\n1,3\n")
        assert len(load_onet(tmp_path, "iwa")) == 1
