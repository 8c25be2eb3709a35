"""A published data set as downloaded: a folder, a zip, or one file. Knows names and bytes, not meaning."""

from __future__ import annotations

import gzip
import os
import re
import zipfile
from pathlib import Path, PurePosixPath


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
        if self._zipped:
            with zipfile.ZipFile(self.path) as archive:
                data = archive.read(member)
        else:
            data = (self.path if self.path.is_file() else self.path / member).read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
