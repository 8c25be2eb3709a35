"""Delimited text to columns: with NumPy and the standard library, or pyarrow where it pays; the same result.

Knows delimiters, quotes and broken rows. Must not know what a column means.
"""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._columns import Coded, FloatArray, numbers_of, seconds_of

# Below this many bytes importing pyarrow costs more than it saves.
ARROW_PAYS_FROM = 4_000_000


@dataclass(frozen=True)
class Table:
    """Columns of a text file: `Coded` strings; numbers and times as float64, NaN where unreadable."""

    header: list[str]
    text: dict[str, Coded]
    numbers: dict[str, FloatArray]
    rows: int  # rows after the header, blank lines not counted, broken ones included
    broken: int  # rows with another number of fields than the header; they are in no column


def read_delimited(
    data: bytes,
    *,
    file: str,
    text: Iterable[str] = (),
    numbers: Iterable[str] = (),
    times: Iterable[str] = (),
    optional: Iterable[str] = (),
    delimiter: str = ",",
    quoted: bool = True,
    header: Sequence[str] | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
    engine: str | None = None,
) -> Table:
    """Read the named columns of `data`.

    `text`, `numbers`, `times`: columns that must be there; times are numbers or ISO dates. `optional`: text
    columns taken where present. `header`: names when the file has no header line. `quoted=False`: a quote is
    a character like any other (O*NET). `engine`: "arrow", "python", or None to choose by size and by what is
    installed.
    """
    start = header_start(data, comment)
    if header is None:
        names, start = read_header(data, start, delimiter, quoted, encoding, file)
    else:
        names = list(header)
    text, numbers, times = list(text), list(numbers), list(times)
    require_columns([*text, *numbers, *times], names, file)
    text += [name for name in optional if name in names and name not in text]
    places = {name: names.index(name) for name in dict.fromkeys([*text, *numbers, *times])}

    if engine is None:
        large = len(data) >= ARROW_PAYS_FROM and importlib.util.find_spec("pyarrow") is not None
        engine = "arrow" if large else "python"
    if engine == "arrow":
        numeric = {*numbers, *times} - {*text}
        taken = _with_arrow(data, start, places, len(names), delimiter, quoted, encoding, numeric)
    else:
        taken = None
    if taken is None:
        taken = _with_python(data[start:], places, len(names), delimiter, quoted, encoding, file)
    columns, rows, broken = taken
    return Table(
        header=names,
        text={name: columns[name] for name in text},
        numbers={name: numbers_of(columns[name]) for name in numbers}
        | {name: seconds_of(columns[name]) for name in times},
        rows=rows,
        broken=broken,
    )


def split_line(line: str, delimiter: str, quoted: bool = True) -> list[str]:
    """The fields of a header line, surrounding blanks removed."""
    line = line.rstrip("\r\n")
    if not line:
        return []
    fields = next(csv.reader([line], delimiter=delimiter)) if quoted else line.split(delimiter)
    return [field.strip() for field in fields]


def header_start(data: bytes, comment: str | None = None) -> int:
    """Where the first line begins, after a byte order mark and comment lines."""
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while comment is not None and data.startswith(comment.encode(), start):
        start = _line_end(data, start)
    return start


def read_header(
    data: bytes, start: int, delimiter: str, quoted: bool, encoding: str, file: str
) -> tuple[list[str], int]:
    """The column names of the line at `start`, and where the next line begins."""
    end = _line_end(data, start)
    names = split_line(_decode(data[start:end], encoding, file), delimiter, quoted)
    if not names:
        raise ValueError(f"{file} is empty; its first line must name the columns")
    return names, end


def _line_end(data: bytes, start: int) -> int:
    return data.find(b"\n", start) + 1 or len(data)


def require_columns(wanted: Sequence[str], found: Sequence[str], file: str) -> None:
    """Raise, listing the columns found, unless every wanted column is there."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(
            f"{file} lacks the column{'s' * (len(missing) > 1)} {missing}; it has {list(found)}. "
            "Is it the file as published, with its header line?"
        )


def _decode(data: bytes, encoding: str, file: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} is not {encoding} text ({error.reason} at byte {error.start}); save it as {encoding}"
        ) from error


def _with_python(
    data: bytes, places: dict[str, int], width: int, delimiter: str, quoted: bool, encoding: str, file: str
) -> tuple[dict[str, Any], int, int]:
    if quoted and b'"' in data:
        try:
            reader = csv.reader(io.StringIO(_decode(data, encoding, file), newline=""), delimiter=delimiter)
            rows = [row for row in reader if row]
        except csv.Error as error:
            raise ValueError(f"{file} cannot be split into fields: {error}; look for an unclosed quote") from error
    else:
        data = data.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
        if data == b"\n":
            data = b""
        if _is_regular(data, width, delimiter):
            # Every row has `width` fields, so one split gives them all and a stride gives a column.
            fields = _decode(data, encoding, file).replace("\n", delimiter).split(delimiter)[:-1]
            columns = {name: Coded.of(fields[place::width]) for name, place in places.items()}
            return columns, len(fields) // width, 0
        lines = _decode(data, encoding, file).split("\n")
        rows = [line.split(delimiter) for line in lines if line]
    good = [row for row in rows if len(row) == width]
    across: list[Any] = list(zip(*good, strict=True)) or [()] * width
    columns = {name: Coded.of(across[place]) for name, place in places.items()}
    return columns, len(rows), len(rows) - len(good)


def _is_regular(data: bytes, width: int, delimiter: str) -> bool:
    """Whether every line of unquoted text has exactly `width` fields."""
    if len(delimiter.encode()) != 1:
        return False
    characters = np.frombuffer(data, np.uint8)
    ends = characters == ord("\n")
    at_end = ends[np.flatnonzero(ends | (characters == ord(delimiter)))]
    if len(at_end) % width:
        return False
    grid = at_end.reshape(-1, width)
    return bool(grid[:, -1].all() and not grid[:, :-1].any())


def _with_arrow(
    data: bytes,
    start: int,
    places: dict[str, int],
    width: int,
    delimiter: str,
    quoted: bool,
    encoding: str,
    numeric: set[str],
) -> tuple[dict[str, Any], int, int] | None:
    """The same through pyarrow; None where it cannot: the Python path then says why."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv

    # A lone carriage return ends a row for pyarrow; published O*NET files carry some inside their fields.
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return None
    broken = 0

    def count(row: Any) -> str:
        nonlocal broken
        broken += 1
        return "skip"

    # Columns are named by place: a header may hold the same name twice.
    coded = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = {str(place): pyarrow.string() if name in numeric else coded for name, place in places.items()}
    try:
        table = pyarrow.csv.read_csv(
            pyarrow.BufferReader(pyarrow.py_buffer(data).slice(start)),
            pyarrow.csv.ReadOptions(column_names=[str(i) for i in range(width)], encoding=encoding),
            pyarrow.csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted and b'"' in data,
                invalid_row_handler=count,
            ),
            pyarrow.csv.ConvertOptions(
                include_columns=list(types),
                column_types=types,
                strings_can_be_null=False,
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    columns: dict[str, Any] = {}
    for name, place in places.items():
        column = table.column(str(place))
        if name in numeric:
            try:
                columns[name] = pyarrow.compute.cast(column, pyarrow.float64()).to_numpy()
                continue
            except pyarrow.ArrowInvalid:  # some field is not a number: the coded path turns just those into NaN
                pass
        columns[name] = Coded.of(column)
    return columns, table.num_rows + broken, broken
