"""Numbers and bytes to and from Arrow, in workers that never import pandas."""

import subprocess
import sys

import numpy as np
import pytest

from halfstep.engine.spark.arrow import blob, from_arrow, to_arrow

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "float32", "float64"])
def test_numbers_go_there_and_back(dtype):
    values = np.arange(7).astype(dtype)
    array = to_arrow(values)
    assert array.type == np.dtype(dtype).name.replace("float32", "float").replace("float64", "double")
    np.testing.assert_array_equal(from_arrow(array), values)
    np.testing.assert_array_equal(from_arrow(array[3:5]), values[3:5])
    np.testing.assert_array_equal(from_arrow(array[7:]), values[:0])
    assert from_arrow(array).dtype == dtype
    assert to_arrow(array) is array


def test_what_is_missing_is_said_by_the_caller():
    import pyarrow as pa

    column = pa.chunked_array([pa.array([1.0, None, 3.0]), pa.array([None, 5.0])])
    np.testing.assert_array_equal(from_arrow(column, np.nan), [1, np.nan, 3, np.nan, 5])
    np.testing.assert_array_equal(from_arrow(pa.array([None, 2, None] * 5, pa.int32())[4:9], -1), [2, -1, -1, 2, -1])


def test_bytes_are_one_element():
    assert blob(b"").to_pylist() == [b""]
    assert blob(bytes(range(256))).to_pylist() == [bytes(range(256))]


def test_reading_and_packing_leave_pandas_alone():
    """pyarrow imports it wherever numbers are given or asked for, and each worker would hold another 30 MB."""
    code = """
import sys
import numpy as np
import pyarrow as pa
from halfstep.engine.spark.arrow import to_arrow
from halfstep.engine.spark.chunks import make_chunk, unpack
from halfstep.engine.spark.moves import expanding
from halfstep.engine.spark.numbering import Ask, _merge, _rows_of
from halfstep.engine.spark.there import _rows_of as lists

columns = {"id0": np.array([3, 1, 3]), "id1": np.array([9, 9, 8]), "weight": np.ones(3), "row hash": np.arange(3)}
table = pa.table([to_arrow(values) for values in columns.values()], names=list(columns))
chunk = make_chunk((0, 0), table, np.float32)
(_, known), = _merge(0, [(0, Ask(0, chunk.number, 0, chunk.ids[0], chunk.counts[0]))])
assert _rows_of(unpack(chunk.ids[0]), unpack(known.ids), 5).tolist() == [5, 6]
make = lists(np.float32, 2)
packed = pa.RecordBatch.from_arrays([to_arrow([4])], names=["first"])
found, = expanding(lambda first: make(first, 2, np.ones(4, np.float32).tobytes()), ["row", "factors"])([packed])
assert found.num_rows == 2
assert "pandas" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
