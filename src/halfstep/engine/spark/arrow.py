"""Arrow arrays from numbers and bytes, and numbers from Arrow arrays, by their buffers.

For executors: `pyarrow.array` and `to_numpy` import pandas, which takes 30 MB and most of a second of every worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_arrow(values: NDArray[Any] | Sequence[int]) -> Any:
    """Numbers as an Arrow array of their type; integers of a list as 32 bits. What is an Arrow array stays one."""
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    values = np.ascontiguousarray(values, None if isinstance(values, np.ndarray) else np.int32)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def blob(data: bytes) -> Any:
    """An Arrow array of one element, bytes."""
    import pyarrow as pa

    ends = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(data)])


def from_arrow(array: Any, missing: Any = None) -> NDArray[Any]:
    """The numbers of an Arrow array or column. missing : what stands where there is none."""
    import pyarrow as pa

    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    dtype, n = np.dtype(whole.type.to_pandas_dtype()), len(whole)
    valid, data = whole.buffers()
    found: NDArray[Any] = np.frombuffer(data, dtype, n, whole.offset * dtype.itemsize) if n else np.zeros(0, dtype)
    if not whole.null_count:
        return found
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[whole.offset : whole.offset + n]
    return np.where(bits == 1, found, dtype.type(missing))
