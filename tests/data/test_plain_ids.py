"""Columns of pyarrow are read from their buffers, so that pandas is not imported for them."""

import subprocess
import sys

import narwhals as nw
import pyarrow as pa
import pytest

from halfstep.data.plain_ids import factorise

TEXTS = ["b", None, "äö", "", "b", "日本", None, "a"] * 3
COLUMNS = {
    "text": pa.array(TEXTS),
    "coded": pa.array(TEXTS).dictionary_encode(),
    "part of a longer one": pa.array(["x", "y", None, *TEXTS, "z"]).dictionary_encode()[3:-1],
    "chunks": pa.chunked_array([pa.array(TEXTS[:5]), pa.array([], pa.string()), pa.array(TEXTS[5:])]),
    "empty": pa.array([], pa.string()),
    "nothing but null": pa.array([None, None], pa.string()),
    "numbers": pa.array([3, None, 2**40, 3]),
    "narrow places": pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array(["a", "b"])),
    "places without sign": pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.uint32()), pa.array(["a", "b"])),
    "large text": pa.array(TEXTS, pa.large_string()),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_codes_lead_back_to_the_column(name):
    column = COLUMNS[name] if isinstance(COLUMNS[name], pa.ChunkedArray) else pa.chunked_array([COLUMNS[name]])
    distinct, codes = factorise(nw.from_native(column, series_only=True))
    assert [None if code < 0 else distinct[code] for code in codes.tolist()] == column.to_pylist()
    assert len(set(distinct.tolist())) == len(distinct)


def test_a_text_file_is_read_without_pandas(tmp_path):
    (tmp_path / "x.csv").write_text("user,item,weight\n" + "".join(f"u{k % 50},i{k % 70},{k}\n" for k in range(500)))
    code = (
        "import sys; from halfstep.data.datasets import read_interactions;"
        "data = read_interactions(sys.argv[1], engine='arrow', weight=False);"
        "assert data.matrix.shape == (50, 70) and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.csv")], check=True)
