"""A published data set as downloaded: a folder, a zip, or one file. Knows names and bytes, not meaning."""

from __future__ import annotations

import bz2
import gzip
import importlib
import importlib.util
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from halfstep.errors import require


class Archive:
    """The files below `path`, whatever it is.

    Folders inside are looked through, so a zip that wraps everything in one more folder reads the same.
    """

    def __init__(self, path: str | os.PathLike[str], what: str) -> None:
        self.path = Path(path)
        self.what = what
        if not self.path.exists():
            raise FileNotFoundError(
                f"path={str(path)!r} does not exist; it must be the {what} folder or zip as downloaded"
            )
        self._zipped = self.path.is_file() and zipfile.is_zipfile(self.path)
        self._members = sorted(self._list(), key=lambda name: (name.count("/"), name))

    def _list(self) -> list[str]:
        if self._zipped:
            with zipfile.ZipFile(self.path) as archive:
                names = [info.filename for info in archive.infolist() if not info.is_dir()]
        elif self.path.is_file():
            names = [self.path.name]
        else:
            names = [p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file()]
        # macOS adds a shadow "._name" of every file to the zips it makes.
        return [name for name in names if not PurePosixPath(name).name.startswith(".")]

    def find(self, pattern: str) -> list[str]:
        """Members whose file name matches the whole pattern (case ignored), nearest the top first."""
        wanted = re.compile(pattern, re.IGNORECASE)
        return [member for member in self._members if wanted.fullmatch(PurePosixPath(member).name)]

    def need(self, pattern: str, shown: str) -> str:
        """The first member that matches; else an error says `shown` is missing and what is there."""
        found = self.find(pattern)
        if not found:
            raise FileNotFoundError(
                f"path={str(self.path)!r} has no {shown}; it must be the {self.what} folder or zip as "
                f"downloaded. Found: {self.listing()}"
            )
        return found[0]

    def listing(self, most: int = 12) -> str:
        """The member names in one line, for error messages."""
        shown = ", ".join(self._members[:most]) or "no files"
        return shown + (f" and {len(self._members) - most} more" if len(self._members) > most else "")

    def read(self, member: str) -> bytes:
        """The bytes of one member, unpacked."""
        path = self.path / member if self.path.is_dir() else self.path
        most = most_unpacked(path.stat().st_size)
        if not self._zipped:
            return unpacked(path.read_bytes(), path.name, most)
        with telling(path.name), zipfile.ZipFile(path) as archive, archive.open(member) as packed:
            data = read_at_most(packed, most)
        return unpacked(data, path.name, most)


SURELY_HARMLESS, RATIO = 64 * 2**20, 100


@contextmanager
def telling(file: str) -> Iterator[None]:
    """Whatever the libraries that unpack raise, in one form."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError) as error:
        raise ValueError(f"{file} cannot be unpacked: {error}") from error


def most_unpacked(size: int) -> int:
    """Bytes that so many may hold: tables shrink to a tenth or so, and what is there to do harm to a thousandth."""
    return max(SURELY_HARMLESS, RATIO * size)


def read_at_most(stream: Any, most: int) -> bytes:
    """All of an unpacking stream, unless that is more than anybody packs."""
    data = bytes(stream.read(most + 1))
    if len(data) > most:
        raise zipfile.BadZipFile(
            f"it holds more than {most:,} bytes, over {RATIO} times its size; if that is right, unpack it first"
        )
    return data


def _open_zstd(file: Any) -> Any:
    if importlib.util.find_spec("compression") is not None:  # Python 3.14 has it
        return importlib.import_module("compression.zstd").ZstdFile(file)
    pyarrow = require("pyarrow", "frames")
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")


PACKED: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    ".gz": (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": (b"BZh", bz2.BZ2File),
    ".xz": (b"\xfd7zXZ\x00", lzma.LZMAFile),
    ".zst": (b"\x28\xb5\x2f\xfd", _open_zstd),
}
"""Ending of a compressed file to its first bytes and what opens it."""


def unpacked(data: bytes, file: str, most: int) -> bytes:
    """The bytes inside, whatever they are packed with; more than `most` are refused."""
    for first, opened in PACKED.values():
        if data.startswith(first):
            with telling(file), opened(io.BytesIO(data)) as stream:
                return read_at_most(stream, most)
    return data


def plain_suffix(name: str) -> str:
    """The ending that says what is inside: ".csv" of "clicks.csv.gz", in lower case."""
    path = PurePosixPath(name.lower())
    return (path.with_suffix("") if path.suffix in PACKED else path).suffix
