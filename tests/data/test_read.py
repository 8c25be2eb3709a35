"""read_interactions: every source gives the same matrix, and nothing is dropped without a word."""

import gzip
import importlib.util
import sqlite3
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from halfstep.data.datasets import DataWarning, Interactions, read_interactions

ROWS = [("ann", 7, 2.0, 100), ("bob", 3, 1.5, 200), ("ann", 3, 4.0, 300), ("ann", 7, 1.0, 50)]
NAMES = ["user_id", "itemId", "rating", "timestamp"]
COLUMNS = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
CSV = "user_id,itemId,rating,timestamp\n" + "".join(",".join(map(str, row)) + "\n" for row in ROWS)
TAKEN = {"user": "user_id", "item": "itemId", "weight": "rating", "timestamp": "timestamp"}


def pandas_frame(tmp_path: Path) -> Any:
    return pytest.importorskip("pandas").DataFrame(COLUMNS)


def polars_frame(tmp_path: Path) -> Any:
    return pytest.importorskip("polars").DataFrame(COLUMNS)


def polars_lazy_frame(tmp_path: Path) -> Any:
    return pytest.importorskip("polars").DataFrame(COLUMNS).lazy()


def arrow_table(tmp_path: Path) -> Any:
    return pytest.importorskip("pyarrow").table(COLUMNS)


def duckdb_relation(tmp_path: Path) -> Any:
    connection = pytest.importorskip("duckdb").connect()
    connection.execute("create table t(user_id varchar, itemId bigint, rating double, timestamp bigint)")
    connection.executemany("insert into t values (?, ?, ?, ?)", ROWS)
    return connection.table("t")


def sql_cursor(tmp_path: Path) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t(user_id text, itemId int, rating real, timestamp int)")
    connection.executemany("insert into t values (?, ?, ?, ?)", ROWS)
    return connection.execute("select * from t")


def rows_and_description(tmp_path: Path) -> Any:
    cursor = sql_cursor(tmp_path)
    return cursor.fetchall(), cursor.description


def dict_of_columns(tmp_path: Path) -> Any:
    return COLUMNS


def dict_rows(tmp_path: Path) -> Any:
    return [dict(zip(NAMES, row, strict=True)) for row in ROWS]


def csv_file(tmp_path: Path) -> Any:
    (tmp_path / "t.csv").write_text(CSV)
    return tmp_path / "t.csv"


def semicolon_file(tmp_path: Path) -> Any:
    (tmp_path / "t.csv").write_text(CSV.replace(",", ";"))
    return str(tmp_path / "t.csv")


def packed_tsv_file(tmp_path: Path) -> Any:
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(CSV.replace(",", "\t").encode()))
    return tmp_path / "t.tsv.gz"


