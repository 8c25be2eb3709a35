"""Parquet a row group at a time: the same ids, cells and factors as the frame of it, and errors that say where."""

from datetime import date

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from halfstep import WALS
from halfstep.data import row_groups
from halfstep.data.row_groups import RowGroups, is_parquet
from halfstep.data.table import read_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(0)
N = 400
NUMBERS = RNG.integers(0, 60, N)
KINDS = {
    "consecutive": pa.array(NUMBERS),
    "scattered": pa.array(NUMBERS * 10**15 - 4 * 10**16),
    "narrow": pa.array(NUMBERS.astype(np.uint8)),
    "huge": pa.array(NUMBERS.astype(np.uint64) + 2**63),
    "text": pa.array([f"u{k}" for k in NUMBERS]),
    "large text": pa.array([f"u{k}" for k in NUMBERS], pa.large_string()),
    "beyond ASCII": pa.array([["Z", "z", "é", "ß", "\uffee", "😀", "", "aa"][k % 8] + str(k) for k in NUMBERS]),
    "categories": pa.array([f"u{k}" for k in NUMBERS]).dictionary_encode(),
    "categories of numbers": pa.array(NUMBERS * 7).dictionary_encode(),
    "whole floats": pa.array(NUMBERS.astype(float)),
    "floats": pa.array(NUMBERS / 7),
    "floats that are whole at first": pa.array(np.where(np.arange(N) < 300, NUMBERS, NUMBERS + 0.5)),
    "days": pa.array([date(2020, 1, 1 + k % 28) for k in NUMBERS]),
}
WEIGHTS = {
    "none": None,
    "float32": RNG.random(N).astype(np.float32),
    "float64": RNG.random(N),
    "whole": RNG.integers(0, 4, N),  # some are zero
    "equal": np.full(N, 0.1),
    "equal at first": np.where(np.arange(N) < 350, 3.0, 4.0),
    "yes or no": RNG.random(N) < 0.7,
}


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    """Batches within row groups, and ids united again and again."""
    monkeypatch.setattr(row_groups, "AT_ONCE", 30)


def table_of(users, weight=None):
    columns = {"user_id": users, "item_id": pa.array(np.random.default_rng(1).integers(0, 9, N))}
    return pa.table(columns if weight is None else columns | {"weight": pa.array(weight)})


def written(path, table, rows=70):
    pq.write_table(table, path, row_group_size=rows)
    return path


def assert_same(one, other):
    for side in (0, 1):
        assert one.ids[side].kind == other.ids[side].kind
        assert one.ids[side].name == other.ids[side].name
        assert list(map(type, one.ids[side].ids)) == list(map(type, other.ids[side].ids))
        assert_array_equal(one.ids[side].ids, other.ids[side].ids)
    for name in ("indptr", "indices", "targets", "weights"):
        a, b = getattr(one.cells, name), getattr(other.cells, name)
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert_array_equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_every_kind_are_those_of_the_frame(tmp_path, kind):
    table = table_of(KINDS[kind])
    assert_same(read_table(written(tmp_path / "a.parquet", table)), read_table(table))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_weights_of_every_kind_are_those_of_the_frame(tmp_path, weights, dtype):
    table = table_of(KINDS["text"], WEIGHTS[weights])
    path = written(tmp_path / "a.parquet", table)
    assert_same(read_table(path, dtype=dtype), read_table(table, dtype=dtype))


def test_a_fit_to_a_file_has_the_bits_of_a_fit_to_its_frame(tmp_path):
    table = table_of(KINDS["scattered"], WEIGHTS["float64"])
    path = written(tmp_path / "a.parquet", table)
    one, other = (WALS(rank=3, max_iter=3, random_state=0).fit(X) for X in (str(path), table))
    assert_array_equal(one.user_factors_, other.user_factors_)
    assert_array_equal(one.item_factors_, other.item_factors_)
    assert one.objective_ == other.objective_
    assert_array_equal(one.user_ids_, other.user_ids_)


