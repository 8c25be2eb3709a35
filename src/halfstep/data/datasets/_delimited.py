"""Delimited text to columns: with NumPy and the standard library, or pyarrow where it pays; the same result.

Knows delimiters, quotes and broken rows. Must not know what a column means.
"""

from __future__ import annotations

import codecs
import csv
import importlib.util
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._archive import Archive, plain_suffix
from ._columns import Coded, label_map

# Below this many bytes importing pyarrow costs more than it saves.
ARROW_PAYS_FROM = 4_000_000
NEWLINE = b"\n"
SUFFIX_DELIMITERS = {".tsv": "\t", ".tab": "\t"}

Wanted = Mapping[str, Callable[[Any], Any] | None]
"""Columns to read; None keeps the text, `numbers_of` and `seconds_of` make numbers of it."""


@dataclass(frozen=True)
class TextColumns:
    """Columns of a text file: `Coded` strings, or float64 with NaN where unreadable."""

    columns: dict[str, Any]
    rows: int  # rows after the header, blank lines not counted, broken ones included
    broken: int  # rows with another number of fields than the header; they are in no column

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def report(self, **more: Any) -> dict[str, Any]:
        """The counts of what was read."""
        return {"rows": self.rows, "broken_rows": self.broken, **more}

    def titles(self, ids: str, titles: str, report: dict[str, Any]) -> dict[Any, str]:
        """Id to title, of a file of nothing else; its broken rows and repeated ids go into the report."""
        found = self[ids]
        report["broken_rows"] = report.get("broken_rows", 0) + self.broken
        report["repeated_labels"] = report.get("repeated_labels", 0) + int((found.codes >= 0).sum()) - len(found.values)
        return label_map(found, self[titles])


