"""Columns of pyarrow are read from their buffers, so that pandas is not imported for them."""

import subprocess
import sys

import narwhals as nw
import numpy as np
import pyarrow as pa
import pytest

from halfstep.data.plain_ids import factorise, join_text, split_text

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


@pytest.mark.parametrize("texts", [[], [""], ["a", "", "bc"], ["äö", "", "日本", "a", "🙂"], ["\ud83d", "\ude00", "x"]])
def test_texts_are_joined_to_their_bytes_and_split_again(texts):
    raw, offsets = join_text(texts)
    assert raw.tobytes() == b"".join(text.encode("utf-8", "surrogatepass") for text in texts)
    assert np.diff(offsets).tolist() == [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    assert split_text(raw, offsets) == texts


@pytest.mark.parametrize("offsets", [[0, 1, 3], [0, 3, 3, 4], [1, 3], [0, 2], [0, 3, 2, 3], []])
def test_offsets_that_fit_no_text_are_refused(offsets):
    with pytest.raises(ValueError, match="offsets"):
        split_text(np.frombuffer("äx".encode(), np.uint8), np.array(offsets, np.int64))