def parquet_file(tmp_path: Path) -> Any:
    pytest.importorskip("pyarrow.parquet").write_table(arrow_table(tmp_path), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def feather_file(tmp_path: Path) -> Any:
    pytest.importorskip("pyarrow.feather").write_feather(arrow_table(tmp_path), tmp_path / "t.feather")
    return tmp_path / "t.feather"


SOURCES = [
    pandas_frame, polars_frame, polars_lazy_frame, arrow_table, duckdb_relation, sql_cursor, rows_and_description,
    dict_of_columns, dict_rows, csv_file, semicolon_file, packed_tsv_file, parquet_file, feather_file,
]  # fmt: skip


def check(data: Interactions) -> None:
    assert data.user_ids.tolist() == ["ann", "bob"]
    assert data.item_ids.dtype == np.int64
    assert data.item_ids.tolist() == [3, 7]
    assert data.matrix.toarray().tolist() == [[4.0, 3.0], [1.5, 0.0]]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [300, 100, 200]
    assert data.report["rows"] == 4
    assert data.report["duplicates"] == 1


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same(source: Any, tmp_path: Path) -> None:
    data = read_interactions(source(tmp_path))
    check(data)
    assert data.report["columns"] == TAKEN


def test_rows_without_names_are_taken_by_position() -> None:
    data = read_interactions(iter(ROWS))
    check(data)
    assert data.report["columns"] == {"user": 0, "item": 1, "weight": 2, "timestamp": 3}
    pair = read_interactions((("a", "x"), ("b", "y")))  # two rows, not (rows, description)
    assert pair.shape == (2, 2)


@pytest.mark.parametrize("engine", ["python", "arrow"])
def test_text_engines_agree_on_awkward_files(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "awkward.csv"
    path.write_text(
        "\ufeffextra,skill,occupation,weight,date\r\n"
        'x,"a ""b"", c",007,1,2024-01-02\r\n'
        "\r\n"
        "x,a,1,2.5,2024-01-02T00:00:01+00:00\r\n"
        "x,a\r\n"
        "x,a,2,oops,2024-01-03\r\n"
        "x,,2,1,2024-01-03\r\n"
        "x,b,2,1,someday\r\n",
        encoding="utf-8",
    )
    with pytest.warns(DataWarning) as caught:
        data = read_interactions(path, engine=engine)
    assert data.user_ids.tolist() == ["007", "1"]  # a leading zero keeps ids text
    assert data.item_ids.tolist() == ["a", 'a "b", c']
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [1704153600.0, 1704153601.0]
    assert data.report["columns_not_used"] == ["extra"]
    counts = {key: data.report[key] for key in data.report if not key.startswith("columns")}
    assert counts == {
        "rows": 6, "broken_rows": 1, "rows_without_id": 1, "rows_without_weight": 1,
        "rows_without_timestamp": 1, "duplicates": 0,
    }  # fmt: skip
    text = str(caught[0].message)
    assert "1 broken rows" in text
    assert "1 rows without a readable timestamp" in text


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(-3, 9)), min_size=1, max_size=50),
    st.sampled_from(["sum", "mean", "max", "last", "count"]),
)
def test_duplicates_follow_a_plain_dictionary(rows: list[tuple[int, int, int]], how: str) -> None:
    groups: dict[tuple[int, int], list[int]] = {}
    for user, item, weight in rows:
        groups.setdefault((user, item), []).append(weight)
    combine = {"sum": sum, "mean": lambda w: sum(w) / len(w), "max": max, "last": lambda w: w[-1], "count": len}[how]
    data = read_interactions(rows, duplicates=how)
    frame = data.to_frame("dict")
    got = dict(zip(zip(frame["user"].tolist(), frame["item"].tolist(), strict=True), frame["weight"], strict=True))
    assert got == {pair: pytest.approx(combine(weights), rel=1e-6) for pair, weights in groups.items()}
    assert data.report["duplicates"] == len(rows) - len(groups)
    fresh = sparse.csr_array((data.matrix.data, data.matrix.indices, data.matrix.indptr), data.shape)
    assert fresh.has_canonical_format  # scipy looks for itself here


def test_last_goes_by_time() -> None:
    data = read_interactions(ROWS, duplicates="last")
    assert data.matrix.toarray()[0, 1] == 2.0  # at 100, although a row with time 50 comes later


def test_duplicates_error_names_the_pair() -> None:
    with pytest.raises(ValueError, match=r"1 rows repeat a \(user, item\) pair, the first \('ann', .*7"):
        read_interactions(ROWS, duplicates="error")
    with pytest.raises(ValueError, match="duplicates='add' is not known"):
        read_interactions(ROWS, duplicates="add")


def test_named_columns_and_none_wanted(tmp_path: Path) -> None:
    data = read_interactions(COLUMNS, user="itemId", item="user_id", weight=False, timestamp=False)
    assert data.shape == (2, 2)
    assert data.timestamps is None
    assert data.matrix.sum() == 4
    assert data.report["columns"] == {"user": "itemId", "item": "user_id"}


def test_nulls_in_frames_are_counted() -> None:
    columns = {"user": ["a", None, "b", ""], "item": [1, 2, None, 3], "weight": [1.0, 1.0, 1.0, None]}
    for library in ("pandas", "polars", "pyarrow"):
        module = pytest.importorskip(library)
        frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
        with pytest.warns(DataWarning, match="3 rows without a user or item id left out"):
            data = read_interactions(frame)
        assert data.user_ids.tolist() == ["a"]
        assert data.item_ids.tolist() == [1]


def test_dates_of_frames_are_seconds() -> None:
    from datetime import UTC, date, datetime

    moments = [datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 3, tzinfo=UTC)]
    for values in (moments, [m.replace(tzinfo=None) for m in moments], [date(2024, 1, 2), date(2024, 1, 3)]):
        columns = {"user": ["a", "b"], "item": ["x", "y"], "time": values}
        frames = [columns]
        for library in ("pandas", "polars", "pyarrow"):
            module = pytest.importorskip(library)
            frames.append(module.table(columns) if library == "pyarrow" else module.DataFrame(columns))
        for frame in frames:
            times = read_interactions(frame).timestamps
            assert times is not None
            assert times.tolist() == [1704153600.0, 1704240000.0]


def test_infinite_and_too_large_weights_are_left_out() -> None:
    with pytest.warns(DataWarning, match="3 rows without a finite weight left out"):
        data = read_interactions([("a", "x", 1.0), ("a", "y", float("inf")), ("b", "x", 1e300), ("b", "y", None)])
    assert data.shape == (1, 1)