class Delimited:
    """Text with a delimiter: `names` of its columns, and `read` for some of them.

    header : names when the file has no header line. quoted=False : a quote is a character like any other (O*NET).
    multiline : quoted fields may hold ends of lines (ESCO); otherwise one that does is an unclosed quote, and refused.
    comment : how lines before the header begin that are passed over.
    """

    def __init__(
        self,
        data: bytes,
        file: str,
        *,
        delimiter: str = ",",
        quoted: bool = True,
        multiline: bool = False,
        header: Sequence[str] | None = None,
        comment: str | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.data, self.file = data, file
        self.delimiter, self.quoted, self.encoding, self.multiline = delimiter, quoted, encoding, multiline
        self.start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        while comment is not None and data.startswith(comment.encode(), self.start):
            self.start = self._line_end()
        self._check()
        self.names = self._header() if header is None else list(header)

    def _check(self) -> None:
        """Refuse what the two engines would take for different things, or for less than there is."""
        check_encoding(self.data, self.file, self.encoding)
        lone = re.search(rb"\r(?!\n)", self.data)
        if lone and b"\n" not in self.data:
            raise ValueError(f"{self.file} ends its lines with carriage returns alone; save it with line feeds")
        if b"\0" in self.data:
            where = self.data.index(b"\0")
            raise ValueError(f"{self.file} is not text: line {self._line_of(where)} holds a zero byte")
        if not self.quoted:
            return
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise ValueError(f"delimiter={self.delimiter!r} must be one character, and no quote or end of a line")
        if b'"' in self.data:
            self._check_quotes()
        elif lone:
            raise self._stray(lone.start())

    def _check_quotes(self) -> None:
        """Every line is whole fields. A quote that is not closed would swallow all lines up to the next quote."""
        given, ends = self.delimiter.encode(self.encoding), rb"" if self.multiline else rb"\n"
        mark = re.escape(given)
        plain = rb"[^" + mark + rb"\r\n]*+" if len(given) == 1 else rb"(?:(?!" + mark + rb")[^\r\n])*+"
        quoted = rb'"(?:[^"' + ends + rb']++|"")*+"'
        field = rb"(?:" + quoted + plain + rb'|(?!")' + plain + rb")"
        lines = re.compile(rb"(?:" + field + rb"(?:" + mark + field + rb")*+\r?\n)*+")
        reached = lines.match(self.data, self.start).end()  # type: ignore[union-attr]
        last = re.compile(field + rb"(?:" + mark + field + rb")*+").match(self.data, reached)
        if last is not None and last.end() == len(self.data):
            return
        end = self.data.find(b"\n", reached)
        lone = re.compile(rb"\r(?!\n)").search(self.data, reached, len(self.data) if end < 0 else end)
        if lone and b'"' not in self.data[reached : lone.start()]:
            raise self._stray(lone.start())
        raise ValueError(
            f"{self.file}: line {self._line_of(reached)} opens a quote that is not closed"
            f"{'' if self.multiline else ' in that line'}; close it, and write a quote inside a quoted field twice"
            f"{'' if self.multiline else '. If fields do hold ends of lines, pass multiline=True'}"
        )

    def _line_of(self, place: int) -> int:
        return self.data.count(b"\n", 0, place) + 1

    def _stray(self, place: int) -> ValueError:
        return ValueError(
            f"{self.file}: line {self._line_of(place)} holds a carriage return that is no end of a line; take it out, "
            "or save the file with line feeds"
        )

    @classmethod
    def open(
        cls, path: Path, delimiter: str | None = None, encoding: str | None = None, multiline: bool = False
    ) -> Delimited:
        """The one table of a text file, also a packed one.

        delimiter : None guesses from the name and the first line. encoding : None is UTF-8, or UTF-16 with its mark.
        """
        archive = Archive(path, "table")
        members = archive.find(".*")
        if len(members) != 1:
            raise ValueError(f"path_or_frame={str(path)!r} must hold one table; it holds {archive.listing()}")
        data = _as_utf8(archive.read(members[0]), path.name, encoding)
        first = data[:65536].partition(b"\n")[0]
        guessed = SUFFIX_DELIMITERS.get(plain_suffix(members[0])) or max(
            ",\t;|", key=lambda mark: first.count(mark.encode())
        )
        return cls(data, path.name, delimiter=guessed if delimiter is None else delimiter, multiline=multiline)

    def read(self, wanted: Wanted, engine: str | None = None) -> TextColumns:
        """The wanted columns, all of which must be there.

        engine : "arrow", "python", or None to choose by size and by what is installed.
        """
        known = set(self.names)
        missing = [name for name in wanted if name not in known]
        if missing:
            raise ValueError(
                f"{self.file} lacks the column{'s' * (len(missing) > 1)} {missing}; it has {self.names}. "
                "Is it the file as published, with its header line?"
            )
        if engine is None:
            large = len(self.data) >= ARROW_PAYS_FROM and importlib.util.find_spec("pyarrow") is not None
            engine = "arrow" if large else "python"
        found = (self._with_arrow(wanted) if engine == "arrow" else None) or self._with_python(wanted)
        columns = {name: found[name] if read is None else read(found[name]) for name, read in wanted.items()}
        return TextColumns(columns, found.rows, found.broken)

    def _longest_line(self) -> int:
        ends = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n"))
        return int(np.diff(ends, prepend=0, append=len(self.data)).max())

    def _line_end(self) -> int:
        return self.data.find(b"\n", self.start) + 1 or len(self.data)

    def _header(self) -> list[str]:
        """The names in the line at `start`, surrounding blanks removed; `start` moves to the next line."""
        end = self._line_end()
        line = self._decode(self.data[self.start : end]).rstrip("\r\n")
        if not line:
            raise ValueError(f"{self.file} is empty; its first line must name the columns")
        self.start = end
        fields = next(csv.reader([line], delimiter=self.delimiter)) if self.quoted else line.split(self.delimiter)
        return [field.strip() for field in fields]

    def _places(self, wanted: Wanted) -> dict[str, int]:
        """Where the wanted columns are; the first of those that share a name."""
        first = {name: place for place, name in reversed([*enumerate(self.names)])}
        return {name: first[name] for name in wanted}

    def _decode(self, data: bytes) -> str:
        return data.decode(self.encoding)

    def _with_python(self, wanted: Wanted) -> TextColumns:
        data, width = self.data[self.start :], len(self.names)
        places = self._places(wanted)
        if self.quoted and b'"' in data:
            try:
                lines = io.StringIO(self._decode(data), newline="")
                rows = [row for row in csv.reader(lines, delimiter=self.delimiter) if row]
            except csv.Error as error:
                raise ValueError(f"{self.file} cannot be split into fields: {error}") from error
        else:
            data = data.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
            data = b"" if data == b"\n" else data
            if self._is_regular(data, width):
                # Every row has `width` fields, so one split gives them all and a stride gives a column.
                fields = self._decode(data).replace("\n", self.delimiter).split(self.delimiter)[:-1]
                columns = {name: Coded.of(fields[place::width]) for name, place in places.items()}
                return TextColumns(columns, len(fields) // width, 0)
            rows = [line.split(self.delimiter) for line in self._decode(data).split("\n") if line]
        good = [row for row in rows if len(row) == width]
        across: list[Any] = list(zip(*good, strict=True)) or [()] * width
        columns = {name: Coded.of(across[place]) for name, place in places.items()}
        return TextColumns(columns, len(rows), len(rows) - len(good))

    def _is_regular(self, data: bytes, width: int) -> bool:
        """Whether every line of unquoted text has exactly `width` fields."""
        if len(self.delimiter.encode()) != 1:
            return False
        characters = np.frombuffer(data, np.uint8)
        ends = characters == ord("\n")
        at_end = ends[np.flatnonzero(ends | (characters == ord(self.delimiter)))]
        if len(at_end) % width:
            return False
        grid = at_end.reshape(-1, width)
        return bool(grid[:, -1].all() and not grid[:, :-1].any())

    def _with_arrow(self, wanted: Wanted) -> TextColumns | None:
        """The same through pyarrow; None where it cannot: the Python path then says why."""
        import pyarrow
        import pyarrow.csv

        # A lone carriage return ends a row for pyarrow; published O*NET files carry some inside their fields.
        if b"\r" in self.data and self.data.count(b"\r") != self.data.count(b"\r\n"):
            return None
        if len(self.delimiter.encode(self.encoding)) != 1 or self.data.startswith(codecs.BOM_UTF8, self.start):
            return None  # pyarrow would take a mark of order out of the first field
        if self.quoted and b'"' in self.data and self._longest_line() > csv.field_size_limit():
            return None  # the standard library refuses such fields, and says so
        broken = 0

        def count(row: Any) -> str:
            nonlocal broken
            broken += 1
            return "skip"

        # Columns are named by place: a header may hold the same name twice.
        places = {name: str(place) for name, place in self._places(wanted).items()}
        coded = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        types = {places[name]: coded if read is None else pyarrow.string() for name, read in wanted.items()}
        try:
            table = pyarrow.csv.read_csv(
                pyarrow.BufferReader(pyarrow.py_buffer(self.data).slice(self.start)),
                pyarrow.csv.ReadOptions(column_names=[str(i) for i in range(len(self.names))], encoding=self.encoding),
                pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if self.quoted else False,
                    newlines_in_values=self.quoted and b'"' in self.data,
                    invalid_row_handler=count,
                ),
                pyarrow.csv.ConvertOptions(include_columns=list(types), column_types=types, strings_can_be_null=False),
            )
        except pyarrow.ArrowException:  # on a busy machine its threads may fail on a sound file: "a chunk failed"
            return None

        def column(name: str) -> Any:
            values = table.column(places[name])
            try:
                return values.cast(pyarrow.float64()).to_numpy() if wanted[name] else Coded.of_arrow(values)
            except pyarrow.ArrowInvalid:  # some field is not a number: the coded path turns just those into NaN
                return Coded.of_arrow(values)

        return TextColumns({name: column(name) for name in wanted}, table.num_rows + broken, broken)


def check_encoding(data: bytes, file: str, encoding: str) -> None:
    """Refuse bytes that are no text of the encoding, wherever they stand: some readers look only at what they need."""
    decoder, block = codecs.getincrementaldecoder(encoding)(), 1 << 20
    for start in range(0, len(data), block):
        try:
            decoder.decode(data[start : start + block], final=start + block >= len(data))
        except UnicodeDecodeError as error:
            place = min(start + error.start, len(data))
            raise ValueError(
                f"{file} is not {encoding} text ({error.reason} in line {data.count(NEWLINE, 0, place) + 1}); save it "
                f"as {encoding}, or say what it is, such as encoding='cp1252'"
            ) from None


def _as_utf8(data: bytes, file: str, encoding: str | None) -> bytes:
    if encoding is None:
        if not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data
        encoding = "utf-16"
    try:
        return data.decode(encoding).encode()
    except LookupError:
        raise ValueError(f"encoding={encoding!r} is not known; 'utf-8', 'cp1252' and 'latin-1' are common") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not {encoding} text ({error.reason} at byte {error.start})") from None