def test_a_folder_of_files_is_the_frame_of_all_of_them(tmp_path):
    table = table_of(KINDS["categories"], WEIGHTS["float32"])
    folder = tmp_path / "clicks"
    (folder / "day=2").mkdir(parents=True)
    written(folder / "part-1.parquet", table.slice(100, 150))
    written(folder / "day=2" / "part-0.parquet", table.slice(0, 100))
    written(folder / "part-2.pq", table.slice(250))
    (folder / "_SUCCESS").touch()
    written(folder / "_metadata.parquet", table)
    assert is_parquet(folder)
    assert_same(read_table(folder), read_table(table))


def test_equal_weights_are_one_number_and_give_the_bits_of_an_array_of_them(tmp_path):
    path = written(tmp_path / "a.parquet", pa.table({"user": [1, 1, 2, 3], "item": [5, 6, 5, 7], "w": [0.1] * 4}))
    cells = read_table(path, weight="w").cells
    assert cells.weights == float(np.float32(0.1))
    listed = RowGroups(path).numbers("w", np.float32, lambda values, where: None)
    assert isinstance(listed, float)
    model = WALS(rank=2, max_iter=2, random_state=0)
    one = model.fit(path, weight="w").user_factors_.copy()
    array = pq.read_table(path).to_pandas()
    assert_array_equal(one, model.fit(array, weight="w").user_factors_)


def test_columns_are_named_or_detected_as_in_a_frame(tmp_path):
    path = written(tmp_path / "a.parquet", pa.table({"who": [1, 2], "what": [3, 4], "other": ["x", "y"]}))
    given = read_table(path, user="who", item="what")
    assert [index.ids.tolist() for index in given.ids] == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="who"):
        read_table(path)


def test_a_missing_id_is_named_by_its_row_group(tmp_path):
    users = pa.array([None if k == 203 else int(k) for k in range(N)])
    path = written(tmp_path / "clicks.parquet", table_of(users))
    said = r"1 of 400 user ids in column 'user_id' are missing.*the first at row 203, in row group 2 of clicks"
    with pytest.raises(ValueError, match=said):
        read_table(path)


@pytest.mark.parametrize(("value", "said"), [(np.nan, "not finite"), (-1.0, ">= 0"), (1e300, "do not fit float32")])
def test_a_bad_weight_is_refused_as_in_a_frame(tmp_path, value, said):
    weights = np.where(np.arange(N) == 222, value, 1.0)
    path = written(tmp_path / "clicks.parquet", table_of(KINDS["text"], weights))
    where = "" if value == 1e300 else "row 222, in row group 3 of clicks.parquet"
    with pytest.raises(ValueError, match=f"{said}.*{where}"):
        read_table(path)


def test_text_is_no_weight(tmp_path):
    path = written(tmp_path / "a.parquet", table_of(KINDS["text"], ["much"] * N))
    with pytest.raises(TypeError, match="'weight' was taken as the weight but holds String"):
        read_table(path)


def test_a_damaged_row_group_is_named(tmp_path):
    path = written(tmp_path / "clicks.parquet", table_of(pa.array(RNG.integers(0, 2**60, N))))
    chunk = pq.ParquetFile(path).metadata.row_group(3).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    raw = bytearray(path.read_bytes())
    raw[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"row group 3 of .*clicks.parquet cannot be read"):
        read_table(path)


def test_what_is_no_parquet_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; give a Parquet file or a folder"):
        read_table(tmp_path / "none.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ValueError, match="is no whole Parquet file"):
        read_table(tmp_path / "a.parquet")
    with pytest.raises(TypeError, match="the path of a Parquet file"):
        read_table("clicks.csv")
    with pytest.raises(ValueError, match="X has no rows"):
        read_table(written(tmp_path / "b.parquet", table_of(KINDS["text"]).slice(0, 0)))


def test_files_of_a_folder_that_differ_are_refused(tmp_path):
    written(tmp_path / "a.parquet", table_of(KINDS["text"]))
    written(tmp_path / "b.parquet", table_of(KINDS["narrow"]))
    with pytest.raises(ValueError, match=r"b.parquet has the columns user_id \(uint8\).*must have the same columns"):
        read_table(tmp_path)