def test_categories_nobody_uses_are_no_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": pandas.Categorical(["b", "a"], categories=["z", "a", "b"]), "item": [1, 2]})
    assert read_interactions(frame).user_ids.tolist() == ["a", "b"]
    polars = pytest.importorskip("polars")
    lazy = polars.DataFrame({"user": ["b", "a"], "item": [1, 2]}).with_columns(
        polars.col("user").cast(polars.Categorical)
    )
    assert read_interactions(lazy).user_ids.tolist() == ["a", "b"]


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"is not a file; give a CSV, TSV, JSON lines, Parquet, Arrow or \.npz file"
    ):
        read_interactions(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"user='userid' is not a column; the columns are .*Did you mean 'user_id'"):
        read_interactions(COLUMNS, user="userid")
    with pytest.raises(ValueError, match=r"no column looks like the item; the columns are \['user', 'thing'\].*item="):
        read_interactions({"user": [1], "thing": [2]})
    with pytest.raises(ValueError, match="item='user' is also the user; name two different columns"):
        read_interactions({"user": [1], "thing": [2]}, user="user", item="user")
    with pytest.raises(ValueError, match=r"different lengths: \{'user': 1, 'item': 2\}"):
        read_interactions({"user": [1], "item": [2, 3]})
    with pytest.raises(TypeError, match="path_or_frame of type int is not a table; give a path"):
        read_interactions(5)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match=r"empty.csv is empty; its first line must name the columns"):
        read_interactions(tmp_path / "empty.csv")
    (tmp_path / "quote.csv").write_text('user,item\na,"' + "x" * 200_000)
    with pytest.raises(ValueError, match=r"quote.csv: line 2 opens a quote that is not closed in that line"):
        read_interactions(tmp_path / "quote.csv")


def test_a_header_without_rows_is_an_empty_matrix(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,item\n")
    for engine in ("python", "arrow"):
        data = read_interactions(tmp_path / "t.csv", engine=engine)
        assert data.shape == (0, 0)
        assert "cells    0" in data.summary()


def test_a_zip_holds_one_table(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("folder/t.csv", CSV)
    check(read_interactions(tmp_path / "t.zip"))
    with zipfile.ZipFile(tmp_path / "t.zip", "a") as archive:
        archive.writestr("folder/u.csv", CSV)
    with pytest.raises(ValueError, match=r"must hold one table; it holds folder/t.csv, folder/u.csv"):
        read_interactions(tmp_path / "t.zip")


@pytest.mark.parametrize("source", [parquet_file, feather_file, csv_file])
def test_without_pyarrow(source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    path = source(tmp_path)
    monkeypatch.setattr("halfstep.data.datasets._delimited.ARROW_PAYS_FROM", 0)
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyarrow" else find(name))
    check(read_interactions(path))


def test_without_any_reader_of_parquet_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet_file(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"needs polars, which is not installed; .*halfstep\[frames\]"):
        read_interactions(path)


def test_numpy_columns_and_mixed_ids() -> None:
    columns = {"user": np.array(["b", "a", ""]), "item": np.array([1.0, 2.0, 3.0])}
    with pytest.warns(DataWarning, match="1 rows without a user or item id"):
        text = read_interactions(columns)
    assert text.user_ids.tolist() == ["a", "b"]
    assert text.item_ids.tolist() == [1, 2]
    mixed = read_interactions([(1, "x"), ("1", "x"), ((2, 3), "x")])
    assert mixed.user_ids.tolist() == [1, "1", (2, 3)]


def test_dict_is_the_frame_where_pandas_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_interactions(ROWS)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert set(data.to_frame()) == {"user", "item", "weight", "timestamp"}


@pytest.mark.parametrize(("engine", "columns"), [("python", 60_000), ("arrow", 3_000)])
def test_of_columns_that_share_a_name_the_first_is_read_and_many_take_no_longer(engine, columns):
    """Each name was looked for among all the others: 60,000 took half a minute."""
    from halfstep.data.datasets._delimited import Delimited

    if engine == "arrow":
        pytest.importorskip("pyarrow")
    names = [f"c{k}" for k in range(columns)]
    names[2000] = "c7"
    text = Delimited((",".join(names) + "\n" + ",".join(map(str, range(columns))) + "\n").encode(), "wide.csv")
    begun = time.process_time()
    found = text.read(dict.fromkeys(names), engine=engine)
    assert time.process_time() - begun < 10
    assert found["c7"].expand().tolist() == ["7"]
    assert found[names[-1]].expand().tolist() == [str(columns - 1)]
